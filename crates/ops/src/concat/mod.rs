//! Values joined along one axis. They agree in every other axis and in dtype; open sizes add up (`P+T`).

mod cpu;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, SplitOps,
};
use regard_graph::*;

/// The parts one after another along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Concat {
    /// The axis.
    pub axis: usize,
    /// How many parts there are.
    pub parts: usize,
}

/// Records joining.
pub trait ConcatOps {
    /// The parts one after another along an axis.
    fn concat(&mut self, parts: &[Var], axis: usize) -> Result<Var>;
}

impl ConcatOps for Graph {
    fn concat(&mut self, parts: &[Var], axis: usize) -> Result<Var> {
        self.apply_one(Concat { axis, parts: parts.len() }, parts)
    }
}

impl Op for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("axis", self.axis.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["part"; self.parts]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let Some(first) = inputs.first() else {
            return Err(Error::invalid("concat", "there are no parts", "give at least one"));
        };
        if self.axis >= first.shape.len() {
            return Err(Error::invalid(
                "concat",
                format!("there is no axis {} in part 0, which is {}", self.axis, first.shape),
                "count axes from 0",
            ));
        }
        let mut dims = first.shape.to_vec();
        for (index, part) in inputs.iter().enumerate().skip(1) {
            let fits = part.shape.len() == dims.len()
                && (0..dims.len()).all(|axis| axis == self.axis || part.shape[axis] == first.shape[axis]);
            if !fits {
                return Err(Error::Shape {
                    op: "concat".into(),
                    operand: format!("part {index}"),
                    got: part.shape.to_string(),
                    expected: format!("the shape of part 0, {}, but for axis {}", first.shape, self.axis),
                    origin: String::new(),
                });
            }
            if part.dtype != first.dtype {
                return Err(Error::DType {
                    op: "concat".into(),
                    operand: format!("part {index}"),
                    got: part.dtype.to_string(),
                    expected: format!("{} as part 0", first.dtype),
                    advice: "cast one of them".into(),
                });
            }
            dims[self.axis] = dims[self.axis].plus(&part.shape[self.axis]);
        }
        Ok(vec![Fact::new(Shape::new(dims), first.dtype)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None; self.parts]) };
        let lengths: Vec<Dim> = tape.inputs.iter().map(|&part| g.shape(part)[self.axis].clone()).collect();
        // y holds the parts one after another, and dy their gradients.
        Ok(g.split(dy, self.axis, &lengths)?.into_iter().map(Some).collect())
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let before: usize = call.inputs[..input].iter().map(|dims| dims[self.axis]).sum();
        let along = |axis: usize| match axis == self.axis {
            true => Along::Shifted { axis, by: -(before as isize) },
            false => Along::Same(axis),
        };
        Relation::Axes((0..call.inputs[input].len()).map(along).collect())
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let mut layout = Layout::own(call, output);
        let mut before = 0;
        for (input, part) in call.inputs.iter().enumerate() {
            for axis in 0..part.len() {
                layout = layout.shifted(axis, input, axis, if axis == self.axis { before } else { 0 });
            }
            before += part[self.axis] as isize;
        }
        layout
    }
}

impl Kernels for Concat {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let out = &mut call.outputs[0];
        let strides = out.dims().strides();
        let mut before = 0;
        for part in call.inputs {
            for (i, &x) in part.data().iter().enumerate() {
                let mut at = part.dims().coordinates(i);
                at[self.axis] += before;
                let to: usize = (0..part.dims().len()).map(|axis| at[axis] * strides[axis]).sum();
                out.data_mut()[to] = x;
            }
            before += part.dims()[self.axis];
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
        let (mut list, mut to) = (CudaList::new(), call.outputs[0]);
        let strides = call.call.outputs[0].strides();
        for (&part, &at) in call.call.inputs.iter().zip(call.inputs) {
            list.movement(&part, call.bytes(0), (to, &strides), (at, &part.strides()));
            to = to.after(part[self.axis] * strides[self.axis] * call.bytes(0));
        }
        Ok(list)
    }
}
