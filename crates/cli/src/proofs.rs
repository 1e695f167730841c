//! What each family promises, as cases for the reach reader: the passes to record, and what has to hold of them.

use anyhow::Result;
use regard::graph::Graph;
use regard::layers::KeepMask;
use regard::prelude::*;
use regard_hub::AnyModel;
use regard_hub::forward::{Sizes, record};
use regard_inspect::{Case, Promise, Stream};
use regard_models::{Perceiver, PerceiverMasking, View};

/// Examples in a pass: one without padding, two with.
pub const BATCH: usize = 3;

/// A pass and what is to be proved of it.
pub struct Proof {
    /// The pass.
    pub case: Case,
    /// A title, whether the family promises it, and what it is.
    pub claims: Vec<(&'static str, bool, Promise)>,
    /// The stream whose receptive fields are of interest, if there is one.
    pub sight: Option<&'static str>,
}

/// Which side of a text is padded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Right,
    Left,
    Both,
}

/// Real positions of a batch: all of the first row, some of the others.
fn real(length: usize, side: Side) -> Vec<bool> {
    let short = length - (length / 3).max(1);
    let row = |row: usize, t: usize| match (row, side) {
        (0, _) => true,
        (1, Side::Right | Side::Both) => t < short,
        (2, Side::Right) => t == 0 || t < length / 2,
        (1, Side::Left) | (2, Side::Both) => t >= length - short,
        _ => t + 1 == length || t >= length - length / 2,
    };
    (0..BATCH).flat_map(|b| (0..length).map(move |t| row(b, t))).collect()
}

/// The proofs of a model at one length.
pub fn of(model: &AnyModel, length: usize) -> Result<Vec<Proof>> {
    let causal = |input: &str| Promise::Causal(input.into());
    let padding = |input: &str| Promise::Padding(input.into());
    let sees =
        |from: &str, to: &str, by: &str| Promise::Sees { from: from.into(), to: to.into(), by: by.into() };
    let graph = |targets: usize| record(model, Sizes { batch: BATCH, tokens: length, targets, types: false });
    let ids = |mask: bool, side: Side| Stream {
        input: "ids".into(),
        length,
        mask: mask.then(|| "mask".into()),
        real: real(length, side),
    };
    let case = |graph: Graph, streams: Vec<Stream>| Case { graph, batch: BATCH, streams, known: Vec::new() };
    Ok(match model {
        AnyModel::Gpt(gpt, _) => {
            let whole = Proof {
                case: case(graph(0)?, vec![ids(false, Side::Right)]),
                claims: vec![
                    ("causal", true, causal("ids")),
                    ("padding on the right", true, padding("ids")),
                    ("batch", true, Promise::Batch),
                ],
                sight: Some("ids"),
            };
            let mut g = Graph::inference();
            let tokens = g.input("ids", DType::I32, [BATCH, length])?;
            let position = g.input("position", DType::I32, [BATCH, length])?;
            let mask = g.input("mask", DType::Bool, [BATCH, length])?;
            let hidden = gpt.hidden(&mut g, tokens, View::Padded { position, mask })?;
            let scores = gpt.head(&mut g, hidden)?;
            g.output("logits", scores)?;
            let stream = ids(true, Side::Left);
            let positions = KeepMask(stream.real.clone()).positions(length);
            let known = vec![("position".to_string(), positions.into_iter().map(i64::from).collect())];
            let case = Case { known, ..case(g, vec![stream]) };
            let left =
                Proof { case, claims: vec![("padding on the left", true, padding("ids"))], sight: None };
            vec![whole, left]
        }
        AnyModel::Perceiver(own) => {
            let kept = promises_causality(own);
            vec![Proof {
                case: case(graph(0)?, vec![ids(false, Side::Right)]),
                claims: vec![
                    ("causal", kept, causal("ids")),
                    ("padding on the right", kept, padding("ids")),
                    ("batch", true, Promise::Batch),
                ],
                sight: Some("ids"),
            }]
        }
        AnyModel::Bert(_) => vec![Proof {
            // On the right only: a pooler reads the first position, whatever stands there.
            case: case(graph(0)?, vec![ids(true, Side::Right)]),
            claims: vec![
                ("causal", false, causal("ids")),
                ("sees both ways", true, sees("ids", "ids", "hidden")),
                ("padding", true, padding("ids")),
                ("batch", true, Promise::Batch),
            ],
            sight: Some("ids"),
        }],
        AnyModel::Vit(_) => {
            let graph = record(model, Sizes { batch: BATCH, tokens: 0, targets: 0, types: false })?;
            let claims = vec![("batch", true, Promise::Batch)];
            vec![Proof { case: case(graph, Vec::new()), claims, sight: None }]
        }
        AnyModel::T5(_) | AnyModel::Transformer(_) => {
            let real = real(length, Side::Right);
            let targets = Stream { input: "targets".into(), length, mask: None, real };
            vec![Proof {
                case: case(graph(length)?, vec![ids(true, Side::Both), targets]),
                claims: vec![
                    ("encoder: sees both ways", true, sees("ids", "ids", "memory")),
                    ("encoder and cross: padding", true, padding("ids")),
                    ("decoder: causal", true, causal("targets")),
                    ("decoder: padding on the right", true, padding("targets")),
                    ("cross: sees the source", true, sees("ids", "targets", "hidden")),
                    ("batch", true, Promise::Batch),
                ],
                sight: Some("targets"),
            }]
        }
    })
}

/// A Perceiver whose latents are open to all tokens is an encoder.
fn promises_causality(model: &Perceiver) -> bool {
    model.config().masking != PerceiverMasking::Open
}
