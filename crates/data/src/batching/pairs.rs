//! Pairs of texts for encoder-decoders: translation, sentinels, anything that reads one text and writes
//! another.

use super::{Make, Padding, Plan};
use crate::{Batch, Result, Source};

/// Pairs of a source and a target: `source` and `source_mask` \[B S\], `ids` (what the decoder is given) and
/// `labels` (what it should say) \[B T\].
pub struct Pairs {
    plan: Plan,
    padding: Padding,
    target_padding: Padding,
    start: u32,
    end: Option<u32>,
    make: Make<(Vec<u32>, Vec<u32>)>,
}

impl Pairs {
    /// A source of the pairs that `make` makes of (epoch, example), a pure function. The decoder is given
    /// `start` and then the target, which is closed by `end`, unless `make` closes it itself.
    pub fn new(
        plan: Plan,
        padding: Padding,
        start: u32,
        end: Option<u32>,
        make: impl Fn(u64, usize) -> Result<(Vec<u32>, Vec<u32>)> + Send + Sync + 'static,
    ) -> Pairs {
        Pairs { plan, padding, target_padding: padding, start, end, make: Box::new(make) }
    }

    /// With padding of its own for the decoder's side.
    pub fn with_target_padding(self, target_padding: Padding) -> Pairs {
        Pairs { target_padding, ..self }
    }
}

impl Source for Pairs {
    fn batches(&self, epoch: u64) -> usize {
        self.plan.batches(epoch)
    }

    fn batch(&self, epoch: u64, index: usize) -> Result<Batch> {
        let members = self.plan.members(epoch, index)?;
        let (mut sources, mut given, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for &example in &members {
            let (source, mut target) = (self.make)(epoch, example)?;
            target.extend(self.end);
            asked.push(target.iter().map(|&id| id as i32).collect::<Vec<i32>>());
            // The same, moved by one behind the start.
            target.pop();
            if asked.last().is_some_and(|asked| !asked.is_empty()) {
                target.insert(0, self.start);
            }
            given.push(target);
            sources.push(source);
        }
        let grid = self.padding.grid(&members, sources.iter().map(Vec::len).collect())?;
        let target_grid = self.target_padding.grid(&members, given.iter().map(Vec::len).collect())?;
        let fields = vec![
            grid.ids("source", sources.iter().map(Vec::as_slice))?,
            grid.mask("source_mask"),
            target_grid.ids("ids", given.iter().map(Vec::as_slice))?,
            target_grid.targets("labels", asked.iter().map(Vec::as_slice)),
        ];
        let targets = asked.iter().map(Vec::len).sum::<usize>() as u64;
        let tokens = grid.tokens() + target_grid.tokens();
        Ok(Batch { fields, targets, tokens, examples: members.len() as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::purity::{check, ints};
    use super::super::{Order, Side};
    use super::*;
    use crate::Values;
    use crate::corruption::{IGNORE, Sentinels};

    #[test]
    fn the_decoder_is_given_what_it_should_say_moved_by_one() {
        let plan = Plan::fixed(2, 2, Order::Sequential, false).unwrap();
        let make = |_, example: usize| match example {
            0 => Ok((vec![5, 6, 7], vec![8])),
            _ => Ok((vec![9], vec![10, 11])),
        };
        let batch = &check(&Pairs::new(plan, Padding::right(0), 2, Some(3), make))[0];
        assert_eq!(ints(batch, "source"), [5, 6, 7, 9, 0, 0]);
        let [t, f] = [true, false];
        assert_eq!(batch.field("source_mask").unwrap().values, Values::Bool(vec![t, t, t, t, f, f]));
        assert_eq!(ints(batch, "ids"), [2, 8, 0, 2, 10, 11]);
        assert_eq!(ints(batch, "labels"), [8, 3, IGNORE, 10, 11, 3]);
        assert_eq!((batch.targets, batch.tokens, batch.examples), (5, 12, 2));
    }

    #[test]
    fn targets_that_are_closed_already_stay_so() {
        let plan = Plan::fixed(2, 2, Order::Sequential, false).unwrap();
        let make = |_, example: usize| Ok((vec![5], if example == 0 { vec![8, 1] } else { vec![] }));
        let padding = Padding { side: Side::Left, ..Padding::right(0) };
        let source = Pairs::new(plan, padding, 0, None, make).with_target_padding(Padding::right(0).to(3));
        let batch = &check(&source)[0];
        assert_eq!(ints(batch, "ids"), [0, 8, 0, 0, 0, 0]);
        assert_eq!(ints(batch, "labels"), [8, 1, IGNORE, IGNORE, IGNORE, IGNORE]);
        assert_eq!(batch.targets, 2);
    }

    #[test]
    fn sentinels_are_pairs() {
        let sentinels = Sentinels::new(4, 99, 20).unwrap();
        let make =
            move |epoch, example| sentinels.corrupt(epoch, example as u64, &(10..40).collect::<Vec<u32>>());
        let plan = Plan::fixed(9, 4, Order::Shuffled { seed: 0 }, true).unwrap();
        let batches = check(&Pairs::new(plan, Padding::right(0), 0, Some(1), make));
        assert_eq!(batches.len(), 2);
        // 30 tokens: 5 missing (4.5 rounded) in 2 spans, with 3 sentinels and the end.
        assert!(batches.iter().all(|batch| batch.targets == 4 * (5 + 3 + 1)));
    }
}
