//! How kernels share out work: rows to teams of threads, elements to threads. The other half is `row.cuh`.

use regard_device::cuda::{Address, Grid, Source};

/// Threads of a block in which each has elements of its own, or in which warps have rows.
pub(crate) const THREADS: u32 = 256;
/// Numbers that a thread loads at a time.
pub(crate) const PART: usize = 8;

/// As many blocks as `count` items need, so many to a block.
pub(crate) fn blocks(count: usize, each: usize) -> u32 {
    u32::try_from(count.div_ceil(each)).ok().filter(|&blocks| blocks < 1 << 31).expect("below 2^31 blocks")
}

/// A size as kernels take it.
pub(crate) fn size(size: usize) -> u32 {
    u32::try_from(size).ok().filter(|&size| size < 1 << 31).expect("sizes of a call on a card are below 2^31")
}

/// 1 where rows of this width can be loaded eight numbers at a time from all of these addresses, 0 where not.
pub(crate) fn in_vectors(width: usize, addresses: &[Address]) -> u32 {
    u32::from(width.is_multiple_of(PART) && addresses.iter().all(|at| at.0.is_multiple_of(16)))
}

/// The threads that have a row together: a warp, or a whole block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Team(pub u32);

impl Team {
    /// For rows that are read as often as they are needed.
    pub fn of(width: usize) -> Team {
        match width {
            0..=1024 => Team(32),
            1025..=8192 => Team(256),
            _ => Team(1024),
        }
    }

    /// Threads of a block.
    pub fn threads(self) -> u32 {
        if self.0 == 32 { THREADS } else { self.0 }
    }

    /// Blocks for so many rows.
    pub fn grid(self, rows: usize) -> Grid {
        Grid::line(blocks(rows, (self.threads() / self.0) as usize), self.threads())
    }

    /// A source whose rows have such teams.
    pub fn source(self, name: &'static str, text: &'static str) -> Source {
        let mut source = Source::new(name, text).define("TEAM", self.0);
        source.headers.push(("row.cuh", include_str!("row.cuh")));
        source
    }

    /// Parts of eight that each thread has of a row.
    pub fn parts(self, width: usize) -> usize {
        width.div_ceil(PART * self.0 as usize).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_team() {
        assert_eq!(Team::of(1024).grid(17), Grid::line(3, 256));
        assert_eq!(Team::of(1025).grid(17), Grid::line(17, 256));
        assert_eq!(Team::of(50257).grid(2), Grid::line(2, 1024));
        assert_eq!((Team(32).parts(768), Team(32).parts(769), Team(32).parts(0)), (3, 4, 1));
        assert_eq!(Team(32).grid(0).blocks[0], 0);
    }

    #[test]
    fn vectors_need_width_and_addresses() {
        assert_eq!(in_vectors(16, &[Address(0), Address(32)]), 1);
        assert_eq!(in_vectors(12, &[Address(0)]), 0);
        assert_eq!(in_vectors(16, &[Address(8)]), 0);
    }
}
