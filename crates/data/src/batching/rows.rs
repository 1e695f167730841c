//! One long text as rows of the context: what language models are trained on.

use super::{Order, Plan};
use crate::corruption::IGNORE;
use crate::draws::Draws;
use crate::{Batch, Error, Field, Result, Source};
use std::sync::Arc;

/// Documents as one long text, with a separator after each.
pub fn pack<'a>(documents: impl IntoIterator<Item = &'a [u32]>, separator: Option<u32>) -> Vec<u32> {
    let mut text = Vec::new();
    for document in documents {
        text.extend_from_slice(document);
        text.extend(separator);
    }
    text
}

/// Rows of one long text with the next token as the label: `ids` and `labels` \[B T\].
pub struct TokenRows {
    text: Arc<[u32]>,
    context: usize,
    windows: Windows,
}

enum Windows {
    Consecutive(Plan),
    Random { seed: u64, size: usize, batches: usize },
}

impl TokenRows {
    /// Rows that follow each other without overlap, `size` to a batch. Every token but the first is a target
    /// exactly once in an epoch, unless the last batch is left out; what the text does not fill in its last
    /// row is ignored.
    pub fn consecutive(
        text: impl Into<Arc<[u32]>>,
        context: usize,
        size: usize,
        order: Order,
        drop_last: bool,
    ) -> Result<TokenRows> {
        let text = checked(text.into(), context, 2)?;
        let plan = Plan::fixed((text.len() - 1).div_ceil(context), size, order, drop_last)?;
        Ok(TokenRows { text, context, windows: Windows::Consecutive(plan) })
    }

    /// Rows from anywhere in the text, `size` to a batch, `batches` to an epoch.
    pub fn random(
        text: impl Into<Arc<[u32]>>,
        context: usize,
        size: usize,
        batches: usize,
        seed: u64,
    ) -> Result<TokenRows> {
        let text = checked(text.into(), context, context.saturating_add(1))?;
        if size == 0 || batches == 0 {
            return Err(Error::invalid(
                format!("{batches} batches of {size} rows are none"),
                "give at least 1 of both",
            ));
        }
        Ok(TokenRows { text, context, windows: Windows::Random { seed, size, batches } })
    }
}

fn checked(text: Arc<[u32]>, context: usize, least: usize) -> Result<Arc<[u32]>> {
    if context == 0 || text.len() < least {
        return Err(Error::invalid(
            format!("a text of {} tokens does not fill rows of {context}", text.len()),
            format!("give a context of 1 or more, and a text of {least} tokens at least"),
        ));
    }
    if let Some(position) = text.iter().position(|&id| id > i32::MAX as u32) {
        return Err(Error::invalid(
            format!("the token {} at position {position} is out of range", text[position]),
            "give ids that a vocabulary can have, below 2^31",
        ));
    }
    Ok(text)
}

impl Source for TokenRows {
    fn batches(&self, epoch: u64) -> usize {
        match &self.windows {
            Windows::Consecutive(plan) => plan.batches(epoch),
            Windows::Random { batches, .. } => *batches,
        }
    }

    fn batch(&self, epoch: u64, index: usize) -> Result<Batch> {
        let starts: Vec<usize> = match &self.windows {
            Windows::Consecutive(plan) => {
                plan.members(epoch, index)?.into_iter().map(|row| row * self.context).collect()
            }
            &Windows::Random { batches, .. } if index >= batches => {
                return Err(Error::invalid(
                    format!("there is no batch {index} in epoch {epoch}"),
                    format!("it has {batches}, from 0 on"),
                ));
            }
            &Windows::Random { seed, size, .. } => (index * size..(index + 1) * size)
                .map(|row| {
                    let mut draws = Draws::new(seed, epoch, "rows", row as u64);
                    draws.below(self.text.len() - self.context)
                })
                .collect(),
        };
        let dims = [starts.len(), self.context];
        let (mut ids, mut targets) = (vec![0; dims[0] * dims[1]], vec![IGNORE; dims[0] * dims[1]]);
        let mut counted = 0;
        for (row, start) in starts.into_iter().enumerate() {
            let length = self.context.min(self.text.len() - 1 - start);
            let place = row * self.context;
            for i in 0..length {
                ids[place + i] = self.text[start + i] as i32;
                targets[place + i] = self.text[start + i + 1] as i32;
            }
            counted += length as u64;
        }
        let fields = vec![Field::i32("ids", &dims, ids), Field::i32("labels", &dims, targets)];
        Ok(Batch { fields, targets: counted, tokens: (dims[0] * dims[1]) as u64, examples: dims[0] as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::purity::{check, ints};
    use super::*;

    #[test]
    fn documents_are_packed_with_separators() {
        let documents: [&[u32]; 3] = [&[1, 2], &[], &[3]];
        assert_eq!(pack(documents, Some(9)), [1, 2, 9, 9, 3, 9]);
        assert_eq!(pack(documents, None), [1, 2, 3]);
    }

    #[test]
    fn consecutive_rows_ask_for_every_token_once() {
        let text: Vec<u32> = (100..137).collect();
        for order in [Order::Sequential, Order::Shuffled { seed: 3 }] {
            let rows = TokenRows::consecutive(text.clone(), 5, 3, order, false).unwrap();
            let batches = check(&rows);
            let mut asked = Vec::new();
            for batch in &batches {
                let (ids, targets) = (ints(batch, "ids"), ints(batch, "labels"));
                let counted = ids.iter().zip(&targets).filter(|(_, target)| **target != IGNORE);
                assert_eq!(counted.clone().count() as u64, batch.targets);
                assert!(counted.clone().all(|(id, target)| id + 1 == *target));
                asked.extend(counted.map(|(_, target)| *target));
                assert_eq!(batch.tokens, 5 * batch.examples);
            }
            asked.sort_unstable();
            assert_eq!(asked, (101..137).collect::<Vec<i32>>());
        }
    }

    #[test]
    fn random_rows_lie_inside_and_come_from_everywhere() {
        let text: Vec<u32> = (0..20).collect();
        let rows = TokenRows::random(text, 4, 8, 50, 6).unwrap();
        let mut first = [0u32; 20];
        for batch in check(&rows) {
            let (ids, targets) = (ints(&batch, "ids"), ints(&batch, "labels"));
            assert!(ids.iter().zip(&targets).all(|(id, target)| id + 1 == *target));
            assert_eq!((batch.targets, batch.tokens, batch.examples), (32, 32, 8));
            ids.chunks(4).for_each(|row| first[row[0] as usize] += 1);
        }
        // 400 rows over 16 beginnings: 25 each, with a standard deviation of 4.8.
        assert!(first[..16].iter().all(|&count| count.abs_diff(25) < 25), "{first:?}");
        assert_eq!(first[16..], [0; 4]);
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |result: Result<TokenRows>, part: &str| {
            let text = result.err().unwrap().to_string();
            assert!(text.contains(part), "{text}");
        };
        let consecutive =
            |text: Vec<u32>, context| TokenRows::consecutive(text, context, 1, Order::Sequential, false);
        refused(consecutive(vec![1], 4), "a text of 1 tokens does not fill rows of 4");
        refused(consecutive(vec![1, 2], 0), "a text of 2 tokens does not fill rows of 0");
        refused(consecutive(vec![1, u32::MAX], 4), "the token 4294967295 at position 1 is out of range");
        refused(TokenRows::random(vec![1; 4], 4, 1, 1, 0), "a text of 5 tokens at least");
        refused(TokenRows::random(vec![1; 9], 4, 0, 1, 0), "1 batches of 0 rows are none");
    }
}
