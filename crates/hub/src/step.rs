//! A step of training of any family, recorded whole: loss, gradients, AdamW. For readers of the graph, and
//! for measuring what a step takes; runs that shall learn something go through a task and the loop.

use crate::{Error, Result};
use regard_engine::Program;
use regard_graph::{DType, Graph, Precision, Var};
use regard_models::{Model, Sizes};
use regard_ops::prelude::*;
use regard_ops::{AdamW, CrossEntropyOptions};

/// Records the step in a precision.
pub fn record(model: &dyn Model, sizes: Sizes, precision: Precision) -> Result<Graph> {
    let mut graph = Graph::new();
    graph.set_precision(precision);
    let g = &mut graph;
    let Some(task) = model.task() else {
        return Err(Error::invalid(
            "this model has no head that could be trained",
            "give it one, or ask for a pass instead",
        ));
    };
    let scale = g.input("scale", DType::F32, shape![])?;
    let inputs = model.reads().declare(g, sizes)?;
    let labels = task.declare_labels(g, &inputs)?;
    let loss = model.loss(g, &inputs, labels, scale, CrossEntropyOptions::default())?;
    g.output("loss", loss)?;
    let rate = g.input("rate", DType::F32, shape![])?;
    let step = g.input("step", DType::I32, shape![])?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW::default(), rate, step, None)?;
    Ok(graph)
}

/// Sets the inputs of a pass or a step to numbers that any model takes, for programs of which only time and
/// memory matter.
pub fn feed(program: &mut Program, model: &dyn Model) -> Result<()> {
    let inputs: Vec<(String, DType, Vec<usize>)> = {
        let g = program.graph();
        g.inputs().map(|(name, var)| (name.into(), g.dtype(var), g.shape(var).bound().to_vec())).collect()
    };
    let reads = model.reads();
    let vocabularies = [reads.ids, reads.source].into_iter().flatten().map(|tokens| tokens.vocabulary);
    let known = vocabularies.min().unwrap_or(1);
    for (name, dtype, dims) in inputs {
        let count: usize = dims.iter().product();
        // Of classes there may be fewer than tokens.
        let classes = name == "labels" && dims.len() == 1;
        match dtype {
            DType::Bool => program.set_bools(&name, &dims, &vec![true; count])?,
            DType::I32 if name == "step" => program.set_i32(&name, &dims, &[1])?,
            DType::I32 => {
                let id = |i: usize| if classes { 0 } else { (i * 7919 % known) as i32 };
                program.set_i32(&name, &dims, &(0..count).map(id).collect::<Vec<_>>())?;
            }
            _ => {
                let numbers: Vec<f32> = (0..count).map(|i| 1e-3 + (i % 97) as f32 / 97.0).collect();
                program.set_f32(&name, &dims, &numbers)?;
            }
        }
    }
    Ok(())
}
