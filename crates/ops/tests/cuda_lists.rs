//! What ops give a card to do, without a card: every node of graphs that hold the ops, forward and backward,
//! has a list; grids are not empty, scratch suffices, arguments are laid out as the compiled kernels read
//! them, every source compiles within bounds, and what is said of a fault is what the CPU says.

mod cuda;

use cuda::{Made, are_within_bounds, compiled_as_launched, compiler, list_of, scratch_suffices, sources};
use regard_device::cuda::Architecture;
use regard_device::cuda::kernels::Launch;
use regard_graph::{DType, Dim, Graph, Init, Shape, Var, shape};
use regard_ops::prelude::*;
use regard_ops::{AdamW, CudaList, CudaWork, Function, Gate, Pairing, RotarySpec, Sgd, share_launches};
use std::collections::{BTreeMap, BTreeSet, HashSet};

type Recorded = regard_graph::Result<()>;

/// A graph; where something has a gradient, with the backward pass of everything it has.
fn graph(record: impl FnOnce(&mut Graph) -> regard_graph::Result<Vec<Var>>) -> Graph {
    let mut g = Graph::new();
    let finish = || -> Recorded {
        let results = record(&mut g)?;
        let wrt: Vec<Var> =
            g.inputs().map(|(_, var)| var).filter(|&var| g.dtype(var) == DType::F32).collect();
        for result in results {
            let y = g.cast(result, DType::F32)?;
            let loss = g.sum_all(y)?;
            g.gradient(loss, &wrt)?;
        }
        Ok(())
    };
    finish().unwrap();
    g
}

/// x as f32, or rounded.
fn in_dtype(g: &mut Graph, name: &str, dtype: DType, dims: &[usize]) -> regard_graph::Result<Var> {
    let x = g.input_with_gradient(name, Shape::new(dims.iter().map(|&size| Dim::from(size)).collect()))?;
    g.cast(x, dtype)
}

fn elementwise(dtype: DType, [b, t, c]: [usize; 3]) -> Graph {
    graph(|g| {
        let x = in_dtype(g, "x", dtype, &[b, t, c])?;
        let y = in_dtype(g, "y", dtype, &[b, t, c])?;
        let row = g.input_with_gradient("row", [c])?;
        let column = in_dtype(g, "column", dtype, &[t, 1])?;
        let integers = g.input("integers", DType::I32, [b, t, c])?;
        let less = g.less(x, column)?;
        let same = g.equal(integers, integers)?;
        let as_numbers = g.cast(same, DType::F32)?;
        let counted = g.cast(integers, dtype)?;
        let chosen_integers = g.select(less, integers, integers)?;
        g.add_integers(chosen_integers, integers)?;
        let positive = g.exp(x)?;
        let mut results = vec![
            g.scale(x, 2.0)?,
            g.shift(x, 2.0)?,
            g.add(x, y)?,
            g.sub(x, row)?,
            g.mul(column, x)?,
            g.div(x, positive)?,
            g.select(less, x, row)?,
            g.broadcast_to(column, x)?,
            g.mul(as_numbers, x)?,
            g.mul(counted, x)?,
        ];
        g.less_equal(x, row)?;
        for function in Function::ALL {
            results.push(g.unary(function, positive)?);
        }
        for gate in Gate::ALL {
            results.push(g.gated(gate, x, y)?);
        }
        let mean = g.mean(x, &[1])?;
        results.push(mean);
        g.stop_gradient(x)?;
        results.push(g.reshape(x, [b * t, c])?);
        Ok(results)
    })
}

fn moving(dtype: DType, [b, t, c]: [usize; 3]) -> Graph {
    graph(|g| {
        let x = in_dtype(g, "x", dtype, &[b, t, c, 16])?;
        let more = in_dtype(g, "more", dtype, &[b, 3, c, 16])?;
        let joined = g.concat(&[x, more, x], 1)?;
        let parts = g.split(joined, 1, &[Dim::from(1), Dim::from(2 * t + 2)])?;
        let mask = g.input("mask", DType::Bool, [b, t])?;
        let integers = g.input("integers", DType::I32, [t, b])?;
        let flags = g.concat(&[mask, mask], 0)?;
        g.slice(flags, 0, b.min(1), b)?;
        g.transpose(flags, &[1, 0])?;
        g.transpose(integers, &[1, 0])?;
        let square = g.input("square", DType::Bool, [t, t])?;
        g.transpose(square, &[1, 0])?;
        let images = in_dtype(g, "images", dtype, &[b, 3, 8, 12])?;
        let patches = g.patches(images, [4, 6])?;
        Ok(vec![
            parts[0],
            parts[1],
            g.transpose(x, &[0, 2, 1, 3])?,
            g.transpose(x, &[3, 1, 2, 0])?,
            g.slice(x, 1, t.min(1), t - t.min(1))?,
            g.slice_last(x, 0, b.min(1))?,
            patches,
        ])
    })
}

fn placed(dtype: DType, [b, t, c]: [usize; 3]) -> Graph {
    graph(|g| {
        let x = in_dtype(g, "x", dtype, &[b, t, c])?;
        let heads = in_dtype(g, "heads", dtype, &[b, t, 2, 200])?;
        let table = g.input_with_gradient("table", [t + 5, c])?;
        let position = g.input("position", DType::I32, [b, t])?;
        let pairing = Pairing::Interleaved;
        Ok(vec![
            g.dropout(x, 0.1)?,
            g.dropout_at(heads, 0.1, position)?,
            g.add_position(x, table, None)?,
            g.add_position(x, table, Some(position))?,
            g.rotary(heads, None, RotarySpec::default())?,
            g.rotary(
                heads,
                Some(position),
                RotarySpec { width: Some(64), pairing, ..RotarySpec::default() },
            )?,
        ])
    })
}

fn maxima(dtype: DType, [b, t, c]: [usize; 3]) -> Graph {
    graph(|g| {
        let x = in_dtype(g, "x", dtype, &[b, t, c])?;
        let lse = g.input_with_gradient("lse", [b, t, c])?;
        g.empty_rows(lse)?;
        let (most, _) = g.max_with_index(x, &[2])?;
        Ok(vec![most, g.max(x, &[0])?, g.max(x, &[0, 1])?, g.max(x, &[0, 1, 2])?, g.max(x, &[1])?])
    })
}

fn states(dtype: DType, [b, t, c]: [usize; 3]) -> Graph {
    graph(|g| {
        let x = g.input("x", DType::F32, [b, t, c])?;
        let x = g.cast(x, dtype)?;
        let state = g.state("state", dtype, [b, t, c], Init::Zeros)?;
        let state = g.accumulate(state, x)?;
        let state = g.assign(state, x)?;
        g.assign_number(state, 1.0)?;
        let counter = g.state("counter", DType::I32, [b], Init::Zeros)?;
        let one = g.input("one", DType::I32, [1])?;
        g.assign(counter, one)?;
        let new = g.reshape(x, [b, t, 1, c])?;
        let [slot, few] = [g.input("slot", DType::I32, [b, t])?, g.input("few", DType::I32, [b, 1])?];
        let rows = g.input("rows", DType::I32, [b])?;
        let cache = g.state("cache", DType::BF16, [b, t, 1, c], Init::Zeros)?;
        let cache = g.cache_write(cache, new, slot, None)?;
        let last = g.slice(new, 1, 0, if t > 0 { 1 } else { 0 })?;
        if t > 0 {
            g.cache_write(cache, last, few, Some(rows))?;
        }
        Ok(Vec::new())
    })
}

fn steps(parameters: usize, size: usize) -> Graph {
    graph(|g| {
        let (lr, step) = (g.input("lr", DType::F32, [0; 0])?, g.input("step", DType::I32, [0; 0])?);
        let mut pairs = Vec::new();
        for i in 0..parameters {
            let gradient = g.input(&format!("g{i}"), DType::F32, [size])?;
            let half = g.cast(gradient, if i % 2 == 0 { DType::F32 } else { DType::BF16 })?;
            let gradient = if i == 0 { half } else { gradient };
            pairs.push((g.parameter(&format!("p{i}"), [size], Init::Zeros)?, gradient, half));
        }
        let gradients: Vec<Var> = pairs.iter().map(|pair| pair.2).collect();
        let (_, factor) = g.clip_norm(&gradients, 1.0)?;
        let pairs: Vec<(Var, Var)> = pairs.iter().map(|pair| (pair.0, pair.1)).collect();
        let updated = g.adamw_step(&pairs, &AdamW::default(), lr, step, Some(factor))?;
        let again =
            |updated: Vec<Var>| updated.into_iter().zip(pairs.iter().map(|pair| pair.1)).collect::<Vec<_>>();
        let plain = Sgd { weight_decay: 0.1, ..Sgd::default() };
        let updated = g.sgd_step(&again(updated), &plain, lr, None)?;
        g.sgd_step(&again(updated), &Sgd { momentum: 0.9, nesterov: true, ..plain }, lr, Some(factor))?;
        Ok(Vec::new())
    })
}

fn graphs(size: [usize; 3]) -> Vec<Graph> {
    let mut all = Vec::new();
    for dtype in [DType::F32, DType::BF16] {
        for record in [elementwise, moving, placed, maxima, states] {
            all.push(record(dtype, size));
        }
    }
    all.push(steps(3, size.iter().product()));
    all
}

/// The lists of all nodes that have one, with the name of the op.
fn lists(graphs: &[Graph], made: Made) -> Vec<(&'static str, CudaList)> {
    let nodes = graphs.iter().flat_map(|graph| graph.nodes().iter().map(move |node| (graph, node)));
    nodes.filter_map(|(graph, node)| Some((node.op.name(), list_of(graph, node, made).ok()?))).collect()
}

const SIZES: [[usize; 3]; 3] = [[3, 40, 24], [2, 7, 13], [300, 2, 16]];

/// Every size, and operands that begin where no vector can be loaded.
fn all_lists() -> Vec<(&'static str, CudaList)> {
    let aligned = SIZES.iter().flat_map(|&size| lists(&graphs(size), Made::default()));
    aligned.chain(lists(&graphs(SIZES[0]), Made { off: 1, ..Made::default() })).collect()
}

#[test]
fn every_op_has_a_list() {
    let found: BTreeSet<&str> = all_lists().into_iter().map(|(op, _)| op).collect();
    let ops = "accumulate adamw add add_integers add_position add_position_backward assign broadcast_to cache_write cast \
        clip_norm concat div dropout empty_rows equal fill gated gated_backward join_patches less less_equal max \
        max_backward mul pad_slice patches reshape rotary scale select sgd slice split stop_gradient sub transpose \
        unary_backward";
    let functions = Function::ALL.map(Function::name);
    let missing: Vec<&str> =
        ops.split_whitespace().chain(functions).filter(|op| !found.contains(op)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn grids_are_not_empty_and_scratch_suffices() {
    for (op, list) in all_lists() {
        for launch in list.launches() {
            assert!(launch.grid.blocks.iter().all(|&blocks| blocks > 0), "{op}");
            assert!(launch.grid.threads.iter().product::<u32>() <= 1024, "{op}");
        }
        scratch_suffices(&list);
    }
}

#[test]
fn views_do_nothing_and_copies_are_no_kernels() {
    let mut kinds: BTreeMap<&str, Vec<CudaWork>> = BTreeMap::new();
    for (op, list) in all_lists() {
        kinds.entry(op).or_default().extend(list.work);
    }
    for op in ["reshape", "stop_gradient"] {
        assert!(kinds[op].is_empty(), "{op}");
    }
    // A row of the outermost axis lies in one piece.
    assert!(kinds["slice"].iter().any(|work| matches!(work, CudaWork::Copy { .. })));
    // Zeros around, then the stretch.
    assert!(matches!(kinds["pad_slice"][0], CudaWork::Fill { byte: 0, .. }));
}

#[test]
fn sizes_of_nothing_are_no_launches_but_sums_are_written() {
    for size in [[0, 4, 8], [2, 0, 8], [2, 4, 0]] {
        let all = lists(&graphs(size), Made::default());
        for (op, list) in &all {
            assert!(list.launches().all(|launch| launch.grid.blocks.iter().all(|&b| b > 0)), "{op} {size:?}");
        }
        let kernels: HashSet<&str> =
            all.iter().flat_map(|(_, list)| list.launches().map(|l| l.kernel)).collect();
        assert!(kernels.contains("clip"), "the norm of nothing is 0");
        assert_eq!(kernels.contains("sum_rows"), size[2] > 0, "so is the gradient of a table of positions");
        assert!(!kernels.contains("adamw"), "{kernels:?}");
    }
}

#[test]
fn all_gradients_share_launches() {
    let lists = lists(&[steps(300, 10_000)], Made::default());
    let (_, clip) = lists.iter().find(|(op, _)| *op == "clip_norm").unwrap();
    let blocks: Vec<u32> = clip.launches().map(|launch| launch.grid.blocks[0]).collect();
    // 128 gradients to a launch, two blocks for each, and one for the norm.
    assert_eq!(blocks, [256, 256, 88, 1]);
    assert_eq!(clip.scratch, 600 * 8 / 256 * 256 + 256);
}

#[test]
fn steps_of_neighbours_share_a_launch() {
    let all = lists(&[steps(70, 10_000)], Made::default());
    let works = |name: &str| {
        let some = all.iter().filter(|(op, _)| *op == name);
        some.flat_map(|(_, list)| list.work.clone()).collect::<Vec<CudaWork>>()
    };
    let blocks = |work: &[CudaWork]| {
        let blocks = work.iter().map(|work| match work {
            CudaWork::Launch(launch) => launch.grid.blocks[0],
            _ => 0,
        });
        blocks.collect::<Vec<u32>>()
    };
    // Three blocks of 4096 elements for each parameter, at most 64 parameters to a launch.
    let adamw = works("adamw");
    assert_eq!(blocks(&adamw), [3; 70]);
    let shared = share_launches(adamw.clone());
    assert_eq!(blocks(&shared), [192, 18]);
    let [CudaWork::Launch(one), CudaWork::Launch(first)] = [&adamw[1], &shared[0]] else {
        panic!("two launches")
    };
    assert_eq!(one.arguments.layout(), first.arguments.layout());
    let entry = |launch: &Launch, i: usize| {
        let table = launch.arguments.layout()[launch.arguments.layout().len() - 2].0;
        launch.arguments.bytes()[table + i * 48..][..48].to_vec()
    };
    // The second parameter is the second entry, and begins at the fourth block.
    assert_eq!(entry(first, 1)[..44], entry(one, 0)[..44]);
    assert_eq!(entry(first, 1)[44..], 3u32.to_le_bytes());
    // Plain steps and steps with momentum differ in what all of them share; other work stays where it is.
    assert_eq!(blocks(&share_launches(works("sgd"))), [320, 30, 320, 30]);
    let mut work = adamw[..2].to_vec();
    work.extend(works("clip_norm"));
    work.extend_from_slice(&adamw[2..4]);
    assert_eq!(blocks(&share_launches(work)), [6, 140, 1, 6]);
}

#[test]
fn faults_are_told_in_the_words_of_the_cpu() {
    let texts = |op: &str, place: u32, number: i32| {
        let all = lists(&graphs(SIZES[0]), Made::default()).into_iter().filter(|(name, _)| *name == op);
        let texts: BTreeSet<String> =
            all.filter_map(|(_, list)| Some(list.fault?(place, number).to_string())).collect();
        texts.into_iter().collect::<Vec<String>>().join("\n")
    };
    assert_eq!(
        texts("add_integers", 1, i32::MAX),
        "add_integers: 2147483647 + 1 does not fit into i32; use smaller numbers"
    );
    assert_eq!(
        texts("add_position", 41, -3),
        "add_position: position[1 1] is -3, outside of P=45; feed positions from 0 to P−1"
    );
    assert_eq!(
        texts("add_position_backward", 41, 45),
        "add_position_backward: position[1 1] is 45, outside of P=45; feed positions from 0 to P−1"
    );
    assert_eq!(texts("adamw", 0, 0), "adamw: step is 0; count steps from 1");
    let slot = texts("cache_write", 1 << 30 | 2, 40);
    assert!(slot.contains("cache_write: slot[0 2] is 40, outside of S=40; feed slots"), "{slot}");
    let row = texts("cache_write", 2, 3);
    assert!(row.contains("cache_write: row[2] is 3, outside of R=3; feed rows from 0 to R−1"), "{row}");
    let twice = texts("cache_write", 2 << 30 | 41, 41);
    let expected =
        "cache_write: slot[1 1] is 1, which was written before in row 1; give each slot of a row once";
    assert!(twice.contains(expected), "{twice}");
    let index = texts("max_backward", 7, 24);
    assert!(index.contains("max_backward: index 7 is 24, the maximum was over 24 elements"), "{index}");
}

#[test]
fn a_stretch_that_does_not_fit_is_told() {
    let mut g = Graph::new();
    let letter = g.open('T', 2).unwrap();
    let x = g.input("x", DType::F32, shape![letter, 3]).unwrap();
    g.slice(x, 0, 1, 2).unwrap();
    let list = list_of(&g, &g.nodes()[0], Made::default()).unwrap();
    assert_eq!(list.launches().map(|launch| launch.kernel).collect::<Vec<_>>(), ["tell"]);
    assert_eq!(
        list.fault.unwrap()(0, 0).to_string(),
        "slice: 2 elements after the first 1 do not lie in an axis that has 2 in this run; feed a longer input"
    );
}

/// With 64 registers a multiprocessor holds four blocks of 256 threads. Nothing spills.
fn bounds(_: &str) -> (u32, u32) {
    (64, 0)
}

#[test]
fn every_source_compiles_within_bounds_and_reads_its_arguments() {
    let Some(compiler) = compiler() else { return };
    let all: Vec<CudaList> = all_lists().into_iter().map(|(_, list)| list).collect();
    assert_eq!(
        compiled_as_launched(&compiler, &all, bounds),
        [""; 0],
        "every kernel is launched by some list"
    );
}

/// The other architectures get one variant of each file.
#[test]
fn every_file_compiles_for_every_architecture() {
    let Some(compiler) = compiler() else { return };
    let lists: Vec<CudaList> =
        lists(&graphs(SIZES[0]), Made::default()).into_iter().map(|(_, list)| list).collect();
    let mut seen = HashSet::new();
    let sources: Vec<_> =
        sources(&lists).into_iter().filter(|source| seen.insert(source.name.clone())).collect();
    assert!(sources.len() > 8);
    for capability in [(8, 0), (8, 6), (8, 9), (10, 0), (12, 0)] {
        let architecture = Architecture { capability, exact: false };
        let compiled = compiler.compile_all(&sources, architecture, 2).unwrap();
        for (source, compiled) in sources.iter().zip(&compiled) {
            are_within_bounds(source, compiled, architecture, bounds);
        }
    }
}
