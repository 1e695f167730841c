//! The diagrams of the notes, read from recorded models: a Transformer's parts in their order, and how a
//! Perceiver goes down to its latents and up again.

use crate::picture::{Axis, Chart};
use crate::specimens::{VOCABULARY, gpt};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::models::{Perceiver, PerceiverConfig, PerceiverMasking, Positions};
use regard::ops::AttentionOp;
use regard::prelude::*;

/// The ops that a reader of a diagram looks for, by the place of their node, without repeats in a row.
fn parts(g: &Graph) -> Vec<String> {
    let known = ["embedding", "layer_norm", "rms_norm", "attention", "linear"];
    let mut parts: Vec<String> = g
        .nodes()
        .iter()
        .filter(|node| known.contains(&node.op.name()))
        .map(|node| node.name.split('#').next().unwrap_or_default().to_string())
        .collect();
    parts.dedup();
    parts
}

/// Queries and keys of every attention, in order.
fn lengths(g: &Graph) -> Vec<[usize; 2]> {
    let attentions = g.nodes().iter().filter(|node| node.is::<AttentionOp>());
    attentions.map(|node| [0, 1].map(|at| g.shape(node.inputs[at]).bound()[1])).collect()
}

/// J14: both diagrams.
pub fn drawn(_context: &Context) -> Result<Finding> {
    let (n, latents, layers) = (12usize, 4usize, 4usize);
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [1, n])?;
    gpt(Positions::Learned)?.logits(&mut g, ids)?;
    let order = parts(&g);
    let mut table = Table::new("A GPT of two blocks, part by part", &["place", "part"]);
    for (at, part) in order.iter().enumerate() {
        table.row([(at + 1).to_string(), part.clone()]);
    }
    let place = |holds: &dyn Fn(&str) -> bool| order.iter().position(|part| holds(part));
    let last = |holds: &dyn Fn(&str) -> bool| order.iter().rposition(|part| holds(part));
    let attention = |block: usize| place(&|part: &str| part.starts_with(&format!("block.{block}.attention")));
    let forward =
        |block: usize| place(&|part: &str| part.starts_with(&format!("block.{block}.feed_forward")));
    let in_order = [
        place(&|part| part.starts_with("embedding")),
        attention(0),
        forward(0),
        attention(1),
        forward(1),
        last(&|part| part.contains("final_norm")),
    ];
    let broken = in_order.windows(2).filter(|pair| pair[0].is_none() || pair[0] >= pair[1]).count();
    let model = Perceiver::new(PerceiverConfig {
        layers,
        heads: 2,
        width: 8,
        latents,
        context: n,
        vocabulary: VOCABULARY,
        masking: PerceiverMasking::Open,
        dropout: 0.0,
        mechanisms: Default::default(),
    })?;
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [1, n])?;
    model.hidden(&mut g, ids)?;
    let found = lengths(&g);
    let mut wanted = vec![[latents, n]];
    wanted.extend(vec![[latents, latents]; layers - 2]);
    wanted.push([n, latents]);
    let other =
        found.iter().zip(&wanted).filter(|(a, b)| a != b).count() + found.len().abs_diff(wanted.len());
    let line = |at: usize| found.iter().enumerate().map(move |(n, own)| (n as f64 + 1.0, own[at] as f64));
    let mut sizes = Table::new("A Perceiver of four layers", &["attention", "queries", "keys"]);
    for (at, own) in found.iter().enumerate() {
        sizes.row([at + 1, own[0], own[1]].map(|x| x.to_string()));
    }
    Ok(Finding::new(
        Verdict::Holds,
        "Read from the recorded models: embeddings, then attention before the feed-forward part in every block, then the last norm; and a \
         Perceiver whose first attention goes from the text down to the latents, whose last goes up again, with latents among \
         themselves between.",
    )
    .number(Number::count("parts of a GPT that are missing or stand out of order", broken, 0))
    .number(Number::count("attentions of a Perceiver whose queries or keys are not as drawn", other, 0))
    .table(table)
    .table(sizes)
    .picture(
        Chart::new("Down and up: lengths along a Perceiver, 12 positions and 4 latents", Axis::new("attention"), Axis::new("positions").covering(&[0.0]))
            .line("queries", line(0))
            .points("keys", line(1)),
    )
    .how("The names and shapes of the nodes of a GPT of two blocks and of a Perceiver of four layers, in the order in which they were recorded."))
}
