//! What a norm wants to know of the rows of a product, gathered before they leave the nearest cache. A row
//! that is cut into several tasks has statistics for each part of its columns; whoever normalises it puts
//! them together. Parts depend on the width alone, so that threads never show in the bits.

use super::PANEL;
use super::product::MOST_PANELS;
use crate::cpu::reduce::{centre_inline, sum_inline, sum_of_squares_inline};

/// Statistics of every part of every row of C, f32 and not added to: [M parts 3], each as [`of`] gives it.
#[derive(Debug)]
pub struct RowStatistics<'a> {
    /// Whether squares are those of deviations from the mean, as layer norm wants them, or of the numbers
    /// themselves.
    pub centred: bool,
    /// Where they are written.
    pub parts: &'a mut [f32],
}

/// Numbers for each part.
pub const STATISTICS: usize = 3;

/// Columns of each part of a row of n, but for the last one, which may have fewer.
pub const fn columns_of_part(n: usize) -> usize {
    let panels = if n == 0 { 1 } else { n.div_ceil(PANEL) };
    panels.div_ceil(panels.div_ceil(MOST_PANELS)) * PANEL
}

/// Parts of a row of n.
pub const fn parts_of_row(n: usize) -> usize {
    n.div_ceil(columns_of_part(n))
}

/// The statistics of a row of n from those of its parts. One part says it all; more are put together about
/// the mean of the first, so that rows with a large mean lose nothing.
pub fn of_row(parts: &[f32], n: usize, centred: bool) -> [f32; STATISTICS] {
    let (parts, _) = parts.as_chunks::<STATISTICS>();
    if let [whole] = parts {
        return *whole;
    }
    let columns = columns_of_part(n);
    let count = |part: usize| (n - part * columns).min(columns) as f32;
    if !centred {
        return [0.0, 0.0, parts.iter().map(|[.., squares]| squares).sum()];
    }
    let first = parts[0][0];
    let from_first = |[mean, left, _]: &[f32; STATISTICS]| (mean - first) + left;
    let sum: f32 = parts.iter().enumerate().map(|(i, part)| from_first(part) * count(i)).sum();
    let left = sum / n as f32;
    let about = |(i, part): (usize, &[f32; STATISTICS])| {
        let apart = from_first(part) - left;
        (apart * apart).mul_add(count(i), part[2])
    };
    [first, left, parts.iter().enumerate().map(about).sum()]
}

crate::multiversion! {
    /// The mean of some numbers, what its rounding has left of it, and the sum of the squares of their
    /// deviations; or 0, 0 and the sum of their squares. Changes the numbers.
    pub fn of(numbers: &mut [f32], centred: bool) -> [f32; STATISTICS] {
        if !centred {
            return [0.0, 0.0, sum_of_squares_inline(numbers)];
        }
        let width = numbers.len() as f32;
        let first = sum_inline(numbers) / width;
        let (sum, squares) = centre_inline(numbers, first);
        let left = sum / width;
        // Σ(x − left)² = Σx² − left·Σx, where left is no more than the rounding error of the first mean.
        [first, left, squares - sum * left]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    #[test]
    fn parts_cover_a_row_and_are_nearly_equal() {
        for (n, columns, parts) in [
            (1, 32, 1),
            (32, 32, 1),
            (500, 512, 1),
            (512, 512, 1),
            (513, 288, 2),
            (768, 384, 2),
            (1600, 416, 4),
        ] {
            assert_eq!((columns_of_part(n), parts_of_row(n)), (columns, parts), "{n}");
        }
    }

    #[test]
    fn parts_together_are_the_row() {
        for n in [7, 513, 768, 1601] {
            for offset in [0.0, 3.0, 10_000.0] {
                let row: Vec<f32> =
                    (0..n).map(|i| offset + (i as f32 * 0.37).sin() + i as f32 / n as f32).collect();
                let mean = row.iter().map(|&x| x as f64).sum::<f64>() / n as f64;
                for centred in [true, false] {
                    let about = if centred { mean } else { 0.0 };
                    let want: f64 = row.iter().map(|&x| (x as f64 - about).powi(2)).sum();
                    let mut bits = Vec::new();
                    for &level in Level::available() {
                        let parts: Vec<f32> = row
                            .chunks(columns_of_part(n))
                            .flat_map(|part| of(level, &mut part.to_vec(), centred))
                            .collect();
                        let [first, left, squares] = of_row(&parts, n, centred);
                        assert!((first as f64 + left as f64 - about).abs() <= about.abs() * 1e-9 + 1e-7);
                        assert!(
                            (squares as f64 - want).abs() <= want * 1e-6,
                            "{n} {offset}: {squares} {want}"
                        );
                        bits.push([first, left, squares].map(f32::to_bits));
                    }
                    assert!(bits.iter().all(|one| *one == bits[0]), "levels differ");
                }
            }
        }
    }
}
