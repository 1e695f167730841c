//! How models tell order: what is added to embeddings, or acts inside of attention, for any family.

use regard_graph::{Error, Result};
use regard_layers::{AbsoluteConfig, RelativeConfig};
use regard_ops::RotarySpec;

/// How a model tells one order of its tokens from another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Positions {
    /// Not at all, or by the causal mask alone.
    None,
    /// A learned vector for each position is added to the embedding.
    Learned,
    /// Sines and cosines are added to the embedding.
    Sinusoidal,
    /// Queries and keys are turned.
    Rotary(RotarySpec),
    /// Scores fall with the distance.
    Alibi,
    /// T5's buckets of distances, one learned number for each bucket and head.
    Buckets {
        /// How many buckets.
        buckets: usize,
        /// From this distance on all share the last one.
        max_distance: usize,
    },
    /// One learned number for each distance up to ±R and head.
    Clipped {
        /// R.
        reach: usize,
    },
}

impl Positions {
    /// What is added to embeddings of a width, and what acts inside of attention. `both_ways` where keys
    /// ahead are seen, too.
    pub fn parts(
        self,
        width: usize,
        most: usize,
        std: f32,
        both_ways: bool,
    ) -> (AbsoluteConfig, RelativeConfig) {
        let (absolute, relative) = (AbsoluteConfig::None, RelativeConfig::None);
        match self {
            Positions::None => (absolute, relative),
            Positions::Learned => (AbsoluteConfig::Learned { width, most, std }, relative),
            Positions::Sinusoidal => (AbsoluteConfig::Sinusoidal { width, most }, relative),
            Positions::Rotary(spec) => (absolute, RelativeConfig::Rotary(spec)),
            Positions::Alibi => (absolute, RelativeConfig::Alibi),
            Positions::Buckets { buckets, max_distance } => {
                (absolute, RelativeConfig::Buckets { buckets, max_distance, bidirectional: both_ways })
            }
            Positions::Clipped { reach } => (absolute, RelativeConfig::Clipped { reach }),
        }
    }

    /// Whether a table ends them.
    pub fn end(self) -> bool {
        matches!(self, Positions::Learned | Positions::Sinusoidal)
    }
}

/// Refuses tables of distances that cannot be.
pub(crate) fn check_positions(family: &str, positions: Positions, both_ways: bool) -> Result<()> {
    if let Positions::Buckets { buckets, max_distance } = positions {
        // Half of the buckets are for keys ahead, where they are seen, and half of what is left for exact
        // distances.
        let least = if both_ways { 4 } else { 2 };
        if buckets < least || (both_ways && buckets % 2 != 0) {
            let advice = match both_ways {
                true => "choose an even number of at least 4: half are for keys ahead",
                false => "choose at least 2",
            };
            return Err(Error::invalid(family, format!("{buckets} buckets of distances"), advice));
        }
        let exact = if both_ways { buckets / 4 } else { buckets / 2 };
        if max_distance <= exact {
            return Err(Error::invalid(
                family,
                format!("distances up to {max_distance} for {buckets} buckets"),
                format!("choose a max_distance above {exact}, for so many distances have a bucket each"),
            ));
        }
    }
    Ok(())
}
