//! From the hidden states of a text to one vector, as sentence-transformers have it: the states are pooled,
//! in one way or in several side by side, and what comes of it may go through dense layers and be brought to
//! length 1. Letters: B batch, T positions, C width, N outputs of a layer.

use regard_graph::{DType, Dim, Error, Graph, Result, Var};
use regard_layers::{LinearConfig, LinearLayer, Parameters};
use regard_ops::Activation;
use regard_ops::prelude::*;

/// One way in which the states of a text become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// That of the first token.
    First,
    /// The largest number of each channel.
    Max,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum over the root of their number.
    RootMean,
    /// Their mean, the n-th counted n times.
    WeightedMean,
    /// That of the last token.
    Last,
}

/// What may follow.
#[derive(Clone, Debug, PartialEq)]
pub enum SentenceStep {
    /// A linear layer and an activation.
    Dense(Dense),
    /// The vector at length 1.
    Normalize,
}

/// A layer behind the pooling.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    /// Under what its parameters stand in a store: `sentence.2_Dense`.
    pub name: String,
    /// How wide its inputs are.
    pub inputs: usize,
    /// N.
    pub outputs: usize,
    /// Whether it has a bias.
    pub bias: bool,
    /// What follows it.
    pub activation: DenseActivation,
}

/// What follows a dense layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DenseActivation {
    /// Nothing.
    Identity,
    /// tanh
    #[default]
    Tanh,
    /// max(x, 0)
    Relu,
    /// GELU by the error function.
    Gelu,
    /// x sigmoid(x)
    Silu,
    /// 1 / (1 + e⁻ˣ)
    Sigmoid,
}

/// How a text becomes a vector.
#[derive(Clone, Debug, PartialEq)]
pub struct SentenceHead {
    /// What is made of the states, side by side.
    pub poolings: Vec<Pooling>,
    /// Tokens at the beginning of each text that are read and not pooled: those of a prompt.
    pub skipped: usize,
    /// What follows, in order.
    pub steps: Vec<SentenceStep>,
}

impl Default for SentenceHead {
    /// The mean at length 1.
    fn default() -> Self {
        SentenceHead { poolings: vec![Pooling::Mean], skipped: 0, steps: vec![SentenceStep::Normalize] }
    }
}

/// What is pooled.
#[derive(Clone, Copy, Debug)]
pub struct States {
    /// The hidden states, f32 `[B T C]`.
    pub hidden: Var,
    /// True for what is pooled, bool `[B T]`; all if not given.
    pub pooled: Option<Var>,
    /// True for the last token of each text alone, bool `[B T]`; needed for [`Pooling::Last`].
    pub last: Option<Var>,
}

impl SentenceHead {
    /// Declares the parameters of its layers.
    pub fn parameters(&self) -> Result<Parameters> {
        let mut parameters = Parameters::new();
        for dense in self.dense() {
            dense.layer(&mut parameters)?;
        }
        Ok(parameters)
    }

    /// Its layers.
    pub fn dense(&self) -> impl Iterator<Item = &Dense> {
        self.steps.iter().filter_map(|step| match step {
            SentenceStep::Dense(dense) => Some(dense),
            SentenceStep::Normalize => None,
        })
    }

    /// How wide the vectors are, of states that are C wide.
    pub fn width(&self, states: usize) -> usize {
        let pooled = states.saturating_mul(self.poolings.len());
        self.dense().last().map_or(pooled, |dense| dense.outputs)
    }

    /// Records the vector of each text: B T C -> B N.
    pub fn forward(&self, g: &mut Graph, states: &States) -> Result<Var> {
        let mut parts = Vec::with_capacity(self.poolings.len());
        for pooling in &self.poolings {
            parts.push(self.pooled(g, states, *pooling)?);
        }
        let mut x = match parts.as_slice() {
            [] => {
                return Err(Error::invalid("sentence", "states are pooled in no way", "give at least one"));
            }
            [one] => *one,
            several => g.concat(several, 1)?,
        };
        let mut parameters = Parameters::new();
        for step in &self.steps {
            x = match step {
                SentenceStep::Dense(dense) => dense.forward(g, x, &mut parameters)?,
                SentenceStep::Normalize => g.scope("sentence", |g| normalized(g, x))?,
            };
        }
        Ok(x)
    }

    fn pooled(&self, g: &mut Graph, states: &States, pooling: Pooling) -> Result<Var> {
        let States { hidden, pooled, last } = *states;
        let [b, t, c] = g.dims(hidden, "B T C")?;
        match pooling {
            Pooling::First => {
                let first = g.slice(hidden, 1, self.skipped, 1)?;
                g.reshape(first, shape![b, c])
            }
            Pooling::Mean => mean(g, hidden, pooled),
            Pooling::RootMean => {
                let (sum, count) = counted(g, hidden, pooled)?;
                let root = g.sqrt(count)?;
                g.div(sum, root)
            }
            Pooling::Max => {
                let least = g.fill(DType::F32, shape![c], f32::MIN)?;
                let kept = chosen(g, hidden, pooled, least)?;
                g.max(kept, &[1])
            }
            Pooling::WeightedMean => {
                let most = t.bound();
                let weights: Vec<f64> = (1..=most).map(|n| n as f64).collect();
                let weights = g.constant(DType::F32, [most], &weights)?;
                let weights = g.slice(weights, 0, 0, t.clone())?;
                let weights = g.reshape(weights, shape![&t, Dim::from(1)])?;
                let nothing = g.fill(DType::F32, shape![c], 0.0)?;
                let kept = chosen(g, hidden, pooled, nothing)?;
                let weighted = g.mul(kept, weights)?;
                let sum = g.sum(weighted, &[1])?; // B C
                let ones = ones(g, pooled, [&b, &t])?; // B T 1
                let count = g.mul(ones, weights)?;
                let count = g.sum(count, &[1])?; // B 1
                g.div(sum, count)
            }
            Pooling::Last => {
                let last = last.ok_or_else(|| {
                    let advice = "give a mask of each text's last token";
                    Error::invalid(
                        "sentence",
                        "the last token is pooled, and nobody says where it is",
                        advice,
                    )
                })?;
                let nothing = g.fill(DType::F32, shape![c], 0.0)?;
                let kept = chosen(g, hidden, Some(last), nothing)?;
                g.sum(kept, &[1])
            }
        }
    }
}

impl Dense {
    fn layer(&self, parameters: &mut Parameters) -> Result<LinearLayer> {
        let Dense { inputs, outputs, bias, .. } = *self;
        let sizes = LinearConfig { inputs, outputs, bias, std: 0.02 };
        parameters.under(&self.name, |p| LinearLayer::new(sizes, p))
    }

    fn forward(&self, g: &mut Graph, x: Var, parameters: &mut Parameters) -> Result<Var> {
        let layer = self.layer(parameters)?;
        g.scope(&self.name, |g| match self.activation {
            DenseActivation::Identity => layer.forward(g, x),
            DenseActivation::Relu => layer.activated(g, x, Activation::Relu),
            DenseActivation::Gelu => layer.activated(g, x, Activation::Gelu),
            DenseActivation::Silu => layer.activated(g, x, Activation::Silu),
            DenseActivation::Tanh => {
                let y = layer.forward(g, x)?;
                g.tanh(y)
            }
            DenseActivation::Sigmoid => {
                let y = layer.forward(g, x)?;
                g.sigmoid(y)
            }
        })
    }
}

/// The mean of the states that count: B T C -> B C; 0 where none does.
pub(crate) fn mean(g: &mut Graph, hidden: Var, pooled: Option<Var>) -> Result<Var> {
    g.scope("mean", |g| {
        if pooled.is_none() {
            return g.mean(hidden, &[1]);
        }
        let (sum, count) = counted(g, hidden, pooled)?;
        let count = g.shift(count, 1e-9)?; // changes no count but 0
        g.div(sum, count)
    })
}

/// The sum of the states that count, B C, and how many there are, B 1.
fn counted(g: &mut Graph, hidden: Var, pooled: Option<Var>) -> Result<(Var, Var)> {
    let [b, t, c] = g.dims(hidden, "B T C")?;
    let nothing = g.fill(DType::F32, shape![c], 0.0)?;
    let kept = chosen(g, hidden, pooled, nothing)?;
    let sum = g.sum(kept, &[1])?;
    let ones = ones(g, pooled, [&b, &t])?;
    Ok((sum, g.sum(ones, &[1])?))
}

/// The states that count, and something else in place of the others. Chosen, not multiplied: whatever stands
/// at padding stays out.
fn chosen(g: &mut Graph, hidden: Var, pooled: Option<Var>, otherwise: Var) -> Result<Var> {
    let [b, t, _] = g.dims(hidden, "B T C")?;
    let Some(mask) = pooled else { return Ok(hidden) };
    let mask = g.reshape(mask, shape![&b, &t, Dim::from(1)])?;
    g.select(mask, hidden, otherwise)
}

/// 1 for what counts, B T 1.
fn ones(g: &mut Graph, pooled: Option<Var>, [b, t]: [&Dim; 2]) -> Result<Var> {
    match pooled {
        Some(mask) => {
            let mask = g.reshape(mask, shape![b, t, Dim::from(1)])?;
            g.cast(mask, DType::F32)
        }
        None => g.fill(DType::F32, shape![b, t, Dim::from(1)], 1.0),
    }
}

/// x at length 1, and 0 for 0: B C -> B C.
pub(crate) fn normalized(g: &mut Graph, x: Var) -> Result<Var> {
    let [_, c] = g.dims(x, "B C")?;
    // x / √(mean x² + ε), then over √C.
    let spec = NormSpec { epsilon: 1e-24, output: Some(DType::F32) };
    let unit = g.rms_norm(x, None, spec)?;
    g.scale(unit, 1.0 / (c.bound() as f32).sqrt())
}
