//! From examples to batches: in which order, how many at a time, padded how. Every source here is a pure
//! function of (epoch, index) and names its fields after the inputs that models record:
//!
//! | source | fields |
//! |---|---|
//! | [`TokenRows`] | `ids` and `labels` \[B T\] |
//! | [`Sequences`] | `ids` and `labels` \[B T\]; if asked `mask` and `position` \[B T\], `lengths` \[B\] |
//! | [`Pairs`] | `source` and `source_mask` \[B S\], `ids` and `labels` \[B T\] |
//! | [`Classified`] | `ids` and `mask` \[B T\], `labels` \[B\]; if asked `lengths` \[B\] |
//! | [`Pictures`] | `pixels` \[B Ch Hh Ww\], `labels` \[B\] |
//!
//! Masks are true where there is a token. Targets of [`IGNORE`](crate::corruption::IGNORE) count for nothing.

mod classified;
mod couples;
mod order;
mod padding;
mod pairs;
mod pictures;
mod plan;
mod rows;
mod sequences;

pub use classified::Classified;
pub use couples::Couples;
pub use order::{Order, Permutation};
pub use padding::{Length, Padding, Side};
pub use pairs::Pairs;
pub use pictures::{Augmentation, Pictures};
pub use plan::{ByLength, Plan};
pub use rows::{TokenRows, pack};
pub use sequences::Sequences;

/// What a source asks for an example with: the epoch and the number of the example.
type Make<T> = Box<dyn Fn(u64, usize) -> crate::Result<T> + Send + Sync>;

#[cfg(test)]
pub(crate) mod purity {
    //! The one property that all sources share.

    use crate::{Batch, Source};

    /// Asks for all batches of two epochs forwards, backwards and from several threads: they must not differ.
    /// Gives back those of epoch 0.
    pub fn check(source: &dyn Source) -> Vec<Batch> {
        let get = |epoch, index| source.batch(epoch, index).unwrap();
        let epoch = |epoch| (0..source.batches(epoch)).map(|i| get(epoch, i)).collect::<Vec<Batch>>();
        let all = [epoch(0), epoch(1)];
        for (e, batches) in all.iter().enumerate().rev() {
            for (i, batch) in batches.iter().enumerate().rev() {
                assert_eq!(&get(e as u64, i), batch, "backwards, epoch {e}, batch {i}");
            }
        }
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (all, get) = (&all, &get);
                scope.spawn(move || {
                    for step in 0..all[0].len().max(all[1].len()) {
                        let e = (step + thread) % 2;
                        if let Some(batch) = all[e].get(step) {
                            assert_eq!(&get(e as u64, step), batch, "thread {thread}, batch {step}");
                        }
                    }
                });
            }
        });
        for batch in all.iter().flatten() {
            for field in &batch.fields {
                let numbers = match &field.values {
                    crate::Values::F32(values) => values.len(),
                    crate::Values::I32(values) => values.len(),
                    crate::Values::Bool(values) => values.len(),
                };
                assert_eq!(field.dims.iter().product::<usize>(), numbers, "{}", field.name);
                assert_eq!(field.dims[0] as u64, batch.examples, "{}", field.name);
            }
        }
        let beyond = source.batches(0);
        let text = source.batch(0, beyond).unwrap_err().to_string();
        assert!(text.contains(&format!("there is no batch {beyond} in epoch 0")), "{text}");
        let [first, _] = all;
        first
    }

    /// The integers of a field.
    pub fn ints(batch: &Batch, name: &str) -> Vec<i32> {
        match &batch.field(name).unwrap().values {
            crate::Values::I32(values) => values.clone(),
            other => panic!("{name} is {other:?}"),
        }
    }
}
