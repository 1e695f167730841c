//! Low-rank adapters (LoRA, arXiv:2106.09685): a linear layer that computes W x + s B A x, where W stays as
//! it was learned and only A `[r K]` and B `[N r]` learn. An adapter is hung onto a weight that a model has
//! declared, so that no model knows of it: the linear layer that owns the weight finds it there.

use crate::{Parameter, Parameters};
use regard_graph::{DType, Error, Graph, Init, Result, Var};
use regard_ops::prelude::*;
use regard_ops::{Activation, LinearOptions, MatmulOptions};

/// How adapters are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdapterConfig {
    /// r.
    pub rank: usize,
    /// s, by which their part of the sum is multiplied: alpha / r of most recipes.
    pub scale: f32,
    /// Probability with which elements of what they read are dropped, in training.
    pub dropout: f32,
}

/// What is added to one weight.
#[derive(Clone, Debug)]
pub struct Adapter {
    config: AdapterConfig,
    down: Parameter,
    up: Parameter,
}

/// What the name of a weight ends with, and what the names of its adapter end with instead.
const WEIGHT: &str = ".weight";
const DOWN: &str = ".adapter.down";
const UP: &str = ".adapter.up";

/// Whether a parameter belongs to an adapter.
pub fn is_adapter(name: &str) -> bool {
    name.ends_with(DOWN) || name.ends_with(UP)
}

/// The names of the two parts of an adapter of a weight: A, which goes down to the rank, and B.
pub fn adapter_names(weight: &str) -> [String; 2] {
    let layer = weight.strip_suffix(WEIGHT).unwrap_or(weight);
    [format!("{layer}{DOWN}"), format!("{layer}{UP}")]
}

impl Parameters {
    /// Hangs adapters onto these weights, and declares what they learn after all others. The models whose
    /// layers own the weights change with it: adapt one that nobody else uses.
    pub fn adapted(&self, weights: &[String], config: AdapterConfig) -> Result<Parameters> {
        let AdapterConfig { rank, scale, dropout } = config;
        if rank == 0 || !scale.is_finite() || !(0.0..1.0).contains(&dropout) {
            return Err(Error::invalid(
                "adapter",
                format!("a rank of {rank}, a scale of {scale} and a dropout of {dropout}"),
                "give a rank of at least 1, a finite scale and a dropout from 0 to below 1",
            ));
        }
        let mut all = self.clone();
        for weight in weights {
            let Some(owner) = self.shared(weight).filter(|own| own.linear) else {
                return Err(Error::invalid(
                    "adapter",
                    format!("`{weight}` is not the weight of a linear layer"),
                    "name weights of attention or feed-forward parts",
                ));
            };
            let [outputs, inputs] = [owner.shape.bound()[0], owner.shape.bound()[1]];
            let [down, up] = adapter_names(weight);
            // As PEFT begins: A as a linear layer of PyTorch, B zero, so that the sum is what it was.
            let spread = 1.0 / (inputs as f32).sqrt();
            let down = all.declare_whole(&down, [rank, inputs], Init::Uniform(spread))?;
            let up = all.declare_whole(&up, [outputs, rank], Init::Zeros)?;
            if owner.adapter.set(Adapter { config, down, up }).is_err() {
                return Err(Error::invalid("adapter", format!("`{weight}` has one already"), "name it once"));
            }
        }
        Ok(all)
    }
}

impl Adapter {
    /// activation(x Wᵀ + bias + s (x Aᵀ) Bᵀ) + residual
    pub(crate) fn forward(&self, g: &mut Graph, x: Var, weight: Var, options: LinearOptions) -> Result<Var> {
        let LinearOptions { activation, residual, output, .. } = options;
        let plain = LinearOptions { activation: Activation::None, residual: None, ..options };
        let own = g.linear(x, weight, plain)?;
        let seen =
            if g.trains() && self.config.dropout > 0.0 { g.dropout(x, self.config.dropout)? } else { x };
        let (down, up) = (self.down.var(g)?, self.up.var(g)?);
        let low = g.linear(seen, down, LinearOptions::default())?; // ... K -> ... r
        let high = g.linear(low, up, LinearOptions { output, ..Default::default() })?; // ... r -> ... N
        let high = g.scale(high, self.config.scale)?;
        let sum = g.add(own, high)?;
        let sum = match activation {
            Activation::None => sum,
            Activation::Relu => g.relu(sum)?,
            Activation::Gelu => g.gelu(sum)?,
            Activation::GeluTanh => g.gelu_tanh(sum)?,
            Activation::Silu => g.silu(sum)?,
        };
        match residual {
            None => Ok(sum),
            Some(residual) => g.add(residual, sum),
        }
    }

    /// W + s B A, for losses that are fused with the product. What they read cannot be dropped there.
    pub(crate) fn merged(&self, g: &mut Graph, weight: Var) -> Result<Var> {
        if g.trains() && self.config.dropout > 0.0 {
            return Err(Error::invalid(
                "adapter",
                format!("`{}` is adapted with a dropout of {}", self.down.name(), self.config.dropout),
                "a layer whose product is fused with the loss has none: leave it out of the targets, or give a \
                 dropout of 0",
            ));
        }
        let (down, up) = (self.down.var(g)?, self.up.var(g)?);
        let both = g.matmul(up, down, MatmulOptions { output: Some(DType::F32), ..Default::default() })?;
        let both = g.scale(both, self.config.scale)?;
        g.add(weight, both)
    }
}
