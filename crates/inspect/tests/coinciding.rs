//! Every axis as long as every other: examples, positions of both streams, heads, head width, latents.
//! Nothing is told apart by its length, leaks are found in the node where they begin, and what nobody can
//! follow is said.

use regard_graph::{DType, Fact, Graph, Init, Var};
use regard_inspect::{Finding, Outcome, Promise, ProofCase, Stream, prove, sight};
use regard_layers::{
    AttentionConfig, BlockConfig, Context, FeedForwardConfig, FeedForwardKind, KeySource, KeySourceConfig,
    NormConfig, NormKind, NormPlace, Parameters, RelativeConfig, Stack, StackConfig,
};
use regard_ops::prelude::*;
use regard_ops::{Attention, AttentionMask, MatmulOptions};

/// B = T = S = H = D.
const N: usize = 4;
const WIDTH: usize = N * N;

fn stream(input: &str, mask: Option<&str>) -> Stream {
    let real = (0..N).flat_map(|b| (0..N).map(move |t| t < N - b % 3)).collect();
    Stream { input: input.into(), length: N, mask: mask.map(String::from), real }
}

fn case(graph: Graph, streams: Vec<Stream>) -> ProofCase {
    ProofCase { graph, batch: N, streams, known: Vec::new() }
}

fn causal(input: &str) -> Promise {
    Promise::Causal(input.into())
}

fn padding(input: &str) -> Promise {
    Promise::Padding(input.into())
}

/// ids [N N] and their embedding [N N WIDTH].
fn embedded(g: &mut Graph, name: &str) -> Var {
    let ids = g.input(name, DType::I32, [N, N]).unwrap();
    let table = g.parameter(&format!("{name}.table"), [N, WIDTH], Init::Ones).unwrap();
    g.embedding(table, ids, None).unwrap()
}

/// Two blocks, each with a context of its own.
fn blocks(
    g: &mut Graph,
    name: &str,
    x: Var,
    norm: NormKind,
    contexts: [Context; 2],
    memory: Memory<'_>,
) -> Var {
    let block = BlockConfig {
        attention: AttentionConfig::new(WIDTH, N).unwrap(),
        cross: memory.map(|_| AttentionConfig {
            source: KeySourceConfig::Memory(WIDTH),
            ..AttentionConfig::new(WIDTH, N).unwrap()
        }),
        feed_forward: FeedForwardConfig {
            width: WIDTH,
            hidden: WIDTH,
            kind: FeedForwardKind::Gelu,
            bias: true,
            dropout: 0.0,
            std: 0.02,
        },
        norm: NormConfig { kind: norm, ..NormConfig::layer(WIDTH) },
        place: NormPlace::Pre,
        dropout: 0.0,
    };
    let config = StackConfig { layers: 2, block, final_norm: false, relative: RelativeConfig::None };
    let stack = Parameters::new().under(name, |p| Stack::new(config, p)).unwrap();
    let mut x = x;
    for (layer, (block, context)) in stack.blocks().iter().zip(contexts).enumerate() {
        x = g.scope(format!("{name}.{layer}"), |g| block.forward(g, x, &context, memory)).unwrap();
    }
    x
}

type Memory<'a> = Option<(KeySource, &'a Context)>;

fn keys(mask: Var) -> Context {
    Context { mask: AttentionMask { key_mask: Some(mask), ..Default::default() }, ..Default::default() }
}

fn outcomes(found: &[Finding]) -> Vec<Outcome> {
    found.iter().map(|finding| finding.outcome).collect()
}

fn guilty(finding: &Finding) -> &str {
    assert_eq!(finding.outcome, Outcome::Broken, "{finding:?}");
    &finding.guilty.as_ref().unwrap().node
}

fn followed(found: &[Finding]) {
    for finding in found {
        assert_eq!(finding.coverage.unfollowed, [], "{}", finding.sentence);
        assert!(finding.coverage.judged > 0, "{}", finding.sentence);
    }
}

/// An encoder-decoder of two streams of one length; `own` is what the decoder sees of itself.
fn pair(own: [Context; 2], masked: [bool; 2]) -> ProofCase {
    let mut g = Graph::inference();
    let source = embedded(&mut g, "ids");
    let mask = g.input("mask", DType::Bool, [N, N]).unwrap();
    let target = embedded(&mut g, "targets");
    let [encoder, cross] = masked.map(|masked| if masked { keys(mask) } else { Context::default() });
    let memory = blocks(&mut g, "encoder", source, NormKind::Layer, [encoder; 2], None);
    let x = blocks(&mut g, "decoder", target, NormKind::Rms, own, Some((KeySource::Memory(memory), &cross)));
    g.output("memory", memory).unwrap();
    g.output("hidden", x).unwrap();
    case(g, vec![stream("ids", Some("mask")), stream("targets", None)])
}

#[test]
fn two_streams_of_one_length() {
    let sees = |to: &str, by: &str| Promise::Sees { from: "ids".into(), to: to.into(), by: by.into() };
    let promises = [
        causal("targets"),
        padding("ids"),
        padding("targets"),
        sees("ids", "memory"),
        sees("targets", "hidden"),
        Promise::Batch,
        causal("ids"),
    ];
    let judge = |own, masked| prove(&pair(own, masked), &promises).unwrap();
    let [right, open] = [[Context::causal(); 2], [Context::causal(), Context::default()]];
    let found = judge(right, [true, true]);
    assert!(found[..6].iter().all(Finding::holds), "{found:?}");
    assert_eq!(guilty(&found[6]), "encoder.0.attention.attention");
    followed(&found);
    let found = judge(open, [true, true]);
    assert_eq!(guilty(&found[0]), "decoder.1.attention.attention");
    assert_eq!(guilty(&found[2]), "decoder.1.attention.attention");
    assert!(found[1].holds() && found[5].holds(), "{found:?}");
    let found = judge(right, [true, false]);
    assert_eq!(guilty(&found[1]), "decoder.0.cross.attention");
    assert!(found[0].holds() && found[2].holds() && found[5].holds());
    let found = judge(right, [false, true]);
    assert_eq!(guilty(&found[1]), "encoder.0.attention.attention");
}

#[test]
fn a_mask_that_is_off_by_one_and_a_norm_over_the_batch() {
    let late = |g: &mut Graph| {
        let places = |by: usize| -> Vec<f64> { (0..N * N).map(|i| (i % N + by) as f64).collect() };
        let key = g.constant(DType::I32, [N, N], &places(0)).unwrap();
        let query = g.constant(DType::I32, [N, N], &places(1)).unwrap();
        Context { query_position: Some(query), key_position: Some(key), ..Context::causal() }
    };
    let mut g = Graph::inference();
    let x = embedded(&mut g, "ids");
    let late = late(&mut g);
    let x = blocks(&mut g, "block", x, NormKind::Layer, [Context::causal(), late], None);
    g.output("hidden", x).unwrap();
    let found = prove(&case(g, vec![stream("ids", None)]), &[causal("ids"), Promise::Batch]).unwrap();
    assert_eq!(guilty(&found[0]), "block.1.attention.attention");
    assert!(found[0].sentence.contains("looks 1 ahead"), "{}", found[0].sentence);
    assert!(found[1].holds());
    followed(&found);

    let mut g = Graph::new(); // as in training: over the batch, not by running statistics
    let x = embedded(&mut g, "ids");
    let x = blocks(&mut g, "block", x, NormKind::Batch, [Context::causal(); 2], None);
    g.output("hidden", x).unwrap();
    let found = prove(&case(g, vec![stream("ids", None)]), &[Promise::Batch, causal("ids")]).unwrap();
    for finding in &found {
        assert_eq!(guilty(finding), "block.0.attention.batch_norm");
    }
}

#[test]
fn a_permutation_of_axes_that_are_as_long() {
    // Heads are added to positions: what one position says in head 3 arrives at position 3.
    let mut g = Graph::inference();
    let x = embedded(&mut g, "ids");
    let heads = g.split_heads(x, N).unwrap(); // B T H D
    let turned = g.transpose(heads, &[0, 2, 1, 3]).unwrap(); // B H T D
    let leak = g.scope("leak", |g| g.add(heads, turned)).unwrap();
    let y = g.merge_heads(leak).unwrap();
    g.output("hidden", y).unwrap();
    let found = prove(&case(g, vec![stream("ids", None)]), &[causal("ids"), Promise::Batch]).unwrap();
    assert_eq!(guilty(&found[0]), "leak.add", "the permutation itself moves nothing to another position");
    assert!(found[1].holds());
    followed(&found);

    // Positions last, and a softmax over them; then back again.
    let mut g = Graph::inference();
    let x = embedded(&mut g, "ids");
    let heads = g.split_heads(x, N).unwrap();
    let turned = g.transpose(heads, &[0, 2, 3, 1]).unwrap(); // B H D T
    let mixed = g.scope("over_positions", |g| g.softmax(turned)).unwrap();
    let back = g.transpose(mixed, &[0, 3, 1, 2]).unwrap();
    g.output("hidden", back).unwrap();
    let found = prove(&case(g, vec![stream("ids", None)]), &[causal("ids"), padding("ids"), Promise::Batch]);
    let found = found.unwrap();
    assert_eq!(guilty(&found[0]), "over_positions.softmax");
    assert_eq!(guilty(&found[1]), "over_positions.softmax");
    assert!(found[2].holds());
    followed(&found);

    // Keys and values with heads where positions belong: each head reads another position.
    let mut g = Graph::inference();
    let x = embedded(&mut g, "ids");
    let heads = g.split_heads(x, N).unwrap();
    let turned = g.transpose(heads, &[0, 2, 1, 3]).unwrap();
    let y = g.scope("leak", |g| g.attention(heads, turned, turned, &Attention::default())).unwrap().y;
    g.output("hidden", y).unwrap();
    let found = prove(&case(g, vec![stream("ids", None)]), &[causal("ids"), Promise::Batch]).unwrap();
    assert_eq!(guilty(&found[0]), "leak.attention");
    assert!(found[1].holds());
    followed(&found);

    // The batch and the positions change places and meet.
    let mut g = Graph::inference();
    let x = embedded(&mut g, "ids");
    let turned = g.transpose(x, &[1, 0, 2]).unwrap();
    let met = g.scope("meeting", |g| g.add(x, turned)).unwrap();
    g.output("hidden", met).unwrap();
    let found = prove(&case(g, vec![stream("ids", None)]), &[Promise::Batch]).unwrap();
    assert_eq!(guilty(&found[0]), "meeting.add");
}

#[test]
fn one_number_for_each_position() {
    let mut g = Graph::inference();
    let x = embedded(&mut g, "ids");
    let sums = g.sum_to_fact(x, Fact::f32([N, N, 1])).unwrap();
    let sums = g.reshape(sums, [N, N]).unwrap(); // B T, and no features behind
    g.output("sums", sums).unwrap();
    let right = prove(&case(g, vec![stream("ids", None)]), &[causal("ids"), Promise::Batch]).unwrap();
    assert_eq!(outcomes(&right), [Outcome::Holds; 2]);
    assert_eq!((right[0].coverage.judged, right[0].coverage.values()), (3, 3), "the numbers are judged, too");

    let mut g = Graph::inference();
    let x = embedded(&mut g, "ids");
    let sums = g.sum_to_fact(x, Fact::f32([N, N, 1])).unwrap();
    let sums = g.reshape(sums, [N, N]).unwrap();
    let shares = g.scope("shares", |g| g.softmax(sums)).unwrap();
    g.output("shares", shares).unwrap();
    let case = case(g, vec![stream("ids", None)]);
    let found = &prove(&case, &[causal("ids")]).unwrap()[0];
    assert_eq!(guilty(found), "shares.softmax");
    assert_eq!(found.guilty.as_ref().unwrap().to, [0, 0]);
    let sights = sight(&case, "ids").unwrap();
    assert_eq!((sights[0].back, sights[0].ahead), (N - 1, N - 1));
}

#[test]
fn scores_stand_for_pairs() {
    // Scores are made before they are masked: a pair may feel both of its positions, and nothing else.
    let scores = |masked: bool| {
        let mut g = Graph::inference();
        let x = embedded(&mut g, "ids");
        let turned = MatmulOptions { transpose_b: true, ..Default::default() };
        let pairs = g.matmul(x, x, turned).unwrap(); // B T C, B S C -> B T S
        let lower: Vec<f64> = (0..N * N).map(|i| f64::from(u8::from(i % N <= i / N))).collect();
        let mask = g.constant(DType::Bool, [N, N], &lower).unwrap();
        let never = g.fill(DType::F32, [N, N], -1e9).unwrap();
        let pairs = if masked { g.select(mask, pairs, never).unwrap() } else { pairs };
        let weights = g.scope("weights", |g| g.softmax(pairs)).unwrap();
        g.output("weights", weights).unwrap();
        case(g, vec![stream("ids", None)])
    };
    let found = prove(&scores(true), &[causal("ids"), padding("ids")]).unwrap();
    assert!(found[0].holds(), "{found:?}");
    followed(&found);
    assert_eq!(guilty(&prove(&scores(false), &[causal("ids")]).unwrap()[0]), "weights.softmax");
}

#[test]
fn latents_may_feel_padding_that_nobody_hears_of() {
    // As many latents as positions. Each asks all tokens; tokens ask the first latent only, or all.
    let perceiver = |heard: usize, pooled: bool| {
        let mut g = Graph::inference();
        let x = embedded(&mut g, "ids");
        let tokens = g.split_heads(x, N).unwrap();
        let latents = g.parameter("latents", [N, N, N, N], Init::Ones).unwrap();
        let sees: Vec<f64> = (0..N * N).map(|i| f64::from(u8::from(i % N <= i / N))).collect();
        let down = g.constant(DType::Bool, [1, 1, N, N], &sees).unwrap();
        let hears: Vec<f64> = (0..N * N).map(|i| f64::from(u8::from(i % N < heard))).collect();
        let up = g.constant(DType::Bool, [1, 1, N, N], &hears).unwrap();
        let masked = |explicit| Attention {
            mask: AttentionMask { explicit: Some(explicit), ..Default::default() },
            ..Default::default()
        };
        let z = g.scope("down", |g| g.attention(latents, tokens, tokens, &masked(down))).unwrap().y;
        let y = g.scope("up", |g| g.attention(tokens, z, z, &masked(up))).unwrap().y;
        g.output("hidden", y).unwrap();
        if pooled {
            let sum = g.scope("pool", |g| g.sum_to_fact(z, Fact::f32([N, 1, N, N]))).unwrap();
            g.output("pooled", sum).unwrap();
        }
        case(g, vec![stream("ids", None)])
    };
    let found = prove(&perceiver(1, false), &[padding("ids"), Promise::Batch]).unwrap();
    assert_eq!(outcomes(&found), [Outcome::Holds; 2], "{found:?}");
    assert!(found[0].coverage.aside > 0 && found[0].sentence.contains("have no positions"), "{found:?}");
    followed(&found);
    let found = prove(&perceiver(N, false), &[padding("ids")]).unwrap();
    assert_eq!(guilty(&found[0]), "down.attention", "that is where it begins");
    let found = prove(&perceiver(1, true), &[padding("ids")]).unwrap();
    assert_eq!(guilty(&found[0]), "down.attention", "what is said about the whole example feels it");
}

#[test]
fn a_class_token_stands_beside_the_positions() {
    let encoder = |masked: bool| {
        let mut g = Graph::inference();
        let x = embedded(&mut g, "ids");
        let class = g.parameter("class", [N, 1, WIDTH], Init::Ones).unwrap();
        let x = g.concat(&[class, x], 1).unwrap();
        let heads = g.split_heads(x, N).unwrap();
        let real: Vec<f64> = stream("ids", None)
            .real
            .chunks(N)
            .flat_map(|row| [true].into_iter().chain(row.iter().copied()))
            .map(|real| f64::from(u8::from(real)))
            .collect();
        let real = g.constant(DType::Bool, [N, N + 1], &real).unwrap();
        let mask = AttentionMask { key_mask: masked.then_some(real), ..Default::default() };
        let y = g.attention(heads, heads, heads, &Attention { mask, ..Default::default() }).unwrap().y;
        let y = g.merge_heads(y).unwrap();
        let class = g.slice(y, 1, 0, 1).unwrap();
        let words = g.slice(y, 1, 1, N).unwrap();
        g.output("class", class).unwrap();
        g.output("words", words).unwrap();
        case(g, vec![stream("ids", None)])
    };
    let sees = Promise::Sees { from: "ids".into(), to: "ids".into(), by: "words".into() };
    let found = prove(&encoder(true), &[padding("ids"), Promise::Batch, sees]).unwrap();
    assert_eq!(outcomes(&found), [Outcome::Holds; 3], "{found:?}");
    followed(&found);
    assert_eq!(guilty(&prove(&encoder(false), &[padding("ids")]).unwrap()[0]), "attention");
}

#[test]
fn what_cannot_be_followed_is_said() {
    // Neighbours are added: is the sum at the place of the first or of the second?
    let model = |with_stream: bool| {
        let mut g = Graph::inference();
        let x = embedded(&mut g, "ids");
        let (first, second) = (g.slice(x, 1, 0, N - 1).unwrap(), g.slice(x, 1, 1, N - 1).unwrap());
        let pairs = g.scope("neighbours", |g| g.add(first, second)).unwrap();
        if with_stream {
            let start = g.fill(DType::F32, [N, 1, WIDTH], 0.0).unwrap();
            let late = g.concat(&[start, pairs], 1).unwrap();
            let y = g.add(x, late).unwrap();
            g.output("hidden", y).unwrap();
        } else {
            g.output("pairs", pairs).unwrap();
        }
        case(g, vec![stream("ids", None)])
    };
    let found = prove(&model(false), &[causal("ids"), Promise::Batch]).unwrap();
    assert_eq!(outcomes(&found), [Outcome::Unknown, Outcome::Holds]);
    let [lost] = found[0].coverage.unfollowed.as_slice() else { panic!("{found:?}") };
    assert_eq!((lost.node.as_str(), lost.op.as_str()), ("neighbours.add", "add"));
    assert_eq!(
        found[0].sentence,
        "not known whether causal: nobody can say what `pairs` stands for; judged 3 of 4 values; not followed: \
         `neighbours.add` (add: axis 1: it is the positions of `ids` 0..3 at 0 in one operand and others of them \
         (positions of `ids` 1..4 at 0) in another)"
    );
    let by = |by: &str| Promise::Sees { from: "ids".into(), to: "ids".into(), by: by.into() };
    let blind = &prove(&model(false), &[by("pairs")]).unwrap()[0];
    assert_eq!(blind.outcome, Outcome::Unknown);
    // What it feels is carried on: where places are known again, all is judged.
    let found = prove(&model(true), &[causal("ids")]).unwrap();
    assert_eq!(outcomes(&found), [Outcome::Holds], "{found:?}");
    assert_eq!(found[0].coverage.unfollowed.len(), 2);

    // Examples and positions dealt out again.
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [2, 3]).unwrap();
    let crooked = g.reshape(ids, [3, 2]).unwrap();
    let table = g.parameter("table", [N, N], Init::Ones).unwrap();
    let y = g.embedding(table, crooked, None).unwrap();
    g.output("hidden", y).unwrap();
    let streams = vec![Stream::whole("ids", 2, 3)];
    let case = ProofCase { graph: g, batch: 2, streams, known: Vec::new() };
    let found = prove(&case, &[causal("ids"), Promise::Batch]).unwrap();
    assert_eq!(outcomes(&found), [Outcome::Unknown; 2], "{found:?}");
}

#[test]
fn cases_that_do_not_fit_are_refused() {
    let graph = || {
        let mut g = Graph::inference();
        let x = embedded(&mut g, "ids");
        g.output("hidden", x).unwrap();
        g
    };
    let text = |streams: Vec<Stream>, promise: Promise| {
        prove(&case(graph(), streams), &[promise]).unwrap_err().to_string()
    };
    let short = Stream { length: N - 1, real: vec![true; N * (N - 1)], ..stream("ids", None) };
    assert_eq!(
        text(vec![short], causal("ids")),
        "`ids` is [4 4], and the stream has 4 times 3; give examples and positions as its first two axes have them"
    );
    let few = Stream { real: vec![true; 3], ..stream("ids", None) };
    assert_eq!(
        text(vec![few], causal("ids")),
        "3 positions of `ids` are said to be real or not; say it of 4 times 4"
    );
    let stranger = stream("ids", Some("maks"));
    assert_eq!(text(vec![stranger], causal("ids")), "no input is called `maks`; there are `ids`");
    assert_eq!(
        text(Vec::new(), Promise::Batch),
        "no input has 4 examples in front; name its streams, or feed floats"
    );
}
