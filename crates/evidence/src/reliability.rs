//! How far a confidence can be trusted: how often answers of each confidence are right, how far that is off
//! on average, how errors grow with the questions that are answered, and whether two kinds are told apart.

use crate::{Error, Result};

/// A confidence, and whether its answer was right.
pub type Scored = (f64, bool);

/// Answers of about the same confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Their mean confidence.
    pub confidence: f64,
    /// How many of them were right.
    pub right: f64,
    /// How many there are.
    pub count: usize,
}

/// A number with the range in which it lies with a certainty of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The number.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Bins of a reliability diagram.
const BINS: usize = 10;
/// Draws of the bootstrap.
const DRAWS: usize = 1000;

/// How often answers are right, for each tenth of confidence in which there are any.
pub fn reliability(scored: &[Scored]) -> Vec<Bin> {
    let mut sums = [(0.0, 0usize, 0usize); BINS];
    for &(confidence, right) in scored {
        let own = &mut sums[((confidence.clamp(0.0, 1.0) * BINS as f64) as usize).min(BINS - 1)];
        *own = (own.0 + confidence, own.1 + usize::from(right), own.2 + 1);
    }
    let filled = sums.into_iter().filter(|(.., count)| *count > 0);
    filled
        .map(|(sum, right, count)| {
            let n = count as f64;
            Bin { confidence: sum / n, right: right as f64 / n, count }
        })
        .collect()
}

/// How far confidence is off on average (expected calibration error, ten bins), with a bootstrap interval.
pub fn calibration_error(scored: &[Scored]) -> Result<Interval> {
    if scored.is_empty() {
        return Err(Error::invalid("there are no answers to judge a confidence by", "give at least one"));
    }
    let value = off(scored);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut resampled: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn: Vec<Scored> =
                (0..scored.len()).map(|_| scored[below(&mut state, scored.len())]).collect();
            off(&drawn)
        })
        .collect();
    resampled.sort_by(f64::total_cmp);
    let (low, high) = (resampled[DRAWS / 40], resampled[DRAWS - 1 - DRAWS / 40]);
    Ok(Interval { value, low, high })
}

fn off(scored: &[Scored]) -> f64 {
    let all = scored.len() as f64;
    reliability(scored).iter().map(|bin| bin.count as f64 / all * (bin.confidence - bin.right).abs()).sum()
}

/// A number below another, drawn by a generator whose state goes on (splitmix64).
pub(crate) fn below(state: &mut u64, most: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u128::from(z ^ (z >> 31)) * most as u128) >> 64) as usize
}

/// Of the surest answers, for each share of all: the share, and how many of them are wrong. Answers of equal
/// confidence come together.
pub fn risk_coverage(scored: &[Scored]) -> Vec<(f64, f64)> {
    let mut sorted = scored.to_vec();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut wrong, mut curve) = (0, Vec::new());
    for (at, &(confidence, right)) in sorted.iter().enumerate() {
        wrong += usize::from(!right);
        if sorted.get(at + 1).is_none_or(|next| next.0 < confidence) {
            let answered = (at + 1) as f64;
            curve.push((answered / sorted.len() as f64, wrong as f64 / answered));
        }
    }
    curve
}

/// The chance that a number of `high` is above one of `low`, ties counting half: the area under the curve of
/// whoever tells the two apart by this number. None where one of them is empty.
pub fn area_above(high: &[f64], low: &[f64]) -> Option<f64> {
    if high.is_empty() || low.is_empty() {
        return None;
    }
    let mut sorted = low.to_vec();
    sorted.sort_by(f64::total_cmp);
    let score: f64 = high
        .iter()
        .map(|a| {
            let under = sorted.partition_point(|b| b < a);
            let equal = sorted.partition_point(|b| b <= a) - under;
            under as f64 + equal as f64 / 2.0
        })
        .sum();
    Some(score / (high.len() * low.len()) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_is_held_against_what_was_right() {
        let scored = [(0.95, true), (0.95, false), (0.15, false), (0.15, false)];
        let bins = reliability(&scored);
        assert_eq!(bins.len(), 2);
        assert_eq!((bins[0].right, bins[0].count, bins[1].right), (0.0, 2, 0.5));
        let error = calibration_error(&scored).unwrap();
        assert!((error.value - (0.5 * 0.15 + 0.5 * 0.45)).abs() < 1e-12);
        assert!(error.low <= error.value && error.value <= error.high);
        assert_eq!(
            calibration_error(&[]).unwrap_err().to_string(),
            "there are no answers to judge a confidence by; give at least one"
        );
        // Confidence that is right is not far off, and the interval gets narrow.
        let mut state = 1;
        let fair: Vec<Scored> = (0..4000)
            .map(|_| {
                let p = below(&mut state, 1000) as f64 / 1000.0;
                (p, (below(&mut state, 1000) as f64) < 1000.0 * p)
            })
            .collect();
        let error = calibration_error(&fair).unwrap();
        assert!(error.value < 0.03 && error.high - error.low < 0.04, "{error:?}");
    }

    #[test]
    fn errors_grow_with_what_is_answered() {
        let curve = risk_coverage(&[(0.9, true), (0.5, false), (0.7, true), (0.5, true)]);
        assert_eq!(curve, [(0.25, 0.0), (0.5, 0.0), (1.0, 0.25)]);
        assert_eq!(risk_coverage(&[]), []);
    }

    #[test]
    fn the_area_counts_pairs() {
        assert_eq!(area_above(&[3.0, 2.0], &[1.0, 0.0]), Some(1.0));
        assert_eq!(area_above(&[1.0, 1.0], &[1.0]), Some(0.5));
        assert_eq!(area_above(&[0.0, 2.0], &[1.0]), Some(0.5));
        assert_eq!(area_above(&[], &[1.0]), None);
    }
}
