//! A linear layer: `y = x · Wᵀ + bias`, with an activation behind it where asked for.
//! ... K -> ... N

use crate::{Parameter, Parameters};
use regard_graph::{DType, Error, Graph, Init, Result, Var};
use regard_ops::prelude::*;
use regard_ops::{Activation, LinearOptions};

/// The sizes of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearConfig {
    /// K, the width of what comes in.
    pub inputs: usize,
    /// N, the width of what comes out.
    pub outputs: usize,
    /// Whether a bias is added.
    pub bias: bool,
    /// Standard deviation of the weights at the beginning.
    pub std: f32,
}

impl LinearConfig {
    /// With a bias, and weights of standard deviation 0.02.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        LinearConfig { inputs, outputs, bias: true, std: 0.02 }
    }

    /// The same without a bias.
    pub fn without_bias(self) -> Self {
        LinearConfig { bias: false, ..self }
    }
}

/// A linear layer. Parameters: `weight` `[N K]`, `bias` `[N]`.
#[derive(Clone, Debug)]
pub struct LinearLayer {
    weight: Parameter,
    bias: Option<Parameter>,
}

impl LinearLayer {
    /// Declares the parameters.
    pub fn new(config: LinearConfig, parameters: &mut Parameters) -> Result<Self> {
        let LinearConfig { inputs, outputs, bias, std } = config;
        if inputs == 0 || outputs == 0 {
            return Err(Error::invalid(
                "linear",
                format!("{inputs} inputs and {outputs} outputs"),
                "give both a size of at least 1",
            ));
        }
        let weight = parameters.declare_linear([outputs, inputs], Init::Normal(std))?;
        let bias = if bias { Some(parameters.declare("bias", [outputs], Init::Zeros)?) } else { None };
        Ok(LinearLayer { weight, bias })
    }

    /// x · Wᵀ + bias
    pub fn forward(&self, g: &mut Graph, x: Var) -> Result<Var> {
        self.forward_with(g, x, LinearOptions::default())
    }

    /// activation(x · Wᵀ + bias), in one product.
    pub fn activated(&self, g: &mut Graph, x: Var, activation: Activation) -> Result<Var> {
        self.forward_with(g, x, LinearOptions { activation, ..Default::default() })
    }

    /// x · Wᵀ + bias in f32, for what is added to the residual stream as it is.
    pub fn forward_f32(&self, g: &mut Graph, x: Var) -> Result<Var> {
        self.forward_with(g, x, LinearOptions { output: Some(DType::F32), ..Default::default() })
    }

    /// With all options of the product but the bias, which is the layer's own.
    pub fn forward_with(&self, g: &mut Graph, x: Var, options: LinearOptions) -> Result<Var> {
        let weight = self.weight.var(g)?;
        let bias = self.bias.as_ref().map(|bias| bias.var(g)).transpose()?;
        let options = LinearOptions { bias, ..options };
        match self.weight.adapter() {
            None => g.linear(x, weight, options),
            Some(adapter) => adapter.forward(g, x, weight, options),
        }
    }

    /// The weight `[N K]`, for losses that are fused with the product.
    pub fn weight(&self, g: &mut Graph) -> Result<Var> {
        let weight = self.weight.var(g)?;
        self.weight.adapter().map_or(Ok(weight), |adapter| adapter.merged(g, weight))
    }

    /// The bias `[N]`, if there is one.
    pub fn bias(&self, g: &mut Graph) -> Result<Option<Var>> {
        self.bias.as_ref().map(|bias| bias.var(g)).transpose()
    }
}
