//! Random programs on the CPU engine, and on a card where there is one, against the reference, node by node,
//! values and gradients, f32 and bf16, at every SIMD level.

use regard::check::Recorded;
use regard::device::Level;
use regard::prelude::*;
use regard_conformance::bounds::Bounds;
use regard_conformance::mutant_table::SEEDS;
use regard_conformance::nodes::{NodeRun, all_values, case, node_runs, runs_of};
use regard_conformance::op_cases::op_cases;
use regard_conformance::programs::Recipe;
use std::collections::BTreeSet;

/// How many programs of each precision.
const PROGRAMS: u64 = 600;

/// What was compared, and what was wrong with it.
#[derive(Default)]
struct Found {
    ops: BTreeSet<String>,
    objections: Vec<String>,
}

impl Found {
    /// Judges each node, which was given the very operands that the CPU engine gave it, by its specification.
    fn judge(&mut self, runs: Vec<NodeRun>, bounds: &Bounds, whose: &str) {
        for run in runs {
            for (index, result) in run.results.iter().enumerate() {
                if let Some(objection) = result.objection(&result.got, &bounds.of(&run, index)) {
                    let (name, key, settings) = (&result.name, run.key(), &run.attributes);
                    let moved = result.conditioning.moved + result.conditioning.moved_bf16;
                    self.objections.push(format!(
                        "{whose}: result {name} of {} ({key} {settings:?}) {objection}; rounding moves it by {moved:.2e}",
                        run.name
                    ));
                }
            }
            self.ops.insert(run.op);
        }
    }

    fn judge_program(&mut self, recipe: Recipe, bounds: &Bounds, device: &Device) {
        let whose = format!("{} with seed {}", device.name(), recipe.seed);
        self.judge(node_runs(recipe, device), bounds, &whose);
    }

    fn assert_agreed(&self) {
        let objections = &self.objections;
        assert!(objections.is_empty(), "{} results disagree:\n{}", objections.len(), objections.join("\n"));
    }
}

fn check_programs(precision: Precision) {
    let bounds = Bounds::new();
    assert!(bounds.first_seed() > PROGRAMS, "bounds are judged by other programs than they were made of");
    let levels = Level::available().iter().map(|&level| Cpu::with(2, level).unwrap().into());
    let engines: Vec<Device> = levels.collect();
    let mut found = Found::default();
    for seed in 0..PROGRAMS {
        // Each level in turn; that levels give the same bits is asserted below.
        let engine = &engines[seed as usize % engines.len()];
        found.judge_program(Recipe::new(seed, precision), &bounds, engine);
    }
    found.assert_agreed();
    // What is easily lost from the programs without anybody noticing.
    for op in ["patches", "join_patches", "max", "max_backward", "cache_write", "adamw", "sgd", "clip_norm"] {
        assert!(found.ops.contains(op), "no program has `{op}`");
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

/// Small recordings of each op that has a derivative, with all its gradients: what `goldens/mutants.txt` says
/// of broken gradients, it says of this test.
#[test]
fn every_op_alone_agrees_with_the_reference() {
    let (bounds, mut found) = (Bounds::new(), Found::default());
    for &level in Level::available() {
        let engine: Device = Cpu::with(2, level).unwrap().into();
        for case in op_cases() {
            for (precision, seed) in SEEDS.flat_map(|seed| [(Precision::F32, seed), (Precision::Bf16, seed)])
            {
                let runs = runs_of(&|| case.recorded(precision, seed, false).unwrap(), &engine);
                let whose = format!("{}, seed {seed}, on {}", case.name(), engine.name());
                found.judge(runs, &bounds, &whose);
            }
        }
    }
    found.assert_agreed();
}

/// The same programs on a card, which compiles the kernels of every form that it meets: fewer programs.
#[test]
fn programs_agree_with_the_reference_on_a_card() {
    let Some(card) = regard::check::card().cloned().map(Device::from) else {
        eprintln!("skipped: programs on a card (there is none here)");
        return;
    };
    let (bounds, mut found) = (Bounds::new(), Found::default());
    for precision in [Precision::F32, Precision::Bf16] {
        for seed in 0..PROGRAMS / 50 {
            found.judge_program(Recipe::new(seed, precision), &bounds, &card);
        }
    }
    found.assert_agreed();
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
            let record = || case.backward().unwrap();
            let (graph, values) = all_values(&record, &Cpu::with(2, Level::best()).unwrap());
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
