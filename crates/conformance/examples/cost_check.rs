//! Predicted time against measured time, over ten models none of whose sizes was used to measure the rates: a
//! pass and a step of training of each. Run by `bench/cost_check`; ends with status 1 if the median error of
//! passes, or of steps, is above a quarter. Rates and models are measured in turns, in some rounds. What is
//! measured of models are whole runs. Errors are told against the least of them, as rates are the best of
//! some runs, too: on a machine that others use, the median says how busy they are. Where they never rest,
//! ask for `--threads 1`: of a single thread, the system tells how long it waited for a core, and that is
//! taken off.

use regard::device::{Level, Pool};
use regard::graph::{Graph, Precision};
use regard::hub::forward::record_in_precision;
use regard::hub::step;
use regard::models::{Model, Sizes};
use regard::prelude::*;
use regard_conformance::sized::{self, Size};
use regard_inspect::price::{Calibration, Clocked, ROUNDS, clock, predict};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// The most that the median may be off.
const MOST: f64 = 0.25;
/// After each round of rates a model is run for so many nanoseconds, but no fewer and no more times than
/// these.
const PATIENCE: f64 = 1e8;
const TIMES: (usize, usize) = (2, 30);

/// A family, its precision, and layers, heads, width, vocabulary, batch, positions.
type Case = (&'static str, fn(Size) -> Arc<dyn Model>, Precision, [usize; 6]);

const CASES: [Case; 10] = [
    ("gpt", sized::gpt, Precision::F32, [2, 4, 64, 256, 1, 32]),
    ("gpt", sized::gpt, Precision::F32, [6, 6, 216, 1200, 1, 128]),
    ("gpt", sized::gpt, Precision::Bf16, [8, 8, 384, 4000, 1, 96]),
    ("llama", sized::llama, Precision::F32, [6, 8, 640, 8000, 1, 1]),
    ("gpt", sized::gpt, Precision::F32, [2, 4, 144, 700, 1, 700]),
    ("transformer", sized::transformer, Precision::F32, [3, 4, 112, 900, 4, 48]),
    ("bert", sized::bert, Precision::F32, [4, 6, 420, 3000, 2, 110]),
    ("vit", sized::vit, Precision::F32, [5, 3, 180, 40, 3, 49]),
    ("t5", sized::t5, Precision::F32, [3, 4, 240, 2200, 2, 56]),
    ("perceiver", sized::perceiver, Precision::F32, [5, 8, 272, 1500, 2, 208]),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let after = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
    let threads =
        after("--threads").map_or(Pool::default_threads(), |n| n.parse().expect("a number of threads"));
    let cpu = Cpu::with(threads, Level::best()).expect("a CPU");
    let mut kinds = vec![];
    for training in [false, true] {
        let only = if training { "--passes" } else { "--steps" };
        if !has(only) {
            kinds.push(compared(&cpu, training, has("--nodes")));
        }
    }
    if let Some(path) = after("--json") {
        let page = json!({ "most": MOST, "threads": cpu.pool().threads(), "kinds": kinds });
        let text = format!("{page:#}\n");
        regard_data::whole::write(path, |file| std::io::Write::write_all(file, text.as_bytes()))
            .expect("a file that can be written");
    }
    let good = kinds.iter().all(|kind| kind["median_error"].as_f64().is_some_and(|error| error <= MOST));
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares all models, passes or steps.
fn compared(cpu: &Cpu, training: bool, nodes: bool) -> Value {
    let what = if training { "steps of training" } else { "passes" };
    let precisions = [Precision::F32, Precision::Bf16];
    let mut calibrations = precisions.map(|precision| Calibration::new(cpu, training, precision));
    let mut measured: [Option<Clocked>; CASES.len()] = Default::default();
    let mut seconds = 0.0;
    for _ in 0..ROUNDS {
        for calibration in &mut calibrations {
            let began = Instant::now();
            calibration.round().expect("rates");
            seconds += began.elapsed().as_secs_f64();
            for (case, all) in CASES.iter().zip(&mut measured) {
                let now = clocked(case, training, cpu);
                *all = Some(match all.take() {
                    Some(before) => before.and(now),
                    None => now,
                });
            }
        }
    }
    let cards = calibrations.map(|calibration| calibration.cards().expect("rates"));
    println!("{what}; rates took {seconds:.1} s, {:?}", cards[0].ceilings());
    println!(
        "{:46} {:>10} {:>10} {:>8} {:>10} {:>8} {:>5}",
        "model", "predicted", "measured", "off", "median", "off", "runs"
    );
    let (mut errors, mut rows) = (Vec::new(), Vec::new());
    for (case, clocked) in CASES.iter().zip(measured) {
        let (family, _, precision, [layers, heads, width, _, batch, tokens]) = *case;
        let clocked = clocked.expect("at least one round");
        let rates = cards.iter().zip(precisions).find(|(_, own)| *own == precision).expect("rates").0;
        let prediction = predict(&graph(case, training).0, rates).expect("a price");
        let off = |measured: f64| prediction.total / measured - 1.0;
        errors.push(off(clocked.undisturbed()).abs());
        let suffix = if precision == Precision::F32 { "" } else { ", bf16" };
        let name = format!("{family} {layers} layers, {heads} heads, {width} wide, {batch}x{tokens}{suffix}");
        println!(
            "{name:46} {:>10.3} {:>10.3} {:>+7.1}% {:>10.3} {:>+7.1}% {:>5}",
            prediction.total / 1e6,
            clocked.undisturbed() / 1e6,
            100.0 * off(clocked.undisturbed()),
            clocked.median() / 1e6,
            100.0 * off(clocked.median()),
            clocked.runs.len()
        );
        if nodes {
            by_op(&prediction, &clocked);
        }
        rows.push(json!({
            "model": name, "predicted_ms": prediction.total / 1e6,
            "measured_ms": clocked.undisturbed() / 1e6, "least_ms": clocked.least() / 1e6,
            "median_ms": clocked.median() / 1e6, "most_ms": clocked.most() / 1e6, "runs": clocked.runs.len(),
            "error": off(clocked.undisturbed()), "error_of_median": off(clocked.median()),
        }));
    }
    errors.sort_by(f64::total_cmp);
    let median = (errors[4] + errors[5]) / 2.0;
    println!(
        "median error of {what} {:.1} %, of {:.0} % allowed; the largest is {:.1} %\n",
        100.0 * median,
        100.0 * MOST,
        100.0 * errors[9]
    );
    let ceilings = cards[0].ceilings();
    json!({
        "what": what, "median_error": median, "largest_error": errors[9], "models": rows,
        "ceilings": { "gflops": ceilings.gflops, "gbytes": ceilings.gbytes }, "rates_seconds": seconds,
    })
}

/// What runs, and the model.
fn graph(case: &Case, training: bool) -> (Graph, Arc<dyn Model>) {
    let (family, make, precision, [layers, heads, width, vocabulary, batch, tokens]) = *case;
    // Encoders are trained with dropout, and nothing is dropped in a pass.
    let dropout = if training && matches!(family, "bert" | "t5" | "transformer") { 0.1 } else { 0.0 };
    let model = make(Size { layers, heads, width, vocabulary, context: tokens, dropout });
    let sizes = Sizes { batch, ids: tokens, source: tokens, ..Default::default() };
    let graph = match training {
        true => step::record(&*model, sizes, precision),
        false => record_in_precision(&*model, sizes, precision),
    };
    (graph.expect("a graph"), model)
}

/// One round of a model.
fn clocked(case: &Case, training: bool, cpu: &Cpu) -> Clocked {
    let (graph, model) = graph(case, training);
    let mut store = Store::new(2);
    let mut program = Program::new(graph, &[], &mut store, cpu).expect("a program");
    step::feed(&mut program, &*model).expect("inputs");
    clock(&mut program, &mut store, cpu.pool().threads(), PATIENCE, TIMES).expect("a run")
}

/// Where a prediction is off: predicted and measured by op, the largest first.
fn by_op(prediction: &regard_inspect::price::Prediction, clocked: &Clocked) {
    let mut ops: std::collections::BTreeMap<&str, [f64; 2]> = Default::default();
    for node in &prediction.nodes {
        let own = ops.entry(node.row.op).or_default();
        own[0] += node.nanoseconds;
        own[1] += clocked.nodes.get(&node.row.node).copied().unwrap_or(0.0);
    }
    let mut ops: Vec<_> = ops.into_iter().collect();
    ops.sort_by(|a, b| b.1[1].total_cmp(&a.1[1]));
    for (op, [predicted, measured]) in ops.iter().take(9) {
        let off = 100.0 * (predicted / measured - 1.0);
        println!("    {op:26} {:>10.3} {:>10.3} {off:>+7.1}%", predicted / 1e6, measured / 1e6);
    }
    let sum: f64 = clocked.nodes.values().sum();
    println!("    {:26} {:>10} {:>10.3}", "all nodes", "", sum / 1e6);
}
