//! Working memory for kernels: one block, cut into one equal slot for each worker of a pool.

use std::marker::PhantomData;

/// Slots start at multiples of this, so that workers never share a cache line.
const LINE: usize = 64;

/// One slot of working memory for each worker, cut from one block.
///
/// Kernels take it by `&mut`, so that no two products use one scratch at the same time.
#[derive(Debug)]
pub struct Scratch<'a> {
    start: *mut u8,
    slot: usize,
    workers: usize,
    block: PhantomData<&'a mut [u8]>,
}

// SAFETY: it stands for an exclusive borrow of bytes.
unsafe impl Send for Scratch<'_> {}
// SAFETY: shared access reaches the bytes only through the unsafe `worker`.
unsafe impl Sync for Scratch<'_> {}

impl<'a> Scratch<'a> {
    /// Bytes of a block that gives each of `workers` at least `per_worker` bytes.
    pub const fn bytes(per_worker: usize, workers: usize) -> usize {
        per_worker.next_multiple_of(LINE) * workers
    }

    /// Cuts a block into one slot per worker. The block should start at a multiple of 64, as buffers do.
    pub fn new(block: &'a mut [u8], workers: usize) -> Scratch<'a> {
        let workers = workers.max(1);
        let slot = block.len() / workers / LINE * LINE;
        Scratch { start: block.as_mut_ptr(), slot, workers, block: PhantomData }
    }

    /// Number of slots.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Bytes of each slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot
    }

    /// The slot of one worker.
    ///
    /// # Safety
    /// At no time may two references to the same worker's slot be in use.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn worker(&self, worker: usize) -> &mut [u8] {
        assert!(worker < self.workers, "scratch has {} slots, worker {worker} asked for one", self.workers);
        // SAFETY: the slot is inside the borrowed block; the caller keeps it to one user at a time.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(worker * self.slot), self.slot) }
    }

    /// A scratch of one slot, the one of `worker`, for a product inside a task of that worker.
    ///
    /// # Safety
    /// As for [`Scratch::worker`].
    pub unsafe fn single(&self, worker: usize) -> Scratch<'_> {
        // SAFETY: passed on to the caller.
        Scratch::new(unsafe { self.worker(worker) }, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn slots_are_apart_and_aligned() {
        let mut buffer = Buffer::zeroed(Scratch::bytes(100, 3)).unwrap();
        let scratch = Scratch::new(buffer.as_mut_slice(), 3);
        assert_eq!((scratch.workers(), scratch.slot_bytes()), (3, 128));
        for worker in 0..3 {
            // SAFETY: one slot at a time.
            let slot = unsafe { scratch.worker(worker) };
            assert_eq!(slot.as_ptr() as usize % 64, 0);
            assert!(slot.iter().all(|&byte| byte == 0));
            slot.fill(1);
        }
    }
}
