//! Writes all nodes of random programs, and of the ops alone, that compute anything, with their operands, for
//! `parity/node_errors.py`, which runs PyTorch on the same operands.
//!
//!     cargo run --release -p regard-conformance --example nodes -- FOLDER f32|bf16 FIRST_SEED LAST_SEED
//!
//! Each node is a line of `PRECISION.jsonl`; its operands (f32) and what the specification makes of them
//! (f64) are tensors of `PRECISION.safetensors`, named by the node's number and their own.

use regard::check::largest;
use regard::device::Level;
use regard::prelude::*;
use regard_conformance::nodes::{NodeRun, node_runs, runs_of};
use regard_conformance::op_cases::op_cases;
use regard_conformance::programs::Recipe;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;

/// With how many of the seeds the ops are run alone.
const ALONE: u64 = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, precision, first, last] = arguments.as_slice() else {
        return Err("usage: nodes FOLDER f32|bf16 FIRST_SEED LAST_SEED".into());
    };
    let given = match precision.as_str() {
        "f32" => Precision::F32,
        "bf16" => Precision::Bf16,
        other => return Err(format!("the precision is `{other}`: give f32 or bf16").into()),
    };
    let cpu = Cpu::with(2, Level::best())?;
    let (mut lines, mut tensors) = (String::new(), Vec::new());
    let mut number = 0;
    let first: u64 = first.parse()?;
    for seed in first..=last.parse()? {
        let mut runs = node_runs(Recipe::new(seed, given), &cpu);
        for case in op_cases().iter().filter(|_| seed < first + ALONE) {
            runs.extend(runs_of(&|| case.recorded(given, seed, false).unwrap(), &cpu));
        }
        for run in runs.iter().filter(|run| !run.is_exact()) {
            lines += &format!("{}\n", line(number, seed, run));
            for (index, (_, array)) in run.operands.iter().enumerate() {
                let numbers: Vec<u8> = array.data().iter().flat_map(|&x| (x as f32).to_le_bytes()).collect();
                tensors.push((format!("{number}.operand.{index}"), Dtype::F32, array.dims(), numbers));
            }
            for (index, result) in run.results.iter().enumerate() {
                let numbers: Vec<u8> = result.want.data().iter().flat_map(|x| x.to_le_bytes()).collect();
                tensors.push((format!("{number}.want.{index}"), Dtype::F64, result.want.dims(), numbers));
            }
            number += 1;
        }
    }
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder)?;
    let views: Result<Vec<_>, _> = tensors
        .iter()
        .map(|(name, dtype, dims, numbers)| {
            TensorView::new(*dtype, dims.to_vec(), numbers).map(|view| (name.as_str(), view))
        })
        .collect();
    safetensors::serialize_to_file(views?, None, &folder.join(format!("{precision}.safetensors")))?;
    std::fs::write(folder.join(format!("{precision}.jsonl")), lines)?;
    println!("{number} nodes in {}", folder.display());
    Ok(())
}

/// What is said of a node beside its tensors.
fn line(number: usize, seed: u64, run: &NodeRun) -> Value {
    let settings: serde_json::Map<_, _> =
        run.attributes.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    let operands: Vec<&str> = run.operands.iter().map(|(name, _)| *name).collect();
    let results = run.results.iter().map(|result| {
        let conditioning = &result.conditioning;
        json!({
            "name": result.name, "largest": largest(result.want.data()),
            "moved": conditioning.moved, "moved_bf16": conditioning.moved_bf16,
        })
    });
    json!({
        "node": number, "seed": seed, "op": run.op, "key": run.key(), "settings": settings,
        "precision": format!("{:?}", run.precision).to_lowercase(), "operands": operands,
        "results": results.collect::<Vec<_>>(),
    })
}
