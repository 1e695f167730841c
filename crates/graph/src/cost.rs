//! The cost reader: how much work each node is, before anything runs.

use std::ops::{Add, AddAssign};

mod reader;
#[cfg(test)]
mod tests;

pub use reader::{CostRow, Costs, cost};

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

/// The work of one call, counted twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// As the mathematics has it: equal to what the reference engine counts while it runs.
    pub math: Work,
    /// As the fast engine runs it, with recomputation and padded tiles: what a roofline is about.
    pub executed: Work,
}

impl Cost {
    /// The usual case: the engine executes what the mathematics says.
    pub fn same(work: Work) -> Cost {
        Cost { math: work, executed: work }
    }
}

impl Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        Cost { math: self.math + other.math, executed: self.executed + other.executed }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = *self + other;
    }
}
