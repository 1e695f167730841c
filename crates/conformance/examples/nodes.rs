//! Writes the nodes of random programs whose operands are hard: those that are off by more than twice
//! PyTorch's error on easy operands, and those whose results move ten times further than their operands do.
//! `bench/torch_error_same_operands.py` runs PyTorch on the same operands.
//!
//!     cargo run --release -p regard-conformance --example nodes -- FOLDER f32|bf16 FIRST_SEED LAST_SEED
//!
//! Each node is a line of `PRECISION.jsonl`; its operands (f32), our results and the specification's (f64)
//! are tensors of `PRECISION.safetensors`, named by the node's number.

use regard::device::Level;
use regard::prelude::*;
use regard_conformance::bounds::Bounds;
use regard_conformance::nodes::node_runs;
use regard_conformance::programs::Recipe;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;
use std::error::Error;
use std::path::Path;

/// Results that move further than this, relative to their operands, are written whatever their error.
const HARD: f64 = 10.0;

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
    let (bounds, cpu) = (Bounds::new(), Cpu::with(2, Level::best())?);
    let (mut lines, mut tensors) = (String::new(), Vec::new());
    let mut number = 0;
    for seed in first.parse()?..=last.parse()? {
        for run in node_runs(Recipe::new(seed, given), &cpu) {
            let easy = bounds.easy(&run);
            let errors: Vec<f64> = run.results.iter().map(|result| result.error()).collect();
            let conditions: Vec<f64> = run.results.iter().map(|result| result.condition).collect();
            let scales: Vec<f64> = run.results.iter().map(|result| result.scale).collect();
            let over: Vec<bool> = errors.iter().map(|&error| error > easy).collect();
            let exact = easy == 0.0 && errors.iter().all(|&error| error == 0.0);
            if exact || !over.contains(&true) && conditions.iter().all(|&condition| condition < HARD) {
                continue;
            }
            let settings: serde_json::Map<_, _> =
                run.attributes.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
            let operands: Vec<&str> = run.operands.iter().map(|(name, _)| *name).collect();
            let line = json!({
                "node": number, "seed": seed, "op": run.op, "name": run.name, "settings": settings,
                "precision": format!("{:?}", run.precision).to_lowercase(), "operands": operands,
                "errors": errors, "conditions": conditions, "scales": scales, "over": over,
            });
            lines += &format!("{line}\n");
            for (name, array) in &run.operands {
                let numbers = array.data().iter().flat_map(|&x| (x as f32).to_le_bytes()).collect();
                tensors.push((format!("{number}.operand.{name}"), Dtype::F32, array.dims(), numbers));
            }
            for (index, result) in run.results.iter().enumerate() {
                for (kind, array) in [("got", &result.got), ("want", &result.want)] {
                    let numbers: Vec<u8> = array.data().iter().flat_map(|x| x.to_le_bytes()).collect();
                    tensors.push((format!("{number}.{kind}.{index}"), Dtype::F64, array.dims(), numbers));
                }
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
