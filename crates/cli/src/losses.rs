//! A step of training of any family: loss, gradients, AdamW. What `regard cost --train` counts.

use anyhow::{Result, bail};
use regard::graph::Graph;
use regard::ops::{AdamW, CrossEntropyOptions};
use regard::prelude::*;
use regard_hub::AnyModel;
use regard_hub::forward::Sizes;
use regard_models::{BertHead, BertText, VitHead};

/// Records the step.
pub fn record(model: &AnyModel, sizes: Sizes) -> Result<Graph> {
    let mut graph = Graph::new();
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
                    bail!("--train: this model has no head that could be trained; leave it out")
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
                bail!("--train: this model has no head that could be trained; leave it out");
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
