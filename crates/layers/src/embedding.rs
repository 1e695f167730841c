//! Token embeddings, and the head that shares their table: ids ... -> ... C, and ... C -> ... V.

use crate::{Parameter, Parameters};
use regard_graph::{DType, Error, Graph, Init, Result, Var};
use regard_ops::LinearOptions;
use regard_ops::prelude::*;

/// The sizes of an embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbeddingConfig {
    /// V, how many tokens there are.
    pub tokens: usize,
    /// C, how wide each one's vector is.
    pub width: usize,
    /// Standard deviation of the vectors at the beginning.
    pub std: f32,
}

impl EmbeddingConfig {
    /// The usual one: vectors begin with a standard deviation of 0.02.
    pub fn new(tokens: usize, width: usize) -> Self {
        EmbeddingConfig { tokens, width, std: 0.02 }
    }
}

/// A table of vectors. Parameter: `weight` `[V C]`.
#[derive(Clone, Debug)]
pub struct EmbeddingLayer {
    weight: Parameter,
}

impl EmbeddingLayer {
    /// Declares the table.
    pub fn new(config: EmbeddingConfig, parameters: &mut Parameters) -> Result<Self> {
        let EmbeddingConfig { tokens, width, std } = config;
        if tokens == 0 || width == 0 {
            return Err(Error::invalid(
                "embedding",
                format!("{tokens} tokens of width {width}"),
                "give both a size of at least 1",
            ));
        }
        Ok(EmbeddingLayer { weight: parameters.declare("weight", [tokens, width], Init::Normal(std))? })
    }

    /// The vector of each id, f32: the beginning of the residual stream.
    pub fn forward(&self, g: &mut Graph, ids: Var) -> Result<Var> {
        let weight = self.weight.var(g)?;
        g.embedding(weight, ids, Some(DType::F32))
    }

    /// The tied head: x · tableᵀ, in f32.
    pub fn head(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let weight = self.weight.var(g)?;
        g.linear(x, weight, LinearOptions { output: Some(DType::F32), ..Default::default() })
    }

    /// The table `[V C]`, for losses that are fused with the head.
    pub fn weight(&self, g: &mut Graph) -> Result<Var> {
        self.weight.var(g)
    }
}
