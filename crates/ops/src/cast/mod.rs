//! Another dtype for the same numbers: f32 ↔ bf16 (rounding to nearest, ties to even), integers and
//! booleans to floats. Nothing casts to integers: that would round without being asked.

mod cpu;

use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request};
use regard_graph::*;

/// `y = x` in another dtype.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    /// The dtype of the operand, known when recorded: integers carry no gradient.
    pub from: DType,
    /// The dtype of the result.
    pub to: DType,
}

/// Records casts.
pub trait CastOps {
    /// x as f32 or bf16; x itself if it is that already.
    fn cast(&mut self, x: Var, to: DType) -> Result<Var>;
}

impl CastOps for Graph {
    fn cast(&mut self, x: Var, to: DType) -> Result<Var> {
        self.check_operands("cast", &[x])?;
        let from = self.dtype(x);
        if from == to { Ok(x) } else { self.apply_one(Cast { from, to }, &[x]) }
    }
}

impl Op for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("to", self.to.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        if inputs[0].dtype != self.from {
            return Err(Error::DType {
                op: "cast".into(),
                operand: "x".into(),
                got: inputs[0].dtype.to_string(),
                expected: self.from.to_string(),
                advice: "record it with `g.cast`".into(),
            });
        }
        if !self.to.is_float() {
            return Err(Error::invalid(
                "cast",
                format!("{} to {} is not a cast", self.from, self.to),
                "cast to f32 or bf16; use `less`, `equal` for booleans and `add_integers` for positions",
            ));
        }
        Ok(vec![Fact::new(&inputs[0].shape, self.to)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        if self.from.is_float() { Derivative::Exists } else { Derivative::Zero }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        Ok(vec![Some(g.cast(dy, self.from)?)]) // y = x, so dx = dy
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for Cast {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        // The engine rounds what is bf16, in its rounded mode.
        call.outputs[0].data_mut().copy_from_slice(call.inputs[0].data());
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.map("x0", &[]))
    }
}
