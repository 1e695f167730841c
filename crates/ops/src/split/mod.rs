//! A value cut along one axis into parts of given lengths, which may be open letters: undoes `concat`.

mod cpu;

use crate::{
    ConcatOps, CpuCall, CudaCall, CudaList, Fault, FillOps, Kernels, Needs, NotYet, Record, ReferenceCall,
    Request,
};
use regard_graph::*;

/// Stretches of x one after another along an axis.
#[derive(Clone, Debug)]
pub struct Split {
    /// The axis.
    pub axis: usize,
    /// The length of each part.
    pub lengths: Vec<Dim>,
}

/// Records cutting.
pub trait SplitOps {
    /// Cuts x along an axis into parts of these lengths, which must add up to its size.
    fn split(&mut self, x: Var, axis: usize, lengths: &[Dim]) -> Result<Vec<Var>>;
}

impl SplitOps for Graph {
    fn split(&mut self, x: Var, axis: usize, lengths: &[Dim]) -> Result<Vec<Var>> {
        self.apply(Split { axis, lengths: lengths.to_vec() }, &[x])
    }
}

impl Op for Split {
    fn name(&self) -> &'static str {
        "split"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("axis", self.axis.to_string()), ("lengths", format!("{:?}", self.lengths))]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let shape = &inputs[0].shape;
        let Some(size) = shape.get(self.axis) else {
            return Err(Error::invalid(
                "split",
                format!("there is no axis {} in x, which is {shape}", self.axis),
                "count axes from 0",
            ));
        };
        let sum = self.lengths.iter().fold(Dim::from(0), |sum, length| sum.plus(length));
        if self.lengths.is_empty() || sum != *size {
            return Err(Error::invalid(
                "split",
                format!(
                    "the lengths {:?} add up to {sum}, axis {} of {shape} has {size}",
                    self.lengths, self.axis
                ),
                "cover the whole axis",
            ));
        }
        let part = |length: &Dim| {
            let mut dims = shape.to_vec();
            dims[self.axis] = length.clone();
            Fact::new(Shape::new(dims), inputs[0].dtype)
        };
        Ok(self.lengths.iter().map(part).collect())
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let mut parts = Vec::new();
        for (&output, &grad) in tape.outputs.iter().zip(tape.grads) {
            parts.push(match grad {
                Some(grad) => grad,
                None => {
                    let fact = g.fact(output).clone();
                    g.fill(fact.dtype, fact.shape, 0.0)?
                }
            });
        }
        Ok(vec![Some(g.concat(&parts, self.axis)?)]) // x is its parts one after another
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let written = call.bytes_out();
        // Parts that nobody reads are not read here, either.
        Work { read: written, written, ..Work::default() }
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, _input: usize) -> Relation {
        let before: usize = call.outputs[..output].iter().map(|dims| dims[self.axis]).sum();
        let along = |axis: usize| match axis == self.axis {
            true => Along::Shifted { axis, by: before as isize },
            false => Along::Same(axis),
        };
        Relation::Axes((0..call.inputs[0].len()).map(along).collect())
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let before: usize = call.outputs[..output].iter().map(|dims| dims[self.axis]).sum();
        Layout::moved(call, output, self.axis, -(before as isize))
    }
}

impl Kernels for Split {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0];
        let strides = x.dims().strides();
        let mut before = 0;
        for part in call.outputs.iter_mut() {
            let dims = part.dims();
            for (i, y) in part.data_mut().iter_mut().enumerate() {
                let mut at = dims.coordinates(i);
                at[self.axis] += before;
                let from: usize = (0..dims.len()).map(|axis| at[axis] * strides[axis]).sum();
                *y = x.data()[from];
            }
            before += dims[self.axis];
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
        cpu::run(self.axis, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        let (mut list, mut from) = (CudaList::new(), call.inputs[0]);
        let strides = call.call.inputs[0].strides();
        for (output, &part) in call.call.outputs.iter().enumerate() {
            if call.used(output) {
                let to = (call.outputs[output], &part.strides()[..]);
                list.movement(&part, call.bytes(0), to, (from, &strides));
            }
            from = from.after(part[self.axis] * strides[self.axis] * call.bytes(0));
        }
        Ok(list)
    }
}
