//! Norms over features: LayerNorm, RMSNorm, and BatchNorm for comparison. ... C -> ... C

use crate::{Parameter, Parameters, State};
use regard_graph::{DType, Error, Graph, Init, Result, Var};
use regard_ops::prelude::*;
use regard_ops::{BatchNormSpec, NormSpec};

/// Which norm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormKind {
    /// (x − mean) / deviation, over the features of each position.
    #[default]
    Layer,
    /// x / root mean square, over the features of each position.
    Rms,
    /// The same with weights that are learned as what they are above 1, as in Gemma.
    RmsAboveOne,
    /// Per feature over the whole batch: mixes examples in training. In a graph that is not differentiated,
    /// by the running statistics.
    Batch,
}

impl NormKind {
    /// Whether it divides by the root mean square, and has no shift.
    pub fn is_rms(self) -> bool {
        matches!(self, NormKind::Rms | NormKind::RmsAboveOne)
    }
}

/// The settings of a norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormConfig {
    /// Which norm.
    pub kind: NormKind,
    /// C.
    pub width: usize,
    /// Added to the variance.
    pub epsilon: f32,
    /// Whether a shift is learned beside the scale (LayerNorm and BatchNorm).
    pub shift: bool,
}

impl NormConfig {
    /// LayerNorm with scale and shift, ε = 1e-5.
    pub fn layer(width: usize) -> Self {
        NormConfig { kind: NormKind::Layer, width, epsilon: 1e-5, shift: true }
    }

    /// RMSNorm with a scale, ε = 1e-6.
    pub fn rms(width: usize) -> Self {
        NormConfig { kind: NormKind::Rms, width, epsilon: 1e-6, shift: false }
    }
}

/// A norm. Parameters: `weight` `[C]`, `bias` `[C]`; BatchNorm also keeps `running_mean` and
/// `running_variance`.
#[derive(Clone, Debug)]
pub struct NormLayer {
    config: NormConfig,
    weight: Parameter,
    bias: Option<Parameter>,
    /// The running mean and variance of BatchNorm.
    running: Option<[State; 2]>,
}

impl NormLayer {
    /// Declares the parameters.
    pub fn new(config: NormConfig, parameters: &mut Parameters) -> Result<Self> {
        let NormConfig { kind, width, epsilon, shift } = config;
        if width == 0 || !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(Error::invalid(
                "norm",
                format!("width {width}, epsilon {epsilon}"),
                "give a width of at least 1 and an epsilon that is not negative",
            ));
        }
        let about = if kind == NormKind::RmsAboveOne { Init::Zeros } else { Init::Ones };
        let weight = parameters.declare("weight", [width], about)?;
        let shift = shift && !kind.is_rms();
        let bias = if shift { Some(parameters.declare("bias", [width], Init::Zeros)?) } else { None };
        let running = match kind {
            NormKind::Batch => Some([
                parameters.keep("running_mean", [width], Init::Zeros)?,
                parameters.keep("running_variance", [width], Init::Ones)?,
            ]),
            NormKind::Layer | NormKind::Rms | NormKind::RmsAboveOne => None,
        };
        Ok(NormLayer { config, weight, bias, running })
    }

    /// Normalises; the result feeds products, so it has the dtype of the graph's precision.
    pub fn forward(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let output = g.precision().activation();
        self.forward_as(g, x, output)
    }

    /// Normalises to f32: where the result is the residual stream itself, as in post-norm blocks.
    pub fn forward_f32(&self, g: &mut Graph, x: Var) -> Result<Var> {
        self.forward_as(g, x, DType::F32)
    }

    fn forward_as(&self, g: &mut Graph, x: Var, output: DType) -> Result<Var> {
        let NormConfig { kind, epsilon, .. } = self.config;
        let weight = self.weight.var(g)?;
        let weight = Some(match kind {
            NormKind::RmsAboveOne => g.shift(weight, 1.0)?,
            _ => weight,
        });
        let bias = self.bias.as_ref().map(|bias| bias.var(g)).transpose()?;
        let spec = NormSpec { epsilon, output: Some(output) };
        let Some([mean, variance]) = &self.running else {
            return match kind {
                kind if kind.is_rms() => g.rms_norm(x, weight, spec),
                _ => g.layer_norm(x, weight, bias, spec),
            };
        };
        let running = [mean.var(g)?, variance.var(g)?];
        let spec = BatchNormSpec { epsilon, output: Some(output), ..Default::default() };
        match g.trains() {
            true => Ok(g.batch_norm(x, running, weight, bias, spec)?.normed),
            false => g.batch_norm_eval(x, running, weight, bias, spec),
        }
    }
}
