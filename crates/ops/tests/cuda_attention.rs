//! The launches of attention on NVIDIA cards, without a card: grids cover, scratch suffices, arguments are
//! laid out as the compiled kernels read them, and every file compiles within bounds. Where the compiler is
//! not found this says so and passes, unless `REGARD_CUDA_LIBRARIES` says where it is.

use regard_device::cuda::{Address, Architecture, Compiled, Compiler, Source, libraries, resources};
use regard_graph::{Concrete, DType, Dims, Graph, Precision, Var};
use regard_ops::prelude::*;
use regard_ops::{
    Attention, AttentionBackward, AttentionBias, AttentionKind, AttentionMask, AttentionOp, AttentionScale,
    CudaCall, CudaPlan, Window,
};
use std::any::Any;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What a block may have on an H200, and on the cards with the least.
const MUCH: usize = 227 * 1024;
const LITTLE: usize = 99 * 1024;
/// An upper half that no two sizes side by side have.
const SCRATCH: u64 = 0x7abc << 32;

/// B T S H G D E.
type Size = [usize; 7];

/// The plans of forward and backward.
fn plans(
    size: Size,
    precision: Precision,
    dtype: DType,
    shared: usize,
    spec: impl Fn(&mut Graph, Size) -> regard_graph::Result<Attention>,
) -> [CudaPlan; 2] {
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
    [0, 1].map(|which| {
        let mut plans = graph.nodes().iter().filter_map(|node| {
            let any: &dyn Any = node.op.as_ref();
            let at = |vars: &[Var]| vars.iter().map(|&var| graph.shape(var).bound()).collect::<Vec<Dims>>();
            let of = |vars: &[Var]| vars.iter().map(|&var| graph.dtype(var)).collect::<Vec<DType>>();
            let call = Concrete {
                inputs: &at(&node.inputs),
                outputs: &at(&node.outputs),
                input_dtypes: &of(&node.inputs),
                output_dtypes: &of(&node.outputs),
                integers: &vec![None; node.inputs.len()],
                used: &vec![true; node.outputs.len()],
            };
            let addresses =
                |count: usize, first: u64| (0..count as u64).map(|i| Address((first + i) << 20)).collect();
            let (inputs, outputs): (Vec<Address>, Vec<Address>) =
                (addresses(node.inputs.len(), 1), addresses(node.outputs.len(), 64));
            let call = CudaCall {
                call: &call,
                inputs: &inputs,
                outputs: &outputs,
                scratch: Address(SCRATCH),
                fault: Address(0),
                shared,
            };
            match which {
                0 => any.downcast_ref::<AttentionOp>().map(|op| op.cuda(&call)),
                _ => any.downcast_ref::<AttentionBackward>().map(|op| op.cuda(&call)),
            }
        });
        plans.next().unwrap()
    })
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
fn all_plans() -> Vec<CudaPlan> {
    let (f32, bf16) = (Precision::F32, Precision::Bf16);
    let mut all = Vec::new();
    all.extend(plans(ROWS, f32, DType::F32, MUCH, everything));
    all.extend(plans(ROWS, bf16, DType::BF16, MUCH, picked_gumbel));
    let [forward, _] = plans(FEW, f32, DType::F32, MUCH, everything);
    all.push(forward);
    for width in [32, 64, 128] {
        all.extend(plans(wide(width), bf16, DType::BF16, MUCH, causal));
    }
    all.extend(plans(wide(64), bf16, DType::BF16, MUCH, with_table));
    all.extend(plans(wide(128), bf16, DType::F32, LITTLE, everything));
    all
}

/// The sources of some plans, each once.
fn sources(plans: impl IntoIterator<Item = CudaPlan>) -> Vec<Source> {
    let mut seen = HashSet::new();
    let launches = plans.into_iter().flat_map(|plan| plan.launches);
    launches.map(|launch| launch.source).filter(|source| seen.insert(source.clone())).collect()
}

#[test]
fn grids_cover_and_tiles_are_chosen_by_sizes() {
    let names = |plan: &CudaPlan| plan.launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>();
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
    let blocks = |plan: &CudaPlan| plan.launches.iter().map(|launch| launch.grid.blocks).collect::<Vec<_>>();
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
                assert!(plan.launches.iter().all(|launch| launch.grid.shared as usize <= shared));
                assert!(plan.launches.iter().any(|launch| launch.grid.shared > 0), "{width} {shared}");
            }
        }
    }
}

#[test]
fn nothing_is_launched_over_nothing() {
    for size in [[0, 5, 7, 2, 1, 16, 16], [2, 0, 7, 2, 1, 16, 16], [2, 5, 0, 2, 1, 16, 16]] {
        for precision in [Precision::F32, Precision::Bf16] {
            for plan in plans(size, precision, DType::F32, MUCH, with_table) {
                assert!(plan.launches.iter().all(|launch| launch.grid.blocks[0] > 0), "{size:?}");
            }
        }
        // The gradient of a table is written even if no pair has a part in it.
        let [_, backward] = plans(size, Precision::F32, DType::F32, MUCH, with_table);
        assert_eq!(backward.launches.last().unwrap().kernel, "sum_parts", "{size:?}");
    }
}

#[test]
fn scratch_is_inside_of_what_was_asked_for() {
    for plan in all_plans() {
        for launch in &plan.launches {
            let words = launch.arguments.bytes().chunks_exact(8);
            for word in words.map(|word| u64::from_le_bytes(word.try_into().unwrap())) {
                if word >> 32 == SCRATCH >> 32 {
                    assert!(word - SCRATCH < plan.scratch as u64 && word % 256 == 0, "{}", launch.kernel);
                }
            }
        }
    }
    // Statistics of 2 · 100 · 4 rows, a table by distance of 4 heads, and its rows.
    let [forward, _] = plans(ROWS, Precision::F32, DType::F32, MUCH, with_table);
    assert!(forward.scratch >= 800 * 8 + 257 * 4 * 5 && forward.scratch < 800 * 8 + 257 * 4 * 5 + 3 * 256);
}

fn compiler() -> Option<Compiler> {
    match Compiler::new(None, None) {
        Ok(compiler) => Some(compiler),
        Err(error) if std::env::var_os(libraries::FOLDERS).is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Offset and length of each parameter of each kernel, from the cubin's own notes.
fn parameters(cubin: &[u8]) -> BTreeMap<String, Vec<(usize, usize)>> {
    let number = |at: usize, bytes: usize| {
        cubin[at..at + bytes].iter().rev().fold(0usize, |number, &byte| number << 8 | byte as usize)
    };
    let (table, entry, count, names) = (number(0x28, 8), number(0x3a, 2), number(0x3c, 2), number(0x3e, 2));
    let section = |index: usize| {
        let at = table + index * entry;
        (number(at, 4), number(at + 0x18, 8), number(at + 0x20, 8))
    };
    let text = section(names).1;
    let mut found = BTreeMap::new();
    for index in 0..count {
        let (name, start, length) = section(index);
        let name: Vec<u8> = cubin[text + name..].iter().copied().take_while(|&byte| byte != 0).collect();
        let name = String::from_utf8(name).unwrap();
        let Some(kernel) = name.strip_prefix(".nv.info.") else { continue };
        let mut layout = BTreeMap::new();
        let mut at = start;
        while at + 4 <= start + length {
            // A note: its format, what it is about, and a size where the format is 4.
            let (format, about, size) = (cubin[at], cubin[at + 1], number(at + 2, 2));
            at += 4;
            if format == 4 {
                if about == 0x17 {
                    layout.insert(number(at + 4, 2), (number(at + 6, 2), number(at + 8, 4) >> 18));
                }
                at += size;
            }
        }
        found.insert(kernel.to_string(), layout.into_values().collect());
    }
    found
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

fn are_within_bounds(source: &Source, compiled: &Compiled, architecture: Architecture) {
    let place = format!("{} {:?} for {architecture}", source.name, source.defines);
    for needs in resources(&compiled.log) {
        let (registers, spills) = bounds(&needs.kernel);
        assert!((1..=registers).contains(&needs.registers), "{place}: {needs:?}");
        assert!(needs.spills.0 <= spills && needs.spills.1 <= spills, "{place}: {needs:?}");
    }
    let rest: Vec<&str> = compiled.log.lines().filter(|line| !line.starts_with("ptxas ")).collect();
    assert!(rest.iter().all(|line| line.trim().is_empty()), "{place}: {rest:?}");
}

/// Every file, and every kernel of it, for sm_90a: registers and spills are bounded, and arguments lie where
/// the kernels read them. Of the settings this compiles a few that together have every branch, not all of
/// their combinations: these take minutes, and a card compiles those it is asked for.
#[test]
fn every_file_compiles_within_bounds_and_reads_its_arguments() {
    let Some(compiler) = compiler() else { return };
    let sm_90a = Architecture { capability: (9, 0), exact: true };
    let sources = sources(all_plans());
    let compiled = compiler.compile_all(&sources, sm_90a, 2).unwrap();
    let mut layouts = HashMap::new();
    for (source, compiled) in sources.iter().zip(&compiled) {
        are_within_bounds(source, compiled, sm_90a);
        layouts.insert(source, parameters(&compiled.cubin));
    }
    let mut kernels = HashSet::new();
    for launch in all_plans().into_iter().flat_map(|plan| plan.launches) {
        assert_eq!(layouts[&launch.source][launch.kernel], launch.arguments.layout(), "{}", launch.kernel);
        kernels.insert(launch.kernel);
    }
    let named = sources.iter().flat_map(|source| kernels_of(&source.text)).collect::<HashSet<&str>>();
    assert_eq!(kernels, named, "every kernel of every file is launched by some plan");
}

/// The names of a file's kernels.
fn kernels_of(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices('(').map(|(at, _)| &text[..at]);
    starts.filter_map(|before| {
        let (before, name) = before.rsplit_once(|c: char| c.is_whitespace())?;
        let before = before.trim_end();
        let bounded = before.ends_with(')')
            && before.rsplit_once("__launch_bounds__").is_some_and(|(_, rest)| !rest.contains('\n'));
        (before.ends_with("KERNEL") && !before.ends_with("define KERNEL") || bounded).then_some(name)
    })
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
        let sources = sources(all);
        for (source, compiled) in sources.iter().zip(compiler.compile_all(&sources, architecture, 2).unwrap())
        {
            are_within_bounds(source, &compiled, architecture);
        }
    }
}
