//! A permutation of axes, copied: values are dense and row-major, so another order is another value.

mod cpu;

use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request};
use regard_graph::*;

/// `y` has axis `order[k]` of x as its axis k.
#[derive(Clone, Debug)]
pub struct Transpose {
    /// For each axis of the result, the axis of x that it is.
    pub order: Vec<usize>,
}

/// Records transposition.
pub trait TransposeOps {
    /// x with its axes in another order: axis k of the result is axis `order[k]` of x.
    fn transpose(&mut self, x: Var, order: &[usize]) -> Result<Var>;
}

impl TransposeOps for Graph {
    fn transpose(&mut self, x: Var, order: &[usize]) -> Result<Var> {
        self.apply_one(Transpose { order: order.to_vec() }, &[x])
    }
}

impl Transpose {
    fn inverse(&self) -> Vec<usize> {
        let mut inverse = vec![0; self.order.len()];
        for (k, &axis) in self.order.iter().enumerate() {
            inverse[axis] = k;
        }
        inverse
    }
}

impl Op for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("order", format!("{:?}", self.order))]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let shape = &inputs[0].shape;
        let mut sorted = self.order.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..shape.len()) {
            return Err(Error::invalid(
                "transpose",
                format!(
                    "{:?} is not an order of the {} axes of x, which is {shape}",
                    self.order,
                    shape.len()
                ),
                "name each axis once, beginning at 0",
            ));
        }
        let dims = self.order.iter().map(|&axis| shape[axis].clone()).collect();
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
        Ok(vec![Some(g.transpose(dy, &self.inverse())?)]) // the axes go back to where they were
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Axes(self.inverse().into_iter().map(Along::Same).collect())
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let axes = self.order.iter().enumerate();
        axes.fold(Layout::own(call, output), |layout, (axis, &of)| layout.with(axis, 0, of))
    }
}

impl Kernels for Transpose {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let (x, out) = (call.inputs[0], &mut call.outputs[0]);
        let (dims, strides) = (out.dims(), x.dims().strides());
        for (i, y) in out.data_mut().iter_mut().enumerate() {
            let at = dims.coordinates(i);
            let from: usize = self.order.iter().enumerate().map(|(k, &axis)| at[k] * strides[axis]).sum();
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
        cpu::run(&self.order, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        let (x, out) = (call.call.inputs[0], call.call.outputs[0]);
        let strides = x.strides();
        let from: Vec<usize> = self.order.iter().map(|&axis| strides[axis]).collect();
        let mut list = CudaList::new();
        list.movement(&out, call.bytes(0), (call.outputs[0], &out.strides()), (call.inputs[0], &from));
        Ok(list)
    }
}
