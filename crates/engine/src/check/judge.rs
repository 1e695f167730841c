//! The judge of all comparisons with the specification: of the checks of a case, of nodes of random programs,
//! and of the mutants that prove that it can say no.
//!
//! Three things are asked of a result. No number may be further from the wanted one than the limit. The
//! result as a whole may not be larger or smaller than wanted: the least-squares slope of it on what is
//! wanted, Σ got·want / Σ want², is 1 to half a percent. In bf16, where single numbers may be off by a
//! percent or two, only the slope tells an honest result from one that is two percent too large. And nothing
//! may be left out: where small numbers stand beside large ones, zeros instead of a piece of a row would be
//! within the limit.

use super::largest;
use regard_ops::Array;

/// How far the slope of a result on what is wanted may be from 1.
const SLOPE: f64 = 0.005;

/// One rounding to bf16, relative: what a result of a single number may be off by.
const ROUNDING: f64 = 1.0 / (1u64 << 8) as f64;

/// The numbers of a piece of a row, counted from its end, of which not all may be zero that are wanted.
const PIECE: usize = 8;

/// Of the largest number: larger ones are wanted. A coarse rounding makes no zeros, sums that cancel in f32
/// may.
const WANTED: f64 = 1.0 / (1u64 << 26) as f64;

/// How far a result may be from what is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The largest difference of a number, relative to the largest wanted.
    pub relative: f64,
    /// What is allowed besides, in the units of the result: as far as it moves when its operands are rounded.
    /// 0 where operands determine the result well.
    pub noise: f64,
    /// The same for roundings inside of the result's own sums, each number by itself: those of a product of
    /// bf16.
    pub scatter: f64,
}

impl Limit {
    /// A limit on results that their operands determine well.
    pub fn relative(bound: f64) -> Limit {
        Limit { relative: bound, noise: 0.0, scatter: 0.0 }
    }

    /// The largest difference that is allowed.
    pub fn most(&self, want: &[f64]) -> f64 {
        self.relative * largest(want) + self.noise + self.scatter
    }

    /// What is wrong with a result; nothing if it is as wanted, within the limit. What is infinite must be so
    /// on both sides, and nothing may be NaN that is wanted as a number.
    pub fn objection(&self, got: &Array, want: &Array) -> Option<String> {
        if got.dims() != want.dims() {
            return Some(format!("is {:?} instead of {:?}", got.dims(), want.dims()));
        }
        let (scale, most) = (largest(want.data()), self.most(want.data()));
        let error = error_of_scale(got.data(), want.data(), 1.0);
        if error > most {
            // In the units that the bound is given in, unless there is nothing to relate it to.
            let unit = if scale > 0.0 { scale } else { 1.0 };
            return Some(format!("is off by {:.2e}; bound {:.2e}", error / unit, most / unit));
        }
        self.objection_to_slope(got.data(), want.data())
            .or_else(|| left_out(got, want, WANTED * scale + self.noise + self.scatter))
    }

    fn objection_to_slope(&self, got: &[f64], want: &[f64]) -> Option<String> {
        let scale = largest(want);
        if scale == 0.0 {
            return None;
        }
        let finite = || got.iter().zip(want).filter(|(x, y)| x.is_finite() && y.is_finite());
        let squares: f64 = finite().map(|(_, y)| (y / scale) * (y / scale)).sum();
        let slope = finite().map(|(x, y)| (x / scale) * (y / scale)).sum::<f64>() / squares;
        // Independent errors of a size e move the slope by e / √Σ want²: those of few numbers do not cancel.
        // What badly determined results are off by may well be of one sign.
        let allowed = SLOPE + (ROUNDING + self.scatter / scale) / squares.sqrt() + self.noise / scale;
        let off = (slope - 1.0).abs() > allowed;
        off.then(|| format!("is {slope:.4} times what it should be; allowed are 1 ± {allowed:.4}"))
    }
}

/// A piece of a row that is all zero, although two of its numbers at least are wanted to be above a size: a
/// single one can cancel to zero by luck.
fn left_out(got: &Array, want: &Array, above: f64) -> Option<String> {
    let width = want.dims().last().copied().unwrap_or(1).max(1);
    for (row, (got, want)) in got.data().chunks(width).zip(want.data().chunks(width)).enumerate() {
        for (got, want) in got.rchunks(PIECE).zip(want.rchunks(PIECE)) {
            let wanted = want.iter().filter(|x| x.abs() > above).count();
            if wanted > 1 && got.iter().all(|&x| x == 0.0) {
                return Some(format!("leaves out {} numbers of row {row}", want.len()));
            }
        }
    }
    None
}

/// The largest difference relative to a magnitude of one's own.
pub fn error_of_scale(got: &[f64], want: &[f64], scale: f64) -> f64 {
    let scale = scale.max(1e-30);
    let mut worst: f64 = 0.0;
    for (x, y) in got.iter().zip(want) {
        if x.to_bits() == y.to_bits() || x == y {
            continue; // equal infinities differ by NaN
        }
        let error = (x - y).abs() / scale;
        worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::Limit;
    use regard_ops::Array;

    fn array(numbers: &[f64]) -> Array {
        Array::new(&[numbers.len()], numbers.to_vec()).unwrap()
    }

    fn want() -> Array {
        array(&[1.0, -2.0, 0.5, 4.0])
    }

    fn scaled(by: f64) -> Array {
        array(&want().data().iter().map(|x| by * x).collect::<Vec<_>>())
    }

    #[test]
    fn a_difference_over_the_limit_is_told_in_its_units() {
        let limit = Limit::relative(1e-3);
        assert_eq!(limit.objection(&want(), &want()), None);
        assert_eq!(limit.objection(&array(&[1.003, -2.0, 0.5, 4.0]), &want()), None);
        let text = limit.objection(&array(&[1.0, -2.0, 0.5, 4.02]), &want()).unwrap();
        assert_eq!(text, "is off by 5.00e-3; bound 1.00e-3");
        assert_eq!(limit.objection(&array(&[1.0]), &want()).unwrap(), "is [1] instead of [4]");
        assert_eq!(
            limit.objection(&array(&[1e-9]), &array(&[0.0])).unwrap(),
            "is off by 1.00e-9; bound 0.00e0"
        );
        let nan = limit.objection(&array(&[f64::NAN, -2.0, 0.5, 4.0]), &want()).unwrap();
        assert_eq!(nan, "is off by inf; bound 1.00e-3");
        let infinite = array(&[f64::NEG_INFINITY, 1.0]);
        assert_eq!(limit.objection(&infinite, &infinite), None);
        assert!(limit.objection(&array(&[-1e300, 1.0]), &infinite).is_some());
    }

    #[test]
    fn a_loose_limit_still_minds_the_slope() {
        let limit = Limit::relative(0.05);
        let text = limit.objection(&scaled(1.02), &want()).unwrap();
        assert_eq!(text, "is 1.0200 times what it should be; allowed are 1 ± 0.0084");
        assert!(limit.objection(&scaled(0.98), &want()).is_some());
        assert_eq!(limit.objection(&scaled(1.004), &want()), None);
        // One number may be off by one rounding more, not by two percent.
        assert!(limit.objection(&array(&[1.02]), &array(&[1.0])).is_some());
        assert_eq!(limit.objection(&array(&[1.008]), &array(&[1.0])), None);
    }

    #[test]
    fn a_loose_limit_still_minds_what_is_left_out() {
        let limit = Limit::relative(0.05);
        let want = Array::new(&[2, 2], vec![100.0, -100.0, 1.0, 2.0]).unwrap();
        let got = |a, b| Array::new(&[2, 2], vec![100.0, -100.0, a, b]).unwrap();
        assert_eq!(limit.objection(&got(1.0, 0.0), &want), None);
        assert_eq!(limit.objection(&got(0.0, 0.0), &want).unwrap(), "leaves out 2 numbers of row 1");
    }

    #[test]
    fn what_operands_do_not_determine_is_allowed_to_move() {
        let limit = Limit { relative: 1e-6, noise: 0.1, scatter: 0.0 };
        assert_eq!(limit.objection(&array(&[1.05, -2.05, 0.45, 4.05]), &want()), None);
        assert!(limit.objection(&array(&[1.2, -2.0, 0.5, 4.0]), &want()).is_some());
        assert!(limit.objection(&scaled(0.0), &want()).is_some());
    }
}
