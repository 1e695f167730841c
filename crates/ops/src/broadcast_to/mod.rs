//! A value repeated along missing and size-1 axes, or spread evenly over them: the gradients of sums and
//! means.

use crate::broadcast::{Walk, broadcast_reach, broadcast_shape};
use crate::call::CHUNK;
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, SumTo,
    check_float,
};
use regard_graph::*;

/// `out[i] = x[i without the repeated axes]`, or that over the number of repeats.
#[derive(Clone, Debug)]
pub struct BroadcastTo {
    /// Shape and dtype of the result.
    pub fact: Fact,
    /// Divides by the number of repeats.
    pub mean: bool,
}

impl BroadcastTo {
    /// How often each element of x is repeated.
    fn repeats(x: &Dims, out: &Dims) -> usize {
        let leading = out.len() - x.len();
        let repeated = |axis: &usize| *axis < leading || x[axis - leading] != out[*axis];
        (0..out.len()).filter(repeated).map(|axis| out[axis]).product()
    }
}

/// Records broadcasting.
pub trait BroadcastOps {
    /// Repeats a value to the shape (and rounds to the dtype) of another.
    fn broadcast_to(&mut self, x: Var, like: Var) -> Result<Var>;
}

impl BroadcastOps for Graph {
    fn broadcast_to(&mut self, x: Var, like: Var) -> Result<Var> {
        self.check_operands("broadcast_to", &[x, like])?;
        let fact = self.fact(like).clone();
        if *self.fact(x) == fact { Ok(x) } else { self.apply_one(BroadcastTo { fact, mean: false }, &[x]) }
    }
}

impl Op for BroadcastTo {
    fn name(&self) -> &'static str {
        "broadcast_to"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("shape", self.fact.shape.to_string()), ("mean", self.mean.to_string())]
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
        // y repeats x, so dx sums dy over the repeats; y spreads x evenly, so dx is their mean.
        let back = SumTo { fact: g.fact(tape.inputs[0]).clone(), mean: self.mean };
        Ok(vec![Some(g.apply_one(back, &[dy])?)])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = if self.mean { call.outputs[0].count() as u64 } else { 0 };
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Axes(broadcast_reach(call.inputs[0], call.outputs[0]))
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for BroadcastTo {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0];
        let out = &mut call.outputs[0];
        let walk = Walk::new(x.dims(), out.dims());
        let repeats = if self.mean { BroadcastTo::repeats(&x.dims(), &out.dims()) as f64 } else { 1.0 };
        let count = out.dims().count();
        for (i, y) in out.data_mut().iter_mut().enumerate() {
            *y = x.data()[walk.flat(i)] / repeats;
        }
        call.count_flops(if self.mean { count } else { 0 });
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        let work = self.cost(call);
        // A single number is divided once.
        let flops = if call.inputs[0].count() == 1 { work.flops.min(1) } else { work.flops };
        Work { flops, ..work }
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let out = call.out_dims(0);
        if out.count() == 0 {
            return Ok(()); // rows without columns have no coordinates
        }
        let (walk, width) = (Walk::new(call.dims(0), out), out.last_size());
        let repeats = if self.mean { BroadcastTo::repeats(&call.dims(0), &out) as f32 } else { 1.0 };
        if call.dims(0).count() == 1 {
            // One number everywhere, as in the gradient of a sum: no rows to tell apart.
            let mut one = [0.0];
            call.load(0, 0..1, &mut one);
            let many = [if self.mean { one[0] / repeats } else { one[0] }; CHUNK];
            call.chunks(out.count(), |part| part.store(0, part.items(), &many[..part.len()]));
            return Ok(());
        }
        call.rows(out.rows(), width, |own, _| {
            let start = own.first() * width;
            let at = walk.flat(start);
            let mut buffer = [0.0; CHUNK];
            for from in (0..width).step_by(CHUNK) {
                let part = &mut buffer[..CHUNK.min(width - from)];
                walk.load(own, 0, at, from, part);
                if self.mean {
                    part.iter_mut().for_each(|x| *x /= repeats);
                }
                own.store(0, start + from..start + from + part.len(), part);
            }
        });
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        let repeats = BroadcastTo::repeats(&call.call.inputs[0], &call.call.outputs[0]) as f32;
        Ok(call.map(if self.mean { "x0 / s.v[0]" } else { "x0" }, &[repeats]))
    }
}
