//! Which examples share a batch: a fixed number of them, or as many of about the same length as a number of
//! tokens allows.

use super::Order;
use crate::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// The batches of every epoch, as numbers of examples.
#[derive(Debug)]
pub struct Plan {
    order: Order,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Fixed { examples: usize, size: usize, drop_last: bool },
    ByLength { lengths: Vec<u32>, settings: ByLength, made: Made },
}

/// How batches by length are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByLength {
    /// The most tokens of a batch, padding included.
    pub tokens: usize,
    /// The most examples of a batch.
    pub examples: usize,
    /// How many examples, in the order of the epoch, are sorted by length at a time. The more, the less
    /// padding; the fewer, the more chance in who meets whom.
    pub window: usize,
}

/// Batches by length are made for a whole epoch at once. The last two epochs are kept: one that ends, one
/// that begins.
type Made = Mutex<Vec<(u64, Arc<Vec<Vec<usize>>>)>>;

impl Plan {
    /// Batches of `size` examples. The last of an epoch is smaller where the examples do not fill it, or left
    /// out.
    pub fn fixed(examples: usize, size: usize, order: Order, drop_last: bool) -> Result<Plan> {
        let whole = if drop_last { examples.checked_div(size) } else { Some(examples.min(size)) };
        if whole.unwrap_or(0) == 0 {
            return Err(Error::invalid(
                format!("{examples} examples make no batch of {size}"),
                "give examples, and batches that they fill; or keep the last batch though it is smaller",
            ));
        }
        Ok(Plan { order, kind: Kind::Fixed { examples, size, drop_last } })
    }

    /// Batches of examples of about the same length. `lengths` are those of all examples, or what they are at
    /// most. The batches of an epoch come in random order if the examples do.
    pub fn by_length(lengths: Vec<u32>, settings: ByLength, order: Order) -> Result<Plan> {
        let ByLength { tokens, examples, window } = settings;
        if lengths.is_empty() || tokens == 0 || examples == 0 || window == 0 {
            return Err(Error::invalid(
                format!("{} examples cannot be batched by {settings:?}", lengths.len()),
                "give examples, and every setting at least 1",
            ));
        }
        if let Some(example) = lengths.iter().position(|&length| length as usize > tokens) {
            return Err(Error::invalid(
                format!(
                    "example {example} has {} tokens, more than the {tokens} of a batch",
                    lengths[example]
                ),
                "cut long examples, or allow more tokens",
            ));
        }
        Ok(Plan { order, kind: Kind::ByLength { lengths, settings, made: Mutex::default() } })
    }

    /// How many examples there are.
    pub fn examples(&self) -> usize {
        match &self.kind {
            Kind::Fixed { examples, .. } => *examples,
            Kind::ByLength { lengths, .. } => lengths.len(),
        }
    }

    /// How many batches an epoch has.
    pub fn batches(&self, epoch: u64) -> usize {
        match &self.kind {
            &Kind::Fixed { examples, size, drop_last: true } => examples / size,
            &Kind::Fixed { examples, size, drop_last: false } => examples.div_ceil(size),
            Kind::ByLength { lengths, settings, made } => self.made(epoch, lengths, settings, made).len(),
        }
    }

    /// The examples of one batch.
    pub fn members(&self, epoch: u64, index: usize) -> Result<Vec<usize>> {
        let batches = self.batches(epoch);
        if index >= batches {
            return Err(Error::invalid(
                format!("there is no batch {index} in epoch {epoch}"),
                format!("it has {batches}, from 0 on"),
            ));
        }
        Ok(match &self.kind {
            &Kind::Fixed { examples, size, .. } => {
                let order = self.order.of(epoch, examples);
                (index * size..examples.min((index + 1) * size)).map(|place| order.at(place)).collect()
            }
            Kind::ByLength { lengths, settings, made } => {
                self.made(epoch, lengths, settings, made)[index].clone()
            }
        })
    }

    /// The batches by length of one epoch, made now or before.
    fn made(&self, epoch: u64, lengths: &[u32], settings: &ByLength, made: &Made) -> Arc<Vec<Vec<usize>>> {
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, batches)) = made.iter().find(|(of, _)| *of == epoch) {
            return Arc::clone(batches);
        }
        let batches = Arc::new(self.cut_by_length(epoch, lengths, settings));
        made.truncate(1);
        made.insert(0, (epoch, Arc::clone(&batches)));
        batches
    }

    fn cut_by_length(&self, epoch: u64, lengths: &[u32], settings: &ByLength) -> Vec<Vec<usize>> {
        let order = self.order.of(epoch, lengths.len());
        let ordered: Vec<usize> = (0..lengths.len()).map(|place| order.at(place)).collect();
        let mut batches: Vec<Vec<usize>> = Vec::new();
        for window in ordered.chunks(settings.window) {
            let mut window = window.to_vec();
            window.sort_by_key(|&example| lengths[example]); // stable: equals stay in the order of the epoch
            let mut batch: Vec<usize> = Vec::new();
            for example in window {
                // Sorted, so that the newest is the longest: all are padded to it.
                let tokens = (batch.len() + 1).saturating_mul(lengths[example] as usize);
                if tokens > settings.tokens || batch.len() == settings.examples {
                    batches.push(std::mem::take(&mut batch));
                }
                batch.push(example);
            }
            batches.push(batch);
        }
        let order = self.order.named("order.batches", epoch, batches.len());
        (0..batches.len()).map(|place| std::mem::take(&mut batches[order.at(place)])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHUFFLED: Order = Order::Shuffled { seed: 2 };

    fn all(plan: &Plan, epoch: u64) -> Vec<Vec<usize>> {
        (0..plan.batches(epoch)).map(|index| plan.members(epoch, index).unwrap()).collect()
    }

    #[test]
    fn every_example_comes_once_in_an_epoch() {
        let lengths: Vec<u32> = (0..103).map(|i| 1 + i * 37 % 50).collect();
        let by_length = ByLength { tokens: 200, examples: 16, window: 40 };
        let plans = [
            Plan::fixed(103, 10, Order::Sequential, false).unwrap(),
            Plan::fixed(103, 10, SHUFFLED, false).unwrap(),
            Plan::by_length(lengths.clone(), by_length, SHUFFLED).unwrap(),
            Plan::by_length(lengths, by_length, Order::Sequential).unwrap(),
        ];
        for plan in plans {
            for epoch in 0..3 {
                let mut members = all(&plan, epoch).concat();
                members.sort_unstable();
                assert_eq!(members, (0..103).collect::<Vec<_>>(), "{plan:?} {epoch}");
            }
            assert_eq!(plan.examples(), 103);
        }
    }

    #[test]
    fn batches_are_full_but_for_the_last() {
        let sizes = |drop| {
            let plan = Plan::fixed(23, 10, Order::Sequential, drop).unwrap();
            all(&plan, 0).iter().map(Vec::len).collect::<Vec<usize>>()
        };
        assert_eq!(sizes(false), [10, 10, 3]);
        assert_eq!(sizes(true), [10, 10]);
    }

    #[test]
    fn batches_by_length_keep_their_bounds_and_save_padding() {
        let lengths: Vec<u32> = (0..1000).map(|i| 1 + i * 7919 % 100).collect();
        let settings = ByLength { tokens: 800, examples: 30, window: 500 };
        let plan = Plan::by_length(lengths.clone(), settings, SHUFFLED).unwrap();
        let batches = all(&plan, 4);
        let padded = |batch: &Vec<usize>| {
            batch.len() * batch.iter().map(|&example| lengths[example]).max().unwrap() as usize
        };
        for batch in &batches {
            assert!(!batch.is_empty() && batch.len() <= 30 && padded(batch) <= 800, "{batch:?}");
        }
        let real: u32 = lengths.iter().sum();
        let total: usize = batches.iter().map(padded).sum();
        assert!((total as f64) < 1.06 * real as f64, "{total} {real}");
        // Batches are shuffled too: the first are not the shortest.
        let first: usize = batches[..10].iter().map(|batch| padded(batch) / batch.len()).sum();
        let last: usize = batches[batches.len() - 10..].iter().map(|batch| padded(batch) / batch.len()).sum();
        assert!(first.abs_diff(last) < 400, "{first} {last}");
        assert_ne!(batches, all(&plan, 5));
    }

    #[test]
    fn epochs_asked_for_in_any_order_are_the_same() {
        let lengths: Vec<u32> = (0..50).map(|i| 1 + i % 9).collect();
        let settings = ByLength { tokens: 30, examples: 8, window: 20 };
        let plan = Plan::by_length(lengths.clone(), settings, SHUFFLED).unwrap();
        let fresh = |epoch| all(&Plan::by_length(lengths.clone(), settings, SHUFFLED).unwrap(), epoch);
        for epoch in [0, 3, 1, 0, 2, 3] {
            assert_eq!(all(&plan, epoch), fresh(epoch), "{epoch}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let check = |text: String, part: &str| assert!(text.contains(part), "{text}");
        let fixed = |examples, size, drop| Plan::fixed(examples, size, Order::Sequential, drop);
        check(fixed(0, 5, false).unwrap_err().to_string(), "0 examples make no batch of 5");
        check(fixed(5, 0, false).unwrap_err().to_string(), "5 examples make no batch of 0");
        check(fixed(5, 6, true).unwrap_err().to_string(), "5 examples make no batch of 6");
        let text = fixed(5, 2, false).unwrap().members(1, 3).unwrap_err().to_string();
        check(text, "there is no batch 3 in epoch 1; it has 3, from 0 on");
        let settings = ByLength { tokens: 10, examples: 2, window: 4 };
        let by = |lengths, settings| Plan::by_length(lengths, settings, Order::Sequential);
        check(by(vec![], settings).unwrap_err().to_string(), "0 examples cannot be batched by");
        let text = by(vec![1], ByLength { window: 0, ..settings }).unwrap_err().to_string();
        check(text, "give examples, and every setting at least 1");
        let text = by(vec![1, 11], settings).unwrap_err().to_string();
        check(text, "example 1 has 11 tokens, more than the 10 of a batch");
    }
}
