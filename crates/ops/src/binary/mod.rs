//! Elementwise arithmetic of two values with broadcasting: `a + b`, `a − b`, `a · b`, `a / b`.
//! A result is f32 as soon as one operand is; two bf16 operands give bf16.

mod cpu;
mod reference;

use crate::broadcast::{broadcast_reach, broadcast_shape};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, ScaleOps,
    SumToOps, check_float,
};
use regard_graph::*;

/// Which arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// a + b
    Add,
    /// a − b
    Subtract,
    /// a · b
    Multiply,
    /// a / b
    Divide,
}

impl Arithmetic {
    /// In CUDA C++.
    fn expression(self) -> &'static str {
        match self {
            Arithmetic::Add => "x0 + x1",
            Arithmetic::Subtract => "x0 - x1",
            Arithmetic::Multiply => "x0 * x1",
            Arithmetic::Divide => "x0 / x1",
        }
    }
}

/// `out = a ∘ b`, broadcast.
#[derive(Clone, Copy, Debug)]
pub struct Binary {
    /// Which arithmetic.
    pub kind: Arithmetic,
}

/// Records elementwise arithmetic.
pub trait BinaryOps {
    /// a + b, broadcast.
    fn add(&mut self, a: Var, b: Var) -> Result<Var>;
    /// a − b, broadcast.
    fn sub(&mut self, a: Var, b: Var) -> Result<Var>;
    /// a · b elementwise, broadcast.
    fn mul(&mut self, a: Var, b: Var) -> Result<Var>;
    /// a / b elementwise, broadcast.
    fn div(&mut self, a: Var, b: Var) -> Result<Var>;
}

impl BinaryOps for Graph {
    fn add(&mut self, a: Var, b: Var) -> Result<Var> {
        self.apply_one(Binary { kind: Arithmetic::Add }, &[a, b])
    }

    fn sub(&mut self, a: Var, b: Var) -> Result<Var> {
        self.apply_one(Binary { kind: Arithmetic::Subtract }, &[a, b])
    }

    fn mul(&mut self, a: Var, b: Var) -> Result<Var> {
        self.apply_one(Binary { kind: Arithmetic::Multiply }, &[a, b])
    }

    fn div(&mut self, a: Var, b: Var) -> Result<Var> {
        self.apply_one(Binary { kind: Arithmetic::Divide }, &[a, b])
    }
}

impl Op for Binary {
    fn name(&self) -> &'static str {
        match self.kind {
            Arithmetic::Add => "add",
            Arithmetic::Subtract => "sub",
            Arithmetic::Multiply => "mul",
            Arithmetic::Divide => "div",
        }
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["a", "b"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float(self.name(), "a", inputs[0].dtype)?;
        check_float(self.name(), "b", inputs[1].dtype)?;
        let shape = broadcast_shape(self.name(), ["a", "b"], &inputs[0].shape, &inputs[1].shape)?;
        let both_bf16 = inputs.iter().all(|fact| fact.dtype == DType::BF16);
        Ok(vec![Fact::new(shape, if both_bf16 { DType::BF16 } else { DType::F32 })])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }, Alias::Reuse { output: 0, input: 1 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None, None]) };
        let [a, b] = [tape.inputs[0], tape.inputs[1]];
        let mut grads = vec![None, None];
        if tape.wanted[0] {
            let da = match self.kind {
                Arithmetic::Add | Arithmetic::Subtract => dy, // y = a ± b, so da = dy
                Arithmetic::Multiply => g.mul(dy, b)?,        // y = a·b, so da = dy·b
                Arithmetic::Divide => g.div(dy, b)?,          // y = a/b, so da = dy/b
            };
            grads[0] = Some(g.sum_to(da, a)?);
        }
        if tape.wanted[1] {
            let db = match self.kind {
                Arithmetic::Add => dy,
                Arithmetic::Subtract => g.scale(dy, -1.0)?,
                Arithmetic::Multiply => g.mul(dy, a)?,
                // y = a/b, so db = −dy·y/b
                Arithmetic::Divide => {
                    let y_over_b = g.div(tape.outputs[0], b)?;
                    let product = g.mul(dy, y_over_b)?;
                    g.scale(product, -1.0)?
                }
            };
            grads[1] = Some(g.sum_to(db, b)?);
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = call.outputs[0].count() as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        Relation::Axes(broadcast_reach(call.inputs[input], call.outputs[0]))
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for Binary {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(self.kind, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(self.kind, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.map(self.kind.expression(), &[]))
    }
}
