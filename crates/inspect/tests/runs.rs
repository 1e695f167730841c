//! Runs that are broken on purpose: dropout left on in evaluation, caches with wrong positions, norms over
//! the batch. Each is caught by comparing numbers, and the first node that differs is named.

use regard_engine::{Cpu, Store};
use regard_graph::{DType, Graph, Result, shape};
use regard_inspect::audit::{
    Agreement, Along, Execution, Stage, Turn, compare, compare_looked, compare_reference,
};
use regard_inspect::chances;
use regard_layers::{
    AttentionConfig, BlockConfig, Cached, Context, EmbeddingConfig, EmbeddingLayer, FeedForwardConfig,
    FeedForwardKind, NormConfig, NormKind, NormPlace, Parameters, RelativeConfig, Stack, StackConfig,
};
use regard_ops::{Array, AttentionOp, RotarySpec, WeightsRequest, prelude::*};

const LENGTH: usize = 6;
const WIDTH: usize = 8;

/// Two blocks behind an embedding.
struct Model {
    tokens: EmbeddingLayer,
    stack: Stack,
}

impl Model {
    fn new(dropout: f32, kind: NormKind) -> Model {
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let block = BlockConfig {
            attention: AttentionConfig { dropout, std: 0.5, ..AttentionConfig::new(WIDTH, 2).unwrap() },
            cross: None,
            feed_forward: FeedForwardConfig {
                width: WIDTH,
                hidden: 12,
                kind: FeedForwardKind::Gelu,
                bias: true,
                dropout: 0.0,
                std: 0.5,
            },
            norm: NormConfig { kind, ..NormConfig::layer(WIDTH) },
            place: NormPlace::Pre,
            dropout,
        };
        let embedding = EmbeddingConfig { tokens: 11, width: WIDTH, std: 1.0 };
        let relative = RelativeConfig::Rotary(RotarySpec::default());
        Model {
            tokens: p.under("tokens", |p| EmbeddingLayer::new(embedding, p)).unwrap(),
            stack: Stack::new(StackConfig { layers: 2, block, final_norm: true, relative }, p).unwrap(),
        }
    }

    fn whole(&self, rows: usize, length: usize) -> Result<Graph> {
        self.recorded(Graph::inference(), rows, length)
    }

    /// As in training, where a norm over the batch takes its statistics from the batch.
    fn trained(&self, rows: usize, length: usize) -> Result<Graph> {
        self.recorded(Graph::new(), rows, length)
    }

    fn recorded(&self, mut g: Graph, rows: usize, length: usize) -> Result<Graph> {
        let ids = g.input("ids", DType::I32, [rows, length])?;
        let x = self.tokens.forward(&mut g, ids)?;
        let x = self.stack.forward(&mut g, x, &Context::causal(), None)?;
        g.output("hidden", x)?;
        Ok(g)
    }

    fn cached(&self) -> Result<Graph> {
        let mut g = Graph::inference();
        let t = g.open('T', LENGTH)?;
        let ids = g.input("ids", DType::I32, shape![1, t])?;
        let position = g.input("position", DType::I32, shape![1, t])?;
        let slot = g.input("slot", DType::I32, shape![1, t])?;
        let lengths = g.input("lengths", DType::I32, [1])?;
        let mut context = Context::causal();
        context.query_position = Some(position);
        context.mask.key_lengths = Some(lengths);
        context.cached = Some(Cached { slot, rows: 1, capacity: LENGTH });
        let x = self.tokens.forward(&mut g, ids)?;
        let x = self.stack.forward(&mut g, x, &context, None)?;
        g.output("hidden", x)?;
        Ok(g)
    }
}

fn array(dims: &[usize], numbers: impl IntoIterator<Item = usize>) -> Array {
    Array::new(dims, numbers.into_iter().map(|x| x as f64).collect()).unwrap()
}

fn ids(count: usize, seed: usize) -> Vec<usize> {
    (0..count).map(|i| (i * i * 5 + 3 * i + 7 * seed + 1) % 11).collect()
}

/// Text 0 in one row among others.
fn turn(rows: usize, own: usize) -> Turn {
    let numbers: Vec<usize> =
        (0..rows).flat_map(|row| ids(LENGTH, if row == own { 0 } else { row + 1 })).collect();
    let places = (0..rows).flat_map(|row| (0..LENGTH).map(move |t| (row == own).then_some((0, t)))).collect();
    Turn {
        inputs: vec![("ids".into(), array(&[rows, LENGTH], numbers))],
        batch: rows,
        streams: vec![Along { name: "ids".into(), length: LENGTH, places }],
    }
}

fn alone(model: &Model) -> Execution<'_> {
    Execution::once("alone", || Ok(model.whole(1, LENGTH)?), turn(1, 0))
}

/// Four ids at once, then one at a time; the positions of the later ones are off by `late`.
fn through_caches(model: &Model, late: usize) -> Execution<'_> {
    let text = ids(LENGTH, 0);
    let turns = [0..4, 4..5, 5..6].into_iter().map(|now| {
        let off = if now.start > 0 { late } else { 0 };
        let shape = [1, now.len()];
        Turn {
            inputs: vec![
                ("ids".into(), array(&shape, now.clone().map(|t| text[t]))),
                ("position".into(), array(&shape, now.clone().map(|t| t + off))),
                ("slot".into(), array(&shape, now.clone())),
                ("lengths".into(), array(&[1], [now.end])),
            ],
            batch: 1,
            streams: vec![Along {
                name: "ids".into(),
                length: now.len(),
                places: now.clone().map(|t| Some((0, t))).collect(),
            }],
        }
    });
    let record = Box::new(|| Ok(model.cached()?));
    Execution {
        title: "cached".into(),
        stages: vec![Stage { record, turns: turns.collect(), compared: true }],
    }
}

fn cpu() -> Cpu {
    Cpu::with(2, regard_device::Level::best()).unwrap()
}

#[test]
fn the_right_model_agrees_with_itself() {
    let (model, cpu, mut store) = (Model::new(0.0, NormKind::Layer), cpu(), Store::new(5));
    let execution = alone(&model);
    let batch = Execution::once("batch", || Ok(model.whole(3, LENGTH)?), turn(3, 1));
    for other in [batch, through_caches(&model, 0)] {
        let found = compare(&execution, &cpu, &other, &cpu, &mut store, Agreement::Bits).unwrap();
        assert!(found.same && found.difference == 0.0 && found.first.is_none(), "{}: {found:?}", other.title);
        assert_eq!(found.numbers, LENGTH * WIDTH);
    }
    let found = compare_reference(&execution, &mut store, &cpu, Agreement::Within(1e-5)).unwrap();
    assert!(found.same && found.difference > 0.0, "{found:?}");
    let look = |g: &mut Graph| {
        let attentions: Vec<usize> =
            (0..g.nodes().len()).filter(|&at| g.nodes()[at].is::<AttentionOp>()).collect();
        for at in attentions {
            let weights = g.weights_of(at, WeightsRequest::Rows(vec![0, 3]))?.values;
            g.output(&format!("look.{at}"), weights)?;
        }
        Ok(())
    };
    assert!(compare_looked(&execution, look, &mut store, &cpu).unwrap().same);
}

#[test]
fn a_cache_with_wrong_positions_is_found() {
    let (model, cpu, mut store) = (Model::new(0.0, NormKind::Layer), cpu(), Store::new(5));
    let found =
        compare(&alone(&model), &cpu, &through_caches(&model, 1), &cpu, &mut store, Agreement::Bits).unwrap();
    assert!(!found.same && found.difference > 1e-4, "{found:?}");
    assert_eq!(found.first.as_deref(), Some("block.0.attention.rotary"), "positions are first felt there");
}

#[test]
fn dropout_left_on_in_evaluation_is_named() {
    let right = Model::new(0.0, NormKind::Layer).whole(1, LENGTH).unwrap();
    assert_eq!(chances(&right), []);
    let graph = Model::new(0.1, NormKind::Layer).whole(1, LENGTH).unwrap();
    let found = chances(&graph);
    let message: Vec<String> =
        found.iter().map(|chance| format!("{} {}", chance.node, chance.what)).collect();
    assert_eq!(
        message[..3],
        [
            "block.0.attention.attention drops weights with probability 0.1",
            "block.0.attention.dropout drops with probability 0.1",
            "block.0.feed_forward.dropout drops with probability 0.1",
        ]
    );
    assert_eq!(found.len(), 6);
}

#[test]
fn a_norm_over_the_batch_is_found_by_its_neighbours() {
    let model = Model::new(0.0, NormKind::Batch);
    let (cpu, mut store) = (cpu(), Store::new(5));
    let alone = Execution::once("alone", || Ok(model.trained(1, LENGTH)?), turn(1, 0));
    let batch = Execution::once("batch", || Ok(model.trained(3, LENGTH)?), turn(3, 1));
    let found = compare(&alone, &cpu, &batch, &cpu, &mut store, Agreement::Bits).unwrap();
    assert!(!found.same);
    assert_eq!(found.first.as_deref(), Some("block.0.attention.batch_norm"));
    // Where nothing is learned, it goes by the statistics that it has, and neighbours are not felt.
    let alone = Execution::once("alone", || Ok(model.whole(1, LENGTH)?), turn(1, 0));
    let batch = Execution::once("batch", || Ok(model.whole(3, LENGTH)?), turn(3, 1));
    assert!(compare(&alone, &cpu, &batch, &cpu, &mut store, Agreement::Bits).unwrap().same);
}

#[test]
fn ways_that_cannot_be_compared_are_refused() {
    let (model, cpu, mut store) = (Model::new(0.0, NormKind::Layer), cpu(), Store::new(5));
    let mut elsewhere = turn(1, 0);
    elsewhere.streams[0].places = vec![Some((7, 0)); LENGTH];
    let other = Execution::once("elsewhere", || Ok(model.whole(1, LENGTH)?), elsewhere);
    let error = compare(&alone(&model), &cpu, &other, &cpu, &mut store, Agreement::Bits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the two ways have no output in common; give outputs of the same names, and texts of the same numbers"
    );
    let error = compare_reference(&through_caches(&model, 0), &mut store, &cpu, Agreement::Bits).unwrap_err();
    assert_eq!(error.to_string(), "cached has several runs; compare one of them");
}
