//! A value repeated along missing and size-1 axes: the gradient of `sum_to`.

use crate::broadcast::{Walk, broadcast_reach, broadcast_shape};
use crate::call::CHUNK;
use crate::{CpuCall, Fault, Kernels, Needs, Record, ReferenceCall, Request, SumToOps, check_float};
use regard_graph::*;

/// `out[i] = x[i without the repeated axes]`.
#[derive(Clone, Debug)]
pub struct BroadcastTo {
    /// Shape and dtype of the result.
    pub fact: Fact,
}

/// Records broadcasting.
pub trait BroadcastOps {
    /// Repeats a value to the shape (and rounds to the dtype) of another.
    fn broadcast_to(&mut self, x: Var, like: Var) -> Result<Var>;
}

impl BroadcastOps for Graph {
    fn broadcast_to(&mut self, x: Var, like: Var) -> Result<Var> {
        let fact = self.fact(like).clone();
        if *self.fact(x) == fact { Ok(x) } else { self.apply_one(BroadcastTo { fact }, &[x]) }
    }
}

impl Op for BroadcastTo {
    fn name(&self) -> &'static str {
        "broadcast_to"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("shape", self.fact.shape.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("broadcast_to", "x", inputs[0].dtype)?;
        check_float("broadcast_to", "like", self.fact.dtype)?;
        let shape = broadcast_shape("broadcast_to", ["like", "x"], &self.fact.shape, &inputs[0].shape)?;
        if shape != self.fact.shape {
            return Err(Error::Shape {
                op: "broadcast_to".into(),
                operand: "x".into(),
                got: inputs[0].shape.to_string(),
                expected: format!("a shape that broadcasts to {}", self.fact.shape),
                origin: "; it comes from like".into(),
            });
        }
        Ok(vec![self.fact.clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        Ok(vec![Some(g.sum_to(dy, tape.inputs[0])?)]) // y repeats x, so dx sums dy over the repeats
    }

    fn cost(&self, call: &Concrete<'_>) -> Cost {
        Cost::same(Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() })
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Axes(broadcast_reach(call.inputs[0], call.outputs[0]))
    }
}

impl Kernels for BroadcastTo {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0];
        let out = &mut call.outputs[0];
        let walk = Walk::new(x.dims(), out.dims());
        for (i, y) in out.data_mut().iter_mut().enumerate() {
            *y = x.data()[walk.flat(i)];
        }
        Ok(())
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let out = call.out_dims(0);
        if out.count() == 0 {
            return Ok(());
        }
        let (walk, width) = (Walk::new(call.dims(0), out), out.last_size());
        call.rows(out.rows(), width, |row, _| {
            let start = row * width;
            let at = walk.flat(start);
            let mut buffer = [0.0; CHUNK];
            for from in (0..width).step_by(CHUNK) {
                let part = &mut buffer[..CHUNK.min(width - from)];
                walk.load(call, 0, at, from, part);
                call.store(0, start + from..start + from + part.len(), part);
            }
        });
        Ok(())
    }
}
