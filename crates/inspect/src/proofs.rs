//! What a model promises, as cases for the reach reader: the passes to record, and what has to hold of them.
//! Which they are follows from what it reads and promises, not from what it is called.

use crate::{Promise, ProofCase, Result, Stream};
use regard_graph::{Graph, Precision};
use regard_layers::KeepMask;
use regard_models::inputs::{IDS, MASK, POSITION, SOURCE, SOURCE_MASK};
use regard_models::{Model, Promises, Sizes, Tokens};

/// Examples in a pass: one without padding, two with.
pub const BATCH: usize = 3;

/// A pass and what is to be proved of it.
pub struct Proof {
    /// The pass.
    pub case: ProofCase,
    /// A title, whether the model promises it, and what it is.
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
pub fn of(model: &dyn Model, length: usize) -> Result<Vec<Proof>> {
    let reads = model.reads();
    match (reads.ids, reads.source) {
        (Some(_), Some(source)) => Ok(vec![pair(model, source, length)?]),
        (Some(tokens), None) => {
            let mut proofs = vec![one_stream(model, tokens, length)?];
            if tokens.placed {
                proofs.push(padded_left(model, length)?);
            }
            Ok(proofs)
        }
        (None, _) => {
            let graph = recorded(model, Sizes { batch: BATCH, ..Default::default() })?;
            let claims = vec![("batch", model.promises().batch, Promise::Batch)];
            Ok(vec![Proof { case: case(graph, Vec::new()), claims, sight: None }])
        }
    }
}

/// A model of one stream.
fn one_stream(model: &dyn Model, tokens: Tokens, length: usize) -> Result<Proof> {
    let Promises { causal, sees_both_ways, padding, batch, .. } = model.promises();
    // On the right only: a pooler reads the first position, whatever stands there.
    let mask = tokens.masked.then_some(MASK);
    let graph = recorded(model, Sizes { batch: BATCH, ids: length, ..Default::default() })?;
    let mut claims = vec![("causal", causal, Promise::Causal(IDS.into()))];
    if sees_both_ways && has(&graph, "hidden") {
        claims.push(("sees both ways", true, sees(IDS, IDS, "hidden")));
    }
    let title = if tokens.masked { "padding" } else { "padding on the right" };
    claims.push((title, padding, Promise::Padding(IDS.into())));
    claims.push(("batch", batch, Promise::Batch));
    Ok(Proof { case: case(graph, vec![stream(IDS, mask, length, Side::Right)]), claims, sight: Some(IDS) })
}

/// The same with padding on the left, for a model that is told positions.
fn padded_left(model: &dyn Model, length: usize) -> Result<Proof> {
    let sizes = Sizes { batch: BATCH, ids: length, placed: true, ..Default::default() };
    let stream = stream(IDS, Some(MASK), length, Side::Left);
    let positions = KeepMask(stream.real.clone()).positions(length);
    let known = vec![(POSITION.to_string(), positions.into_iter().map(i64::from).collect())];
    let claims = vec![("padding on the left", model.promises().anywhere, Promise::Padding(IDS.into()))];
    Ok(Proof {
        case: ProofCase { known, ..case(recorded(model, sizes)?, vec![stream]) },
        claims,
        sight: None,
    })
}

/// A model that reads a source and writes.
fn pair(model: &dyn Model, source: Tokens, length: usize) -> Result<Proof> {
    let Promises { causal, sees_both_ways, padding, batch, .. } = model.promises();
    let graph = recorded(model, Sizes { batch: BATCH, ids: length, source: length, ..Default::default() })?;
    let mut claims = Vec::new();
    if sees_both_ways && has(&graph, "memory") {
        claims.push(("encoder: sees both ways", true, sees(SOURCE, SOURCE, "memory")));
    }
    claims.push(("encoder and cross: padding", padding, Promise::Padding(SOURCE.into())));
    claims.push(("decoder: causal", causal, Promise::Causal(IDS.into())));
    claims.push(("decoder: padding on the right", padding, Promise::Padding(IDS.into())));
    if has(&graph, "hidden") {
        claims.push(("cross: sees the source", true, sees(SOURCE, IDS, "hidden")));
    }
    claims.push(("batch", batch, Promise::Batch));
    let mask = source.masked.then_some(SOURCE_MASK);
    let streams = vec![stream(SOURCE, mask, length, Side::Both), stream(IDS, None, length, Side::Right)];
    Ok(Proof { case: case(graph, streams), claims, sight: Some(IDS) })
}

fn recorded(model: &dyn Model, sizes: Sizes) -> Result<Graph> {
    Ok(model.graph(sizes, Precision::F32)?)
}

fn case(graph: Graph, streams: Vec<Stream>) -> ProofCase {
    ProofCase { graph, batch: BATCH, streams, known: Vec::new() }
}

fn stream(input: &str, mask: Option<&str>, length: usize, side: Side) -> Stream {
    Stream { input: input.into(), length, mask: mask.map(Into::into), real: real(length, side) }
}

fn sees(from: &str, to: &str, by: &str) -> Promise {
    Promise::Sees { from: from.into(), to: to.into(), by: by.into() }
}

fn has(graph: &Graph, output: &str) -> bool {
    graph.outputs().any(|(name, _)| name == output)
}
