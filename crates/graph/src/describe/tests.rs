//! One small program, shown in every way.

use super::*;
use crate::mock::{Mocks, map, mix, one, pair, record, sum, view};
use crate::{DType, Init, gradient, shape};

fn program() -> Graph {
    let mut g = Graph::new();
    let t = g.open('T', 8).unwrap();
    g.input("scale \"x\"", DType::F32, shape![t]).unwrap();
    let k = g.constant(DType::F32, shape![3], &[1.0, 2.0, 3.0]).unwrap();
    let w = g.parameter("block.0.weight", shape![3], Init::Normal(0.5)).unwrap();
    g.parameter("block.10.weight", shape![2, 3], Init::Zeros).unwrap();
    g.state("seen", DType::I32, shape![], Init::Zeros).unwrap();
    let y = g.scope("block.0", |g| {
        let y = one(g, map(2), &[w, k]);
        g.tap("hidden", y).unwrap();
        g.scope("norm", |g| record(g, pair(), &[y]).unwrap()[0])
    });
    let loss = one(&mut g, sum(), &[y]);
    g.output("loss", loss).unwrap();
    g
}

#[test]
fn text_is_a_tree_of_scopes() {
    assert_eq!(
        super::text(&program()),
        "letter T ≤ 8\n\
         input scale \"x\": f32 [T]\n\
         parameter block.0.weight: f32 [3]\n\
         parameter block.10.weight: f32 [2 3]\n\
         state seen: i32 []\n\
         9 parameters in all\n\
         forward\n\
         \x20 block\n\
         \x20   0\n\
         \x20     map(a = block.0.weight f32 [3], b = constant f32 [3]) → f32 [3]  {operands 2}\n\
         \x20     norm\n\
         \x20       pair(a = block.0.map f32 [3]) → f32 [3], f32 []  {operands 1}\n\
         \x20 sum(a = block.0.norm.pair:0 f32 [3]) → f32 []  {operands 1}\n\
         tap block.0.hidden = block.0.map\n\
         output loss = sum: f32 []\n"
    );
}

#[test]
fn json_is_stable_and_complete() {
    let g = program();
    let value = json(&g);
    assert_eq!(value.to_string(), json(&program()).to_string(), "another recording gives the same text");
    assert_eq!(value["letters"].to_string(), r#"[{"bound":8,"letter":"T"}]"#);
    assert_eq!(value["inputs"].to_string(), r#"[{"name":"scale \"x\"","value":0}]"#);
    assert_eq!(
        value["stored"][0].to_string(),
        r#"{"count":3,"current":2,"dtype":"f32","init":{"normal":0.5},"name":"block.0.weight","role":"parameter","shape":["3"]}"#
    );
    assert_eq!(
        value["nodes"][0].to_string(),
        r#"{"attributes":{"operands":"2"},"inputs":[2,1],"name":"block.0.map","op":"map","operands":["a","b"],"outputs":[5],"pass":"forward","region":null}"#
    );
    assert_eq!(
        value["values"][5].to_string(),
        r#"{"bytes":12,"dtype":"f32","origin":{"node":0,"output":0},"shape":["3"]}"#
    );
    assert_eq!(value["taps"].to_string(), r#"[{"name":"block.0.hidden","value":5}]"#);
    assert_eq!(value["outputs"].to_string(), r#"[{"name":"loss","value":8}]"#);
    assert_eq!(value["values"].as_array().map(Vec::len), Some(g.values().len()));
}

#[test]
fn dot_has_a_cluster_for_each_scope() {
    let mut g = program();
    let plain = dot(&g);
    for line in [
        "  v0 [label=\"scale \\\"x\\\"\\nf32 [T]\", shape=ellipse];",
        "  v2 [label=\"block.0.weight\\nf32 [3]\", shape=cylinder];",
        "  subgraph cluster_0 {",
        "    label=\"block\";",
        "      n0 [label=\"map\\noperands 2\"];",
        "  v2 -> n0 [label=\"[3]\"];",
        "  n0 -> n1 [label=\"[3]\"];",
        "  o0 [label=\"loss\", shape=ellipse, style=bold];",
        "  n2 -> o0 [label=\"[]\"];",
    ] {
        assert!(plain.lines().any(|l| l == line), "{line} is not in\n{plain}");
    }
    assert_eq!(plain.matches('{').count(), plain.matches('}').count());
    let (loss, w) = (g.find("loss").unwrap(), g.parameters()[0]);
    gradient(&mut g, loss, &[w], &Mocks).unwrap();
    let whole = dot(&g);
    assert!(whole.contains("label=\"backward\";"));
    assert!(super::text(&g).contains("\nbackward\n"));
}

#[test]
fn parameters_are_counted_by_prefix() {
    let g = program();
    assert_eq!(parameter_count(&g, "").unwrap(), 9);
    assert_eq!(parameter_count(&g, "block.0").unwrap(), 3);
    assert_eq!(parameter_count(&g, "block.10.weight").unwrap(), 6);
    assert_eq!(
        parameter_count(&g, "block.1").unwrap_err().to_string(),
        "no parameter or part is called `block.1`; did you mean `block.0`?"
    );
    assert_eq!(parameters_by_prefix(&g, 0)[""], 9);
    assert_eq!(parameters_by_prefix(&g, 1)["block"], 9);
    let by_block = parameters_by_prefix(&g, 2);
    assert_eq!((by_block["block.0"], by_block["block.10"]), (3, 6));
    assert_eq!(parameters_by_prefix(&g, 9)["block.0.weight"], 3);
}

#[test]
fn the_outline_shows_like_blocks_once() {
    let mut g = Graph::new();
    let mut x = g.input("x", DType::F32, shape![2, 3]).unwrap();
    for layer in 0..4 {
        x = g.scope(format!("block.{layer}"), |g| {
            let flat = one(g, view(shape![6]), &[x]);
            let back = one(g, view(shape![2, 3]), &[flat]);
            one(g, map(1), &[back])
        });
    }
    g.scope("head", |g| one(g, mix(1), &[x]));
    let lines: Vec<String> = outline(&g).lines().map(|line| line.trim_end().to_string()).collect();
    assert_eq!(
        lines,
        [
            "block",
            "  0",
            "    map                    → f32 [2 3]",
            "  1 to 3: like 0",
            "head",
            "  mix                    → f32 [2 3]"
        ]
    );
}
