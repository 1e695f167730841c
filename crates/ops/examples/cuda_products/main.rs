//! Products, row-wise ops, reductions, tables and weights on request on a card: every node of small
//! recordings against its specification in f64, with poisoned results, with results over the operands that
//! they may reuse, and with each result read alone. Nodes that cards do not compute are counted.
//!
//! Run with `cargo run --release -p regard-ops --example cuda_products`, or with parts of names to run these
//! alone. The exit code is 0 when everything agrees, 1 when something does not, and 2 when there is no card.

#![allow(unsafe_code)] // every use of an address on the card is

mod cases;
mod room;

use regard_engine::check::{Recorded, relative_error};
use regard_engine::reference::{self, Mode};
use regard_graph::{DType, Dims, Origin, Var};
use regard_ops::{Array, Fault, Kernels, ReferenceCall, kernels_of};
use room::{Call, Room, Trouble, aliases};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// What a result that is rounded to bf16 may be wrong by: two roundings.
const ROUNDED: f64 = 8e-3;

#[derive(Default)]
struct Report {
    calls: usize,
    failures: Vec<String>,
    missing: BTreeMap<String, usize>,
    /// The largest errors of each op, of f32 and of bf16 results.
    worst: BTreeMap<String, [f64; 2]>,
}

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let room = match Room::open() {
        Ok(room) => room,
        Err(error) => {
            println!("{error}");
            return ExitCode::from(2);
        }
    };
    println!("{}", room.card.facts());
    let mut report = Report::default();
    for trial in cases::all() {
        if !wanted.is_empty() && !wanted.iter().any(|part| trial.name.contains(part.as_str())) {
            continue;
        }
        for (recorded, how) in trial.graphs().iter().zip(["", ", joined"]) {
            check(&room, &mut report, &format!("{}{how}", trial.name), recorded, trial.bound);
        }
    }
    if wanted.is_empty() || wanted.iter().any(|part| part == "faults") {
        for trial in cases::faulty() {
            check_fault(&room, &mut report, &trial);
        }
    }
    println!("{} calls, {} failed", report.calls, report.failures.len());
    for (op, [plain, rounded]) in &report.worst {
        println!("worst {op:<28} {plain:.1e}  bf16 {rounded:.1e}");
    }
    for (what, count) in &report.missing {
        println!("not computed, {count} times: {what}");
    }
    ExitCode::from(u8::from(!report.failures.is_empty()))
}

/// The numbers as a dtype holds them.
fn held(array: &Array, dtype: DType) -> Array {
    match dtype {
        DType::BF16 => array.rounded(),
        DType::F32 => {
            let mut array = array.clone();
            array.data_mut().iter_mut().for_each(|x| *x = f64::from(*x as f32));
            array
        }
        DType::I32 | DType::Bool => array.clone(),
    }
}

/// Every node of a graph, each with operands of the reference.
fn check(room: &Room, report: &mut Report, name: &str, recorded: &Recorded, bound: f64) {
    let Recorded { graph, feed, .. } = recorded;
    let run = match reference::run(graph, feed, Mode::Rounded) {
        Ok(run) => run,
        Err(error) => {
            report.failures.push(format!("{name}: {error}"));
            return;
        }
    };
    for node in graph.nodes() {
        let Some(kernels) = kernels_of(node) else { continue };
        // A view has its bytes already: nothing is launched for it.
        if (0..node.outputs.len()).all(|output| node.declared.views(output)) {
            continue;
        }
        let inputs: Vec<(DType, Array)> = node
            .inputs
            .iter()
            .map(|&var| (graph.dtype(var), held(run.value(var), graph.dtype(var))))
            .collect();
        let outputs: Vec<(DType, Dims)> =
            node.outputs.iter().map(|&var| (graph.dtype(var), run.value(var).dims())).collect();
        let declared = kernels.aliases();
        let updates = aliases(&declared, true, &inputs, &outputs);
        let all = vec![true; outputs.len()];
        let mut ways = vec![(all.clone(), updates.clone(), "")];
        for reuse in aliases(&declared, false, &inputs, &outputs) {
            ways.push((all.clone(), [&updates[..], &[reuse]].concat(), " over an operand"));
        }
        for at in (0..outputs.len()).filter(|_| outputs.len() > 1) {
            let alone: Vec<bool> = (0..outputs.len()).map(|output| output == at).collect();
            let over = updates.iter().copied().filter(|over| over.0 == at).collect();
            ways.push((alone, over, " alone"));
        }
        let kernels: &dyn Kernels = &**kernels;
        let want = match reference_of(kernels, &inputs, &outputs) {
            Ok(want) => want,
            Err(fault) => {
                fail(report, format!("{name}: {fault}"));
                continue;
            }
        };
        for (used, over, how) in ways {
            let call = Call { kernels, inputs: inputs.clone(), outputs: outputs.clone(), used, over };
            let what = format!("{name}: {}{how}", node.op.name());
            report.calls += 1;
            let trouble = judge(room, report, &call, &want, node.op.name(), bound);
            if let Err(trouble) = trouble {
                match trouble {
                    Trouble::NotYet(missing) => *report.missing.entry(missing).or_default() += 1,
                    Trouble::Cuda(error) => fail(report, format!("{what}: {error}")),
                }
                continue;
            }
            if let Ok(Some(text)) = trouble {
                fail(report, format!("{what}: {text}"));
            }
        }
    }
}

/// One op with a wrong operand: the card's sentence is the reference's, and states stay as they are.
fn check_fault(room: &Room, report: &mut Report, trial: &cases::Trial) {
    let Recorded { graph, feed, .. } =
        trial.case.forward().unwrap_or_else(|error| panic!("{}: {error}", trial.name));
    let sizes = feed.sizes(&graph).unwrap_or_else(|error| panic!("{}: {error}", trial.name));
    let node = &graph.nodes()[0];
    let operand = |var: Var| match &graph.value(var).origin {
        Origin::Input(name) => held(&feed.inputs[name], graph.dtype(var)),
        _ => Array::zeros(graph.shape(var).bound()),
    };
    let inputs: Vec<(DType, Array)> =
        node.inputs.iter().map(|&var| (graph.dtype(var), operand(var))).collect();
    let dims =
        |var: Var| graph.shape(var).at(&sizes).unwrap_or_else(|error| panic!("{}: {error}", trial.name));
    let outputs: Vec<(DType, Dims)> = node.outputs.iter().map(|&var| (graph.dtype(var), dims(var))).collect();
    let Some(kernels) = kernels_of(node) else { return };
    let kernels: &dyn Kernels = &**kernels;
    let want = reference_of(kernels, &inputs, &outputs).err();
    let over = aliases(&kernels.aliases(), true, &inputs, &outputs);
    let used = vec![true; outputs.len()];
    let call = Call { kernels, inputs, outputs, used, over: over.clone() };
    report.calls += 1;
    match room.run(&call) {
        Ok(outcome) => {
            if outcome.fault != want || want.is_none() {
                fail(report, format!("{}: said {:?}, not {want:?}", trial.name, outcome.fault));
            }
            let changed =
                over.iter().any(|&(output, input)| outcome.results[output] != call.inputs[input].1.data());
            if changed || !outcome.kept {
                fail(report, format!("{}: something was changed all the same", trial.name));
            }
        }
        Err(Trouble::NotYet(missing)) => fail(report, missing),
        Err(Trouble::Cuda(error)) => fail(report, format!("{}: {error}", trial.name)),
    }
}

fn fail(report: &mut Report, line: String) {
    println!("FAIL {line}");
    report.failures.push(line);
}

fn reference_of(
    kernels: &dyn Kernels,
    inputs: &[(DType, Array)],
    outputs: &[(DType, Dims)],
) -> Result<Vec<Array>, Fault> {
    let operands: Vec<&Array> = inputs.iter().map(|(_, array)| array).collect();
    let mut results: Vec<Array> = outputs.iter().map(|output| Array::zeros(output.1)).collect();
    let used = vec![true; outputs.len()];
    let mut call = ReferenceCall {
        inputs: &operands,
        outputs: &mut results,
        used: &used,
        rounded: true,
        macs: 0,
        flops: 0,
    };
    kernels.reference(&mut call)?;
    Ok(results)
}

/// What is wrong with a call, if something is.
fn judge(
    room: &Room,
    report: &mut Report,
    call: &Call<'_>,
    want: &[Array],
    op: &str,
    bound: f64,
) -> Result<Option<String>, Trouble> {
    let outcome = room.run(call)?;
    let again = room.run(call)?;
    let mut text = String::new();
    if !outcome.kept {
        text += "wrote behind its results; ";
    }
    if let Some(fault) = outcome.fault {
        text += &format!("{fault}; ");
    }
    for (at, (dtype, _)) in call.outputs.iter().enumerate().filter(|&(at, _)| call.used[at]) {
        let (got, want) = (&outcome.results[at], want[at].data());
        let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
        if bits(got) != bits(&again.results[at]) {
            text += &format!("result {at} has other bits the second time; ");
        }
        let bound = match dtype {
            DType::F32 => bound,
            DType::BF16 => bound.max(ROUNDED),
            DType::I32 | DType::Bool => 0.0,
        };
        let error = relative_error(got, want);
        let worst = &mut report.worst.entry(op.to_string()).or_default()[usize::from(*dtype == DType::BF16)];
        *worst = worst.max(error);
        if error > bound {
            text += &format!("result {at} {dtype} is off by {error:.1e} of {bound:.1e}; ");
        }
    }
    Ok((!text.is_empty()).then_some(text))
}
