//! Pairs of texts that belong together, for encoders that learn by comparison.

use super::{Make, Padding, Plan};
use crate::{Batch, Field, Result, Source};

/// Pairs of texts: `ids` and `mask` \[B T\] of the first, `source` and `source_mask` \[B S\] of the second,
/// and as `labels` \[B\] the place of each pair in the batch.
pub struct Couples {
    plan: Plan,
    padding: Padding,
    make: Make<(Vec<u32>, Vec<u32>)>,
}

impl Couples {
    /// A source of the pairs that `make` makes of (epoch, example), a pure function.
    pub fn new(
        plan: Plan,
        padding: Padding,
        make: impl Fn(u64, usize) -> Result<(Vec<u32>, Vec<u32>)> + Send + Sync + 'static,
    ) -> Couples {
        Couples { plan, padding, make: Box::new(make) }
    }
}

impl Source for Couples {
    fn batches(&self, epoch: u64) -> usize {
        self.plan.batches(epoch)
    }

    fn batch(&self, epoch: u64, index: usize) -> Result<Batch> {
        let members = self.plan.members(epoch, index)?;
        let pairs = members.iter().map(|&example| (self.make)(epoch, example)).collect::<Result<Vec<_>>>()?;
        let (first, second): (Vec<Vec<u32>>, Vec<Vec<u32>>) = pairs.into_iter().unzip();
        let one = self.padding.grid(&members, first.iter().map(Vec::len).collect())?;
        let two = self.padding.grid(&members, second.iter().map(Vec::len).collect())?;
        let places = (0..members.len() as i32).collect();
        let fields = vec![
            one.ids("ids", first.iter().map(Vec::as_slice))?,
            one.mask("mask"),
            two.ids("source", second.iter().map(Vec::as_slice))?,
            two.mask("source_mask"),
            Field::i32("labels", &[members.len()], places),
        ];
        let count = members.len() as u64;
        Ok(Batch { fields, targets: count, tokens: one.tokens() + two.tokens(), examples: count })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Order;
    use super::super::purity::{check, ints};
    use super::*;

    #[test]
    fn every_pair_is_its_own_answer() {
        let plan = Plan::fixed(5, 2, Order::Sequential, false).unwrap();
        let make = |_, example: usize| Ok((vec![example as u32 + 1; 2], vec![9; example + 1]));
        let batches = check(&Couples::new(plan, Padding::right(0), make));
        assert_eq!(ints(&batches[1], "labels"), [0, 1]);
        assert_eq!(ints(&batches[1], "ids"), [3, 3, 4, 4]);
        assert_eq!(ints(&batches[1], "source"), [9, 9, 9, 0, 9, 9, 9, 9]);
        assert_eq!(batches[2].targets, 1);
    }
}
