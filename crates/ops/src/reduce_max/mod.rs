//! The maximum over some axes, and where it is. Ties go to the lowest index, and so does the gradient; a NaN
//! counts as the largest. The maximum of nothing is −∞.

mod backward;
mod cpu;
mod cuda;

pub use backward::ReduceMaxBackward;

use crate::broadcast::reduce_reach;
use crate::sum_to::{drop_axes, reduced_shape};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// `max[j] = maxᵢ x[j, i]`, and the index i, row-major over the reduced axes.
#[derive(Clone, Debug)]
pub struct ReduceMax {
    /// The axes that are reduced; they stay with size 1.
    pub axes: Vec<usize>,
}

/// Records maxima.
pub trait ReduceMaxOps {
    /// The maximum over some axes, which disappear from the shape.
    fn max(&mut self, x: Var, axes: &[usize]) -> Result<Var>;
    /// The maximum over some axes, which stay with size 1.
    fn max_keep(&mut self, x: Var, axes: &[usize]) -> Result<Var>;
    /// The maximum over some axes, which disappear from the shape, and its lowest index (i32), row-major over
    /// those axes.
    fn max_with_index(&mut self, x: Var, axes: &[usize]) -> Result<(Var, Var)>;
    /// The lowest index of the maximum along one axis, which disappears from the shape (i32).
    fn argmax(&mut self, x: Var, axis: usize) -> Result<Var>;
}

impl ReduceMaxOps for Graph {
    fn max(&mut self, x: Var, axes: &[usize]) -> Result<Var> {
        let kept = self.max_keep(x, axes)?;
        drop_axes(self, kept, axes)
    }

    fn max_keep(&mut self, x: Var, axes: &[usize]) -> Result<Var> {
        self.apply_one(ReduceMax { axes: axes.to_vec() }, &[x])
    }

    fn max_with_index(&mut self, x: Var, axes: &[usize]) -> Result<(Var, Var)> {
        let both = self.apply(ReduceMax { axes: axes.to_vec() }, &[x])?;
        Ok((drop_axes(self, both[0], axes)?, drop_axes(self, both[1], axes)?))
    }

    fn argmax(&mut self, x: Var, axis: usize) -> Result<Var> {
        let both = self.apply(ReduceMax { axes: vec![axis] }, &[x])?;
        drop_axes(self, both[1], &[axis])
    }
}

/// The elements that one result looks at: the reduced axes as a shape of their own, and the strides of x.
#[derive(Clone, Copy)]
struct Window {
    dims: Dims,
    strides: [usize; MAX_RANK],
    /// The elements lie one after another.
    contiguous: bool,
}

impl Window {
    fn new(x: Dims, out: Dims) -> Window {
        let mut dims = x;
        for axis in 0..x.len() {
            if out[axis] == x[axis] {
                dims[axis] = 1;
            }
        }
        let first = (0..x.len()).find(|&axis| dims[axis] != 1).unwrap_or(x.len());
        let contiguous = (first..x.len()).all(|axis| dims[axis] == x[axis]);
        Window { dims, strides: x.strides(), contiguous }
    }

    /// The flat index in x of the window's first element, for the result at a flat index.
    fn base(&self, out: &Dims, flat: usize) -> usize {
        let at = out.coordinates(flat);
        (0..out.len()).map(|axis| at[axis] * self.strides[axis]).sum()
    }

    /// The offset of the window's element i.
    fn offset(&self, i: usize) -> usize {
        let at = self.dims.coordinates(i);
        (0..self.dims.len()).map(|axis| at[axis] * self.strides[axis]).sum()
    }
}

impl Op for ReduceMax {
    fn name(&self) -> &'static str {
        "max"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("axes", format!("{:?}", self.axes))]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("max", "x", inputs[0].dtype)?;
        let shape = reduced_shape("max", &inputs[0].shape, &self.axes)?;
        Ok(vec![Fact::new(&shape, inputs[0].dtype), Fact::new(shape, DType::I32)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        // y is one element of x, so all of dy goes there.
        let back = ReduceMaxBackward { fact: g.fact(tape.inputs[0]).clone() };
        Ok(vec![Some(g.apply_one(back, &[dy, tape.outputs[1]])?)])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = call.inputs[0].count() as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Axes(reduce_reach(call.inputs[0], call.outputs[0]))
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

/// Whether a candidate takes the place of the best so far, which has a lower index.
#[inline(always)]
fn beats(candidate: f64, best: f64) -> bool {
    candidate > best || (candidate.is_nan() && !best.is_nan())
}

impl Kernels for ReduceMax {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0];
        let out = call.outputs[0].dims();
        let window = Window::new(x.dims(), out);
        for j in 0..out.count() {
            let base = window.base(&out, j);
            let (mut best, mut index) = (f64::NEG_INFINITY, 0);
            for i in 0..window.dims.count() {
                let candidate = x.data()[base + window.offset(i)];
                if beats(candidate, best) {
                    (best, index) = (candidate, i);
                }
                call.count_flops(1);
            }
            call.outputs[0].data_mut()[j] = best;
            call.outputs[1].data_mut()[j] = index as f64;
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
        cpu::forward(call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::forward(call))
    }
}
