//! The cost reader: how much work each node is as the mathematics has it, before anything runs. What a device
//! executes, with padded tiles and recomputation, only its engine knows; it counts in the same units, through
//! [`count`].

use std::ops::{Add, AddAssign};

mod reader;
#[cfg(test)]
mod tests;

pub use reader::{CostRow, Costs, cost, count};

/// An amount of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Multiply-adds.
    pub macs: u64,
    /// Every other arithmetic operation: an addition, a comparison, an exponential count one each.
    pub flops: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Add for Work {
    type Output = Work;
    fn add(self, other: Work) -> Work {
        Work {
            macs: self.macs.saturating_add(other.macs),
            flops: self.flops.saturating_add(other.flops),
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        *self = *self + other;
    }
}
