//! Slices of a value by index along one axis (`gather`), and the sum of slices that share an index
//! (`scatter_add`): each is the other's gradient. With indices of its own for each example, the axis is the
//! second one: x `[B N …]`, indices `[B M]` → `[B M …]`.

mod cpu;
mod scatter;

pub use scatter::ScatterAdd;

use crate::rows::cuda::Gathered;
use crate::rows::{Target, check_indices, listed, pointed};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_dtype,
};
use regard_graph::*;

/// `out[…, m, …] = x[…, indices[m], …]` along one axis.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// The axis.
    pub axis: usize,
    /// Whether each example (axis 0) has indices of its own; the axis is 1 then.
    pub batched: bool,
}

/// Records movements by index.
pub trait GatherOps {
    /// The slices at these indices along an axis. x `[… N …]` of any dtype, indices `[M]` i32 → `[… M …]`.
    fn gather(&mut self, x: Var, indices: Var, axis: usize) -> Result<Var>;

    /// The rows at these indices, for each example its own. x `[B N …]`, indices `[B M]` → `[B M …]`.
    fn gather_rows(&mut self, x: Var, indices: Var) -> Result<Var>;

    /// The sums of the slices that share an index, 0 where there is none. x `[… M …]`, indices `[M]` i32 →
    /// `[… N …]` with N = `size`. Sums run in the order of the indices.
    fn scatter_add(&mut self, x: Var, indices: Var, axis: usize, size: impl Into<Dim>) -> Result<Var>;

    /// The sums of the rows that share an index, for each example its own. x `[B M …]`, indices `[B M]` →
    /// `[B N …]` with N = `size`.
    fn scatter_add_rows(&mut self, x: Var, indices: Var, size: impl Into<Dim>) -> Result<Var>;
}

impl GatherOps for Graph {
    fn gather(&mut self, x: Var, indices: Var, axis: usize) -> Result<Var> {
        self.apply_one(Gather { axis, batched: false }, &[x, indices])
    }

    fn gather_rows(&mut self, x: Var, indices: Var) -> Result<Var> {
        self.apply_one(Gather { axis: 1, batched: true }, &[x, indices])
    }

    fn scatter_add(&mut self, x: Var, indices: Var, axis: usize, size: impl Into<Dim>) -> Result<Var> {
        self.apply_one(ScatterAdd { axis, batched: false, size: size.into() }, &[x, indices])
    }

    fn scatter_add_rows(&mut self, x: Var, indices: Var, size: impl Into<Dim>) -> Result<Var> {
        self.apply_one(ScatterAdd { axis: 1, batched: true, size: size.into() }, &[x, indices])
    }
}

/// What the indices point into.
fn target(op: &'static str, size: usize) -> Target {
    Target { op, operand: "indices", letter: "N", size, advice: "feed indices from 0 to N−1" }
}

/// Checks the axis, and the indices' dtype and shape: `[M]` or `[B M]` with B of x. Gives M.
fn check_operands(op: &str, axis: usize, batched: bool, x: &Fact, indices: &Fact) -> Result<Dim> {
    check_dtype(op, "indices", indices.dtype, DType::I32)?;
    if axis >= x.shape.len() {
        return Err(Error::invalid(
            op,
            format!("axis {axis} of x, which is {}", x.shape),
            "axes are counted from 0; name one that exists",
        ));
    }
    let mut letters = Letters::new(op);
    if batched {
        letters.bind("x", &Shape::new(x.shape[..1].to_vec()), "B")?;
    }
    letters.bind("indices", &indices.shape, if batched { "B M" } else { "M" })?;
    Ok(indices.shape[indices.shape.len() - 1].clone())
}

/// The shape with another size along an axis.
fn with_axis(shape: &Shape, axis: usize, size: &Dim) -> Shape {
    let mut dims = shape.to_vec();
    dims[axis] = size.clone();
    Shape::new(dims)
}

/// A value seen as `[outer, size, inner]` around an axis.
#[derive(Clone, Copy)]
struct Around {
    outer: usize,
    size: usize,
    inner: usize,
}

fn around(dims: Dims, axis: usize) -> Around {
    Around {
        outer: dims[..axis].iter().product(),
        size: dims[axis],
        inner: dims[axis + 1..].iter().product(),
    }
}

impl Op for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("axis", self.axis.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x", "indices"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let count = check_operands("gather", self.axis, self.batched, &inputs[0], &inputs[1])?;
        Ok(vec![Fact::new(with_axis(&inputs[0].shape, self.axis, &count), inputs[0].dtype)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, input: usize) -> Derivative {
        if input == 0 { Derivative::Exists } else { Derivative::Zero }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None, None]) };
        // y[m] = x[indices[m]], so dx[n] = Σ dy[m] over indices[m] = n
        let size = g.shape(tape.inputs[0])[self.axis].clone();
        let op = ScatterAdd { axis: self.axis, batched: self.batched, size };
        Ok(vec![Some(g.apply_one(op, &[dy, tape.inputs[1]])?), None])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let moved = (call.outputs[0].count() * call.output_dtypes[0].bytes()) as u64;
        let read = moved + call.inputs[1].count() as u64 * 4;
        Work { macs: 0, flops: 0, read, written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let selecting = if self.batched { vec![0, 1] } else { vec![self.axis] };
        if input == 1 {
            return Relation::Axes(selecting.into_iter().map(Along::Same).collect());
        }
        let mut axes: Vec<Along> = (0..call.inputs[0].len()).map(Along::Same).collect();
        axes[self.axis] = listed(&selecting, pointed(call.integers[1], call.inputs[0][self.axis]));
        Relation::Axes(axes)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let mut layout = Layout::own(call, output);
        for axis in (0..call.inputs[0].len()).filter(|&axis| axis != self.axis) {
            layout = layout.with(axis, 0, axis);
        }
        if self.batched {
            return layout.leading(1, 2);
        }
        // The same for every example, so that a picked coordinate stays what it was.
        let size = call.inputs[0][self.axis] as i64;
        let known = call.integers[1].filter(|list| list.iter().all(|at| (0..size).contains(at)));
        let picked: Vec<usize> = known.unwrap_or(&[]).iter().map(|&at| at as usize).collect();
        layout.with(self.axis, 1, 0).picked(self.axis, 0, self.axis, &picked)
    }
}

impl Kernels for Gather {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [x, indices] = [call.inputs[0], call.inputs[1]];
        let (from, to) = (around(x.dims(), self.axis), around(call.outputs[0].dims(), self.axis));
        check_indices(
            target("gather", from.size),
            indices.dims(),
            indices.data().iter().map(|&index| index as i64),
        )?;
        for o in 0..to.outer {
            for m in 0..to.size {
                let at = if self.batched { o * to.size + m } else { m };
                let index = indices.data()[at] as usize;
                for i in 0..to.inner {
                    call.outputs[0].data_mut()[(o * to.size + m) * to.inner + i] =
                        x.data()[(o * from.size + index) * from.inner + i];
                }
            }
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
        let numbers = call.i32(1).iter().map(|&index| i64::from(index));
        check_indices(target("gather", call.dims(0)[self.axis]), call.dims(1), numbers)?;
        cpu::run(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        let (from, to) = (around(call.call.inputs[0], self.axis), around(call.call.outputs[0], self.axis));
        let Around { outer, size: count, inner } = to;
        let gathered = Gathered { outer, count, size: from.size, inner, batched: self.batched };
        Ok(gathered.cuda(call, target("gather", from.size)))
    }
}
