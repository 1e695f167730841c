//! The reach reader: on random programs never a false "cannot", and where nothing degenerates exactly what
//! really changes; the relations of the parts that models are made of, written out; and what models claim.

use regard::check::{Case, Exactness};
use regard::graph::Integers;
use regard::ops::{Attention, AttentionMask, Window};
use regard::prelude::*;
use regard::reach::{Grain, Query, Reach, reach};
use regard_conformance::programs::Recipe;
use regard_models::{Gpt, GptConfig};

#[test]
fn nothing_changes_that_cannot() {
    for seed in 0..60 {
        let recipe = Recipe::small(seed);
        let case = Case::new(move |g| recipe.record(g)).seed(seed);
        case.reach(Exactness::Safe).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn what_can_change_does_change() {
    for seed in 0..100 {
        let recipe = Recipe::generic(seed);
        let case = Case::new(move |g| recipe.record(g)).seed(seed);
        case.reach(Exactness::Equal).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

// ---- relations, written out --------------------------------------------------------------------------

fn read(g: &Graph, from: Var, to: Var, grain: Grain, integers: Integers) -> Reach {
    let (from, to) = (vec![from], vec![to]);
    reach(g, &Query { from, to, integers, grain, ..Query::default() }).unwrap()
}

/// One line for each cell of `to`: an x for each cell of `from` that can change it.
fn lines(reach: &Reach, from: Var, to: Var) -> Vec<String> {
    let line = |to| -> String {
        reach.cells(from).unwrap().map(|from| if reach.can(from, to).unwrap() { 'x' } else { '.' }).collect()
    };
    reach.cells(to).unwrap().map(line).collect()
}

/// By element, for x `[2 3]`: two rows of three channels.
fn normed(record: impl Fn(&mut Graph, Var) -> Var) -> Vec<String> {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let y = record(&mut g, x);
    lines(&read(&g, x, y, Grain::Element, Integers::none()), x, y)
}

fn running(g: &mut Graph) -> [Var; 2] {
    [("mean", Init::Zeros), ("variance", Init::Ones)]
        .map(|(name, init)| g.state(name, DType::F32, [3], init).unwrap())
}

#[test]
fn layer_norm_mixes_a_row() {
    let found = normed(|g, x| g.layer_norm(x, None, None, NormSpec::default()).unwrap());
    assert_eq!(found, ["xxx...", "xxx...", "xxx...", "...xxx", "...xxx", "...xxx"]);
}

#[test]
fn batch_norm_mixes_a_column_in_training() {
    let found = normed(|g, x| {
        let running = running(g);
        g.batch_norm(x, running, None, None, BatchNormSpec::default()).unwrap().normed
    });
    assert_eq!(found, ["x..x..", ".x..x.", "..x..x", "x..x..", ".x..x.", "..x..x"]);
}

#[test]
fn batch_norm_mixes_nothing_in_evaluation() {
    let found = normed(|g, x| {
        let running = running(g);
        g.batch_norm_eval(x, running, None, None, BatchNormSpec::default()).unwrap()
    });
    assert_eq!(found, ["x.....", ".x....", "..x...", "...x..", "....x.", ".....x"]);
}

/// By position, for self-attention on x `[1 4 1 2]`.
fn attended(record: impl Fn(&mut Graph) -> AttentionMask) -> Vec<String> {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [1, 4, 1, 2]).unwrap();
    let mask = record(&mut g);
    let y = g.attention(x, x, x, &Attention { mask, ..Default::default() }).unwrap().y;
    lines(&read(&g, x, y, Grain::Position, Integers::none()), x, y)
}

#[test]
fn attention_without_a_mask_mixes_all() {
    assert_eq!(attended(|_| AttentionMask::default()), ["xxxx"; 4]);
}

#[test]
fn a_causal_position_sees_itself_and_what_came_before() {
    let found = attended(|_| AttentionMask { causal: true, ..Default::default() });
    assert_eq!(found, ["x...", "xx..", "xxx.", "xxxx"]);
}

#[test]
fn a_window_is_seen_and_no_more() {
    let window =
        |before, after| AttentionMask { window: Some(Window { before, after }), ..Default::default() };
    assert_eq!(attended(|_| window(1, 1)), ["xx..", "xxx.", ".xxx", "..xx"]);
    assert_eq!(attended(|_| window(2, 0)), ["x...", "xx..", "xxx.", ".xxx"]);
}

#[test]
fn padding_is_not_seen_by_others() {
    // A padded position still sees itself: it is its own query.
    let known = attended(|g| {
        let lengths = g.constant(DType::I32, [1], &[3.0]).unwrap();
        AttentionMask { key_lengths: Some(lengths), ..Default::default() }
    });
    assert_eq!(known, ["xxx.", "xxx.", "xxx.", "xxxx"]);
    // Lengths that are not known may be anything.
    let unknown = attended(|g| {
        let lengths = g.input("lengths", DType::I32, [1]).unwrap();
        AttentionMask { key_lengths: Some(lengths), ..Default::default() }
    });
    assert_eq!(unknown, ["xxxx"; 4]);
}

// ---- what models claim -------------------------------------------------------------------------------

#[test]
fn a_gpt_is_causal_and_keeps_examples_apart() {
    const LENGTH: usize = 128;
    let config =
        GptConfig { layers: 3, heads: 2, width: 16, context: LENGTH, vocabulary: 40, ..GptConfig::SMALL };
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [2, LENGTH]).unwrap();
    let logits = Gpt::new(config).unwrap().logits(&mut g, ids).unwrap();
    let reach = read(&g, ids, logits, Grain::Position, Integers::none());
    assert!(reach.is_causal(ids, 1, logits, 1).unwrap().holds());
    assert!(reach.depends_only_on_same(ids, 0, logits, 0).unwrap().holds());
    // Every id that may be seen is: the claims are not empty.
    for (t, s) in [(0, 0), (LENGTH - 1, 0), (LENGTH - 1, LENGTH - 1), (77, 31)] {
        let (id, score) = (reach.cell(ids, &[1, s]).unwrap(), reach.cell(logits, &[1, t]).unwrap());
        assert!(reach.can(id, score).unwrap(), "the id at {s} is seen at {t}");
    }
}

#[test]
fn batch_norm_breaks_both_claims_and_says_where() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 4, 3]).unwrap();
    let running = running(&mut g);
    let y = g.batch_norm(x, running, None, None, BatchNormSpec::default()).unwrap().normed;
    let reach = read(&g, x, y, Grain::Position, Integers::none());
    let apart = reach.depends_only_on_same(x, 0, y, 0).unwrap();
    assert_eq!(apart.to_string(), "input `x` at [1 0] can change output 0 of `batch_norm` at [0 0]");
    let causal = reach.is_causal(x, 1, y, 1).unwrap();
    assert_eq!(causal.to_string(), "input `x` at [0 1] can change output 0 of `batch_norm` at [0 0]");
}
