//! Positions: absolute ones, added to the embeddings, and relative ones, which act inside of attention.

use crate::{Parameter, Parameters};
use regard_graph::{DType, Error, Graph, Init, Result, Var};
use regard_ops::prelude::*;
use regard_ops::{AttentionBias, RotarySpec};

/// The most numbers of a table of sinusoids: a million positions of width 256.
const MOST_FIXED: usize = 1 << 28;

/// What is added to the embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AbsoluteConfig {
    /// Nothing: attention then cannot tell one order from another.
    #[default]
    None,
    /// Sines and cosines of rising wave length.
    Sinusoidal {
        /// C, even.
        width: usize,
        /// The most positions.
        most: usize,
    },
    /// A learned vector for each position.
    Learned {
        /// C.
        width: usize,
        /// The most positions.
        most: usize,
        /// Standard deviation at the beginning.
        std: f32,
    },
}

/// Absolute positions. Parameter, if learned: `weight` `[P C]`.
#[derive(Clone, Debug)]
pub enum AbsolutePositions {
    /// Nothing is added.
    None,
    /// A fixed table, `[P C]` row-major.
    Fixed {
        /// P and C.
        shape: [usize; 2],
        /// Its numbers.
        table: Vec<f64>,
    },
    /// A learned table.
    Learned(Parameter),
}

impl AbsolutePositions {
    /// Declares the parameters.
    pub fn new(config: AbsoluteConfig, parameters: &mut Parameters) -> Result<Self> {
        Ok(match config {
            AbsoluteConfig::None => AbsolutePositions::None,
            AbsoluteConfig::Sinusoidal { width, most } => {
                if width % 2 != 0 {
                    return Err(Error::invalid(
                        "positions",
                        format!("sinusoidal positions of the odd width {width}"),
                        "choose an even width: sines and cosines come in pairs",
                    ));
                }
                // The table is written down here, before a plan could refuse its size.
                if most.checked_mul(width).is_none_or(|numbers| numbers > MOST_FIXED) {
                    return Err(Error::invalid(
                        "positions",
                        format!("a table of {most} sinusoidal positions of width {width}"),
                        format!("choose sizes whose product is at most {MOST_FIXED}"),
                    ));
                }
                AbsolutePositions::Fixed { shape: [most, width], table: sinusoids(most, width) }
            }
            AbsoluteConfig::Learned { width, most, std } => {
                AbsolutePositions::Learned(parameters.declare("weight", [most, width], Init::Normal(std))?)
            }
        })
    }

    /// `x + table[position]`: B T C -> B T C; positions count from 0 unless given as i32 `[B T]`.
    pub fn forward(&self, g: &mut Graph, x: Var, position: Option<Var>) -> Result<Var> {
        let table = match self {
            AbsolutePositions::None => return Ok(x),
            AbsolutePositions::Fixed { shape, table } => g.constant(DType::F32, *shape, table)?,
            AbsolutePositions::Learned(table) => table.var(g)?,
        };
        g.add_position(x, table, position)
    }
}

/// PE(p, 2i) = sin(p / 10000^(2i/C)), PE(p, 2i+1) = cos of the same; `[P C]` row-major.
pub fn sinusoids(most: usize, width: usize) -> Vec<f64> {
    let mut table = Vec::with_capacity(most * width);
    for position in 0..most {
        for channel in 0..width {
            let angle = position as f64 / 10000f64.powf((channel / 2 * 2) as f64 / width as f64);
            table.push(if channel % 2 == 0 { angle.sin() } else { angle.cos() });
        }
    }
    table
}

/// How attention learns of distances.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RelativeConfig {
    /// Not at all.
    #[default]
    None,
    /// T5's buckets of distances, one learned number for each bucket and head.
    Buckets {
        /// How many buckets.
        buckets: usize,
        /// From this distance on all share the last one.
        max_distance: usize,
        /// Keys ahead have buckets of their own.
        bidirectional: bool,
    },
    /// Scores fall linearly with the distance, at a fixed slope for each head.
    Alibi,
    /// One learned number for each distance up to ±R and head.
    Clipped {
        /// R.
        reach: usize,
    },
    /// Queries and keys are turned by their positions.
    Rotary(RotarySpec),
}

/// Relative positions. Parameter, if learned: `table`.
#[derive(Clone, Debug)]
pub enum RelativePositions {
    /// None.
    None,
    /// A learned table of buckets `[R H]`.
    Buckets {
        /// The table.
        table: Parameter,
        /// As configured.
        max_distance: usize,
        /// As configured.
        bidirectional: bool,
    },
    /// Fixed slopes, one for each head.
    Alibi(Vec<f64>),
    /// A learned table of distances `[2R+1 H]`.
    Clipped(Parameter),
    /// Rotary.
    Rotary(RotarySpec),
}

impl RelativePositions {
    /// Declares the parameters, for a number of heads.
    pub fn new(config: RelativeConfig, heads: usize, parameters: &mut Parameters) -> Result<Self> {
        Ok(match config {
            RelativeConfig::None => RelativePositions::None,
            RelativeConfig::Buckets { buckets, max_distance, bidirectional } => {
                let table = parameters.declare("table", [buckets, heads], Init::Normal(0.02))?;
                RelativePositions::Buckets { table, max_distance, bidirectional }
            }
            RelativeConfig::Alibi => RelativePositions::Alibi(alibi_slopes(heads)),
            RelativeConfig::Clipped { reach } => RelativePositions::Clipped(parameters.declare(
                "table",
                [reach.saturating_mul(2).saturating_add(1), heads],
                Init::Normal(0.02),
            )?),
            RelativeConfig::Rotary(spec) => RelativePositions::Rotary(spec),
        })
    }

    /// What is added to the scores.
    pub fn bias(&self, g: &mut Graph) -> Result<AttentionBias> {
        Ok(match self {
            RelativePositions::None | RelativePositions::Rotary(_) => AttentionBias::None,
            RelativePositions::Buckets { table, max_distance, bidirectional } => AttentionBias::Buckets {
                table: table.var(g)?,
                bidirectional: *bidirectional,
                max_distance: *max_distance,
            },
            RelativePositions::Alibi(slopes) => {
                AttentionBias::Alibi { slopes: g.constant(DType::F32, [slopes.len()], slopes)? }
            }
            RelativePositions::Clipped(table) => AttentionBias::Clipped { table: table.var(g)? },
        })
    }

    /// How queries and keys are turned, if they are.
    pub fn rotary(&self) -> Option<RotarySpec> {
        match self {
            RelativePositions::Rotary(spec) => Some(*spec),
            _ => None,
        }
    }
}

/// ALiBi's slopes: 2^(−8/H), 2^(−16/H), … for a power of two; for other numbers of heads, those of the next
/// smaller power and every other one of the next larger, as the authors published it.
pub fn alibi_slopes(heads: usize) -> Vec<f64> {
    let powers = |n: usize| (1..=n).map(move |i| 2f64.powf(-8.0 * i as f64 / n as f64));
    if heads.is_power_of_two() {
        return powers(heads).collect();
    }
    let below = heads.next_power_of_two() / 2;
    powers(below).chain(powers(2 * below).step_by(2).take(heads - below)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinusoids_turn_by_a_fixed_angle() {
        let (most, width) = (12, 6);
        let table = sinusoids(most, width);
        assert_eq!(table[..width], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
        // PE(p + k) = R_k PE(p): each pair turns by k times its frequency.
        for (p, k, pair) in [(2, 3, 0), (4, 5, 1), (1, 7, 2)] {
            let angle = k as f64 / 10000f64.powf(2.0 * pair as f64 / width as f64);
            let at = |p: usize| (table[p * width + 2 * pair], table[p * width + 2 * pair + 1]);
            let ((s, c), (turned_s, turned_c)) = (at(p), at(p + k));
            assert!((turned_s - (s * angle.cos() + c * angle.sin())).abs() < 1e-12);
            assert!((turned_c - (c * angle.cos() - s * angle.sin())).abs() < 1e-12);
        }
    }

    #[test]
    fn slopes_of_eight_and_of_six_heads() {
        assert_eq!(alibi_slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]);
        assert_eq!(alibi_slopes(6), [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]);
    }

    #[test]
    fn odd_widths_are_refused() {
        let config = AbsoluteConfig::Sinusoidal { width: 5, most: 4 };
        assert_eq!(
            AbsolutePositions::new(config, &mut Parameters::new()).unwrap_err().to_string(),
            "positions: sinusoidal positions of the odd width 5; choose an even width: sines and cosines come in pairs"
        );
        for most in [usize::MAX, 1 << 40] {
            let config = AbsoluteConfig::Sinusoidal { width: 4, most };
            assert_eq!(
                AbsolutePositions::new(config, &mut Parameters::new()).unwrap_err().to_string(),
                format!(
                    "positions: a table of {most} sinusoidal positions of width 4; choose sizes whose product is at most \
                     268435456"
                )
            );
        }
    }
}
