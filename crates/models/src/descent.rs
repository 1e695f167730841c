//! What BART, mBART and Marian changed in the Transformer of 2017: a table of settings, and what stands
//! between ids and the first block of a stack. Everything else is the Transformer's own.

use crate::positions::Positions;
use regard_graph::{DType, Error, Graph, Init, Result, Var};
use regard_layers::{
    AbsoluteConfig, AbsolutePositions, EmbeddingLayer, FeedForwardKind, NormConfig, NormLayer, NormPlace,
    Parameter, Parameters,
};
use regard_ops::prelude::*;
use std::sync::Arc;

/// Rows in front of the learned positions of BART and mBART, which belong to no position.
const SPARE_ROWS: usize = 2;

/// What sets a model apart from the paper's Transformer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descent {
    /// Which of them it is: that decides norms and positions, and how its files look.
    pub kin: Kin,
    /// Heads of the decoder's attentions; those of the settings are the encoder's.
    pub decoder_heads: usize,
    /// The hidden width of the decoder's feed-forward parts; that of the settings is the encoder's.
    pub decoder_hidden: usize,
    /// What happens inside of the feed-forward parts.
    pub activation: FeedForwardKind,
    /// Whether embeddings are multiplied by √C.
    pub scaled: bool,
    /// Whether its files hold a number that is added to the score of each token, and that nothing learns.
    pub logits_bias: bool,
    /// Standard deviation of the weights at the beginning.
    pub std: f32,
}

/// The descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    /// Lewis et al. 2020: learned positions, a norm behind the embeddings, norms behind each part.
    Bart,
    /// Liu et al. 2020: BART with norms before each part, and one after each stack.
    MBart,
    /// Junczys-Dowmunt et al. 2018: the paper's, with sines in one half of the channels and cosines in the
    /// other.
    Marian,
}

impl Kin {
    /// Whether a norm follows the embeddings.
    pub fn norms_embeddings(self) -> bool {
        self != Kin::Marian
    }

    /// Where the norms of a block stand.
    pub fn place(self) -> NormPlace {
        if self == Kin::MBart { NormPlace::Pre } else { NormPlace::Post }
    }

    /// How order is told.
    pub fn positions(self) -> Positions {
        if self == Kin::Marian { Positions::Sinusoidal } else { Positions::Learned }
    }
}

impl Descent {
    /// Refuses what makes no sense beside a width.
    pub(crate) fn check(&self, width: usize) -> Result<()> {
        if [self.decoder_heads, self.decoder_hidden].contains(&0) {
            let what = format!("one of the sizes is 0: {self:?}");
            return Err(Error::invalid("transformer", what, "give every size at least 1"));
        }
        if !width.is_multiple_of(self.decoder_heads) {
            return Err(Error::invalid(
                "transformer",
                format!("a width of {width} cannot be shared by {} heads of the decoder", self.decoder_heads),
                "choose a width that is a multiple of the heads",
            ));
        }
        if !(self.std.is_finite() && self.std >= 0.0) {
            return Err(Error::invalid(
                "transformer",
                format!("the standard deviation of the weights is {}", self.std),
                "give a number that is not negative",
            ));
        }
        Ok(())
    }

    /// What one of its stacks adds to embeddings: a table of its own, if it is learned.
    pub(crate) fn places(&self, width: usize, most: usize, parameters: &mut Parameters) -> Result<Places> {
        if self.kin == Kin::Marian {
            let config = AbsoluteConfig::Sinusoidal { width, most };
            return Ok(Places::From(in_halves(AbsolutePositions::new(config, parameters)?)));
        }
        let rows = most.saturating_add(SPARE_ROWS);
        let name = "position_embedding.weight";
        let table = parameters.declare(name, [rows, width], Init::Normal(self.std))?;
        Ok(Places::Behind { table, spare: SPARE_ROWS, most })
    }
}

/// The same sinusoids with all sines in front of all cosines.
fn in_halves(positions: AbsolutePositions) -> AbsolutePositions {
    let AbsolutePositions::Fixed { shape: [most, width], table } = positions else { return positions };
    let halves = table.chunks(width.max(1)).flat_map(|row| {
        let every_other = |first: usize| row.iter().skip(first).step_by(2).copied();
        every_other(0).chain(every_other(1))
    });
    AbsolutePositions::Fixed { shape: [most, width], table: halves.collect() }
}

/// Where positions are looked up.
#[derive(Clone, Debug)]
pub(crate) enum Places {
    /// In a table whose first row is that of the first position.
    From(AbsolutePositions),
    /// In a learned table behind rows that belong to no position.
    Behind {
        /// The table, `[spare + most C]`.
        table: Parameter,
        /// Rows in front of the first position's.
        spare: usize,
        /// The most positions.
        most: usize,
    },
}

impl Places {
    /// B T C -> B T C; positions count from 0 unless given as i32 `[B T]`.
    fn add(&self, g: &mut Graph, x: Var, position: Option<Var>) -> Result<Var> {
        let (table, spare, most) = match self {
            Places::From(positions) => return positions.forward(g, x, position),
            Places::Behind { table, spare, most } => (table.var(g)?, *spare, *most),
        };
        match position {
            Some(position) => {
                let spare = g.constant(DType::I32, [1, 1], &[spare as f64])?;
                let row = g.add_integers(position, spare)?;
                g.add_position(x, table, Some(row))
            }
            None => {
                let own = g.slice(table, 0, spare, most)?;
                g.add_position(x, own, None)
            }
        }
    }
}

/// What stands between ids and the first block of a stack.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The vectors of tokens.
    pub tokens: EmbeddingLayer,
    /// What vectors are multiplied by.
    pub scale: Option<f32>,
    /// What tells order.
    pub places: Arc<Places>,
    /// The norm behind both.
    pub norm: Option<NormLayer>,
    /// Probability with which numbers are dropped in training.
    pub dropout: f32,
}

impl Entry {
    /// The norm behind embeddings, where there is one.
    pub fn norm_of(kin: Kin, width: usize, parameters: &mut Parameters) -> Result<Option<NormLayer>> {
        if !kin.norms_embeddings() {
            return Ok(None);
        }
        parameters.under("embedding_norm", |p| NormLayer::new(NormConfig::layer(width), p)).map(Some)
    }

    /// dropout(norm(scale · table[id] + place[position])): B T -> B T C
    pub fn forward(&self, g: &mut Graph, ids: Var, position: Option<Var>) -> Result<Var> {
        let x = g.scope("embedding", |g| {
            let x = self.tokens.forward(g, ids)?;
            let x = match self.scale {
                Some(scale) => g.scale(x, scale)?,
                None => x,
            };
            let x = self.places.add(g, x, position)?;
            match &self.norm {
                Some(norm) => norm.forward_f32(g, x),
                None => Ok(x),
            }
        })?;
        g.dropout(x, self.dropout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sines_come_before_cosines() {
        let config = AbsoluteConfig::Sinusoidal { width: 6, most: 4 };
        let pairs = AbsolutePositions::new(config, &mut Parameters::new()).unwrap();
        let AbsolutePositions::Fixed { table, .. } = in_halves(pairs) else { panic!("a fixed table") };
        assert_eq!(table[..6], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        for (pair, wave) in
            [1.0, 10000f64.powf(-2.0 / 6.0), 10000f64.powf(-4.0 / 6.0)].into_iter().enumerate()
        {
            let apart = [table[6 + pair] - wave.sin(), table[9 + pair] - wave.cos()];
            assert!(apart.iter().all(|x| x.abs() < 1e-12), "{apart:?}");
        }
    }
}
