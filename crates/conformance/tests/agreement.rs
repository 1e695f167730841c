//! Random programs on the CPU engine, and on a card where there is one, against the reference, node by node,
//! values and gradients, f32 and bf16, at every SIMD level.

use regard::check::Recorded;
use regard::device::Level;
use regard::prelude::*;
use regard_conformance::bounds::Bounds;
use regard_conformance::nodes::{all_values, case, node_runs};
use regard_conformance::programs::Recipe;
use std::collections::BTreeSet;

/// How many programs of each precision.
const PROGRAMS: u64 = 600;

/// Each node, given the very operands that the CPU engine gave it, against its specification; the ops that
/// occurred.
fn check_nodes(recipe: Recipe, bounds: &Bounds, device: &Device) -> BTreeSet<String> {
    let mut ops = BTreeSet::new();
    for run in node_runs(recipe, device) {
        for (index, result) in run.results.iter().enumerate() {
            let (error, bound) = (result.error(), bounds.of(&run, index));
            assert!(
                error <= bound,
                "seed {}: result {index} of {} ({} {:?}) is off by {error:.2e}, bound {bound:.2e} at condition {:.2e}, {}",
                recipe.seed,
                run.name,
                run.op,
                run.attributes,
                result.condition,
                device.name()
            );
        }
        ops.insert(run.op);
    }
    ops
}

fn check_programs(precision: Precision) {
    let bounds = Bounds::new();
    let levels = Level::available().iter().map(|&level| Cpu::with(2, level).unwrap().into());
    let engines: Vec<Device> = levels.collect();
    let mut ops = BTreeSet::new();
    for seed in 0..PROGRAMS {
        // Each level in turn; that levels give the same bits is asserted below.
        let engine = &engines[seed as usize % engines.len()];
        ops.extend(check_nodes(Recipe::new(seed, precision), &bounds, engine));
    }
    // What is easily lost from the programs without anybody noticing.
    for op in ["patches", "join_patches", "max", "max_backward", "cache_write", "adamw", "sgd", "clip_norm"] {
        assert!(ops.contains(op), "no program has `{op}`");
    }
}

#[test]
fn f32_programs_agree_with_the_reference() {
    check_programs(Precision::F32);
}

#[test]
fn bf16_programs_agree_with_the_rounded_reference() {
    check_programs(Precision::Bf16);
}

/// The same on a card, which compiles the kernels of every form that it meets: fewer programs.
#[test]
fn programs_agree_with_the_reference_on_a_card() {
    let Some(card) = regard::check::card().cloned().map(Device::from) else {
        eprintln!("skipped: programs on a card (there is none here)");
        return;
    };
    let bounds = Bounds::new();
    for precision in [Precision::F32, Precision::Bf16] {
        for seed in 0..PROGRAMS / 50 {
            check_nodes(Recipe::new(seed, precision), &bounds, &card);
        }
    }
}

#[test]
fn keeping_every_value_levels_and_threads_change_no_bit() {
    for precision in [Precision::F32, Precision::Bf16] {
        for seed in 0..40 {
            let case = case(Recipe::new(seed, precision));
            // Planned as usual: values share the arena and are written over one another.
            let usual = case.run_on(&Cpu::with(1, Level::best()).unwrap()).unwrap();
            for &level in Level::available() {
                // AMX sums products of bf16 in an order of its own.
                let known = if level.same_bits(Level::best(), precision == Precision::Bf16) {
                    usual.clone()
                } else {
                    case.run_on(&Cpu::with(1, Level::PORTABLE).unwrap()).unwrap()
                };
                for threads in [1, 2, 3, 4] {
                    let got = case.run_on(&Cpu::with(threads, level).unwrap()).unwrap();
                    assert_eq!(known.len(), got.len());
                    for (a, b) in known.iter().zip(&got) {
                        let same = a.data().iter().zip(b.data()).all(|(x, y)| x.to_bits() == y.to_bits());
                        assert!(same, "seed {seed}, {precision:?}, {level}, {threads} threads");
                    }
                }
            }
            let (graph, values) = all_values(&case, None, &Cpu::with(2, Level::best()).unwrap());
            let Recorded { outputs, .. } = case.backward().unwrap();
            for (output, usual) in outputs.iter().zip(&usual) {
                let kept = &values[&graph.var(output.index()).index()];
                let same = kept.data().iter().zip(usual.data()).all(|(x, y)| x.to_bits() == y.to_bits());
                assert!(same, "seed {seed}, {precision:?}: looking at everything changed a bit");
            }
        }
    }
}

#[test]
fn gradients_of_programs_agree_with_central_differences() {
    for seed in 1000..1030 {
        // Differences say nothing of choices, nor of weights that are 1 to all digits.
        let smooth = Recipe { rough: false, ..Recipe::new(seed, Precision::F32) };
        let case = case(Recipe { most: [2, 4, 8], ops: [5, 20], ..smooth });
        case.gradients().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn the_cost_of_programs_is_what_the_reference_counts() {
    for seed in 2000..2060 {
        let case = case(Recipe::new(seed, Precision::F32));
        case.cost().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
