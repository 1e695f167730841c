//! A step of training of any family, recorded whole: loss, gradients, AdamW. For readers of the graph, and for measuring what
//! a step takes; runs that shall learn something go through a task and the loop.

use crate::forward::Sizes;
use crate::{AnyModel, Error, Result};
use regard_engine::Program;
use regard_graph::{DType, Graph, Precision, Var};
use regard_models::{BertHead, BertText, VitHead};
use regard_ops::prelude::*;
use regard_ops::{AdamW, CrossEntropyOptions};

/// Records the step in a precision.
pub fn record(model: &AnyModel, sizes: Sizes, precision: Precision) -> Result<Graph> {
    let mut graph = Graph::new();
    graph.set_precision(precision);
    let g = &mut graph;
    let Sizes { batch, tokens, targets: own, .. } = sizes;
    let scale = g.input("scale", DType::F32, shape![])?;
    let text = |g: &mut Graph, name: &str, length: usize| g.input(name, DType::I32, [batch, length]);
    let loss = match model {
        AnyModel::Gpt(gpt, _) => {
            let (ids, labels) = (text(g, "ids", tokens)?, text(g, "labels", tokens)?);
            gpt.loss(g, ids, labels, scale)?
        }
        AnyModel::Perceiver(model) => {
            let (ids, labels) = (text(g, "ids", tokens)?, text(g, "labels", tokens)?);
            model.loss(g, ids, labels, scale)?
        }
        AnyModel::Bert(bert) => {
            let labels = match bert.config().head {
                BertHead::None | BertHead::Pooler => {
                    return Err(headless());
                }
                BertHead::Classes(_) | BertHead::MeanClasses(_) => g.input("labels", DType::I32, [batch])?,
                _ => text(g, "labels", tokens)?,
            };
            let key_mask = Some(g.input("mask", DType::Bool, [batch, tokens])?);
            let ids = text(g, "ids", tokens)?;
            bert.loss(g, &BertText { ids, token_types: None, key_mask }, labels, scale)?
        }
        AnyModel::Vit(vit) => {
            if vit.config().head == VitHead::None {
                return Err(headless());
            }
            let [height, width] = vit.config().image;
            let pixels = g.input("pixels", DType::F32, [batch, vit.config().channels, height, width])?;
            let labels = g.input("labels", DType::I32, [batch])?;
            vit.loss(g, pixels, labels, scale)?
        }
        AnyModel::T5(t5) => {
            let all = [text(g, "ids", tokens)?, text(g, "targets", own)?, text(g, "labels", own)?];
            let mask = Some(g.input("mask", DType::Bool, [batch, tokens])?);
            t5.loss(g, all, mask, scale)?
        }
        AnyModel::Transformer(model) => {
            let all = [text(g, "ids", tokens)?, text(g, "targets", own)?, text(g, "labels", own)?];
            let mask = Some(g.input("mask", DType::Bool, [batch, tokens])?);
            model.loss(g, all, mask, scale, CrossEntropyOptions::default())?
        }
    };
    g.output("loss", loss)?;
    let rate = g.input("rate", DType::F32, shape![])?;
    let step = g.input("step", DType::I32, shape![])?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW::default(), rate, step, None)?;
    Ok(graph)
}

fn headless() -> Error {
    Error::invalid("this model has no head that could be trained", "give it one, or ask for a pass instead")
}

/// Sets the inputs of a pass or a step to numbers that any model takes, for programs of which only time and memory matter.
pub fn feed(program: &mut Program, model: &AnyModel) -> Result<()> {
    let inputs: Vec<(String, DType, Vec<usize>)> = {
        let g = program.graph();
        g.inputs().map(|(name, var)| (name.into(), g.dtype(var), g.shape(var).bound().to_vec())).collect()
    };
    let pair = model.encoder_decoder().map_or(usize::MAX, |pair| pair.vocabulary());
    let known = model.vocabulary().unwrap_or(1).min(pair);
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
