//! Memory for copies of weights: a few large blocks instead of one for each copy, so that the system can give
//! huge pages for them. A page that is touched for the first time costs more than packing what goes there.

use crate::Result;
use regard_device::Buffer;

/// Bytes of a block; only what is written is really taken.
const BLOCK: usize = 1 << 26;
/// Where copies begin: at a line.
const LINE: usize = 64;

/// Blocks, of which the last one has room.
#[derive(Default)]
pub(crate) struct Copies {
    blocks: Vec<Buffer>,
    /// Bytes of the last block that are given away.
    used: usize,
}

/// Where a copy lies.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    block: usize,
    start: usize,
    bytes: usize,
}

impl Room {
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Copies {
    /// Room for so many bytes, zeros.
    pub fn room(&mut self, bytes: usize) -> Result<Room> {
        let fits = self.blocks.last().is_some_and(|block| block.len() - self.used >= bytes);
        if !fits {
            self.blocks.push(Buffer::zeroed(bytes.max(BLOCK))?);
            self.used = 0;
        }
        let (block, start) = (self.blocks.len() - 1, self.used);
        // The last line of a block may be cut short.
        self.used = (start + bytes.next_multiple_of(LINE)).min(self.blocks[block].len());
        Ok(Room { block, start, bytes })
    }

    pub fn get(&self, room: Room) -> &[u8] {
        &self.blocks[room.block].as_slice::<u8>()[room.start..room.start + room.bytes]
    }

    pub fn get_mut(&mut self, room: Room) -> &mut [u8] {
        &mut self.blocks[room.block].as_mut_slice::<u8>()[room.start..room.start + room.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_aligned_and_apart() {
        let mut copies = Copies::default();
        let sizes = [1, 100, 64, BLOCK - 1000, 5, 2 * BLOCK, 7, 0, 3];
        let rooms: Vec<Room> = sizes.iter().map(|&bytes| copies.room(bytes).unwrap()).collect();
        for (mark, (&room, bytes)) in (1..).zip(rooms.iter().zip(sizes)) {
            let own = copies.get_mut(room);
            assert_eq!((own.len(), own.as_ptr() as usize % LINE), (bytes, 0));
            if let [first, .., last] = own {
                (*first, *last) = (mark, mark);
            }
        }
        for (mark, (&room, bytes)) in (1..).zip(rooms.iter().zip(sizes)) {
            let own = copies.get(room);
            assert!(bytes < 2 || (own[0], own[bytes - 1]) == (mark, mark), "{bytes}");
        }
        assert_eq!(copies.blocks.len(), 3);
    }
}
