//! The launches of attention on NVIDIA cards, without a card: grids cover, scratch suffices, arguments are
//! laid out as the compiled kernels read them, and every file compiles within bounds.

mod cuda;

use cuda::{
    LITTLE, MUCH, Made, are_within_bounds, compiled_as_launched, compiler, list_of, scratch_suffices, sources,
};
use regard_device::cuda::Architecture;
use regard_graph::{DType, Graph, Precision, Var};
use regard_ops::prelude::*;
use regard_ops::{
    Attention, AttentionBackward, AttentionBias, AttentionKind, AttentionMask, AttentionOp, AttentionScale,
    CudaList, Window,
};
use std::any::Any;

/// B T S H G D E.
type Size = [usize; 7];

/// The plans of forward and backward.
fn plans(
    size: Size,
    precision: Precision,
    dtype: DType,
    shared: usize,
    spec: impl Fn(&mut Graph, Size) -> regard_graph::Result<Attention>,
) -> [CudaList; 2] {
    let [b, t, s, h, groups, d, e] = size;
    let record = || -> regard_graph::Result<Graph> {
        let mut g = Graph::new();
        g.set_precision(precision);
        let mut operands = Vec::new();
        for (name, dims) in [("q", [b, t, h, d]), ("k", [b, s, groups, d]), ("v", [b, s, groups, e])] {
            let value = g.input_with_gradient(name, dims)?;
            operands.push(if dtype == DType::F32 { value } else { g.cast(value, dtype)? });
        }
        let spec = spec(&mut g, size)?;
        let found = g.attention(operands[0], operands[1], operands[2], &spec)?;
        let y = g.cast(found.y, DType::F32)?;
        let (y, lse) = (g.sum_all(y)?, g.sum_all(found.lse)?);
        let loss = g.add(y, lse)?;
        let wrt: Vec<Var> = g.inputs().map(|(_, var)| var).filter(|&var| g.dtype(var).is_float()).collect();
        g.gradient(loss, &wrt)?;
        Ok(g)
    };
    let graph = record().unwrap();
    let found = |is_it: fn(&dyn Any) -> bool| {
        let node = graph.nodes().iter().find(|node| is_it(node.op.as_ref())).unwrap();
        list_of(&graph, node, Made { shared, ..Made::default() }).unwrap()
    };
    [found(|op| op.is::<AttentionOp>()), found(|op| op.is::<AttentionBackward>())]
}

fn causal(_: &mut Graph, _: Size) -> regard_graph::Result<Attention> {
    Ok(Attention::causal())
}

fn with_table(g: &mut Graph, [.., h, _, _, _]: Size) -> regard_graph::Result<Attention> {
    let table = g.input_with_gradient("table", [32, h])?;
    let bias = AttentionBias::Buckets { table, bidirectional: true, max_distance: 128 };
    Ok(Attention { bias, ..Attention::causal() })
}

/// Everything at once, of a soft kind.
fn everything(g: &mut Graph, [b, t, s, h, ..]: Size) -> regard_graph::Result<Attention> {
    let mask = AttentionMask {
        causal: true,
        window: Some(Window { before: 700, after: 3 }),
        key_lengths: Some(g.input("lengths", DType::I32, [b])?),
        key_mask: Some(g.input("key_mask", DType::Bool, [b, s])?),
        explicit: Some(g.input("explicit", DType::Bool, [1, 1, t, s])?),
    };
    Ok(Attention {
        scale: AttentionScale::Parameter(g.input_with_gradient("scale", [h])?),
        mask,
        query_position: Some(g.input("query_position", DType::I32, [b, t])?),
        key_position: Some(g.input("key_position", DType::I32, [b, s])?),
        bias: AttentionBias::Dense(g.input_with_gradient("bias", [1, h, t, s])?),
        dropout: 0.1,
        ..Attention::default()
    })
}

/// The same with a soft cap, which tensor cores do not serve.
fn capped(g: &mut Graph, size: Size) -> regard_graph::Result<Attention> {
    Ok(Attention { cap: Some(5.0), ..everything(g, size)? })
}

fn picked_gumbel(g: &mut Graph, [b, _, s, h, ..]: Size) -> regard_graph::Result<Attention> {
    Ok(Attention {
        key_row: Some(g.input("key_row", DType::I32, [b, s])?),
        bias: AttentionBias::Alibi { slopes: g.input_with_gradient("slopes", [h])? },
        kind: AttentionKind::Gumbel { temperature: 0.5, hard: true },
        dropout: 0.1,
        ..Attention::default()
    })
}

const ROWS: Size = [2, 100, 130, 4, 2, 40, 70];

fn wide(width: usize) -> Size {
    [2, 300, 200, 4, 2, width, width]
}

const FEW: Size = [2, 3, 300, 4, 2, 40, 70];

/// Plans that together have every kernel, on tensor cores plain and with everything at once.
fn all_plans() -> Vec<CudaList> {
    let (f32, bf16) = (Precision::F32, Precision::Bf16);
    let mut all = Vec::new();
    all.extend(plans(ROWS, f32, DType::F32, MUCH, everything));
    all.extend(plans(ROWS, bf16, DType::BF16, MUCH, picked_gumbel));
    all.extend(plans(ROWS, f32, DType::F32, MUCH, capped));
    all.extend(plans(wide(64), bf16, DType::BF16, MUCH, capped));
    let [forward, _] = plans(FEW, f32, DType::F32, MUCH, capped);
    all.push(forward);
    let [forward, _] = plans(FEW, f32, DType::F32, MUCH, everything);
    all.push(forward);
    for width in [32, 64, 128] {
        all.extend(plans(wide(width), bf16, DType::BF16, MUCH, causal));
    }
    all.extend(plans(wide(64), bf16, DType::BF16, MUCH, with_table));
    all.extend(plans(wide(128), bf16, DType::F32, LITTLE, everything));
    all
}

#[test]
fn grids_cover_and_tiles_are_chosen_by_sizes() {
    let names = |plan: &CudaList| plan.launches().map(|launch| launch.kernel).collect::<Vec<_>>();
    let [forward, backward] = plans(ROWS, Precision::F32, DType::F32, MUCH, with_table);
    assert_eq!(names(&forward), ["lay_out_table", "row_statistics", "mix"]);
    assert_eq!(
        names(&backward),
        [
            "lay_out_table",
            "row_terms",
            "key_gradient",
            "value_gradient",
            "query_gradient",
            "table_gradient",
            "sum_parts"
        ]
    );
    let blocks = |plan: &CudaList| plan.launches().map(|launch| launch.grid.blocks).collect::<Vec<_>>();
    // 257 distances; 2 tiles of queries, 4 heads, 2 examples; the same for each of 2 chunks of 70 columns.
    assert_eq!(blocks(&forward), [[2, 1, 1], [16, 1, 1], [32, 1, 1]]);
    // 3 tiles of keys, 2 groups, 2 rows; twice that for 70 columns; 32 rows of a table times 4 heads.
    let expected = [[2, 1, 1], [4, 1, 1], [12, 1, 1], [24, 1, 1], [16, 1, 1], [16, 1, 1], [128, 1, 1]];
    assert_eq!(blocks(&backward), expected);

    let [forward, backward] = plans(wide(64), Precision::Bf16, DType::BF16, MUCH, causal);
    assert_eq!(names(&forward), ["attend"]);
    assert_eq!(names(&backward), ["row_products", "key_gradients", "query_gradients"]);
    // 3 tiles of 128 queries, 2 of 128 keys.
    assert_eq!(blocks(&forward), [[24, 1, 1]]);
    assert_eq!(blocks(&backward), [[300, 1, 1], [8, 1, 1], [24, 1, 1]]);
    // Few queries are split over the keys: 3 chunks of 300, 6 rows of a group in 2 blocks, 2 groups, 2
    // examples.
    let [forward, backward] = plans(FEW, Precision::F32, DType::F32, MUCH, causal);
    assert_eq!(names(&forward), ["attend_chunk", "join_chunks"]);
    assert_eq!(blocks(&forward), [[24, 1, 1], [24, 1, 1]]);
    assert_eq!(names(&backward), ["row_terms", "key_gradient", "value_gradient", "query_gradient"]);
    // Widths that differ, or that no tile has, go by rows.
    for size in [[2, 300, 200, 4, 2, 64, 32], wide(40), wide(144)] {
        let [forward, _] = plans(size, Precision::Bf16, DType::BF16, MUCH, causal);
        assert_eq!(names(&forward), ["row_statistics", "mix"], "{size:?}");
    }
    // A card with little shared memory takes smaller tiles.
    for width in [16, 64, 128] {
        for shared in [MUCH, LITTLE] {
            for plan in plans(wide(width), Precision::Bf16, DType::BF16, shared, causal) {
                assert!(plan.launches().all(|launch| launch.grid.shared as usize <= shared));
                assert!(plan.launches().any(|launch| launch.grid.shared > 0), "{width} {shared}");
            }
        }
    }
}

#[test]
fn nothing_is_launched_over_nothing() {
    for size in [[0, 5, 7, 2, 1, 16, 16], [2, 0, 7, 2, 1, 16, 16], [2, 5, 0, 2, 1, 16, 16]] {
        for precision in [Precision::F32, Precision::Bf16] {
            for plan in plans(size, precision, DType::F32, MUCH, with_table) {
                assert!(plan.launches().all(|launch| launch.grid.blocks[0] > 0), "{size:?}");
            }
        }
        // The gradient of a table is written even if no pair has a part in it.
        let [_, backward] = plans(size, Precision::F32, DType::F32, MUCH, with_table);
        assert_eq!(backward.launches().last().unwrap().kernel, "sum_parts", "{size:?}");
    }
}

#[test]
fn scratch_is_inside_of_what_was_asked_for() {
    for plan in all_plans() {
        scratch_suffices(&plan);
    }
    // Statistics of 2 · 100 · 4 rows, a table by distance of 4 heads, and its rows.
    let [forward, _] = plans(ROWS, Precision::F32, DType::F32, MUCH, with_table);
    assert!(forward.scratch >= 800 * 8 + 257 * 4 * 5 && forward.scratch < 800 * 8 + 257 * 4 * 5 + 3 * 256);
}

/// What a kernel may need: registers, and bytes that did not fit into them. Blocks of 256 threads of the
/// rows' kernels must fit once; blocks of 128 threads on tensor cores twice, so that 255 registers are
/// theirs, and forms with every mask spill some at the edges of what is allowed.
fn bounds(kernel: &str) -> (u32, u32) {
    match kernel {
        "attend" | "query_gradients" | "key_gradients" => (255, 400),
        "lay_out_table" | "row_terms" | "row_products" | "sum_parts" => (64, 0),
        _ => (255, 200),
    }
}

/// Every file, and every kernel of it, for sm_90a: registers and spills are bounded, and arguments lie where
/// the kernels read them. Of the settings this compiles a few that together have every branch, not all of
/// their combinations: these take minutes, and a card compiles those it is asked for.
#[test]
fn every_file_compiles_within_bounds_and_reads_its_arguments() {
    let Some(compiler) = compiler() else { return };
    let left = compiled_as_launched(&compiler, &all_plans(), bounds);
    assert_eq!(left, [""; 0], "every kernel of every file is launched by some plan");
}

/// The other architectures get the plain kernels on tensor cores, with the shared memory that they have, and
/// those for few queries: what is not the same in all of them is the instructions of these.
#[test]
fn plain_kernels_compile_for_every_architecture() {
    let Some(compiler) = compiler() else { return };
    let architectures =
        [((8, 0), MUCH), ((8, 6), LITTLE), ((8, 9), LITTLE), ((10, 0), MUCH), ((12, 0), LITTLE)];
    for (capability, shared) in architectures {
        let architecture = Architecture { capability, exact: false };
        let mut all = plans(wide(64), Precision::Bf16, DType::BF16, shared, causal).to_vec();
        all.extend(plans(FEW, Precision::Bf16, DType::BF16, shared, causal).into_iter().take(1));
        let sources = sources(&all);
        for (source, compiled) in sources.iter().zip(compiler.compile_all(&sources, architecture, 2).unwrap())
        {
            are_within_bounds(source, &compiled, architecture, bounds);
        }
    }
}
