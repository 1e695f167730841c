//! Taps of a GPT-like stack: each can be kept and put in the place of another, with zeros and with what
//! another run had. What lies behind changes, what lies before does not.

use regard_engine::{Cpu, Program, Store};
use regard_graph::{DType, Graph, Pass, Var};
use regard_inspect::{keep_taps, patch_taps, patched_taps, without_taps};
use regard_layers::taps::{ask, taps};
use regard_layers::{
    AttentionConfig, BlockConfig, Context, EmbeddingConfig, EmbeddingLayer, FeedForwardConfig,
    FeedForwardKind, NormConfig, NormPlace, Parameters, RelativeConfig, Stack, StackConfig,
};
use regard_ops::{Array, RotarySpec};
use std::collections::BTreeMap;

const LENGTH: usize = 6;

/// Two blocks of four heads that share two keys, behind an embedding.
fn record(place: NormPlace) -> Graph {
    let mut parameters = Parameters::new();
    let p = &mut parameters;
    let attention = AttentionConfig { groups: 2, std: 0.5, ..AttentionConfig::new(8, 4).unwrap() };
    let feed_forward = FeedForwardConfig {
        width: 8,
        hidden: 12,
        kind: FeedForwardKind::Gelu,
        bias: true,
        dropout: 0.0,
        std: 0.5,
    };
    let norm = NormConfig::layer(8);
    let block = BlockConfig { attention, cross: None, feed_forward, norm, place, dropout: 0.0 };
    let relative = RelativeConfig::Rotary(RotarySpec::default());
    let config = StackConfig { layers: 2, block, final_norm: true, relative };
    let table = EmbeddingConfig { tokens: 11, width: 8, std: 1.0 };
    let tokens = p.under("tokens", |p| EmbeddingLayer::new(table, p)).unwrap();
    let stack = Stack::new(config, p).unwrap();
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [1, LENGTH]).unwrap();
    let x = tokens.forward(&mut g, ids).unwrap();
    let x = stack.forward(&mut g, x, &Context::causal(), None).unwrap();
    g.output("hidden", x).unwrap();
    g
}

const TEXT: [i32; LENGTH] = [1, 2, 3, 4, 5, 6];
const OTHER: [i32; LENGTH] = [7, 2, 9, 4, 3, 3];

fn program(graph: Graph, keep: &[&str]) -> (Program, Store) {
    let mut store = Store::new(3);
    let program = Program::new(graph, keep, &mut store, &Cpu::new().unwrap()).unwrap();
    (program, store)
}

fn ran(graph: Graph, keep: &[&str], ids: &[i32]) -> Program {
    let (mut program, mut store) = program(graph, keep);
    program.set_i32("ids", &[1, LENGTH], ids).unwrap();
    program.run(&mut store).unwrap();
    program
}

fn names(g: &Graph) -> Vec<String> {
    taps(g).into_iter().map(|tap| tap.name).collect()
}

/// Every tap of a run, and the answer.
fn values(program: &Program, names: &[String]) -> BTreeMap<String, Array> {
    let mut all: BTreeMap<String, Array> =
        names.iter().map(|name| (name.clone(), program.array(name).unwrap())).collect();
    all.insert("hidden".into(), program.array("hidden").unwrap());
    all
}

/// A graph with all of its patterns recorded, and the names of its taps.
fn asked(mut g: Graph) -> (Graph, Vec<String>) {
    let names = names(&g);
    names.iter().for_each(|name| {
        ask(&mut g, name).unwrap();
    });
    (g, names)
}

#[test]
fn every_block_has_the_same_taps() {
    for place in [NormPlace::Pre, NormPlace::Post] {
        let g = record(place);
        let all = taps(&g);
        for block in 0..2 {
            let mut own: Vec<(String, String, bool)> = (all.iter())
                .filter_map(|tap| {
                    let name = tap.name.strip_prefix(&format!("block.{block}."))?;
                    Some((name.to_string(), tap.shape.to_string(), tap.on_request))
                })
                .collect();
            own.sort();
            let expected = [
                ("attention.added", "[1 6 8]", false),
                ("attention.key", "[1 6 2 2]", false),
                ("attention.mixed", "[1 6 4 2]", false),
                ("attention.norm", "[1 6 8]", false),
                ("attention.pattern", "[1 4 6 6]", true),
                ("attention.query", "[1 6 4 2]", false),
                ("attention.value", "[1 6 2 2]", false),
                ("feed_forward.added", "[1 6 8]", false),
                ("feed_forward.hidden", "[1 6 12]", false),
                ("feed_forward.norm", "[1 6 8]", false),
                ("stream", "[1 6 8]", false),
            ];
            assert_eq!(own, expected.map(|(name, shape, asked)| (name.into(), shape.into(), asked)));
        }
        assert!(all.iter().all(|tap| !tap.about.is_empty()));
        assert!(g.nodes().iter().all(|node| node.op.name() != "attention_weights"), "nobody asked");
    }
}

#[test]
fn looking_at_every_tap_changes_no_bit() {
    for place in [NormPlace::Pre, NormPlace::Post] {
        let plain = ran(record(place), &[], &TEXT).array("hidden").unwrap();
        let (g, names) = asked(record(place));
        let keep: Vec<&str> = names.iter().map(String::as_str).collect();
        let looked = ran(g, &keep, &TEXT);
        assert_eq!(looked.array("hidden").unwrap().data(), plain.data());
        let pattern = looked.array("block.1.attention.pattern").unwrap();
        for row in pattern.data().chunks(LENGTH) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-6, "weights of a query are shares");
        }
    }
}

/// Which taps can feel a change of another one: those of which its value is an ancestor.
fn behind(g: &Graph, names: &[String], name: &str) -> BTreeMap<String, bool> {
    // What a pattern says is felt by what its heads gather.
    let from = name.strip_suffix("pattern").map_or(name.to_string(), |scope| format!("{scope}mixed"));
    let mut feels = vec![false; g.values().len()];
    feels[g.find(&from).unwrap().index()] = true;
    for node in g.nodes().iter().filter(|node| node.pass == Pass::Forward) {
        if node.inputs.iter().any(|input: &Var| feels[input.index()]) {
            node.outputs.iter().for_each(|output| feels[output.index()] = true);
        }
    }
    names.iter().map(|other| (other.clone(), feels[g.find(other).unwrap().index()])).collect()
}

#[test]
fn each_tap_can_be_put_in_the_place_of_another() {
    for place in [NormPlace::Pre, NormPlace::Post] {
        let (g, names) = asked(record(place));
        let keep: Vec<&str> = names.iter().map(String::as_str).collect();
        let before = values(&ran(asked(record(place)).0, &keep, &TEXT), &names);
        for name in &names {
            let mut source = record(place);
            keep_taps(&mut source, &[name]).unwrap();
            let source = ran(source, &[], &OTHER);
            for zeros in [false, true] {
                let graph = match zeros {
                    true => without_taps(&g, &[name]).unwrap(),
                    false => patch_taps(&g, &[name]).unwrap(),
                };
                let (mut program, mut store) = program(graph, &keep);
                program.set_i32("ids", &[1, LENGTH], &TEXT).unwrap();
                if !zeros {
                    patched_taps(&mut program, &source, &[name]).unwrap();
                }
                program.run(&mut store).unwrap();
                let after = values(&program, &names);
                assert_ne!(before["hidden"].data(), after["hidden"].data(), "{name}: the answer must change");
                let felt = behind(&g, &names, name);
                for other in names.iter().filter(|other| *other != name) {
                    let same = before[other].data() == after[other].data();
                    assert!(same || felt[other], "{name} changed {other}, which lies before it");
                }
                if !name.ends_with("pattern") {
                    let given = if zeros {
                        vec![0.0; before[name].data().len()]
                    } else {
                        source.array(&format!("patch.{name}")).unwrap().data().to_vec()
                    };
                    assert_eq!(after[name].data(), given, "{name} is what it was told to be");
                }
            }
            // Its own values change nothing; a pattern goes another way to the same sums.
            let mut own = record(place);
            keep_taps(&mut own, &[name]).unwrap();
            let own = ran(own, &[], &TEXT);
            let (mut program, mut store) = program(patch_taps(&g, &[name]).unwrap(), &[]);
            program.set_i32("ids", &[1, LENGTH], &TEXT).unwrap();
            patched_taps(&mut program, &own, &[name]).unwrap();
            program.run(&mut store).unwrap();
            let (hidden, same) = (&before["hidden"], program.array("hidden").unwrap());
            let bound = if name.ends_with("pattern") { 1e-5 } else { 0.0 };
            let most = hidden.data().iter().zip(same.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(most <= bound, "{name}: {most:e}");
        }
    }
}

#[test]
fn unknown_taps_offer_the_nearest() {
    let text = |result: regard_inspect::Result<()>| result.unwrap_err().to_string();
    let mut g = record(NormPlace::Pre);
    assert_eq!(
        ask(&mut g, "block.0.attention.patern").unwrap_err().to_string(),
        "no output or tap is called `block.0.attention.patern`; did you mean `block.0.attention.pattern`?"
    );
    let near = "no tap is called `block.1.feed_forward.add`; did you mean `block.1.feed_forward.added`?";
    assert_eq!(text(patch_taps(&g, &["block.1.feed_forward.add"]).map(|_| ())), near);
    assert_eq!(text(without_taps(&g, &["block.1.feed_forward.add"]).map(|_| ())), near);
    assert!(text(keep_taps(&mut g, &["block.1.feed_forward.add"])).contains("did you mean"));
    let name = "block.0.stream";
    let mut short = Graph::inference();
    let x = short.input("ids", DType::F32, [1, 2, 8]).unwrap();
    short.output("patch.block.0.stream", x).unwrap();
    let (mut short, mut store) = program(short, &[]);
    short.set_f32("ids", &[1, 2, 8], &[0.0; 16]).unwrap();
    short.run(&mut store).unwrap();
    let (mut patched, _) = program(patch_taps(&g, &[name]).unwrap(), &[]);
    assert_eq!(
        text(patched_taps(&mut patched, &short, &[name])),
        "`block.0.stream` is [1 2 8] in the other run and [1 6 8] in this one; values are taken place by place: run \
         both on as many texts of as many tokens"
    );
    keep_taps(&mut g, &[name]).unwrap();
    let source = ran(g, &[], &TEXT);
    let (mut other, _) = program(record(NormPlace::Pre), &[]);
    assert_eq!(
        text(patched_taps(&mut other, &source, &[name])),
        "no input is called `patch.block.0.stream`; there are `ids`"
    );
}
