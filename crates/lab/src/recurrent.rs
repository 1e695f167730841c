//! Recurrent layers for comparison, recorded step by step with the ops of the library. B T C -> B T C

use regard::layers::{LinearConfig, LinearLayer, Parameters};
use regard::prelude::*;
use regard_graph::Result;

/// h_t = tanh(W x_t + U h_{t−1} + b) (Elman, "Finding Structure in Time", 1990). Parameters: `input`,
/// `state`.
#[derive(Clone, Debug)]
pub struct Recurrent {
    input: LinearLayer,
    state: LinearLayer,
    width: usize,
}

impl Recurrent {
    /// Declares the parameters; the state's matrix begins at the edge where signals neither grow nor fade.
    pub fn new(width: usize, parameters: &mut Parameters) -> Result<Self> {
        let std = 1.0 / (width as f32).sqrt();
        let own = LinearConfig { inputs: width, outputs: width, bias: true, std };
        let input = parameters.under("input", |p| LinearLayer::new(own, p))?;
        let state = parameters.under("state", |p| LinearLayer::new(own.without_bias(), p))?;
        Ok(Recurrent { input, state, width })
    }

    /// The states of all positions, from a state of zeros. B and T are fixed.
    pub fn forward(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let given = self.input.forward(g, x)?;
        let dims = g.shape(x).bound();
        let mut state = g.fill(DType::F32, [dims[0], 1, self.width], 0.0)?;
        let mut states = Vec::new();
        for t in 0..dims[1] {
            let now = g.slice(given, 1, t, 1)?;
            let before = self.state.forward(g, state)?;
            let sum = g.add(now, before)?;
            state = g.tanh(sum)?;
            states.push(state);
        }
        g.concat(&states, 1)
    }
}

/// A layer with gates (Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997, with the forget gate of
/// Gers et al. 2000): i, f, o = σ(…), c_t = f c_{t−1} + i tanh(…), h_t = o tanh c_t. B T C -> B T C
#[derive(Clone, Debug)]
pub struct Lstm {
    input: LinearLayer,
    state: LinearLayer,
    width: usize,
}

impl Lstm {
    /// Declares the parameters: all four gates in one product each, `input` and `state`.
    pub fn new(width: usize, parameters: &mut Parameters) -> Result<Self> {
        let std = 1.0 / (width as f32).sqrt();
        let own = LinearConfig { inputs: width, outputs: 4 * width, bias: true, std };
        let input = parameters.under("input", |p| LinearLayer::new(own, p))?;
        let state = parameters.under("state", |p| LinearLayer::new(own.without_bias(), p))?;
        Ok(Lstm { input, state, width })
    }

    /// The outputs of all positions and the last state (h and c, each B 1 C), from a state or from zeros. B
    /// and T are fixed.
    pub fn forward(&self, g: &mut Graph, x: Var, from: Option<[Var; 2]>) -> Result<(Var, [Var; 2])> {
        let given = self.input.forward(g, x)?; // B T C -> B T 4C
        let dims = g.shape(x).bound();
        let one = g.fill(DType::F32, shape![], 1.0)?;
        let [mut h, mut c] = match from {
            Some(state) => state,
            None => {
                let zeros = g.fill(DType::F32, [dims[0], 1, self.width], 0.0)?;
                [zeros, zeros]
            }
        };
        let mut outputs = Vec::new();
        for t in 0..dims[1] {
            let now = g.slice(given, 1, t, 1)?;
            let before = self.state.forward(g, h)?;
            let sum = g.add(now, before)?;
            let gates = g.split(
                sum,
                2,
                &[self.width.into(), self.width.into(), self.width.into(), self.width.into()],
            )?;
            let [i, f, o, new] = [gates[0], gates[1], gates[2], gates[3]];
            let i = g.sigmoid(i)?;
            // One more, so that at the beginning little is forgotten.
            let f = g.add(f, one)?;
            let f = g.sigmoid(f)?;
            let o = g.sigmoid(o)?;
            let new = g.tanh(new)?;
            let kept = g.mul(f, c)?;
            let added = g.mul(i, new)?;
            c = g.add(kept, added)?;
            let bounded = g.tanh(c)?;
            h = g.mul(o, bounded)?;
            outputs.push(h);
        }
        Ok((g.concat(&outputs, 1)?, [h, c]))
    }
}
