//! Gated units: `y = act(a) ⊙ b` in one pass (GLU variants: Dauphin et al. 2017; SwiGLU, GeGLU: Shazeer
//! 2020). a and b have one shape; the result is bf16 if both are, else f32.

mod backward;
mod cpu;

pub use backward::GatedBackward;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Function, Kernels, Needs, NotYet, Record, ReferenceCall, Request,
    check_float,
};
use regard_graph::*;

/// The activation of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// ReGLU: max(a, 0)
    Relu,
    /// GeGLU: a·Φ(a) by the error function
    Gelu,
    /// GeGLU with the tanh form
    GeluTanh,
    /// SwiGLU: a·σ(a)
    Silu,
    /// GLU: σ(a)
    Sigmoid,
}

impl Gate {
    /// Every gate.
    pub const ALL: [Gate; 5] = [Gate::Relu, Gate::Gelu, Gate::GeluTanh, Gate::Silu, Gate::Sigmoid];

    /// The function that it applies to a.
    pub fn function(self) -> Function {
        match self {
            Gate::Relu => Function::Relu,
            Gate::Gelu => Function::Gelu,
            Gate::GeluTanh => Function::GeluTanh,
            Gate::Silu => Function::Silu,
            Gate::Sigmoid => Function::Sigmoid,
        }
    }
}

/// `y = act(a) ⊙ b`.
#[derive(Clone, Copy, Debug)]
pub struct Gated {
    /// The activation.
    pub gate: Gate,
}

/// Records gated units.
pub trait GatedOps {
    /// act(a) ⊙ b: both `... F`.
    fn gated(&mut self, gate: Gate, a: Var, b: Var) -> Result<Var>;
}

impl GatedOps for Graph {
    fn gated(&mut self, gate: Gate, a: Var, b: Var) -> Result<Var> {
        self.apply_one(Gated { gate }, &[a, b])
    }
}

impl Op for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("gate", self.gate.function().name().into())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["a", "b"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        Ok(vec![infer(&inputs[0], &inputs[1])?])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }, Alias::Reuse { output: 0, input: 1 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None, None]) };
        let grads = g.apply(GatedBackward { gate: self.gate }, &[tape.inputs[0], tape.inputs[1], dy])?;
        Ok(grads.into_iter().map(Some).collect())
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = (call.outputs[0].count() * (self.gate.function().flops() + 1)) as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

/// The fact of `act(a) ⊙ b`.
fn infer(a: &Fact, b: &Fact) -> Result<Fact> {
    check_float("gated", "a", a.dtype)?;
    check_float("gated", "b", b.dtype)?;
    let mut letters = Letters::new("gated");
    letters.bind("a", &a.shape, "...")?;
    letters.bind("b", &b.shape, "...")?;
    let both_bf16 = a.dtype == DType::BF16 && b.dtype == DType::BF16;
    Ok(Fact::new(&a.shape, if both_bf16 { DType::BF16 } else { DType::F32 }))
}

impl Kernels for Gated {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let ([a, b], function) = ([call.inputs[0], call.inputs[1]], self.gate.function());
        for (i, (&a, &b)) in a.data().iter().zip(b.data()).enumerate() {
            let (value, operations) = function.counted_value(a);
            call.outputs[0].data_mut()[i] = value * b;
            call.count_flops(operations + 1);
        }
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::forward(self.gate.function(), call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.map(&format!("{} * x1", self.gate.function().expression("x0")), &[]))
    }
}
