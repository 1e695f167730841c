//! A stretch of one axis, counted from its beginning or from its end. The length may be an open letter; where
//! recording cannot know that the stretch lies inside of an open axis, the run checks it.

mod cpu;
mod pad;

pub use pad::PadSlice;

use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request};
use regard_graph::*;

/// Where a stretch lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// This many elements after the beginning of the axis.
    AfterFirst(usize),
    /// So that this many elements follow it up to the end of the axis.
    BeforeLast(usize),
}

impl Start {
    /// The first coordinate of a stretch of `length` in an axis of `size`; `None` if it lies outside.
    fn at(self, size: usize, length: usize) -> Option<usize> {
        match self {
            Start::AfterFirst(skipped) => {
                skipped.checked_add(length).filter(|&stop| stop <= size).map(|_| skipped)
            }
            Start::BeforeLast(left) => size.checked_sub(left)?.checked_sub(length),
        }
    }

    fn describe(self) -> String {
        match self {
            Start::AfterFirst(skipped) => format!("after the first {skipped}"),
            Start::BeforeLast(left) => format!("before the last {left}"),
        }
    }
}

/// `y = x[..., start .. start + length, ...]`.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The axis.
    pub axis: usize,
    /// Where the stretch lies.
    pub start: Start,
    /// How long it is.
    pub length: Dim,
}

/// Records slices.
pub trait SliceOps {
    /// `length` elements of an axis, after the first `start`.
    fn slice(&mut self, x: Var, axis: usize, start: usize, length: impl Into<Dim>) -> Result<Var>;
    /// The last `length` elements of an axis.
    fn slice_last(&mut self, x: Var, axis: usize, length: impl Into<Dim>) -> Result<Var>;
}

impl SliceOps for Graph {
    fn slice(&mut self, x: Var, axis: usize, start: usize, length: impl Into<Dim>) -> Result<Var> {
        self.apply_one(Slice { axis, start: Start::AfterFirst(start), length: length.into() }, &[x])
    }

    fn slice_last(&mut self, x: Var, axis: usize, length: impl Into<Dim>) -> Result<Var> {
        self.apply_one(Slice { axis, start: Start::BeforeLast(0), length: length.into() }, &[x])
    }
}

impl Op for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![
            ("axis", self.axis.to_string()),
            ("start", self.start.describe()),
            ("length", self.length.to_string()),
        ]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let shape = &inputs[0].shape;
        let Some(size) = shape.get(self.axis) else {
            return Err(Error::invalid(
                "slice",
                format!("there is no axis {} in x, which is {shape}", self.axis),
                "count axes from 0",
            ));
        };
        let outside = match (size.fixed(), self.length.fixed()) {
            (Some(size), Some(length)) => self.start.at(size, length).is_none(),
            // An open axis: the run checks. A fixed one must hold the longest stretch.
            (Some(size), None) => self.start.at(size, self.length.bound()).is_none(),
            (None, _) => false,
        };
        if outside {
            return Err(Error::invalid(
                "slice",
                format!(
                    "{} elements {} do not lie in axis {} of {shape}",
                    self.length,
                    self.start.describe(),
                    self.axis
                ),
                "choose a stretch inside of the axis",
            ));
        }
        let mut dims = shape.to_vec();
        dims[self.axis] = self.length.clone();
        Ok(vec![Fact::new(Shape::new(dims), inputs[0].dtype)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        let size = g.shape(tape.inputs[0])[self.axis].clone();
        // y is a stretch of x, so dx is dy with zeros around.
        Ok(vec![Some(g.apply_one(PadSlice { axis: self.axis, start: self.start, size }, &[dy])?)])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let written = call.bytes_out();
        Work { read: written, written, ..Work::default() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        let (size, length) = (call.inputs[0][self.axis], call.outputs[0][self.axis]);
        // A stretch outside of the axis is a fault: nothing comes out of that run.
        let start = self.start.at(size, length).unwrap_or(0);
        Relation::Axes(shifted(call.inputs[0].len(), self.axis, start as isize))
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let (size, length) = (call.inputs[0][self.axis], call.outputs[0][self.axis]);
        let start = self.start.at(size, length).unwrap_or(0);
        Layout::moved(call, output, self.axis, -(start as isize))
    }
}

/// The same coordinate along every axis but one, along which it is shifted.
fn shifted(rank: usize, axis: usize, by: isize) -> Vec<Along> {
    let along = |k: usize| if k == axis { Along::Shifted { axis, by } } else { Along::Same(k) };
    (0..rank).map(along).collect()
}

/// Where the stretch lies in this run.
fn check(start: Start, size: usize, length: usize) -> std::result::Result<usize, Fault> {
    start.at(size, length).ok_or_else(|| Fault {
        op: "slice",
        what: format!(
            "{length} elements {} do not lie in an axis that has {size} in this run",
            start.describe()
        ),
        advice: "feed a longer input",
    })
}

impl Kernels for Slice {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let (x, out) = (call.inputs[0], &mut call.outputs[0]);
        let (dims, strides) = (out.dims(), x.dims().strides());
        let start = check(self.start, x.dims()[self.axis], dims[self.axis])?;
        for (i, y) in out.data_mut().iter_mut().enumerate() {
            let mut at = dims.coordinates(i);
            at[self.axis] += start;
            let from: usize = (0..dims.len()).map(|axis| at[axis] * strides[axis]).sum();
            *y = x.data()[from];
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
        let start = check(self.start, call.dims(0)[self.axis], call.out_dims(0)[self.axis])?;
        cpu::slice(self.axis, start, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        let (x, out) = (call.call.inputs[0], call.call.outputs[0]);
        let start = match check(self.start, x[self.axis], out[self.axis]) {
            Ok(start) => start,
            Err(fault) => return Ok(CudaList::of_fault(call, fault)),
        };
        let from = call.inputs[0].after(start * x.strides()[self.axis] * call.bytes(0));
        let mut list = CudaList::new();
        list.movement(&out, call.bytes(0), (call.outputs[0], &out.strides()), (from, &x.strides()));
        Ok(list)
    }
}
