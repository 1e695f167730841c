//! Sums and means over the axes along which a smaller shape would be repeated: the gradient of broadcasting,
//! and the sum over any axes. Sums run in blocks of a fixed size, in a fixed order. A mean divides by the
//! number of terms of the run, which open letters may change; the mean of no terms is NaN.

mod axes;
mod cpu;
pub(crate) mod cuda;
mod reference;

pub use axes::ReduceOps;
pub(crate) use axes::{drop_axes, reduced_shape};

use crate::broadcast::{broadcast_shape, reduce_reach};
use crate::{
    BroadcastTo, CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request,
    check_float,
};
use regard_graph::*;

/// `out[j] = Σ x[i]` over all i that broadcasting would fill from j, or their mean.
#[derive(Clone, Debug)]
pub struct SumTo {
    /// Shape and dtype of the result.
    pub fact: Fact,
    /// Divides by the number of terms.
    pub mean: bool,
}

impl SumTo {
    /// How many terms there are for each element of the result.
    fn terms(x: &Dims, out: &Dims) -> usize {
        let leading = x.len() - out.len();
        let summed = |axis: &usize| *axis < leading || out[axis - leading] != x[*axis];
        (0..x.len()).filter(summed).map(|axis| x[axis]).product()
    }
}

/// Records sums.
pub trait SumToOps {
    /// Sums a value down to the shape (and dtype) of another, which must broadcast to it.
    fn sum_to(&mut self, x: Var, like: Var) -> Result<Var>;
    /// Sums a value down to a given fact, whose shape must broadcast to it.
    fn sum_to_fact(&mut self, x: Var, fact: Fact) -> Result<Var>;
    /// Sums all elements to one f32 number.
    fn sum_all(&mut self, x: Var) -> Result<Var>;
}

impl SumToOps for Graph {
    fn sum_to(&mut self, x: Var, like: Var) -> Result<Var> {
        self.check_operands("sum_to", &[x, like])?;
        let fact = self.fact(like).clone();
        self.sum_to_fact(x, fact)
    }

    fn sum_to_fact(&mut self, x: Var, fact: Fact) -> Result<Var> {
        self.check_operands("sum_to", &[x])?;
        if *self.fact(x) == fact { Ok(x) } else { self.apply_one(SumTo { fact, mean: false }, &[x]) }
    }

    fn sum_all(&mut self, x: Var) -> Result<Var> {
        self.sum_to_fact(x, Fact::f32(Shape::scalar()))
    }
}

impl Op for SumTo {
    fn name(&self) -> &'static str {
        if self.mean { "mean_to" } else { "sum_to" }
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("shape", self.fact.shape.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float(self.name(), "x", inputs[0].dtype)?;
        check_float(self.name(), "like", self.fact.dtype)?;
        let shape = broadcast_shape(self.name(), ["x", "like"], &inputs[0].shape, &self.fact.shape)?;
        if shape != inputs[0].shape {
            return Err(Error::Shape {
                op: self.name().into(),
                operand: "like".into(),
                got: self.fact.shape.to_string(),
                expected: format!("a shape that broadcasts to {}", inputs[0].shape),
                origin: "; it comes from x".into(),
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
        // y = Σ x, so every summand gets dy; y = Σ x / n, so every one gets dy/n.
        let back = BroadcastTo { fact: g.fact(tape.inputs[0]).clone(), mean: self.mean };
        Ok(vec![Some(g.apply_one(back, &[dy])?)])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let divisions = if self.mean { call.outputs[0].count() } else { 0 };
        let flops = (call.inputs[0].count() + divisions) as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Axes(reduce_reach(call.inputs[0], call.outputs[0]))
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for SumTo {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(self, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(self, call))
    }
}
