//! Joins in whole models: a step of training is made of the fused nodes that it shall be made of, whichever
//! family it is, and neither joins nor taps nor threads change a bit of what it computes.

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
                    // A pass with dropout has nothing to join.
                    let apart = keep == Keep::Everything && (training || !family.dropout);
                    assert!(!apart || nodes > joined, "{family:?}: nothing was joined");
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
        let derivative = if node.op.name() == "linear" { "z" } else { "" };
        let with: Vec<&str> = (node.op.operands().into_iter())
            .filter(|operand| ["residual", derivative, "stream", "statistics"].contains(operand))
            .collect();
        let gathers = node.op.attributes().iter().any(|(name, _)| *name == "statistics");
        let with = with.into_iter().chain(gathers.then_some("gathered"));
        let kind: Vec<&str> = [node.op.name()].into_iter().chain(with).collect();
        *counts.entry(kind.join(" + ")).or_default() += 1;
    }
    counts
}

/// The kinds that joins make, and those that they save, with their counts.
fn of_joins(family: &'static str, dropout: bool, precision: Precision) -> String {
    let counts = counts(Family { name: family, dropout }.record(precision, true).unwrap());
    let concerned =
        |kind: &str| kind.contains("linear") || kind.contains("norm") || ["add", "cast"].contains(&kind);
    let listed = counts.iter().filter(|(kind, _)| concerned(kind) && *kind != "linear_cross_entropy");
    listed.map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}

/// What a step of two blocks is made of. A join that is lost would otherwise only show in time.
#[test]
fn a_step_is_made_of_fused_nodes() {
    // Nothing is left of sums, casts and derivatives. Of the products 4 forward in each block have nothing
    // behind them, the other 2 a residual and the next norm; backward 3 have nothing, 2 a gradient that they
    // meet, 1 a derivative.
    let pre_norm = "1 layer_norm, 4 layer_norm + statistics, 1 layer_norm_backward, 4 layer_norm_backward + stream, \
                    14 linear, 4 linear + residual, 4 linear + residual + gathered, 2 linear + z";
    let gated = "18 linear, 6 linear + residual, 4 linear + residual + gathered, 1 rms_norm, 4 rms_norm + statistics, \
                 1 rms_norm_backward, 4 rms_norm_backward + stream";
    // Embeddings are added, or, of a T5 or a Transformer, the gradients of encoder and decoder meet in one
    // table.
    let t5 = "4 add, 39 linear, 11 linear + residual, 10 linear + residual + gathered, 4 linear + z, 2 rms_norm, \
              10 rms_norm + statistics, 2 rms_norm_backward, 10 rms_norm_backward + stream";
    let transformer = "2 add, 10 layer_norm + statistics, 10 layer_norm_backward, 29 linear, 21 linear + residual, \
                       10 linear + residual + gathered, 4 linear + z";
    // Dropout stands between what a part adds and the stream.
    let dropped = "4 add, 5 layer_norm, 1 layer_norm_backward, 4 layer_norm_backward + stream, 18 linear, \
                   4 linear + residual, 2 linear + z";
    for precision in PRECISIONS {
        let found = |family: &'static str, dropout: bool| of_joins(family, dropout, precision);
        assert_eq!(found("gpt", false), pre_norm);
        assert_eq!(found("gpt", true), dropped);
        assert_eq!(found("llama", false), gated);
        assert_eq!(found("vit", false), pre_norm.replace("14 linear", "15 linear"));
        assert_eq!(found("t5", false), t5);
        assert_eq!(found("transformer", false), transformer);
    }
    // The head's own product feeds a norm, of which f32 rows alone are known.
    let bert = "2 add, 1 layer_norm, 5 layer_norm + statistics, 6 layer_norm_backward, 11 linear, 1 linear + gathered, \
                8 linear + residual, 4 linear + residual + gathered, 2 linear + z, 1 linear_activation_backward";
    assert_eq!(of_joins("bert", false, Precision::F32), bert);
    let bert = "2 add, 2 layer_norm, 4 layer_norm + statistics, 6 layer_norm_backward, 12 linear, 8 linear + residual, \
                4 linear + residual + gathered, 2 linear + z, 1 linear_activation_backward";
    assert_eq!(of_joins("bert", false, Precision::Bf16), bert);
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
