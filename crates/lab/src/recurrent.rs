//! A recurrent layer for comparison, recorded step by step with the ops of the library: h_t = tanh(W x_t + U h_{t−1} + b)
//! (Elman, "Finding Structure in Time", 1990). B T C -> B T C

use regard::layers::{Linear, LinearConfig, Parameters};
use regard::prelude::*;
use regard_graph::Result;

/// The layer. Parameters: `input`, `state`.
#[derive(Clone, Debug)]
pub struct Recurrent {
    input: Linear,
    state: Linear,
    width: usize,
}

impl Recurrent {
    /// Declares the parameters; the state's matrix begins at the edge where signals neither grow nor fade.
    pub fn new(width: usize, parameters: &mut Parameters) -> Result<Self> {
        let std = 1.0 / (width as f32).sqrt();
        let own = LinearConfig { inputs: width, outputs: width, bias: true, std };
        let input = parameters.under("input", |p| Linear::new(own, p))?;
        let state = parameters.under("state", |p| Linear::new(own.without_bias(), p))?;
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
