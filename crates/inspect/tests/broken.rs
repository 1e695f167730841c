//! Models that are broken on purpose, as they are broken in the wild: each is caught, and the guilty layer is
//! named.

use regard_graph::{DType, Graph, Result, Var};
use regard_inspect::{Promise, ProofCase, Stream, prove, sight};
use regard_layers::{
    AttentionConfig, BlockConfig, Context, EmbeddingConfig, EmbeddingLayer, FeedForwardConfig,
    FeedForwardKind, KeySource, KeySourceConfig, NormConfig, NormKind, NormPlace, Parameters, RelativeConfig,
    Stack, StackConfig,
};
use regard_ops::AttentionMask;

const BATCH: usize = 3;
const LENGTH: usize = 7;
const WIDTH: usize = 8;

fn block() -> BlockConfig {
    BlockConfig {
        attention: AttentionConfig::new(WIDTH, 2).unwrap(),
        cross: None,
        feed_forward: FeedForwardConfig {
            width: WIDTH,
            hidden: 12,
            kind: FeedForwardKind::Gelu,
            bias: true,
            dropout: 0.0,
            std: 0.02,
        },
        norm: NormConfig::layer(WIDTH),
        place: NormPlace::Pre,
        dropout: 0.0,
    }
}

/// Two blocks behind an embedding, under a name of their own.
struct Model {
    tokens: EmbeddingLayer,
    stack: Stack,
}

impl Model {
    fn new(name: &str, block: BlockConfig) -> Model {
        let mut parameters = Parameters::new();
        parameters.under(name, |p| Model {
            tokens: p
                .under("tokens", |p| {
                    EmbeddingLayer::new(EmbeddingConfig { tokens: 11, width: WIDTH, std: 0.02 }, p)
                })
                .unwrap(),
            stack: Stack::new(
                StackConfig { layers: 2, block, final_norm: true, relative: RelativeConfig::None },
                p,
            )
            .unwrap(),
        })
    }

    /// Each block with a context of its own, so that one of them can be wrong.
    fn forward(
        &self,
        g: &mut Graph,
        ids: Var,
        contexts: [Context; 2],
        memory: Option<(KeySource, &Context)>,
    ) -> Result<Var> {
        let mut x = self.tokens.forward(g, ids)?;
        for (layer, (block, context)) in self.stack.blocks().iter().zip(contexts).enumerate() {
            x = g.scope(format!("block.{layer}"), |g| block.forward(g, x, &context, memory))?;
        }
        Ok(x)
    }
}

fn stream(input: &str, length: usize, mask: Option<&str>) -> Stream {
    let real = (0..BATCH).flat_map(|b| (0..length).map(move |t| t < length - b)).collect();
    Stream { input: input.into(), length, mask: mask.map(String::from), real }
}

fn case(graph: Graph, streams: Vec<Stream>) -> ProofCase {
    ProofCase { graph, batch: BATCH, streams, known: Vec::new() }
}

/// A decoder whose contexts are made by the caller; `positions` is i32 [B T].
fn decoder(block: BlockConfig, contexts: impl Fn(&mut Graph) -> [Context; 2]) -> ProofCase {
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [BATCH, LENGTH]).unwrap();
    let contexts = contexts(&mut g);
    let x = Model::new("gpt", block).forward(&mut g, ids, contexts, None).unwrap();
    g.output("hidden", x).unwrap();
    case(g, vec![stream("ids", LENGTH, None)])
}

fn causal(input: &str) -> Promise {
    Promise::Causal(input.into())
}

fn padding(input: &str) -> Promise {
    Promise::Padding(input.into())
}

#[test]
fn a_right_decoder_is_right() {
    let case = decoder(block(), |_| [Context::causal(); 2]);
    let found = prove(&case, &[causal("ids"), padding("ids"), Promise::Batch]).unwrap();
    assert!(found.iter().all(|finding| finding.holds() && finding.guilty.is_none()), "{found:?}");
    assert_eq!(
        found[0].sentence,
        "causal: no position of `ids` can be felt before it, at 7 positions; judged 45 of 45 values"
    );
    assert_eq!(
        found[1].sentence,
        "padding-safe: what stands at 3 padded positions of `ids` reaches no real one; judged 45 of 45 values"
    );
    assert_eq!(
        found[2].sentence,
        "batch-independent: none of 3 examples can change another; judged 45 of 45 values"
    );
    let sights = sight(&case, "ids").unwrap();
    assert_eq!(sights.len(), 2);
    assert!(sights.iter().all(|s| s.ahead == 0 && s.back == LENGTH - 1 && s.to_the_beginning));
}

#[test]
fn an_off_by_one_causal_mask_is_found_in_its_layer() {
    let late = |g: &mut Graph| {
        let places = |by: usize| -> Vec<f64> {
            (0..BATCH).flat_map(|_| (0..LENGTH).map(move |t| (t + by) as f64)).collect()
        };
        let key = g.constant(DType::I32, [BATCH, LENGTH], &places(0)).unwrap();
        let query = g.constant(DType::I32, [BATCH, LENGTH], &places(1)).unwrap();
        let wrong = Context { query_position: Some(query), key_position: Some(key), ..Context::causal() };
        [Context::causal(), wrong]
    };
    let case = decoder(block(), late);
    let found = &prove(&case, &[causal("ids")]).unwrap()[0];
    assert!(!found.holds());
    let guilty = found.guilty.as_ref().unwrap();
    assert_eq!((guilty.node.as_str(), guilty.op.as_str()), ("block.1.attention.attention", "attention"));
    assert_eq!((guilty.from[1], guilty.to[1]), (1, 0));
    assert_eq!(
        found.sentence,
        "not causal: `block.1.attention.attention` looks 1 ahead (position [0 1] of `ids` can change its result at [0 0 0]); \
         judged 45 of 45 values"
    );
    let ahead: Vec<usize> = sight(&case, "ids").unwrap().iter().map(|sight| sight.ahead).collect();
    assert_eq!(ahead, [0, 1], "the first block looks at nothing ahead, the second one position");
}

/// An encoder with a mask input, which block `deaf` does not look at.
fn encoder(deaf: Option<usize>) -> ProofCase {
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [BATCH, LENGTH]).unwrap();
    let mask = g.input("mask", DType::Bool, [BATCH, LENGTH]).unwrap();
    let informed =
        Context { mask: AttentionMask { key_mask: Some(mask), ..Default::default() }, ..Default::default() };
    let mut contexts = [informed; 2];
    if let Some(deaf) = deaf {
        contexts[deaf] = Context::default();
    }
    let post = BlockConfig { place: NormPlace::Post, ..block() };
    let x = Model::new("bert", post).forward(&mut g, ids, contexts, None).unwrap();
    g.output("hidden", x).unwrap();
    case(g, vec![stream("ids", LENGTH, Some("mask"))])
}

#[test]
fn an_encoder_that_ignores_the_padding_mask_is_found() {
    let sees = Promise::Sees { from: "ids".into(), to: "ids".into(), by: "hidden".into() };
    let right = prove(&encoder(None), &[padding("ids"), sees.clone(), Promise::Batch]).unwrap();
    assert!(right.iter().all(|finding| finding.holds()), "{right:?}");
    for deaf in 0..2 {
        let found = &prove(&encoder(Some(deaf)), &[padding("ids")]).unwrap()[0];
        assert!(!found.holds());
        let name = &found.guilty.as_ref().unwrap().node;
        assert_eq!(*name, format!("block.{deaf}.attention.attention"));
        assert!(found.sentence.starts_with(&format!("padding is felt: in `{name}`")), "{}", found.sentence);
    }
    // A causal encoder is safe, and blind.
    let case = decoder(block(), |_| [Context::causal(); 2]);
    let found = &prove(&case, &[sees]).unwrap()[0];
    assert!(!found.holds());
    assert_eq!(found.sentence, "blind: `hidden` at [0 0] cannot feel `ids` at [0 1], though both are real");
}

/// An encoder-decoder; `own` is what the decoder's blocks see of themselves, `cross` of the source.
fn pair(own: [Context; 2], deaf: bool) -> ProofCase {
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [BATCH, LENGTH]).unwrap();
    let mask = g.input("mask", DType::Bool, [BATCH, LENGTH]).unwrap();
    let targets = g.input("targets", DType::I32, [BATCH, LENGTH + 1]).unwrap();
    let informed =
        Context { mask: AttentionMask { key_mask: Some(mask), ..Default::default() }, ..Default::default() };
    let encoder = Model::new("encoder", block());
    let memory = g.scope("encoder", |g| encoder.forward(g, ids, [informed; 2], None)).unwrap();
    let cross = AttentionConfig { source: KeySourceConfig::Memory(WIDTH), ..block().attention };
    let decoder = Model::new("decoder", BlockConfig { cross: Some(cross), ..block() });
    let context = if deaf { Context::default() } else { informed };
    let source = Some((KeySource::Memory(memory), &context));
    let x = g.scope("decoder", |g| decoder.forward(g, targets, own, source)).unwrap();
    g.output("memory", memory).unwrap();
    g.output("hidden", x).unwrap();
    case(g, vec![stream("ids", LENGTH, Some("mask")), stream("targets", LENGTH + 1, None)])
}

#[test]
fn an_unmasked_decoder_of_an_encoder_decoder_is_found() {
    let sees = Promise::Sees { from: "ids".into(), to: "targets".into(), by: "hidden".into() };
    let promises = [causal("targets"), padding("ids"), sees, Promise::Batch];
    let right = prove(&pair([Context::causal(); 2], false), &promises).unwrap();
    assert!(right.iter().all(|finding| finding.holds()), "{right:?}");
    let open = prove(&pair([Context::default(), Context::causal()], false), &promises).unwrap();
    assert_eq!(open.iter().map(|finding| finding.holds()).collect::<Vec<_>>(), [false, true, true, true]);
    assert_eq!(open[0].guilty.as_ref().unwrap().node, "decoder.block.0.attention.attention");
    let deaf = prove(&pair([Context::causal(); 2], true), &promises).unwrap();
    assert_eq!(deaf.iter().map(|finding| finding.holds()).collect::<Vec<_>>(), [true, false, true, true]);
    assert_eq!(deaf[1].guilty.as_ref().unwrap().node, "decoder.block.0.cross.attention");
}

#[test]
fn batch_norm_in_place_of_layer_norm_is_found() {
    let mixed =
        BlockConfig { norm: NormConfig { kind: NormKind::Batch, ..NormConfig::layer(WIDTH) }, ..block() };
    let mut g = Graph::new(); // as in training: over the batch, not by running statistics
    let ids = g.input("ids", DType::I32, [BATCH, LENGTH]).unwrap();
    let model = Model::new("gpt", mixed);
    let x = model.forward(&mut g, ids, [Context::causal(); 2], None).unwrap();
    g.output("hidden", x).unwrap();
    let case = case(g, vec![stream("ids", LENGTH, None)]);
    let found = prove(&case, &[Promise::Batch, causal("ids")]).unwrap();
    for finding in &found {
        assert!(!finding.holds(), "{finding:?}");
        assert_eq!(finding.guilty.as_ref().unwrap().node, "block.0.attention.batch_norm");
    }
    assert!(found[0].sentence.starts_with("examples meet: in `block.0.attention.batch_norm` (example ["));
}

#[test]
fn questions_that_cannot_be_are_refused() {
    let case = decoder(block(), |_| [Context::causal(); 2]);
    let text = |promise: Promise| prove(&case, &[promise]).unwrap_err().to_string();
    assert_eq!(text(causal("idz")), "no stream is called `idz`; did you mean `ids`?");
    let sees = |by: &str| Promise::Sees { from: "ids".into(), to: "ids".into(), by: by.into() };
    assert_eq!(text(sees("hiden")), "no output or tap is called `hiden`; did you mean `hidden`?");
    let whole = ProofCase {
        streams: vec![Stream::whole("ids", BATCH, LENGTH)],
        ..decoder(block(), |_| [Context::causal(); 2])
    };
    assert_eq!(
        prove(&whole, &[padding("ids")]).unwrap_err().to_string(),
        "the stream `ids` has no padding; mark some of its positions as not real"
    );
}
