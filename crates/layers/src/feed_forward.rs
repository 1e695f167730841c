//! The feed-forward part: the same two layers at every position, with a non-linearity between them.
//! ... C -> ... F -> ... C

use crate::taps::tap;
use crate::{LinearConfig, LinearLayer, Parameters};
use regard_graph::{Graph, Result, Var};
use regard_ops::prelude::*;
use regard_ops::{Activation, Gate};

/// What happens between the two layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeedForwardKind {
    /// max(x, 0)
    Relu,
    /// GELU by the error function.
    #[default]
    Gelu,
    /// GELU in its tanh form.
    GeluTanh,
    /// x·σ(x), as in Marian.
    Silu,
    /// silu(gate) ⊙ up, as in Llama.
    GatedSilu,
    /// gelu(gate) ⊙ up, in the tanh form, as in T5 v1.1.
    GatedGelu,
}

impl FeedForwardKind {
    /// Whether a second layer gates the first.
    pub fn is_gated(self) -> bool {
        matches!(self, FeedForwardKind::GatedSilu | FeedForwardKind::GatedGelu)
    }
}

/// The settings of a feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedForwardConfig {
    /// C.
    pub width: usize,
    /// F, 4 C as a rule.
    pub hidden: usize,
    /// What happens in between.
    pub kind: FeedForwardKind,
    /// Whether the layers have biases.
    pub bias: bool,
    /// Probability of dropping hidden activations, in training.
    pub dropout: f32,
    /// Standard deviation of the weights at the beginning.
    pub std: f32,
}

impl FeedForwardConfig {
    /// The usual one: four times the width inside, GELU, biases, no dropout.
    pub fn new(width: usize) -> Self {
        let (hidden, kind) = (width.saturating_mul(4), FeedForwardKind::Gelu);
        FeedForwardConfig { width, hidden, kind, bias: true, dropout: 0.0, std: 0.02 }
    }
}

/// A feed-forward part. Parameters: `up`, `down`, and `gate` where it is gated.
#[derive(Clone, Debug)]
pub struct FeedForward {
    kind: FeedForwardKind,
    up: LinearLayer,
    gate: Option<LinearLayer>,
    down: LinearLayer,
    dropout: f32,
    wide: bool,
}

impl FeedForward {
    /// Declares the parameters.
    pub fn new(config: FeedForwardConfig, parameters: &mut Parameters) -> Result<Self> {
        let FeedForwardConfig { width, hidden, kind, bias, dropout, std } = config;
        let into = LinearConfig { inputs: width, outputs: hidden, bias, std };
        let gated = kind.is_gated();
        let up = parameters.under("up", |p| LinearLayer::new(into, p))?;
        let gate = if gated { Some(parameters.under("gate", |p| LinearLayer::new(into, p))?) } else { None };
        let out = LinearConfig { inputs: hidden, outputs: width, bias, std };
        let down = parameters.under("down", |p| LinearLayer::new(out, p))?;
        Ok(FeedForward { kind, up, gate, down, dropout, wide: false })
    }

    /// Whether its results are f32, as the residual stream is, instead of the dtype of activations: for one
    /// that is added to the stream as it is.
    pub fn wide(self, wide: bool) -> Self {
        FeedForward { wide, ..self }
    }

    /// The hidden activations: ... C -> ... F
    fn hidden(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let plain = match self.kind {
            FeedForwardKind::Relu => Some(Activation::Relu),
            FeedForwardKind::Gelu => Some(Activation::Gelu),
            FeedForwardKind::GeluTanh => Some(Activation::GeluTanh),
            FeedForwardKind::Silu => Some(Activation::Silu),
            FeedForwardKind::GatedSilu | FeedForwardKind::GatedGelu => None,
        };
        let hidden = match (plain, &self.gate) {
            (Some(activation), _) => self.up.activated(g, x, activation)?,
            (None, Some(gate)) => {
                let gate = gate.forward(g, x)?;
                let up = self.up.forward(g, x)?;
                let kind = if self.kind == FeedForwardKind::GatedSilu { Gate::Silu } else { Gate::GeluTanh };
                g.gated(kind, gate, up)?
            }
            (None, None) => self.up.forward(g, x)?,
        };
        let hidden = g.dropout(hidden, self.dropout)?;
        tap(g, "hidden", hidden)
    }

    /// down(hidden(x)). Taps: `hidden`.
    pub fn forward(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let hidden = self.hidden(g, x)?;
        if self.wide { self.down.forward_f32(g, hidden) } else { self.down.forward(g, hidden) }
    }
}
