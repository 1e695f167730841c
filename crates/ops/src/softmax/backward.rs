//! The gradients of softmax and its logarithm, from the result.

use super::{cpu, cuda, reference, whole_rows};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// `dx = β·y·(dy − Σ dy·y)`; for the logarithm `dx = β·(dy − eʸ·Σ dy)`.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxBackward {
    /// The inverse temperature.
    pub beta: f32,
    /// y is the logarithm.
    pub log: bool,
}

impl Op for SoftmaxBackward {
    fn name(&self) -> &'static str {
        if self.log { "log_softmax_backward" } else { "softmax_backward" }
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("beta", self.beta.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["y", "dy"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float(self.name(), "y", inputs[0].dtype)?;
        check_float(self.name(), "dy", inputs[1].dtype)?;
        let mut letters = Letters::new(self.name());
        letters.bind("y", &inputs[0].shape, "... V")?;
        letters.bind("dy", &inputs[1].shape, "... V")?;
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 1 }, Alias::Reuse { output: 0, input: 0 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Missing("second derivatives of softmax are not written")
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let count = call.inputs[0].count() as u64;
        let (read, written) = (call.bytes_in(), call.bytes_out());
        // Σ dy·y is multiply-adds; then subtract, times y, times β. For the logarithm: Σ dy, exp, the
        // multiply-add of dy and −eʸ·Σ dy, times β. The counts are the same.
        Work { macs: count, flops: 3 * count, read, written }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        // The logarithm's rule looks at its own y alone.
        if self.log && input == 0 { Relation::Same } else { whole_rows(&call.inputs[0]) }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for SoftmaxBackward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::backward(self, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        Needs { thread_scratch: 8 * request.call.inputs[0].last_size(), ..Needs::default() }
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::backward(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::backward(self, call))
    }
}
