//! `state += x`: gradients of micro-batches, running sums. The state is replaced by its next version.

use crate::call::CHUNK;
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_device::multiversion;
use regard_graph::*;

/// `state′ = state + x`.
#[derive(Clone, Copy, Debug)]
pub struct Accumulate;

/// Records accumulation.
pub trait AccumulateOps {
    /// Adds x to a state of the same shape; returns the state's next version.
    fn accumulate(&mut self, state: Var, x: Var) -> Result<Var>;
}

impl AccumulateOps for Graph {
    fn accumulate(&mut self, state: Var, x: Var) -> Result<Var> {
        self.apply_one(Accumulate, &[state, x])
    }
}

impl Op for Accumulate {
    fn name(&self) -> &'static str {
        "accumulate"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["state", "x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("accumulate", "state", inputs[0].dtype)?;
        check_float("accumulate", "x", inputs[1].dtype)?;
        let mut letters = Letters::new("accumulate");
        letters.bind("state", &inputs[0].shape, "...")?;
        letters.bind("x", &inputs[1].shape, "...")?;
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Update { output: 0, input: 0 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Missing("no gradient flows through state")
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = call.outputs[0].count() as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for Accumulate {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [state, x] = [call.inputs[0], call.inputs[1]];
        for (i, (state, x)) in state.data().iter().zip(x.data()).enumerate() {
            call.outputs[0].data_mut()[i] = state + x;
            call.count_flops(1);
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
        call.chunks(call.out_dims(0).count(), |part| {
            let range = part.items();
            let (mut state, mut x) = ([0.0; CHUNK], [0.0; CHUNK]);
            let (state, x) = (&mut state[..range.len()], &mut x[..range.len()]);
            part.load(0, range.clone(), state);
            part.load(1, range.clone(), x);
            add(call.level, state, x);
            part.store(0, range, state);
        });
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.update("x0 + x1", &[]))
    }
}

multiversion! {
    fn add(state: &mut [f32], x: &[f32]) {
        for (state, x) in state.iter_mut().zip(x) {
            *state += x;
        }
    }
}
