//! Rotary positions for contexts longer than those of training: what becomes of the angle of one step, pair
//! by pair. Linear interpolation (Chen et al., arXiv:2306.15595), its dynamic form, YaRN (Peng et al.,
//! arXiv:2309.00071), and what Llama 3 does.

use regard_graph::{Error, Result};
use std::f64::consts::TAU;
use std::fmt;

/// How pairs are slowed down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stretch {
    /// Llama 3's: pairs that turn fewer than `low` times within the `original` positions are slowed `factor`
    /// times, those that turn more than `high` times are not, and between the two it goes over smoothly.
    Turns {
        /// By how much: 8.
        factor: f64,
        /// Up to so many turns, all of it: 1.
        low: f64,
        /// From so many turns on, none of it: 4.
        high: f64,
        /// The context of training: 8192.
        original: f64,
    },
    /// All pairs alike: positions lie `factor` times as near to each other.
    Linear {
        /// By how much.
        factor: f64,
    },
    /// Not at all within the context of training, and more and more beyond it. A model is not asked beyond
    /// its context, so that nothing changes; the setting is kept for those who read the model elsewhere.
    Dynamic {
        /// By how much, beyond.
        factor: f64,
    },
    /// YaRN's: pairs before the one that turns `fast` times within the `original` positions are not slowed,
    /// those behind the one that turns `slow` times `factor` times, and between the two it goes over from
    /// pair to pair.
    Yarn {
        /// By how much.
        factor: f64,
        /// From so many turns on, none of it: 32.
        fast: f64,
        /// Up to so many turns, all of it: 1.
        slow: f64,
        /// The context of training.
        original: f64,
        /// Whether the two bounds are whole pairs.
        whole: bool,
    },
}

impl Stretch {
    /// Refuses numbers that make no sense.
    pub(super) fn check(&self) -> Result<()> {
        let (fits, what) = match *self {
            Stretch::Turns { factor, low, high, original } => (
                positive(&[factor, low, high, original]) && low < high,
                format!("a stretch of {factor} from {low} to {high} turns in {original} positions"),
            ),
            Stretch::Linear { factor } | Stretch::Dynamic { factor } => {
                (positive(&[factor]), format!("a stretch of {factor}"))
            }
            Stretch::Yarn { factor, fast, slow, original, .. } => (
                positive(&[factor, fast, slow, original]) && slow < fast,
                format!("a stretch of {factor} from {slow} to {fast} turns in {original} positions"),
            ),
        };
        match fits {
            true => Ok(()),
            false => Err(Error::invalid("rotary", what, "give positive numbers, fewer turns first")),
        }
    }

    /// What becomes of the angle of one step of pair `pair`, of which `width` channels make half as many.
    pub(super) fn slow(&self, frequency: f64, pair: usize, base: f64, width: usize) -> f64 {
        match *self {
            Stretch::Turns { factor, low, high, original } => {
                let turns = original * frequency / TAU;
                let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                frequency * (kept + (1.0 - kept) / factor)
            }
            Stretch::Linear { factor } => frequency / factor,
            Stretch::Dynamic { .. } => frequency,
            Stretch::Yarn { factor, fast, slow, original, whole } => {
                // The pair, not rounded, that turns so many times: base^(−2 pair/width) · original = turns ·
                // 2π
                let turning = |turns: f64| width as f64 * (original / (turns * TAU)).ln() / (2.0 * base.ln());
                let (mut first, mut last) = (turning(fast), turning(slow));
                if whole {
                    (first, last) = (first.floor(), last.ceil());
                }
                (first, last) = (first.max(0.0), last.min(width as f64 - 1.0));
                if first == last {
                    last += 0.001; // a step, as the published code has it
                }
                let slowed = ((pair as f64 - first) / (last - first)).clamp(0.0, 1.0);
                frequency * (slowed / factor + (1.0 - slowed))
            }
        }
    }
}

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stretch::Turns { factor, .. } => write!(f, "{factor}"),
            Stretch::Linear { factor } => write!(f, "linear {factor}"),
            Stretch::Dynamic { factor } => write!(f, "dynamic {factor}"),
            Stretch::Yarn { factor, .. } => write!(f, "yarn {factor}"),
        }
    }
}

fn positive(numbers: &[f64]) -> bool {
    numbers.iter().all(|x| x.is_finite() && *x > 0.0)
}
