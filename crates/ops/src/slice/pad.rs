//! Zeros around a stretch: the gradient of a slice.

use super::{Slice, Start, check, cpu, shifted};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// `y` is x along a stretch of one axis and 0 elsewhere.
#[derive(Clone, Debug)]
pub struct PadSlice {
    /// The axis.
    pub axis: usize,
    /// Where the stretch lies in the result.
    pub start: Start,
    /// The size of the result's axis.
    pub size: Dim,
}

impl Op for PadSlice {
    fn name(&self) -> &'static str {
        "pad_slice"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![
            ("axis", self.axis.to_string()),
            ("start", self.start.describe()),
            ("size", self.size.to_string()),
        ]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("pad_slice", "x", inputs[0].dtype)?;
        let mut dims = inputs[0].shape.to_vec();
        let Some(dim) = dims.get_mut(self.axis) else {
            return Err(Error::invalid(
                "pad_slice",
                format!("there is no axis {} in x, which is {}", self.axis, inputs[0].shape),
                "count axes from 0",
            ));
        };
        *dim = self.size.clone();
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
        let length = g.shape(tape.inputs[0])[self.axis].clone();
        // x is the stretch of y, so dx is the stretch of dy.
        Ok(vec![Some(g.apply_one(Slice { axis: self.axis, start: self.start, length }, &[dy])?)])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        let (size, length) = (call.outputs[0][self.axis], call.inputs[0][self.axis]);
        let start = self.start.at(size, length).unwrap_or(0);
        Relation::Axes(shifted(call.inputs[0].len(), self.axis, -(start as isize)))
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let (size, length) = (call.outputs[0][self.axis], call.inputs[0][self.axis]);
        let start = self.start.at(size, length).unwrap_or(0);
        Layout::moved(call, output, self.axis, start as isize)
    }
}

impl Kernels for PadSlice {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let (x, out) = (call.inputs[0], &mut call.outputs[0]);
        let (dims, strides) = (x.dims(), out.dims().strides());
        let start = check(self.start, out.dims()[self.axis], dims[self.axis])?;
        for (i, &x) in x.data().iter().enumerate() {
            let mut at = dims.coordinates(i);
            at[self.axis] += start;
            let to: usize = (0..dims.len()).map(|axis| at[axis] * strides[axis]).sum();
            out.data_mut()[to] = x;
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
        let start = check(self.start, call.out_dims(0)[self.axis], call.dims(0)[self.axis])?;
        cpu::pad(self.axis, start, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        let (x, out) = (call.call.inputs[0], call.call.outputs[0]);
        let start = match check(self.start, out[self.axis], x[self.axis]) {
            Ok(start) => start,
            Err(fault) => return Ok(CudaList::of_fault(call, fault)),
        };
        let mut list = CudaList::new();
        list.clear(call.outputs[0], out.count() * call.bytes(0));
        let to = call.outputs[0].after(start * out.strides()[self.axis] * call.bytes(0));
        list.movement(&x, call.bytes(0), (to, &out.strides()), (call.inputs[0], &x.strides()));
        Ok(list)
    }
}
