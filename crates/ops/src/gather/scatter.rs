//! The sum of slices that share an index: the gradient of gather, and gather is its gradient.

use super::{Gather, around, check_operands, target, with_axis};
use crate::rows::cpu::Scatter;
use crate::rows::{check_indices, listed, pointing};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// `out[…, n, …] = Σ x[…, m, …]` over the m with `indices[m] = n`.
#[derive(Clone, Debug)]
pub struct ScatterAdd {
    /// The axis.
    pub axis: usize,
    /// Whether each example (axis 0) has indices of its own; the axis is 1 then.
    pub batched: bool,
    /// N, the size of the result along the axis.
    pub size: Dim,
}

impl ScatterAdd {
    fn scatter(&self, x: Dims, out: Dims) -> Scatter {
        let (from, to) = (around(x, self.axis), around(out, self.axis));
        Scatter { outer: to.outer, batched: self.batched, count: from.size, size: to.size, inner: to.inner }
    }
}

impl Op for ScatterAdd {
    fn name(&self) -> &'static str {
        "scatter_add"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("axis", self.axis.to_string()), ("size", self.size.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x", "indices"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("scatter_add", "x", inputs[0].dtype)?;
        let count = check_operands("scatter_add", self.axis, self.batched, &inputs[0], &inputs[1])?;
        let shape = &inputs[0].shape;
        if shape[self.axis] != count {
            return Err(Error::Shape {
                op: "scatter_add".into(),
                operand: "x".into(),
                got: shape.to_string(),
                expected: format!("M={count} along axis {}", self.axis),
                origin: "; M comes from indices".into(),
            });
        }
        Ok(vec![Fact::new(with_axis(shape, self.axis, &self.size), inputs[0].dtype)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, input: usize) -> Derivative {
        if input == 0 { Derivative::Exists } else { Derivative::Zero }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None, None]) };
        // y[indices[m]] has the summand x[m], so dx[m] = dy[indices[m]]
        let op = Gather { axis: self.axis, batched: self.batched };
        Ok(vec![Some(g.apply_one(op, &[dy, tape.inputs[1]])?), None])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = call.inputs[0].count() as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        if input == 1 {
            return match self.batched {
                true => Relation::Axes(vec![Along::Same(0), Along::All]),
                false => Relation::Axes(vec![Along::All]),
            };
        }
        let (x, out) = (call.inputs[0], call.outputs[0]);
        let selecting = if self.batched { vec![0, 1] } else { vec![self.axis] };
        let groups = if self.batched { x[0] } else { 1 };
        let mut axes: Vec<Along> = (0..x.len()).map(Along::Same).collect();
        axes[self.axis] = listed(&selecting, pointing(call.integers[1], groups, out[self.axis]));
        Relation::Axes(axes)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let mut layout = Layout::own(call, output);
        for axis in (0..call.inputs[0].len()).filter(|&axis| axis != self.axis) {
            layout = layout.with(axis, 0, axis);
        }
        if self.batched { layout.with(0, 1, 0) } else { layout }
    }
}

impl Kernels for ScatterAdd {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [x, indices] = [call.inputs[0], call.inputs[1]];
        let (from, to) = (around(x.dims(), self.axis), around(call.outputs[0].dims(), self.axis));
        let numbers = indices.data().iter().map(|&index| index as i64);
        check_indices(target("scatter_add", to.size), indices.dims(), numbers)?;
        for o in 0..from.outer {
            for m in 0..from.size {
                let at = if self.batched { o * from.size + m } else { m };
                let index = indices.data()[at] as usize;
                for i in 0..from.inner {
                    call.outputs[0].data_mut()[(o * to.size + index) * to.inner + i] +=
                        x.data()[(o * from.size + m) * from.inner + i];
                    call.count_flops(1);
                }
            }
        }
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        self.scatter(request.call.inputs[0], request.call.outputs[0]).needs()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let indices = call.i32(1);
        let numbers = indices.iter().map(|&index| i64::from(index));
        check_indices(target("scatter_add", call.out_dims(0)[self.axis]), call.dims(1), numbers)?;
        let scatter = self.scatter(call.dims(0), call.out_dims(0));
        scatter.run(call, 0, 0, |group, m| indices[group * scatter.count + m] as usize);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(self
            .scatter(call.call.inputs[0], call.call.outputs[0])
            .cuda(call, target("scatter_add", call.call.outputs[0][self.axis])))
    }
}
