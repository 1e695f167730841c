//! `state ← x`, broadcast: copies, resets. The state is replaced by its next version.

mod cpu;

use crate::broadcast::{Walk, broadcast_reach, broadcast_shape};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, FillOps, Kernels, Needs, NotYet, Record, ReferenceCall, Request,
};
use regard_graph::*;

/// `state′ = x`.
#[derive(Clone, Copy, Debug)]
pub struct Assign;

/// Records assignment.
pub trait AssignOps {
    /// Replaces a state by x, of the same dtype and a shape that broadcasts to the state's; returns the
    /// state's next version.
    fn assign(&mut self, state: Var, x: Var) -> Result<Var>;
    /// Fills a float state with one number; returns the state's next version.
    fn assign_number(&mut self, state: Var, number: f32) -> Result<Var>;
}

impl AssignOps for Graph {
    fn assign(&mut self, state: Var, x: Var) -> Result<Var> {
        self.apply_one(Assign, &[state, x])
    }

    fn assign_number(&mut self, state: Var, number: f32) -> Result<Var> {
        self.check_operands("assign", &[state])?;
        let dtype = self.dtype(state);
        let number = self.fill(dtype, Shape::scalar(), number)?;
        self.assign(state, number)
    }
}

impl Op for Assign {
    fn name(&self) -> &'static str {
        "assign"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["state", "x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let [state, x] = [&inputs[0], &inputs[1]];
        if state.dtype != x.dtype {
            return Err(Error::DType {
                op: "assign".into(),
                operand: "x".into(),
                got: x.dtype.to_string(),
                expected: format!("{} as state", state.dtype),
                advice: "cast it first".into(),
            });
        }
        let shape = broadcast_shape("assign", ["state", "x"], &state.shape, &x.shape)?;
        if shape != state.shape {
            return Err(Error::Shape {
                op: "assign".into(),
                operand: "x".into(),
                got: x.shape.to_string(),
                expected: format!("a shape that broadcasts to {}", state.shape),
                origin: "; it comes from state".into(),
            });
        }
        Ok(vec![state.clone()])
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
        let read = (call.inputs[1].count() * call.input_dtypes[1].bytes()) as u64;
        Work { read, written: call.bytes_out(), ..Work::default() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        match input {
            0 => Relation::Nothing, // what was there is gone
            _ => Relation::Axes(broadcast_reach(call.inputs[1], call.outputs[0])),
        }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for Assign {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let (x, out) = (call.inputs[1], &mut call.outputs[0]);
        let walk = Walk::new(x.dims(), out.dims());
        for (i, y) in out.data_mut().iter_mut().enumerate() {
            *y = x.data()[walk.flat(i)];
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
        cpu::run(call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.update("x1", &[]))
    }
}
