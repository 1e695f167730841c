//! Lists of products, row-wise ops, reductions, tables and weights on request, without a card: every node of
//! small recordings, forward and backward, recorded and joined, has one; grids, arguments and scratch fit;
//! every source compiles within bounds.

#[path = "../examples/cuda_products/cases.rs"]
mod cases;
mod cuda;

use cuda::{Made, are_within_bounds, compiled_as_launched, compiler, list_of, scratch_suffices, sources};
use regard_device::cuda::{Architecture, Epilogue, Number};
use regard_graph::{DType, Graph, Init, Precision, Var};
use regard_ops::prelude::*;
use regard_ops::{
    Activation, AttentionWeights, BatchNorm, BatchNormBackward, CrossEntropy, CrossEntropyBackward, CudaList,
    CudaProduct, CudaWork, Embedding, EmbeddingBackward, Gather, Linear, LinearActivationBackward,
    LinearCrossEntropy, LinearOptions, Matmul, Norm, NormBackward, QuantisedLinear, ScatterAdd, Softmax,
    SoftmaxBackward, SumTo, WeightGradient, join,
};
use std::any::Any;

/// Whether an op is one of those that are tested here. Those that planning joins have the name of the product
/// in them.
fn is_ours(node: &regard_graph::Node) -> bool {
    let op: &dyn Any = node.op.as_ref();
    op.is::<Linear>()
        || op.is::<WeightGradient>()
        || op.is::<LinearActivationBackward>()
        || matches!(node.op.name(), "linear" | "quantised_linear")
        || op.is::<QuantisedLinear>()
        || op.is::<Matmul>()
        || op.is::<Norm>()
        || op.is::<NormBackward>()
        || op.is::<Softmax>()
        || op.is::<SoftmaxBackward>()
        || op.is::<CrossEntropy>()
        || op.is::<CrossEntropyBackward>()
        || op.is::<BatchNorm>()
        || op.is::<BatchNormBackward>()
        || op.is::<SumTo>()
        || op.is::<Embedding>()
        || op.is::<EmbeddingBackward>()
        || op.is::<Gather>()
        || op.is::<ScatterAdd>()
        || op.is::<LinearCrossEntropy>()
        || op.is::<AttentionWeights>()
}

/// The lists of all our nodes in all trials.
fn lists(made: Made) -> Vec<CudaList> {
    let mut all = Vec::new();
    for trial in cases::all() {
        for recorded in trial.graphs() {
            let nodes = recorded.graph.nodes().iter().filter(|node| is_ours(node));
            let list = |node| list_of(&recorded.graph, node, made).unwrap_or_else(|error| panic!("{error}"));
            all.extend(nodes.map(list));
        }
    }
    all
}

fn products(list: &CudaList) -> impl Iterator<Item = &CudaProduct> {
    list.work.iter().filter_map(|work| match work {
        CudaWork::Product(product) => Some(product),
        _ => None,
    })
}

#[test]
fn lists_fit() {
    // Values at their places, and views that begin anywhere.
    for off in [0, 1] {
        for list in lists(Made { off, ..Made::default() }) {
            scratch_suffices(&list);
            for launch in list.launches() {
                let (blocks, threads) = (launch.grid.blocks, launch.grid.threads);
                assert!(blocks.iter().all(|&blocks| blocks > 0), "{}", launch.kernel);
                assert!(threads.iter().product::<u32>() <= 1024, "{}", launch.kernel);
                assert!(blocks[1].max(blocks[2]) <= 65535, "{}", launch.kernel);
            }
            for CudaProduct { product, operands, .. } in products(&list) {
                // The library is never asked for a product of nothing, and bias and aux are aligned as it
                // wants them.
                assert!(product.m * product.n * product.k * product.batch > 0, "{product}");
                assert!(operands.bias.0 % 16 == 0 && operands.aux.0 % 16 == 0, "{product}");
                assert!(product.a.number == product.b.number, "{product}");
                assert!(product.a.number == Number::Bf16 || product.d.number == Number::F32, "{product}");
            }
        }
    }
}

/// What a kernel may need: registers, and bytes that did not fit into them. Blocks of 1024 threads have 64
/// registers each.
fn bounds(kernel: &str) -> (u32, u32) {
    match kernel {
        // Of rows wider than 8192 not all sums fit.
        "norm_backward" => (255, 400),
        "pick" | "sum_columns" | "entropy" | "largest" | "check_rows" => (255, 0),
        "norm_rows" => (168, 0),
        _ => (96, 0),
    }
}

#[test]
fn every_source_compiles_within_bounds_and_reads_its_arguments() {
    let Some(compiler) = compiler() else { return };
    let mut lists = lists(Made::default());
    lists.extend(crate::lists(Made { off: 1, ..Made::default() }));
    let left = compiled_as_launched(&compiler, &lists, bounds);
    // The kernel that lays out tables of biases has a neighbour which serves the gradients of attention
    // alone, and casts do not need every form of a map: `cuda_lists.rs` has those.
    let elsewhere = ["sum_parts", "map_runs", "map_strided"];
    let never: Vec<&String> = left.iter().filter(|kernel| !elsewhere.contains(&kernel.as_str())).collect();
    assert!(never.is_empty(), "no list launches {never:?}");
}

#[test]
fn some_sources_compile_for_every_architecture() {
    let Some(compiler) = compiler() else { return };
    let mut g = Graph::new();
    g.set_precision(Precision::Bf16);
    let lists = few_nodes(&mut g).unwrap();
    for capability in [(8, 0), (8, 6), (8, 9), (10, 0), (12, 0)] {
        let architecture = Architecture { capability, exact: false };
        let sources = sources(&lists);
        let compiled = compiler.compile_all(&sources, architecture, 2).unwrap();
        for (source, compiled) in sources.iter().zip(&compiled) {
            are_within_bounds(source, compiled, architecture, bounds);
        }
    }
}

/// A small model: embedding, norm, products, loss, and their gradients.
fn few_nodes(g: &mut Graph) -> regard_graph::Result<Vec<CudaList>> {
    let ids = g.input("ids", DType::I32, [32])?;
    let targets = g.input("targets", DType::I32, [32])?;
    let scale = g.input("scale", DType::F32, Shape::scalar())?;
    let table = g.parameter("table", [50, 64], Init::Normal(0.02))?;
    let x = g.embedding(table, ids, None)?;
    let normed =
        g.layer_norm(x, None, None, NormSpec { output: Some(DType::BF16), ..NormSpec::default() })?;
    let up = g.parameter("up", [128, 64], Init::Normal(0.02))?;
    let bias = Some(g.parameter("bias", [128], Init::Zeros)?);
    let hidden =
        g.linear(normed, up, LinearOptions { bias, activation: Activation::GeluTanh, ..Default::default() })?;
    let down = g.parameter("down", [64, 128], Init::Normal(0.02))?;
    let y = g.linear(hidden, down, LinearOptions { residual: Some(x), ..Default::default() })?;
    let loss = g.linear_cross_entropy(y, table, None, targets, scale, Default::default())?.loss;
    let parameters: Vec<Var> = g.stored().iter().map(|stored| stored.current).collect();
    let gradients = g.gradient(loss, &parameters)?;
    join(g, &[&[loss], &gradients[..]].concat())?;
    let ours = g.nodes().iter().filter(|node| is_ours(node));
    Ok(ours.map(|node| list_of(g, node, Made::default()).unwrap_or_else(|error| panic!("{error}"))).collect())
}

/// The residual and the derivative of GELU are done by the library; the bias where it has one.
#[test]
fn a_model_of_bf16_has_epilogues_and_asks_for_copies_of_weights() {
    let mut g = Graph::new();
    g.set_precision(Precision::Bf16);
    let lists = few_nodes(&mut g).unwrap();
    let all: Vec<&CudaProduct> = lists.iter().flat_map(products).collect();
    let count = |wanted: &dyn Fn(&CudaProduct) -> bool| all.iter().filter(|product| wanted(product)).count();
    // The library has no f32 bias beside a bf16 result: GELU behind it is a pass.
    let passes = lists.iter().flat_map(CudaList::launches).filter(|launch| launch.kernel == "finish_vectors");
    assert_eq!(passes.count(), 1);
    assert_eq!(count(&|one| matches!(one.product.epilogue, Epilogue::GeluBackward { .. })), 1);
    assert_eq!(count(&|one| one.beta == 1.0 && one.product.d.number == Number::F32), 1);
    let wanted: usize = lists.iter().map(|list| list.wanted.len()).sum();
    assert!(wanted >= 4, "{wanted}");
}
