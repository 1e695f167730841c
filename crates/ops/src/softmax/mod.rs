//! Softmax and its logarithm over the last axis, with inverse temperature β: `y = softmax(β·x)`.
//! Shifted by the row's maximum, so any finite row is safe. A row of −∞ alone has no distribution: softmax
//! gives it zeros, log_softmax −∞, and both the gradient 0.

mod backward;
mod cpu;
mod cuda;
mod reference;

pub use backward::SoftmaxBackward;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// `y = softmax(β·x)` or its logarithm, over the last axis.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// The inverse temperature.
    pub beta: f32,
    /// Gives the logarithm instead.
    pub log: bool,
}

/// Records softmax.
pub trait SoftmaxOps {
    /// softmax(β·x) over the last axis.
    fn softmax_scaled(&mut self, x: Var, beta: f32) -> Result<Var>;
    /// log softmax(β·x) over the last axis.
    fn log_softmax_scaled(&mut self, x: Var, beta: f32) -> Result<Var>;

    /// softmax(x) over the last axis.
    fn softmax(&mut self, x: Var) -> Result<Var> {
        self.softmax_scaled(x, 1.0)
    }
    /// log softmax(x) over the last axis.
    fn log_softmax(&mut self, x: Var) -> Result<Var> {
        self.log_softmax_scaled(x, 1.0)
    }
}

impl SoftmaxOps for Graph {
    fn softmax_scaled(&mut self, x: Var, beta: f32) -> Result<Var> {
        self.apply_one(Softmax { beta, log: false }, &[x])
    }

    fn log_softmax_scaled(&mut self, x: Var, beta: f32) -> Result<Var> {
        self.apply_one(Softmax { beta, log: true }, &[x])
    }
}

impl Op for Softmax {
    fn name(&self) -> &'static str {
        if self.log { "log_softmax" } else { "softmax" }
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("beta", self.beta.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float(self.name(), "x", inputs[0].dtype)?;
        Letters::new(self.name()).bind("x", &inputs[0].shape, "... V")?;
        if !(self.beta > 0.0 && self.beta.is_finite()) {
            return Err(Error::invalid(
                self.name(),
                format!("beta is {}", self.beta),
                "an inverse temperature is a finite number above 0",
            ));
        }
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }] // a row is loaded whole before it is stored
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        let backward = SoftmaxBackward { beta: self.beta, log: self.log };
        Ok(vec![Some(g.apply_one(backward, &[tape.outputs[0], dy])?)])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        // Scale, compare, subtract, exp, add, divide by the sum; or subtract its logarithm, one a row.
        let flops = 6 * call.inputs[0].count() as u64;
        let logarithms = if self.log { rows(&call.inputs[0]) } else { 0 };
        let (read, written) = (call.bytes_in(), call.bytes_out());
        Work { macs: 0, flops: flops + logarithms, read, written }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        whole_rows(&call.inputs[0])
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

/// How many rows there are to normalise; none if they have no elements.
fn rows(dims: &Dims) -> u64 {
    if dims.last_size() == 0 { 0 } else { dims.rows() as u64 }
}

/// Every element of a row depends on the whole row, and on no other.
fn whole_rows(dims: &Dims) -> Relation {
    let last = dims.len() - 1;
    let along = |axis: usize| if axis == last { Along::All } else { Along::Same(axis) };
    Relation::Axes((0..dims.len()).map(along).collect())
}

impl Kernels for Softmax {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::forward(self, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        Needs { thread_scratch: 4 * request.call.inputs[0].last_size(), ..Needs::default() }
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::forward(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::forward(self, call))
    }
}
