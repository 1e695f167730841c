//! Texts with a class each.

use super::{Make, Padding, Plan};
use crate::corruption::IGNORE;
use crate::{Batch, Field, Result, Source};

/// Texts with a class each: `ids` and `mask` \[B T\], `labels` \[B\].
pub struct Classified {
    plan: Plan,
    padding: Padding,
    make: Make<(Vec<u32>, i32)>,
    lengths: bool,
}

impl Classified {
    /// A source of the texts and classes that `make` makes of (epoch, example), a pure function. A class of
    /// -100 is ignored.
    pub fn new(
        plan: Plan,
        padding: Padding,
        make: impl Fn(u64, usize) -> Result<(Vec<u32>, i32)> + Send + Sync + 'static,
    ) -> Classified {
        Classified { plan, padding, make: Box::new(make), lengths: false }
    }

    /// With a field `lengths` \[B\].
    pub fn with_lengths(self) -> Classified {
        Classified { lengths: true, ..self }
    }
}

impl Source for Classified {
    fn batches(&self, epoch: u64) -> usize {
        self.plan.batches(epoch)
    }

    fn batch(&self, epoch: u64, index: usize) -> Result<Batch> {
        let members = self.plan.members(epoch, index)?;
        let examples =
            members.iter().map(|&example| (self.make)(epoch, example)).collect::<Result<Vec<_>>>()?;
        let (texts, classes): (Vec<Vec<u32>>, Vec<i32>) = examples.into_iter().unzip();
        let grid = self.padding.grid(&members, texts.iter().map(Vec::len).collect())?;
        let targets = classes.iter().filter(|&&class| class != IGNORE).count() as u64;
        let mut fields = vec![
            grid.ids("ids", texts.iter().map(Vec::as_slice))?,
            grid.mask("mask"),
            Field::i32("labels", &[members.len()], classes),
        ];
        fields.extend(self.lengths.then(|| grid.lengths("lengths")));
        Ok(Batch { fields, targets, tokens: grid.tokens(), examples: members.len() as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Order;
    use super::super::purity::{check, ints};
    use super::*;

    #[test]
    fn a_class_for_each_text() {
        let plan = Plan::fixed(5, 2, Order::Shuffled { seed: 8 }, false).unwrap();
        let make = |_, example: usize| {
            Ok((vec![example as u32; example + 1], if example == 3 { IGNORE } else { 10 * example as i32 }))
        };
        let batches = check(&Classified::new(plan, Padding::right(0), make).with_lengths());
        assert_eq!(batches.iter().map(|batch| batch.targets).sum::<u64>(), 4);
        assert_eq!(batches.iter().map(|batch| batch.examples).sum::<u64>(), 5);
        for batch in &batches {
            let longest = batch.field("ids").unwrap().dims[1];
            for (row, class) in ints(batch, "labels").into_iter().enumerate() {
                let example = ints(batch, "ids")[row * longest];
                assert_eq!(ints(batch, "lengths")[row], example + 1);
                assert_eq!(class, if example == 3 { IGNORE } else { 10 * example });
            }
        }
    }
}
