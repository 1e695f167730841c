//! Every trial on the card against the reference, with poisoned results, and the same bits twice.

use crate::Report;
use crate::room::{Call, Op, Room};
use crate::trials::{self, Kept, Trial};
use regard_device::cuda::CudaError;
use regard_engine::check::{error_of_scale, largest};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The CPU's bounds: about twice PyTorch's own errors, see `attention/tests_cases.rs`.
const BOUND: f64 = 2.0 * 1.6e-6;
const SUMS_BOUND: f64 = 2.0 * 4.88e-6;
const BF16_BOUND: f64 = 2.0 * 3.89e-3;
const BF16_GRADIENTS_BOUND: f64 = 2.0 * 1.22e-2;
/// The log-sum-exp of bf16 products: tensor cores cut the sums of a product where f32 would round them.
const BF16_LSE_BOUND: f64 = 4.0e-6;

type Prepared = Result<Vec<(Call, Vec<Vec<f64>>)>, String>;

/// Records and computes all trials by the reference, on all threads.
fn prepare(all: &[Trial]) -> Vec<Prepared> {
    let found: Vec<Mutex<Option<Prepared>>> = all.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(4, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(trial) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    all.get(at).map(|trial| (at, trial))
                } {
                    let prepared = trial.1.prepare().map_err(|error| error.to_string());
                    *found[trial.0].lock().expect("no thread panicked") = Some(prepared);
                }
            });
        }
    });
    let found = found.into_iter().map(|one| one.into_inner().expect("no thread panicked"));
    found.map(|one| one.expect("each trial was prepared")).collect()
}

/// Whether the reference computes every trial, without a card.
pub fn prepare_all() -> bool {
    let all = trials::all();
    let prepared = prepare(&all);
    let mut sources = HashSet::new();
    for (trial, prepared) in all.iter().zip(&prepared) {
        match prepared {
            Ok(calls) => sources.extend(calls.iter().flat_map(|(call, _)| call.sources(227 * 1024))),
            Err(error) => println!("FAIL {}: {error}", trial.name()),
        }
    }
    println!("{} trials, {} sources", all.len(), sources.len());
    prepared.iter().all(Result::is_ok)
}

fn bound(trial: &Trial, op: &Op, output: usize) -> f64 {
    match (trial.kept, op) {
        (_, Op::Forward(_)) if output == 2 => 0.0,
        (Kept::F32, Op::Forward(_)) => BOUND,
        (Kept::F32, Op::Backward(_)) => SUMS_BOUND,
        (_, Op::Forward(_)) if output == 1 => BF16_LSE_BOUND,
        (_, Op::Forward(_)) => BF16_BOUND,
        (_, Op::Backward(_)) => BF16_GRADIENTS_BOUND,
    }
}

/// What a difference is relative to: the largest number wanted; and for the gradient of a table by distance
/// at least the terms that it sums. Where all distances of a row share a bucket, its score gradients g cancel
/// and nothing is wanted but their rounding. dq = β Σ g·k, so that the Σ |g| of some row is no less than the
/// largest |dq| over |β| and the largest |k|.
fn scale_of(trial: &Trial, call: &Call, output: usize, wanted: &[Vec<f64>]) -> f64 {
    let own = largest(&wanted[output]);
    let is_last = output + 1 == wanted.len();
    if matches!(call.op, Op::Forward(_)) || output < 3 || !is_last || !trial.biased.is_table() {
        return own;
    }
    let factor = trial.largest_scale(call) * largest(&call.inputs[1].numbers());
    if factor > 0.0 { own.max(largest(&wanted[0]) / factor) } else { own }
}

const FORWARD: [&str; 3] = ["y", "lse", "choice"];
const BACKWARD: [&str; 5] = ["dq", "dk", "dv", "d first extra", "d second extra"];

pub fn check(room: &Room, report: &mut Report, few: bool) -> Result<(), CudaError> {
    let mut all = trials::all();
    if few {
        // For sanitizers: small ones, and one in nine of the others.
        let mut at = 0;
        all.retain(|_| {
            at += 1;
            at % 9 == 0
        });
    }
    let began = std::time::Instant::now();
    let prepared = prepare(&all);
    println!("     {} trials computed by the reference in {:.1} s", all.len(), began.elapsed().as_secs_f64());
    let began = std::time::Instant::now();
    let calls = prepared.iter().flatten().flatten();
    let sources: Vec<_> = calls.flat_map(|(call, _)| call.sources(room.shared())).collect();
    let count = room.compile(sources)?;
    println!("     {count} sources compiled in {:.1} s", began.elapsed().as_secs_f64());
    for (trial, prepared) in all.iter().zip(prepared) {
        let calls = match prepared {
            Ok(calls) => calls,
            Err(error) => {
                report.check(&trial.name(), false, error);
                continue;
            }
        };
        let (mut holds, mut detail) = (true, String::new());
        for (call, wanted) in &calls {
            let (got, kept) = room.run(call)?;
            let (again, _) = room.run(call)?;
            if !kept {
                (holds, detail) = (false, detail + "wrote behind its results; ");
            }
            if got.iter().zip(&again).any(|(a, b)| a.bytes != b.bytes) {
                (holds, detail) = (false, detail + "other bits the second time; ");
            }
            for (output, (got, want)) in got.iter().zip(wanted).enumerate() {
                let error = error_of_scale(&got.numbers(), want, scale_of(trial, call, output, wanted));
                let name = if matches!(call.op, Op::Forward(_)) { FORWARD[output] } else { BACKWARD[output] };
                let bound = bound(trial, &call.op, output);
                // A NaN that is not wanted is an infinite error.
                if error > bound {
                    holds = false;
                    detail += &format!("{name} {error:.1e} > {bound:.1e}; ");
                } else {
                    detail += &format!("{name} {error:.0e} ");
                }
                report.worst(&format!("{:?} {name}", trial.kept), error, bound);
            }
        }
        report.check(&trial.name(), holds, detail);
    }
    Ok(())
}
