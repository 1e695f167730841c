//! A whole training step of a small GPT, as the outer tests use it: recorded, differentiated, clipped,
//! updated, planned, with open batch and length.

use regard::Result;
use regard::ops::{AdamW, RANDOM_INPUT, RANDOM_LENGTH, random_numbers};
use regard::prelude::*;
use regard_models::{Gpt, GptConfig};

/// A planned training step. Its output is `loss`.
pub struct Training {
    /// The program.
    pub program: Program,
    config: GptConfig,
}

/// A size at which a step is a matter of milliseconds.
pub const SMALL: GptConfig =
    GptConfig { layers: 2, heads: 2, width: 32, context: 24, vocabulary: 50, ..GptConfig::SMALL };

impl Training {
    /// Records and plans a step.
    pub fn new(
        config: GptConfig,
        batch: usize,
        precision: Precision,
        store: &mut Store,
        cpu: &Cpu,
    ) -> Result<Training> {
        let (graph, _) = record(config, batch, precision)?;
        Training::planned(graph, config, store, cpu)
    }

    /// Plans a step that [`record`] recorded, perhaps with more outputs.
    pub fn planned(graph: Graph, config: GptConfig, store: &mut Store, cpu: &Cpu) -> Result<Training> {
        Ok(Training { program: Program::new(graph, &[], store, cpu)?, config })
    }

    /// The ids of a batch, each followed by what comes after it.
    pub fn ids(&self, count: usize) -> Vec<i32> {
        (0..count as i32).map(|i| (i * i + 7 * i) % self.config.vocabulary as i32).collect()
    }

    /// Feeds everything that a step needs.
    pub fn feed(&mut self, batch: usize, length: usize, ids: &[i32], step: usize) -> Result<()> {
        let count = batch * length;
        self.program.set_i32("ids", &[batch, length], &ids[..count])?;
        self.program.set_i32("targets", &[batch, length], &ids[1..=count])?;
        self.program.set_f32("scale", &[], &[1.0 / count as f32])?;
        self.program.set_f32("rate", &[], &[1e-3])?;
        self.program.set_i32("step", &[], &[step as i32])?;
        if self.config.dropout > 0.0 {
            self.program.set_i32(RANDOM_INPUT, &[RANDOM_LENGTH], &random_numbers(1, step as u64, 0))?;
        }
        Ok(())
    }
}

/// A step, with the name and the gradient of each parameter.
pub fn record(config: GptConfig, batch: usize, precision: Precision) -> Result<(Graph, Vec<(String, Var)>)> {
    let mut g = Graph::new();
    g.set_precision(precision);
    let loss = record_loss(&mut g, config, batch)?;
    let rate = g.input("rate", DType::F32, shape![])?;
    let step = g.input("step", DType::I32, shape![])?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let (_, clip) = g.clip_norm(&gradients, 1.0)?;
    let names: Vec<String> = g.stored().iter().map(|stored| stored.name.clone()).collect();
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients.clone()).collect();
    g.adamw_step(&pairs, &AdamW::default(), rate, step, Some(clip))?;
    Ok((g, names.into_iter().zip(gradients).collect()))
}

/// The loss of a batch of at most this size, an output of that name.
pub fn record_loss(g: &mut Graph, config: GptConfig, batch: usize) -> Result<Var> {
    let (b, t) = (g.open('B', batch)?, g.open('T', config.context)?);
    let ids = g.input("ids", DType::I32, shape![b, t])?;
    let targets = g.input("targets", DType::I32, shape![b, t])?;
    let scale = g.input("scale", DType::F32, shape![])?;
    let loss = Gpt::new(config)?.loss(g, ids, targets, scale)?;
    Ok(g.output("loss", loss)?)
}
