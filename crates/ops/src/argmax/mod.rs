//! The index of the largest element of each row: x `[... C]` → i32 `[...]`. Of equals the first one counts; a
//! NaN counts as smaller than everything, and a row of nothing else gives 0.

mod cpu;

use crate::{CpuCall, Fault, Kernels, Needs, Record, ReferenceCall, Request, check_float};
use regard_graph::*;

/// `out[...] = argmax of x[..., c] over c`.
#[derive(Clone, Copy, Debug)]
pub struct Argmax;

/// Records the index of the largest element.
pub trait ArgmaxOps {
    /// The index of the largest element along the last axis. x `[... C]` → i32 `[...]`.
    fn argmax(&mut self, x: Var) -> Result<Var>;
}

impl ArgmaxOps for Graph {
    fn argmax(&mut self, x: Var) -> Result<Var> {
        self.apply_one(Argmax, &[x])
    }
}

fn check_width(rows: usize, width: usize) -> std::result::Result<(), Fault> {
    if width > 0 || rows == 0 {
        return Ok(());
    }
    Err(Fault { op: "argmax", what: "C is 0".into(), advice: "a row needs at least one element" })
}

impl Op for Argmax {
    fn name(&self) -> &'static str {
        "argmax"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = Letters::new("argmax");
        check_float("argmax", "x", inputs[0].dtype)?;
        letters.bind("x", &inputs[0].shape, "... C")?;
        if letters.get("C").and_then(Dim::fixed) == Some(0) {
            return Err(Error::invalid("argmax", "C is 0", "a row needs at least one element"));
        }
        Ok(vec![Fact::new(letters.shape("..."), DType::I32)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Zero
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Cost {
        let x = call.inputs[0];
        let flops = (x.rows() * x.last_size().saturating_sub(1)) as u64;
        let math = Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() };
        // The largest element first, then its first place.
        Cost { math, executed: Work { flops: 2 * flops, ..math } }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        if call.inputs[0].last_size() == 1 {
            return Relation::Nothing;
        }
        let leading = (0..call.inputs[0].len() - 1).map(Along::Same);
        Relation::Axes(leading.chain([Along::All]).collect())
    }
}

impl Kernels for Argmax {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0];
        check_width(x.dims().rows(), x.dims().last_size())?;
        for i in 0..x.dims().rows() {
            let row = x.row(i);
            let mut best = 0;
            for (c, &number) in row.iter().enumerate().skip(1) {
                if number > row[best] || (row[best].is_nan() && !number.is_nan()) {
                    best = c;
                }
                call.count_flops(1);
            }
            call.outputs[0].data_mut()[i] = best as f64;
        }
        Ok(())
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        check_width(call.dims(0).rows(), call.dims(0).last_size())?;
        cpu::run(call);
        Ok(())
    }
}
