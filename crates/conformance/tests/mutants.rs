//! Agreement can say no: every op with a derivative, each of its gradients broken in every way, and which
//! bound refuses it. `goldens/mutants.txt` is the table; after a change that is meant,
//! `cargo run --release -p regard-conformance --example mutants` writes it again.

use regard::check::{Mutant, largest};
use regard::device::Level;
use regard::prelude::*;
use regard_conformance::bounds::Bounds;
use regard_conformance::mutant_table::MutantTable;
use regard_conformance::nodes::node_runs;
use regard_conformance::op_cases::op_cases;
use regard_conformance::programs::Recipe;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("../goldens/mutants.txt");

#[test]
fn every_mutant_of_every_gradient_is_refused() {
    let table = MutantTable::new();
    assert!(table.passing.is_empty(), "these would pass:\n{}", table.passing.join("\n"));
    let known: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
    for (line, known) in table.lines.iter().zip(&known) {
        assert_eq!(line, known, "goldens/mutants.txt is not what is so; write it again");
    }
    assert_eq!(table.lines.len(), known.len(), "goldens/mutants.txt has other lines; write it again");
}

/// The folders of ops that have a derivative, by their sources.
fn folders_with_a_derivative() -> BTreeSet<String> {
    let ops = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/src");
    let mut found = BTreeSet::new();
    for folder in fs::read_dir(ops).unwrap().map(|item| item.unwrap().path()).filter(|path| path.is_dir()) {
        let files = fs::read_dir(&folder).unwrap().map(|item| item.unwrap().path());
        let mut texts = files.filter(|file| file.is_file()).map(|file| fs::read_to_string(file).unwrap());
        if texts.any(|text| text.contains("Derivative::Exists")) {
            found.insert(folder.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn every_op_with_a_derivative_has_mutants() {
    let covered: BTreeSet<String> = op_cases().iter().map(|case| case.folder.to_string()).collect();
    let folders = folders_with_a_derivative();
    assert!(folders.len() > 25, "the sources of the ops are read");
    let missing: Vec<_> = folders.difference(&covered).collect();
    assert!(missing.is_empty(), "{missing:?} have a derivative and no case in src/op_cases");
    let unknown: Vec<_> = covered.difference(&folders).collect();
    assert!(unknown.is_empty(), "{unknown:?} are no folders of ops with a derivative");
}

/// How many programs of each precision.
const PROGRAMS: u64 = 60;

/// Of the largest number of a gradient: if rounding its operands moves it further, it is mostly noise.
const MOSTLY_NOISE: f64 = 0.5;

/// The same for what two percent can be told from.
const COARSE: f64 = 0.005;

/// Also where operands are hard, of which random programs have many, no gradient passes that is zero or of
/// the wrong sign, nor one that is too large.
#[test]
fn gradients_in_programs_are_refused_too() {
    let (bounds, cpu) = (Bounds::new(), Cpu::with(1, Level::PORTABLE).unwrap());
    let (mut all, mut clear, mut fine) = (0, 0, 0);
    for precision in [Precision::F32, Precision::Bf16] {
        for seed in 0..PROGRAMS {
            for run in node_runs(Recipe::new(seed, precision), &cpu) {
                if !run.op.ends_with("_backward") && run.op != "weight_gradient" {
                    continue;
                }
                for (index, result) in run.results.iter().enumerate() {
                    let (limit, size) = (bounds.of(&run, index), largest(result.want.data()));
                    let passing = Mutant::passing(&limit, &result.got, &result.want);
                    let passes = |mutant: Mutant| passing.contains(&mutant);
                    let place =
                        format!("seed {seed}: result {} of {} ({})", result.name, run.name, run.key());
                    all += usize::from(size > 0.0);
                    let noise = limit.noise + limit.scatter;
                    if noise < MOSTLY_NOISE * size {
                        clear += 1;
                        assert!(!passes(Mutant::Zeroed) && !passes(Mutant::Turned), "{place}: {limit:?}");
                    }
                    if noise < COARSE * size {
                        fine += 1;
                        assert!(!passes(Mutant::Scaled), "{place}: {limit:?}");
                    }
                }
            }
        }
    }
    assert!(all > 800 && clear as f64 > 0.95 * all as f64, "{clear} of {all} gradients are clear");
    assert!(fine as f64 > 0.9 * all as f64, "{fine} of {all} gradients are told from two percent more");
}
