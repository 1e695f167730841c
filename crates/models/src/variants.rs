//! What some decoders have and others do not: layers of a second kind among the others, numbers that streams
//! are multiplied by, soft caps of scores. All of it is data of a [`crate::GptConfig`], and the defaults are
//! what GPT-2 and Llama have.

use regard_graph::{Error, Result};
use regard_ops::RotarySpec;

/// Some of the layers of a stack, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerSet([u64; LayerSet::MOST / 64]);

impl LayerSet {
    /// Layers from this one on cannot be in a set: twice as many as the deepest models have.
    pub const MOST: usize = 256;

    /// Those of `layers` that `has` is true for; an error where there are too many layers to tell.
    pub fn of(layers: usize, has: impl Fn(usize) -> bool) -> Result<LayerSet> {
        if layers > LayerSet::MOST {
            return Err(Error::invalid(
                "gpt",
                format!("{layers} layers of two kinds"),
                format!("choose at most {} layers, or give all the same window and turning", LayerSet::MOST),
            ));
        }
        let mut set = LayerSet::default();
        for layer in (0..layers).filter(|&layer| has(layer)) {
            set.0[layer / 64] |= 1 << (layer % 64);
        }
        Ok(set)
    }

    /// Whether a layer is one of them.
    pub fn has(&self, layer: usize) -> bool {
        self.0.get(layer / 64).is_some_and(|bits| bits >> (layer % 64) & 1 == 1)
    }

    /// Their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..LayerSet::MOST).filter(|&layer| self.has(layer))
    }
}

/// Layers that see or turn otherwise than the rest: local ones among global ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OtherLayers {
    /// Which.
    pub layers: LayerSet,
    /// How many keys their positions see, their own among them; all before it if not given.
    pub window: Option<usize>,
    /// How their queries and keys turn; not at all if not given.
    pub rotary: Option<RotarySpec>,
}

/// Numbers that streams are multiplied by; 1 where nothing is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Multipliers {
    /// Embeddings, before the first block.
    pub embedding: f32,
    /// What each part of a block adds to the stream.
    pub residual: f32,
    /// The scores of the vocabulary.
    pub logits: f32,
}

impl Multipliers {
    /// Nothing is multiplied.
    pub const ONE: Multipliers = Multipliers { embedding: 1.0, residual: 1.0, logits: 1.0 };

    pub(crate) fn check(&self) -> Result<()> {
        let Multipliers { embedding, residual, logits } = *self;
        let all = [("embeddings", embedding), ("residuals", residual), ("logits", logits)];
        match all.iter().find(|(_, by)| !by.is_finite() || *by == 0.0) {
            None => Ok(()),
            Some((name, by)) => Err(Error::invalid(
                "gpt",
                format!("{name} are multiplied by {by}"),
                "give a number other than 0",
            )),
        }
    }
}

/// Soft caps: x becomes cap · tanh(x / cap), which stays within ±cap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftCaps {
    /// Of the scores of attention, before masks.
    pub scores: Option<f32>,
    /// Of the scores of the vocabulary.
    pub logits: Option<f32>,
}

impl SoftCaps {
    /// Nothing is capped.
    pub const NONE: SoftCaps = SoftCaps { scores: None, logits: None };

    pub(crate) fn check(&self) -> Result<()> {
        match [self.scores, self.logits].into_iter().flatten().find(|cap| !(cap.is_finite() && *cap > 0.0)) {
            None => Ok(()),
            Some(cap) => Err(Error::invalid("gpt", format!("a soft cap of {cap}"), "give a number above 0")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_layers_hold_what_they_were_given() {
        let set = LayerSet::of(200, |layer| layer % 6 == 5).unwrap();
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            (0..200).filter(|layer| layer % 6 == 5).collect::<Vec<_>>()
        );
        assert!(!set.has(4) && set.has(197) && !set.has(1_000_000));
        assert_eq!(
            LayerSet::of(257, |_| true).unwrap_err().to_string(),
            "gpt: 257 layers of two kinds; choose at most 256 layers, or give all the same window and turning"
        );
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        let text = |result: Result<()>| result.unwrap_err().to_string();
        assert_eq!(
            text(Multipliers { residual: 0.0, ..Multipliers::ONE }.check()),
            "gpt: residuals are multiplied by 0; give a number other than 0"
        );
        assert_eq!(
            text(SoftCaps { logits: Some(-1.0), ..SoftCaps::NONE }.check()),
            "gpt: a soft cap of -1; give a number above 0"
        );
    }
}
