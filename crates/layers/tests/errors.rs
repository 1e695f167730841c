//! What layers refuse, and in which words.

use regard_graph::{DType, Graph, Init};
use regard_layers::*;
use regard_ops::{Activation, AttentionKind, LinearOptions};

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
        text(LinearLayer::new(LinearConfig::new(0, 3), p)),
        "linear: 0 inputs and 3 outputs; give both a size of at least 1"
    );
    assert_eq!(
        text(EmbeddingLayer::new(EmbeddingConfig { tokens: 5, width: 0, std: 0.02 }, p)),
        "embedding: 5 tokens of width 0; give both a size of at least 1"
    );
    assert_eq!(
        text(NormLayer::new(NormConfig { epsilon: -1.0, ..NormConfig::layer(4) }, p)),
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
    let kind = AttentionKind::Gumbel { temperature: 0.5, hard: false };
    assert_eq!(
        text(AttentionLayer::new(AttentionConfig { cap: Some(5.0), kind, ..usual }, &mut Parameters::new())),
        "attention: scores with a soft cap and Gumbel's noise; choose soft attention, or leave the cap out"
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
    p.under("block.0", |p| p.keep("running", [2], Init::Zeros)).unwrap();
    assert_eq!(
        text(p.under("block.0", |p| p.keep("weight", [2], Init::Zeros))),
        "parameter `block.0.weight` is declared twice: [2 3], then [2]; give one of them another name"
    );
    assert_eq!((p.count(), p.declared().count(), p.all().count()), (6, 1, 2));
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
    let linear = p.under("linear", |p| LinearLayer::new(LinearConfig::new(2, 3), p)).unwrap();
    let table =
        p.under("table", |p| EmbeddingLayer::new(EmbeddingConfig { tokens: 5, width: 2, std: 0.02 }, p));
    let table = table.unwrap();
    let norm = p.under("norm", |p| NormLayer::new(NormConfig::layer(2), p)).unwrap();
    let own = p.declare("own", [2], Init::Zeros).unwrap();
    let buckets = RelativeConfig::Buckets { buckets: 8, max_distance: 16, bidirectional: true };
    let buckets = p.under("buckets", |p| RelativePositions::new(buckets, 2, p)).unwrap();
    let names = ["linear.weight", "linear.bias", "table.weight", "norm.weight", "own", "buckets.table"];
    let g = &mut taken(&names);
    let x = g.input("x", DType::F32, [1, 4, 2]).unwrap();
    for (message, name, shape) in [
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
        assert_eq!(message, format!("{twice}; give one of them another name"));
    }
}

#[test]
fn streams_that_do_not_fit() {
    let p = &mut Parameters::new();
    let linear = p.under("linear", |p| LinearLayer::new(LinearConfig::new(2, 2), p)).unwrap();
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
    let narrow = g.input("narrow", DType::F32, [1, 4, 1]).unwrap();
    let weight = "linear: weight is [2 2], expected [N K=1]; K comes from x";
    assert_eq!(text(linear.forward_f32(g, narrow)), weight);
    assert_eq!(text(linear.activated(g, narrow, Activation::Relu)), weight);
    assert_eq!(text(linear.forward_with(g, narrow, LinearOptions::default())), weight);
    let wide = "linear: weight is [3 2], expected [N K=1]; K comes from x";
    assert_eq!(text(feed_forward.wide(true).forward(g, narrow)), wide);
    assert_eq!(text(attention.wide(true).forward(g, narrow, KeySource::Own, &Context::default())), weight);
}

/// A block with cross-attention, over a width of 2.
fn block(hidden: usize) -> BlockConfig {
    let attention = AttentionConfig::new(2, 1).unwrap();
    BlockConfig {
        attention,
        cross: Some(attention),
        feed_forward: FeedForwardConfig {
            width: 2,
            hidden,
            kind: FeedForwardKind::Relu,
            bias: true,
            dropout: 0.0,
            std: 0.02,
        },
        norm: NormConfig::layer(2),
        place: NormPlace::Pre,
        dropout: 0.0,
    }
}

fn stack(hidden: usize) -> StackConfig {
    StackConfig { layers: 1, block: block(hidden), final_norm: true, relative: RelativeConfig::None }
}

#[test]
fn blocks_and_tables_that_cannot_be() {
    let one = StackConfig::new(1, 8, 2).unwrap();
    let mut again = Parameters::new();
    let scaled = Stack::new(one, &mut again).unwrap().scaled(8, 1.0, &mut again).unwrap();
    assert_eq!(
        text(scaled.scaled(8, 1.0, &mut again)),
        "parameter `block.0.attention_scale` is declared twice: [8], then [8]; give one of them another name"
    );
    let buckets = RelativeConfig::Buckets { buckets: 4, max_distance: 9, bidirectional: true };
    let own = Stack::new(one, &mut Parameters::new()).unwrap();
    let own = own.with_own_relatives(buckets, 2, &mut again).unwrap();
    assert_eq!(
        text(own.with_own_relatives(buckets, 2, &mut again)),
        "parameter `block.0.relative.table` is declared twice: [4 2], then [4 2]; give one of them another name"
    );
    let nothing = "linear: 2 inputs and 0 outputs; give both a size of at least 1";
    assert_eq!(text(Block::new(block(0), &mut Parameters::new())), nothing);
    assert_eq!(text(Stack::new(stack(0), &mut Parameters::new())), nothing);
    let deep = StackConfig { layers: 1_000_000_000, ..stack(3) };
    assert_eq!(
        text(Stack::new(deep, &mut Parameters::new())),
        "stack: 1000000000 blocks one after another; choose at most 10000"
    );
    assert_eq!(text(Stack::of_blocks(stack(3), |_| block(0), &mut Parameters::new())), nothing);
    let parallel = BlockConfig { place: NormPlace::Parallel, ..block(3) };
    assert_eq!(
        text(Block::new(parallel, &mut Parameters::new())),
        "block: parts that read the same stream, one of them attention to a memory; let the parts follow each other, or \
         leave the memory out"
    );
    let p = &mut Parameters::new();
    let buckets = RelativeConfig::Buckets { buckets: 8, max_distance: 16, bidirectional: true };
    RelativePositions::new(buckets, 2, p).unwrap();
    assert_eq!(
        text(RelativePositions::new(RelativeConfig::Clipped { reach: 3 }, 2, p)),
        "parameter `table` is declared twice: [8 2], then [7 2]; give one of them another name"
    );
}

#[test]
fn what_goes_forward_must_fit() {
    let p = &mut Parameters::new();
    let linear = p.under("linear", |p| LinearLayer::new(LinearConfig::new(2, 2), p)).unwrap();
    let table = EmbeddingConfig { tokens: 5, width: 2, std: 0.02 };
    let embedding: EmbeddingLayer = p.under("table", |p| EmbeddingLayer::new(table, p)).unwrap();
    let norm: NormLayer = p.under("norm", |p| NormLayer::new(NormConfig::layer(2), p)).unwrap();
    let learned = AbsoluteConfig::Learned { width: 2, most: 3, std: 0.02 };
    let positions: AbsolutePositions = p.under("positions", |p| AbsolutePositions::new(learned, p)).unwrap();
    let feed_forward: FeedForward = p.under("mlp", |p| FeedForward::new(block(3).feed_forward, p)).unwrap();
    let attention: AttentionLayer =
        p.under("mix", |p| AttentionLayer::new(AttentionConfig::new(2, 1).unwrap(), p)).unwrap();
    let one: Block = p.under("one", |p| Block::new(block(3), p)).unwrap();
    let all: Stack = p.under("all", |p| Stack::new(stack(3), p)).unwrap();
    let g = &mut Graph::new();
    let narrow = g.input("narrow", DType::F32, [1, 4, 1]).unwrap();
    let x = g.input("x", DType::F32, [1, 4, 2]).unwrap();
    let slot = g.input("slot", DType::I32, [1, 3]).unwrap();
    let own = Context::default();
    let cached = Cached { slot, rows: 1, capacity: 8 };
    let weight = "linear: weight is [2 2], expected [N K=1]; K comes from x";
    for (message, expected) in [
        (text(linear.forward(g, narrow)), weight),
        (
            text(embedding.forward(g, narrow)),
            "embedding: ids is f32, expected i32; ids, positions and lengths are i32",
        ),
        (text(norm.forward(g, narrow)), "layer_norm: scale is [2], expected [C=1]; C comes from x"),
        (text(positions.forward(g, x, None)), "add_position: "),
        (text(feed_forward.forward(g, narrow)), "linear: weight is [3 2], expected [N K=1]; K comes from x"),
        (text(attention.forward(g, narrow, KeySource::Own, &own)), weight),
        (text(attention.keep(g, narrow, &cached)), weight),
        (text(attention.keep(g, x, &cached)), "cache_write: "),
        (
            text(one.forward(g, narrow, &own, None)),
            "layer_norm: scale is [2], expected [C=1]; C comes from x",
        ),
        (
            text(all.forward(g, narrow, &own, None)),
            "layer_norm: scale is [2], expected [C=1]; C comes from x",
        ),
        (text(all.keep(g, narrow, &cached)), weight),
    ] {
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn patterns_that_cannot_be_asked_for() {
    use regard_layers::taps::ask;
    use regard_ops::prelude::*;
    let g = &mut Graph::inference();
    let t = g.open('T', 9).unwrap();
    let x = g.input("x", DType::F32, regard_graph::shape![1, t, 2, 3]).unwrap();
    g.scope("block.0.attention", |g| g.attention(x, x, x, &Default::default())).unwrap();
    assert_eq!(
        text(ask(g, "block.0.attention.pattern")),
        "tap: `block.0.attention.pattern` is asked of T queries; a pattern has one row for each query: fix their number"
    );
    assert_eq!(
        text(ask(g, "block.0.attention.patern")),
        "no output or tap is called `block.0.attention.patern`; did you mean `block.0.attention.pattern`?"
    );
}

#[test]
fn usual_settings_need_heads_that_share_the_width() {
    let expected = "attention: a width of 10 cannot be shared by 4 heads; choose a width that is a multiple of the heads, \
                    or set head_width and value_width";
    assert_eq!(text(BlockConfig::new(10, 4)), expected);
    assert_eq!(text(StackConfig::new(2, 10, 4)), expected);
    let usual = StackConfig::new(2, 8, 4).unwrap();
    assert_eq!(usual.block.feed_forward, FeedForwardConfig::new(8));
    assert_eq!((usual.block.feed_forward.hidden, usual.block.attention.head_width), (32, 2));
    Stack::new(usual, &mut Parameters::new()).unwrap();
}

#[test]
fn a_layer_with_caches_is_applied_once() {
    let p = &mut Parameters::new();
    let layer = p.under("block", |p| AttentionLayer::new(AttentionConfig::new(4, 2).unwrap(), p)).unwrap();
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1, 2, 4]).unwrap();
    let slot = g.input("slot", DType::I32, [1, 2]).unwrap();
    let cached = Some(Cached { slot, rows: 1, capacity: 3 });
    let seen = Context { cached, ..Context::causal() };
    let x = layer.forward(&mut g, x, KeySource::Own, &seen).unwrap();
    assert_eq!(
        text(layer.forward(&mut g, x, KeySource::Own, &seen)),
        "attention: `cache.block.key` is written a second time in one graph; a layer has one pair of caches: where it is \
         applied more than once, keep nothing from run to run"
    );
    // Without caches it may be applied as often as one likes.
    layer.forward(&mut g, x, KeySource::Own, &Context::causal()).unwrap();
}

#[test]
fn adapters_that_cannot_be_are_refused() {
    let mut parameters = Parameters::new();
    let config = LinearConfig { inputs: 3, outputs: 2, bias: false, std: 0.1 };
    parameters.under("layer", |p| LinearLayer::new(config, p)).unwrap();
    let adapter = AdapterConfig { rank: 2, scale: 1.0, dropout: 0.0 };
    let weight = "layer.weight".to_string();
    let adapted = parameters.adapted(std::slice::from_ref(&weight), adapter).unwrap();
    assert_eq!(adapted.count(), 6 + 2 * 3 + 2 * 2);
    assert_eq!(
        parameters.adapted(&[weight], adapter).unwrap_err().to_string(),
        "adapter: `layer.weight` has one already; name it once"
    );
    assert_eq!(
        parameters.adapted(&["layer.bias".into()], adapter).unwrap_err().to_string(),
        "adapter: `layer.bias` is not the weight of a linear layer; name weights of attention or feed-forward parts"
    );
}

#[test]
fn a_block_runs_no_more_often_than_blocks_stand() {
    let config = StackConfig { layers: 20_000, ..StackConfig::new(1, 8, 2).unwrap() };
    assert_eq!(
        Stack::repeated(config, &mut Parameters::new()).unwrap_err().to_string(),
        "stack: a block that runs 20000 times; choose at most 10000"
    );
    let mut shared = Parameters::new();
    let stack = Stack::repeated(StackConfig { layers: 5, ..config }, &mut shared).unwrap();
    let mut one = Parameters::new();
    Stack::new(StackConfig { layers: 1, ..config }, &mut one).unwrap();
    assert_eq!((stack.blocks().len(), shared.count()), (5, one.count()));
}
