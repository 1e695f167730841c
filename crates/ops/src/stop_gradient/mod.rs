//! A value through which no gradient flows. The same bytes; nothing runs.

use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request};
use regard_graph::*;

/// `y = x`, with derivative zero.
#[derive(Clone, Copy, Debug)]
pub struct StopGradient;

/// Records where gradients stop.
pub trait StopGradientOps {
    /// x, taken as data from here on.
    fn stop_gradient(&mut self, x: Var) -> Result<Var>;
}

impl StopGradientOps for Graph {
    fn stop_gradient(&mut self, x: Var) -> Result<Var> {
        self.apply_one(StopGradient, &[x])
    }
}

impl Op for StopGradient {
    fn name(&self) -> &'static str {
        "stop_gradient"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::View { output: 0, input: 0 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Zero
    }

    fn gradient(&self, _g: &mut Graph, _tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None])
    }

    fn cost(&self, _call: &Concrete<'_>) -> Work {
        Work::default()
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for StopGradient {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        call.outputs[0] = call.inputs[0].clone();
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, _call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        Ok(()) // a view: the bytes are there already
    }

    fn cuda(&self, _call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(CudaList::new()) // a view: the bytes are there already
    }
}
