//! Sums, dot products and maxima over slices, always through sixteen lanes and one tree, so that the result
//! depends on the data and its length alone. Element i belongs to lane i mod 16, the tail included.

use std::hint::black_box;

/// Number of lanes of every reduction.
pub const LANES: usize = 16;

/// Adds sixteen lanes by halving: 8 + 8, 4 + 4, 2 + 2, 1 + 1.
#[inline(always)]
pub fn sum_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Adds sixteen f64 lanes in the same tree.
#[inline(always)]
pub fn sum_lanes_f64(mut lanes: [f64; LANES]) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// The larger of two, the first of equals; a NaN in `b` is passed over.
#[inline(always)]
pub fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// The largest of sixteen lanes, in the same tree.
#[inline(always)]
pub fn max_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = larger(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Runs `step(lane, index)` over all indices, lane by lane of sixteen: for use inside `multiversion!`.
macro_rules! over_lanes {
    ($x:ident, $lanes:ident, |$lane:ident, $($value:ident in $slice:ident),+| $step:expr) => {{
        let whole = $x.len() / LANES * LANES;
        let mut i = 0;
        while i < whole {
            $(let $slice: &[_; LANES] = $slice[i..i + LANES].try_into().expect("sixteen");)+
            for j in 0..LANES {
                let $lane = $lanes[j];
                $(let $value = $slice[j];)+
                $lanes[j] = $step;
            }
            i += LANES;
        }
        for j in 0..$x.len() - whole {
            let $lane = $lanes[j];
            $(let $value = $slice[whole + j];)+
            $lanes[j] = $step;
        }
    }};
}

/// [`sum()`] for use inside a `multiversion!` body.
#[inline(always)]
pub fn sum_inline(x: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    over_lanes!(x, lanes, |lane, v in x| lane + v);
    sum_lanes(lanes)
}

/// [`dot()`] for use inside a `multiversion!` body.
#[inline(always)]
pub fn dot_inline(x: &[f32], y: &[f32]) -> f32 {
    assert_eq!(x.len(), y.len(), "dot: lengths");
    let mut lanes = [0.0f32; LANES];
    over_lanes!(x, lanes, |lane, v in x, w in y| v.mul_add(w, lane));
    sum_lanes(lanes)
}

/// [`sum_of_squares()`] for use inside a `multiversion!` body.
#[inline(always)]
pub fn sum_of_squares_inline(x: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    over_lanes!(x, lanes, |lane, v in x| v.mul_add(v, lane));
    sum_lanes(lanes)
}

/// [`max()`] for use inside a `multiversion!` body.
#[inline(always)]
pub fn max_inline(x: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    over_lanes!(x, lanes, |lane, v in x| larger(lane, v));
    max_lanes(lanes)
}

/// Takes `first` from every element; gives the sum of what is left, and of its squares. For use inside a
/// `multiversion!` body.
#[inline(always)]
pub fn centre_inline(h: &mut [f32], first: f32) -> (f32, f32) {
    let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
    let whole = h.len() / LANES * LANES;
    let mut from = 0;
    while from < whole {
        let part: &mut [f32; LANES] = (&mut h[from..from + LANES]).try_into().expect("sixteen");
        let mut left = *part;
        for j in 0..LANES {
            left[j] -= first;
            sums[j] += left[j];
            squares[j] = left[j].mul_add(left[j], squares[j]);
        }
        *part = left;
        from += LANES;
    }
    // Keeps the lanes together: the tree of `sum_lanes` would tempt the compiler to split the loop's
    // registers.
    (sums, squares) = black_box((sums, squares));
    for (j, h) in h[whole..].iter_mut().enumerate() {
        *h -= first;
        sums[j] += *h;
        squares[j] = h.mul_add(*h, squares[j]);
    }
    (sum_lanes(sums), sum_lanes(squares))
}

crate::multiversion! {
    /// Sum.
    pub fn sum(x: &[f32]) -> f32 {
        sum_inline(x)
    }

    /// Dot product. Panics if the lengths differ.
    pub fn dot(x: &[f32], y: &[f32]) -> f32 {
        dot_inline(x, y)
    }

    /// Sum of squares.
    pub fn sum_of_squares(x: &[f32]) -> f32 {
        sum_of_squares_inline(x)
    }

    /// Largest element, minus infinity for none; NaNs are passed over.
    pub fn max(x: &[f32]) -> f32 {
        max_inline(x)
    }

    /// Sum, accumulated in f64.
    pub fn sum_f64(x: &[f32]) -> f64 {
        let mut lanes = [0.0f64; LANES];
        over_lanes!(x, lanes, |lane, v in x| lane + v as f64);
        sum_lanes_f64(lanes)
    }

    /// Dot product, accumulated in f64. Panics if the lengths differ.
    pub fn dot_f64(x: &[f32], y: &[f32]) -> f64 {
        assert_eq!(x.len(), y.len(), "dot: lengths");
        let mut lanes = [0.0f64; LANES];
        over_lanes!(x, lanes, |lane, v in x, w in y| (v as f64).mul_add(w as f64, lane));
        sum_lanes_f64(lanes)
    }

    /// Sum of squares, accumulated in f64.
    pub fn sum_of_squares_f64(x: &[f32]) -> f64 {
        let mut lanes = [0.0f64; LANES];
        over_lanes!(x, lanes, |lane, v in x| (v as f64).mul_add(v as f64, lane));
        sum_lanes_f64(lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn values(len: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn agrees_with_plain_f64_and_over_levels() {
        for len in [0, 1, 5, 15, 16, 17, 31, 32, 100, 1000, 4099] {
            let (x, y) = (values(len, 1), values(len, 2));
            let exact_sum: f64 = x.iter().map(|&v| v as f64).sum();
            let exact_dot: f64 = x.iter().zip(&y).map(|(&v, &w)| v as f64 * w as f64).sum();
            let exact_squares: f64 = x.iter().map(|&v| v as f64 * v as f64).sum();
            let exact_max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let bound = len as f64 * 2f64.powi(-24) * 2.0;
            // The plain f64 sum itself errs by up to this: n roundings of partial sums up to n.
            let bound_f64 = (len as f64).powi(2) * 2f64.powi(-53);
            let first = Level::PORTABLE;
            for &level in Level::available() {
                assert!((sum(level, &x) as f64 - exact_sum).abs() <= bound);
                assert!((dot(level, &x, &y) as f64 - exact_dot).abs() <= bound);
                assert!((sum_of_squares(level, &x) as f64 - exact_squares).abs() <= bound);
                assert!((sum_f64(level, &x) - exact_sum).abs() <= bound_f64);
                assert!((dot_f64(level, &x, &y) - exact_dot).abs() <= bound_f64);
                assert!((sum_of_squares_f64(level, &x) - exact_squares).abs() <= bound_f64);
                assert_eq!(max(level, &x), exact_max);
                assert_eq!(sum(level, &x).to_bits(), sum(first, &x).to_bits());
                assert_eq!(dot(level, &x, &y).to_bits(), dot(first, &x, &y).to_bits());
                assert_eq!(sum_of_squares(level, &x).to_bits(), sum_of_squares(first, &x).to_bits());
                assert_eq!(sum_f64(level, &x).to_bits(), sum_f64(first, &x).to_bits());
                assert_eq!(dot_f64(level, &x, &y).to_bits(), dot_f64(first, &x, &y).to_bits());
            }
        }
    }

    #[test]
    fn the_lanes_are_as_promised() {
        // Lane sums by hand: element i goes to lane i mod 16, then the tree.
        let x = values(50, 3);
        let mut lanes = [0.0f32; 16];
        for (i, v) in x.iter().enumerate() {
            lanes[i % 16] += v;
        }
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        for &level in Level::available() {
            assert_eq!(sum(level, &x).to_bits(), lanes[0].to_bits());
        }
    }

    #[test]
    fn max_passes_over_nan_and_knows_the_empty_slice() {
        for &level in Level::available() {
            assert_eq!(max(level, &[]), f32::NEG_INFINITY);
            let mut x = values(37, 4);
            x[0] = f32::NAN;
            x[36] = f32::NAN;
            x[20] = 9.0;
            assert_eq!(max(level, &x), 9.0);
            assert!(sum(level, &x).is_nan());
        }
    }
}
