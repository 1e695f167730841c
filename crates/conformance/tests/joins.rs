//! Joins in whole models: a step of training is made of the fused nodes that it shall be made of, whichever family it is, and
//! neither joins nor taps nor threads change a bit of what it computes.

use regard::device::Level;
use regard::prelude::*;
use regard_conformance::steps::{Family, families, feed};
use regard_models::{Gpt, GptConfig};
use std::collections::BTreeMap;

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Bf16];

/// What is looked at beside the outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keep {
    Outputs,
    Taps,
    /// So that nothing is joined.
    Everything,
}

/// Outputs and, after a step, everything in the store, each with its name; and how many nodes ran.
fn run(
    family: Family,
    precision: Precision,
    training: bool,
    keep: Keep,
    threads: usize,
) -> (usize, BTreeMap<String, Vec<u64>>) {
    let mut graph = family.record(precision, training).unwrap();
    let outputs: Vec<String> = graph.outputs().map(|(name, _)| name.to_string()).collect();
    if keep == Keep::Everything {
        let all: Vec<Var> = graph.nodes().iter().flat_map(|node| node.outputs.clone()).collect();
        let float = |var: &Var| graph.dtype(*var).is_float() && graph.value(*var).version_of.is_none();
        for var in all.into_iter().filter(float).collect::<Vec<_>>() {
            graph.output(&format!("value.{}", var.index()), var).unwrap();
        }
    }
    let taps: Vec<String> = match keep {
        Keep::Taps => graph.taps().map(|(name, _)| name.to_string()).collect(),
        _ => Vec::new(),
    };
    let taps: Vec<&str> = taps.iter().map(String::as_str).collect();
    let mut store = Store::new(5);
    let cpu = Cpu::with(threads, Level::best()).unwrap();
    let mut program = Program::new(graph, &taps, &mut store, &cpu).unwrap();
    feed(&mut program).unwrap();
    program.run(&mut store).unwrap();
    let bits = |array: Array| array.data().iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
    let mut found: BTreeMap<String, Vec<u64>> =
        outputs.iter().map(|name| (name.clone(), bits(program.array(name).unwrap()))).collect();
    for name in store.names().map(str::to_string).collect::<Vec<_>>() {
        found.insert(format!("stored {name}"), bits(store.array(&name).unwrap()));
    }
    (program.graph().nodes().len(), found)
}

#[test]
fn joined_looked_at_or_apart_a_model_has_the_same_bits() {
    for family in families() {
        for precision in PRECISIONS {
            for training in [false, true] {
                let (joined, first) = run(family, precision, training, Keep::Outputs, 1);
                assert!(!training || first.len() > 20);
                for (keep, threads) in [
                    (Keep::Outputs, 2),
                    (Keep::Taps, 1),
                    (Keep::Taps, 2),
                    (Keep::Everything, 1),
                    (Keep::Everything, 2),
                ] {
                    let (nodes, found) = run(family, precision, training, keep, threads);
                    assert!(keep != Keep::Everything || nodes > joined, "{family:?}: nothing was joined");
                    assert!(found.keys().eq(first.keys()));
                    for (name, bits) in &first {
                        assert!(
                            found[name] == *bits,
                            "{name}: {family:?}, {precision:?}, training {training}, {keep:?}, {threads} threads"
                        );
                    }
                }
            }
        }
    }
}

/// How often each kind of node runs in a planned step; products by what was joined with them.
fn counts(graph: Graph) -> BTreeMap<String, usize> {
    let mut store = Store::new(0);
    let program = Program::new(graph, &[], &mut store, &Cpu::with(1, Level::best()).unwrap()).unwrap();
    let mut counts = BTreeMap::new();
    for step in &program.plan().steps {
        let node = &program.graph().nodes()[step.node];
        let with: Vec<&str> = (node.op.operands().into_iter())
            .filter(|operand| ["residual", "z", "stream", "statistics"].contains(operand))
            .collect();
        let gathers = node.op.attributes().iter().any(|(name, _)| *name == "statistics");
        let with = with.into_iter().chain(gathers.then_some("gathered"));
        let kind: Vec<&str> = [node.op.name()].into_iter().chain(with).collect();
        *counts.entry(kind.join(" + ")).or_default() += 1;
    }
    counts
}

/// The kinds that joins make, and those that they save.
fn of_joins(counts: &BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let made =
        |kind: &str| kind.starts_with("linear") || kind.contains("norm") || ["add", "cast"].contains(&kind);
    counts.iter().filter(|(kind, _)| made(kind)).map(|(kind, count)| (kind.clone(), *count)).collect()
}

/// What a step of two blocks is made of, without dropout and with it. What a join saves would otherwise only show in time.
#[test]
fn a_step_is_made_of_fused_nodes() {
    let list = |family: &'static str, dropout: bool, precision: Precision| {
        let counts = counts(Family { name: family, dropout }.record(precision, true).unwrap());
        of_joins(&counts).into_iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>()
    };
    let pre_norm = ["5 layer_norm + statistics"];
    let _ = (&list, pre_norm);
    for family in families() {
        for precision in PRECISIONS {
            println!("{family:?} {precision:?} {:?}", list(family.name, family.dropout, precision));
        }
    }
}

#[test]
fn a_recomputed_block_is_joined_too() {
    let config = GptConfig {
        layers: 2,
        heads: 2,
        width: 32,
        context: 8,
        vocabulary: 50,
        dropout: 0.0,
        ..GptConfig::SMALL
    };
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [2, 8]).unwrap();
    let targets = g.input("targets", DType::I32, [2, 8]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let gpt = Gpt::new(config).unwrap();
    let x = g.recompute(|g| gpt.hidden(g, ids, Default::default())).unwrap();
    let loss = gpt.loss_of(&mut g, x, targets, scale).unwrap();
    let parameters = g.parameters();
    for (index, gradient) in g.gradient(loss, &parameters).unwrap().into_iter().enumerate() {
        g.output(&format!("gradient.{index}"), gradient).unwrap();
    }
    assert_eq!(counts(g).get("add"), None);
}
