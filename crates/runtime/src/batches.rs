//! Many inputs in batches: those of about the same length together, for a batch takes as long as its longest,
//! and what comes of them in the caller's order.

use crate::{Error, Result};
use regard_data::{Batch, Field};
use regard_models::Pixels;
use regard_models::inputs::{IDS, MASK, PIXELS, Padded, padded};
use std::ops::ControlFlow;

/// Who is told of each result as it is made, by its place among the inputs; may break off.
pub type Progress<'a, T> = dyn FnMut(usize, &T) -> ControlFlow<()> + 'a;

/// Progress that nobody hears of, and nobody breaks off.
pub fn unheard<T>(_: usize, _: &T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Runs inputs batch by batch, the shortest first. `run` gives a result for each of the inputs that it is
/// told.
pub fn in_batches<T>(
    lengths: &[usize],
    rows: usize,
    progress: &mut Progress<'_, T>,
    mut run: impl FnMut(&[usize]) -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&at| lengths[at]);
    let mut results: Vec<Option<T>> = lengths.iter().map(|_| None).collect();
    let mut done = 0;
    for batch in order.chunks(rows.max(1)) {
        for (&at, result) in batch.iter().zip(run(batch)?) {
            done += 1;
            let broken = progress(at, &result).is_break() && done < lengths.len();
            results[at] = Some(result);
            if broken {
                return Err(Error::Cancelled { done, all: lengths.len() });
            }
        }
    }
    Ok(results.into_iter().flatten().collect())
}

/// Texts as the fields `ids` and `mask` of one batch.
pub fn text_batch(rows: &[&[i32]], pad: i32) -> Batch {
    let Padded { values, mask, width } = padded(rows, pad);
    let dims = [rows.len(), width];
    let fields = vec![Field::i32(IDS, &dims, values), Field::bools(MASK, &dims, mask)];
    Batch { fields, targets: 0, tokens: (dims[0] * dims[1]) as u64, examples: rows.len() as u64 }
}

/// Images as the field `pixels` of one batch.
pub fn image_batch(images: &[&[f32]], size: Pixels) -> Result<Batch> {
    let Pixels { channels, height, width } = size;
    let each = channels * height * width;
    if let Some(at) = images.iter().position(|image| image.len() != each) {
        return Err(Error::invalid(
            format!("image {} has {} numbers", at + 1, images[at].len()),
            format!("this model takes {channels} channels of {height} by {width}"),
        ));
    }
    let dims = [images.len(), channels, height, width];
    let examples = images.len() as u64;
    let fields = vec![Field::f32(PIXELS, &dims, images.concat())];
    Ok(Batch { fields, targets: 0, tokens: examples, examples })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_come_first_and_results_in_order() {
        let lengths = [5, 1, 4, 1, 3];
        let (mut ran, mut reported) = (Vec::new(), Vec::new());
        let results = in_batches(
            &lengths,
            2,
            &mut |at, result: &usize| {
                reported.push((at, *result));
                ControlFlow::Continue(())
            },
            |batch| {
                ran.push(batch.to_vec());
                Ok(batch.iter().map(|&at| 10 * at).collect())
            },
        );
        assert_eq!(results.unwrap(), [0, 10, 20, 30, 40]);
        assert_eq!(ran, [vec![1, 3], vec![4, 2], vec![0]]);
        assert_eq!(reported, [(1, 10), (3, 30), (4, 40), (2, 20), (0, 0)]);
    }

    /// Progress that ends with the result of this number.
    fn break_off_at(count: usize) -> impl FnMut(usize, &usize) -> ControlFlow<()> {
        let mut heard = 0;
        move |_, _| {
            heard += 1;
            if heard == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    #[test]
    fn who_breaks_off_is_told_how_far_it_came() {
        let stop =
            |count: usize| in_batches(&[1; 4], 2, &mut break_off_at(count), |batch| Ok(batch.to_vec()));
        assert_eq!(stop(3).unwrap_err().to_string(), "broken off after 3 of 4");
        assert_eq!(stop(4).unwrap(), [0, 1, 2, 3], "there was nothing left to break off");
    }

    #[test]
    fn images_of_another_size_are_refused() {
        let size = Pixels { channels: 1, height: 2, width: 3 };
        assert_eq!(
            image_batch(&[&[0.0; 6], &[0.0; 5]], size).unwrap_err().to_string(),
            "image 2 has 5 numbers; this model takes 1 channels of 2 by 3"
        );
        assert_eq!(image_batch(&[&[0.5; 6]], size).unwrap().fields[0].dims, [1, 1, 2, 3]);
    }
}
