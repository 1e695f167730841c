//! A graph as JSON, for the page and for other programs. Values and nodes are lists in the order of
//! recording, and refer to each other by their places in those lists.

use super::{elements, pass_name};
use crate::{Fact, Graph, Init, Origin, Var};
use serde_json::{Map, Value, json as object};

/// The whole graph as JSON.
pub fn json(g: &Graph) -> Value {
    let names = |vars: &[(&str, Var)]| -> Vec<Value> {
        vars.iter().map(|(name, var)| object!({ "name": name, "value": var.index() })).collect()
    };
    let letters: Vec<Value> = g
        .letters()
        .iter()
        .map(|letter| object!({ "letter": letter.name().to_string(), "bound": letter.bound() }))
        .collect();
    object!({
        "letters": letters,
        "inputs": names(&g.inputs().collect::<Vec<_>>()),
        "stored": stored(g),
        "values": values(g),
        "nodes": nodes(g),
        "taps": names(&g.taps().collect::<Vec<_>>()),
        "outputs": names(&g.outputs().collect::<Vec<_>>()),
    })
}

fn fact(fact: &Fact) -> (Vec<String>, String) {
    (fact.shape.iter().map(|dim| dim.to_string()).collect(), fact.dtype.to_string())
}

fn stored(g: &Graph) -> Vec<Value> {
    let each = g.stored().iter().map(|stored| {
        let (shape, dtype) = fact(&stored.fact);
        object!({
            "name": stored.name,
            "role": stored.role.name(),
            "shape": shape,
            "dtype": dtype,
            "count": elements(&stored.fact),
            "init": init(&stored.init),
            "current": stored.current.index(),
        })
    });
    each.collect()
}

fn init(init: &Init) -> Value {
    match init {
        Init::Zeros => object!({ "constant": 0.0 }),
        Init::Ones => object!({ "constant": 1.0 }),
        Init::Constant(number) => object!({ "constant": number }),
        Init::Normal(deviation) => object!({ "normal": deviation }),
        Init::Uniform(limit) => object!({ "uniform": limit }),
    }
}

fn values(g: &Graph) -> Vec<Value> {
    let each = g.values().iter().map(|value| {
        let (shape, dtype) = fact(&value.fact);
        let origin = match &value.origin {
            Origin::Input(name) => object!({ "input": name }),
            Origin::Stored(index) => object!({ "stored": index }),
            Origin::Constant(numbers) => object!({ "constant": numbers.len() }),
            Origin::Node { node, output } => object!({ "node": node, "output": output }),
            Origin::Gone => Value::Null,
        };
        object!({ "shape": shape, "dtype": dtype, "bytes": value.fact.bytes(), "origin": origin })
    });
    each.collect()
}

fn nodes(g: &Graph) -> Vec<Value> {
    let each = g.nodes().iter().map(|node| {
        let places = |vars: &[Var]| vars.iter().map(|var| var.index()).collect::<Vec<_>>();
        let settings: Map<String, Value> =
            node.op.attributes().into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        object!({
            "name": node.name,
            "op": node.op.name(),
            "pass": pass_name(node.pass),
            "region": node.region,
            "operands": node.declared.operands,
            "inputs": places(&node.inputs),
            "outputs": places(&node.outputs),
            "attributes": settings,
        })
    });
    each.collect()
}
