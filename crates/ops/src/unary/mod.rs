//! Functions of one number, elementwise: activations, exp, log, roots. `y = f(x)` in the shape and dtype of
//! x. As IEEE has it, the logarithm and the root of a negative number are NaN; nothing faults.

mod backward;
pub(crate) mod cpu;
mod cuda;
mod function;

pub use backward::UnaryBackward;
pub use function::Function;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// `y = f(x)`, elementwise.
#[derive(Clone, Copy, Debug)]
pub struct Unary {
    /// Which function.
    pub function: Function,
}

/// Records functions of one number.
pub trait UnaryOps {
    /// f(x) for any [`Function`].
    fn unary(&mut self, function: Function, x: Var) -> Result<Var>;

    /// max(x, 0)
    fn relu(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Relu, x)
    }
    /// x·Φ(x), by the error function.
    fn gelu(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Gelu, x)
    }
    /// GELU in its tanh form, as in GPT-2.
    fn gelu_tanh(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::GeluTanh, x)
    }
    /// x·σ(x)
    fn silu(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Silu, x)
    }
    /// Hyperbolic tangent.
    fn tanh(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Tanh, x)
    }
    /// 1 / (1 + e⁻ˣ)
    fn sigmoid(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Sigmoid, x)
    }
    /// eˣ
    fn exp(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Exp, x)
    }
    /// Natural logarithm.
    fn log(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Log, x)
    }
    /// Square root.
    fn sqrt(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Sqrt, x)
    }
    /// x²
    fn square(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Square, x)
    }
    /// |x|
    fn abs(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Abs, x)
    }
    /// 1/x
    fn recip(&mut self, x: Var) -> Result<Var> {
        self.unary(Function::Recip, x)
    }
}

impl UnaryOps for Graph {
    fn unary(&mut self, function: Function, x: Var) -> Result<Var> {
        self.apply_one(Unary { function }, &[x])
    }
}

impl Op for Unary {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float(self.name(), "x", inputs[0].dtype)?;
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        let function = self.function;
        let saved = if function.from_result() { tape.outputs[0] } else { tape.inputs[0] };
        Ok(vec![Some(g.apply_one(UnaryBackward { function }, &[saved, dy])?)]) // y = f(x), so dx = dy·f′(x)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = (call.outputs[0].count() * self.function.flops()) as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for Unary {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0];
        for (i, &x) in x.data().iter().enumerate() {
            let (y, operations) = self.function.counted_value(x);
            call.outputs[0].data_mut()[i] = y;
            call.count_flops(operations);
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
        cpu::forward(self.function, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.map(&self.function.expression("x0"), &[]))
    }
}
