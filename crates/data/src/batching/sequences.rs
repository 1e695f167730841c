//! Rows of tokens with a target at each: language models over separate texts, masked tokens, labels of
//! tokens.

use super::{Make, Padding, Plan};
use crate::corruption::Example;
use crate::{Batch, Error, Result, Source};

/// Examples with a target at every token: `ids` and `labels` \[B T\].
pub struct Sequences {
    plan: Plan,
    padding: Padding,
    make: Make<Example>,
    mask: bool,
    positions: bool,
    lengths: bool,
}

impl Sequences {
    /// A source of what `make` makes of (epoch, example). It must be a pure function, as everything in
    /// [`corruption`](crate::corruption) is.
    pub fn new(
        plan: Plan,
        padding: Padding,
        make: impl Fn(u64, usize) -> Result<Example> + Send + Sync + 'static,
    ) -> Sequences {
        Sequences { plan, padding, make: Box::new(make), mask: false, positions: false, lengths: false }
    }

    /// With a field `mask` \[B T\], true where there are tokens.
    pub fn with_mask(self) -> Sequences {
        Sequences { mask: true, ..self }
    }

    /// With a field `position` \[B T\], counted from the first token that is no padding.
    pub fn with_positions(self) -> Sequences {
        Sequences { positions: true, ..self }
    }

    /// With a field `lengths` \[B\].
    pub fn with_lengths(self) -> Sequences {
        Sequences { lengths: true, ..self }
    }
}

impl Source for Sequences {
    fn batches(&self, epoch: u64) -> usize {
        self.plan.batches(epoch)
    }

    fn batch(&self, epoch: u64, index: usize) -> Result<Batch> {
        let members = self.plan.members(epoch, index)?;
        let examples =
            members.iter().map(|&example| (self.make)(epoch, example)).collect::<Result<Vec<Example>>>()?;
        if let Some(row) = examples.iter().position(|example| example.ids.len() != example.targets.len()) {
            let Example { ids, targets } = &examples[row];
            return Err(Error::invalid(
                format!("example {} has {} tokens, but {} targets", members[row], ids.len(), targets.len()),
                "give one target for each token; those of -100 are ignored",
            ));
        }
        let lengths = examples.iter().map(|example| example.ids.len()).collect();
        let grid = self.padding.grid(&members, lengths)?;
        let mut fields = vec![
            grid.ids("ids", examples.iter().map(|example| example.ids.as_slice()))?,
            grid.targets("labels", examples.iter().map(|example| example.targets.as_slice())),
        ];
        fields.extend(self.mask.then(|| grid.mask("mask")));
        fields.extend(self.positions.then(|| grid.positions("position")));
        fields.extend(self.lengths.then(|| grid.lengths("lengths")));
        let targets = examples.iter().map(Example::counted).sum();
        Ok(Batch { fields, targets, tokens: grid.tokens(), examples: members.len() as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::purity::{check, ints};
    use super::super::{ByLength, Order};
    use super::*;
    use crate::corruption::{IGNORE, Spans, answer, next_token};

    fn text(example: usize) -> Vec<u32> {
        (0..5 + example as u32 % 13).map(|i| 2 + (i + example as u32) % 40).collect()
    }

    #[test]
    fn corrupted_texts_do_not_depend_on_their_batch() {
        let spans = Spans::new(1, 1, 24).unwrap();
        let source = |size| {
            let plan = Plan::fixed(30, size, Order::Sequential, false).unwrap();
            let make = move |epoch, example| spans.example(epoch, example as u64, &text(example));
            Sequences::new(plan, Padding::right(0).to(23), make)
        };
        let all = |size| check(&source(size)).iter().flat_map(|batch| ints(batch, "ids")).collect::<Vec<_>>();
        assert_eq!(all(1), all(7));
        assert_eq!(all(1), all(30));
    }

    #[test]
    fn targets_are_counted_without_the_ignored() {
        let plan = Plan::fixed(4, 3, Order::Shuffled { seed: 1 }, false).unwrap();
        let make = |_, example: usize| answer(&[10, 11, 12], &vec![20; example + 1], 1);
        let source = Sequences::new(plan, Padding::left(0), make).with_mask().with_positions().with_lengths();
        let batches = check(&source);
        assert_eq!(batches.iter().map(|batch| batch.targets).sum::<u64>(), 2 + 3 + 4 + 5);
        for batch in &batches {
            let counted = ints(batch, "labels").iter().filter(|&&target| target != IGNORE).count();
            assert_eq!(counted as u64, batch.targets);
            let names: Vec<&str> = batch.fields.iter().map(|field| field.name).collect();
            assert_eq!(names, ["ids", "labels", "mask", "position", "lengths"]);
            let longest = *ints(batch, "lengths").iter().max().unwrap() as u64;
            assert_eq!(batch.tokens, longest * batch.examples);
        }
    }

    #[test]
    fn batches_by_length_are_pure_too() {
        let lengths = (0..40).map(|example| text(example).len() as u32 - 1).collect();
        let settings = ByLength { tokens: 60, examples: 10, window: 20 };
        let plan = Plan::by_length(lengths, settings, Order::Shuffled { seed: 4 }).unwrap();
        let source = Sequences::new(plan, Padding::right(0), |_, example| Ok(next_token(&text(example))));
        let batches = check(&source);
        assert!(batches.iter().all(|batch| batch.tokens <= 60));
        let real: usize = (0..40).map(|example| text(example).len() - 1).sum();
        assert_eq!(batches.iter().map(|batch| batch.targets).sum::<u64>(), real as u64);
    }

    #[test]
    fn as_many_targets_as_tokens() {
        let plan = Plan::fixed(1, 1, Order::Sequential, false).unwrap();
        let make = |_, _| Ok(Example { ids: vec![1, 2], targets: vec![3] });
        let text = Sequences::new(plan, Padding::right(0), make).batch(0, 0).unwrap_err().to_string();
        assert!(text.contains("example 0 has 2 tokens, but 1 targets; give one target for each"), "{text}");
    }
}
