//! What layers refuse, and in which words.

use regard_graph::{DType, Graph, Init};
use regard_layers::*;
use regard_ops::{Activation, LinearOptions};

fn text<T>(result: regard_graph::Result<T>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sizes_of_nothing() {
    let p = &mut Parameters::new();
    assert_eq!(
        text(Linear::new(LinearConfig::new(0, 3), p)),
        "linear: 0 inputs and 3 outputs; give both a size of at least 1"
    );
    assert_eq!(
        text(Embedding::new(EmbeddingConfig { tokens: 5, width: 0, std: 0.02 }, p)),
        "embedding: 5 tokens of width 0; give both a size of at least 1"
    );
    assert_eq!(
        text(Norm::new(NormConfig { epsilon: -1.0, ..NormConfig::layer(4) }, p)),
        "norm: width 4, epsilon -1; give a width of at least 1 and an epsilon that is not negative"
    );
    let feed_forward = FeedForwardConfig {
        width: 4,
        hidden: 0,
        kind: FeedForwardKind::Relu,
        bias: true,
        dropout: 0.0,
        std: 0.02,
    };
    assert_eq!(
        text(FeedForward::new(feed_forward, p)),
        "linear: 4 inputs and 0 outputs; give both a size of at least 1"
    );
}

#[test]
fn heads_that_do_not_share() {
    for heads in [0, 3] {
        assert_eq!(
            text(AttentionConfig::new(8, heads)),
            format!(
                "attention: a width of 8 cannot be shared by {heads} heads; choose a width that is a multiple of the \
                 heads, or set head_width and value_width"
            )
        );
    }
    let usual = AttentionConfig::new(12, 4).unwrap();
    assert_eq!(
        text(AttentionLayer::new(AttentionConfig { groups: 3, ..usual }, &mut Parameters::new())),
        "attention: 4 heads cannot share 3 key/value heads; choose heads that are a multiple of the key/value heads"
    );
    assert_eq!(
        text(AttentionLayer::new(AttentionConfig { value_width: 0, ..usual }, &mut Parameters::new())),
        "attention: 4 heads of width 3 over a width of 12; give every size at least 1"
    );
}

#[test]
fn names_are_taken_once() {
    let p = &mut Parameters::new();
    p.under("block.0", |p| p.declare("weight", [2, 3], Init::Zeros)).unwrap();
    assert_eq!(
        text(p.under("block", |p| p.declare("0.weight", [4], Init::Zeros))),
        "parameter `block.0.weight` is declared twice: [2 3], then [4]; give one of them another name"
    );
    assert_eq!((p.count(), p.declared().count()), (6, 1));
}

/// A graph in which every name is taken by a parameter of another shape.
fn taken(names: &[&str]) -> Graph {
    let mut g = Graph::new();
    for name in names {
        g.parameter(name, [7, 7], Init::Zeros).unwrap();
    }
    g
}

#[test]
fn parameters_that_a_graph_has_otherwise() {
    let p = &mut Parameters::new();
    let linear = p.under("linear", |p| Linear::new(LinearConfig::new(2, 3), p)).unwrap();
    let table = p.under("table", |p| Embedding::new(EmbeddingConfig { tokens: 5, width: 2, std: 0.02 }, p));
    let table = table.unwrap();
    let norm = p.under("norm", |p| Norm::new(NormConfig::layer(2), p)).unwrap();
    let own = p.declare("own", [2], Init::Zeros).unwrap();
    let buckets = RelativeConfig::Buckets { buckets: 8, max_distance: 16, bidirectional: true };
    let buckets = p.under("buckets", |p| RelativePositions::new(buckets, 2, p)).unwrap();
    let names = ["linear.weight", "linear.bias", "table.weight", "norm.weight", "own", "buckets.table"];
    let g = &mut taken(&names);
    let x = g.input("x", DType::F32, [1, 4, 2]).unwrap();
    for (said, name, shape) in [
        (text(linear.weight(g)), "linear.weight", "[3 2]"),
        (text(linear.bias(g)), "linear.bias", "[3]"),
        (text(table.weight(g)), "table.weight", "[5 2]"),
        (text(table.head(g, x)), "table.weight", "[5 2]"),
        (text(norm.forward_f32(g, x)), "norm.weight", "[2]"),
        (text(own.var(g)), "own", "[2]"),
        (text(buckets.bias(g)), "buckets.table", "[8 2]"),
    ] {
        let twice =
            format!("parameter `{name}` is declared twice: parameter f32 [7 7], then parameter f32 {shape}");
        assert_eq!(said, format!("{twice}; give one of them another name"));
    }
}

#[test]
fn streams_that_do_not_fit() {
    let p = &mut Parameters::new();
    let linear = p.under("linear", |p| Linear::new(LinearConfig::new(2, 2), p)).unwrap();
    let feed_forward = FeedForwardConfig {
        width: 2,
        hidden: 3,
        kind: FeedForwardKind::Relu,
        bias: true,
        dropout: 0.0,
        std: 0.02,
    };
    let feed_forward = p.under("mlp", |p| FeedForward::new(feed_forward, p)).unwrap();
    let attention = p.under("mix", |p| AttentionLayer::new(AttentionConfig::new(2, 1).unwrap(), p)).unwrap();
    let g = &mut Graph::new();
    let x = g.input("x", DType::F32, [1, 4, 2]).unwrap();
    let narrow = g.input("narrow", DType::F32, [1, 4, 1]).unwrap();
    let residual = "linear: residual is [1 4 1], expected [1 4 N=2]; ... comes from x; N comes from weight";
    let weight = "linear: weight is [2 2], expected [N K=1]; K comes from x";
    assert_eq!(text(linear.onto(g, narrow, x)), residual);
    assert_eq!(text(linear.activated(g, narrow, Activation::Relu)), weight);
    assert_eq!(text(linear.forward_with(g, narrow, LinearOptions::default())), weight);
    assert_eq!(text(feed_forward.onto(g, narrow, x)), residual);
    assert_eq!(text(attention.onto(g, narrow, x, Source::Own, &Context::default())), residual);
}
