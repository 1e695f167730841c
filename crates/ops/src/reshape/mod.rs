//! The same elements under another shape: a view, nothing runs. Open letters take part; the counts must be
//! the same product of letters.

use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request};
use regard_graph::*;

/// `y = x` under another shape.
#[derive(Clone, Debug)]
pub struct Reshape {
    /// The shape of the result.
    pub shape: Shape,
}

/// Records reshaping.
pub trait ReshapeOps {
    /// x under another shape with as many elements; x itself if the shape is the same.
    fn reshape(&mut self, x: Var, shape: impl Into<Shape>) -> Result<Var>;
    /// `... (H D) → ... H D`: splits the last axis into heads.
    fn split_heads(&mut self, x: Var, heads: usize) -> Result<Var>;
    /// `... H D → ... (H D)`: joins the last two axes.
    fn merge_heads(&mut self, x: Var) -> Result<Var>;
}

impl ReshapeOps for Graph {
    fn reshape(&mut self, x: Var, shape: impl Into<Shape>) -> Result<Var> {
        let shape = shape.into();
        self.check_operands("reshape", &[x])?;
        if *self.shape(x) == shape { Ok(x) } else { self.apply_one(Reshape { shape }, &[x]) }
    }

    fn split_heads(&mut self, x: Var, heads: usize) -> Result<Var> {
        self.check_operands("split_heads", &[x])?;
        let mut dims = self.shape(x).to_vec();
        let Some(width) = dims.pop().and_then(|width| width.divided_by(&heads.into())) else {
            return Err(Error::invalid(
                "split_heads",
                format!("the last axis of {} does not split into {heads} heads", self.shape(x)),
                "choose a width that is a multiple of the number of heads",
            ));
        };
        dims.extend([heads.into(), width]);
        self.reshape(x, Shape::new(dims))
    }

    fn merge_heads(&mut self, x: Var) -> Result<Var> {
        self.check_operands("merge_heads", &[x])?;
        let mut dims = self.shape(x).to_vec();
        let (Some(width), Some(heads)) = (dims.pop(), dims.pop()) else {
            return Err(Error::Shape {
                op: "merge_heads".into(),
                operand: "x".into(),
                got: self.shape(x).to_string(),
                expected: "[... H D]".into(),
                origin: String::new(),
            });
        };
        dims.push(heads.times(&width));
        self.reshape(x, Shape::new(dims))
    }
}

impl Op for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("shape", self.shape.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let (have, want) = (inputs[0].shape.count(), self.shape.count());
        if have != want {
            return Err(Error::Shape {
                op: "reshape".into(),
                operand: "x".into(),
                got: format!("{} with {have} elements", inputs[0].shape),
                expected: format!("{want} elements for {}", self.shape),
                origin: String::new(),
            });
        }
        Ok(vec![Fact::new(&self.shape, inputs[0].dtype)])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::View { output: 0, input: 0 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        let shape = g.shape(tape.inputs[0]).clone();
        Ok(vec![Some(g.reshape(dy, shape)?)])
    }

    fn cost(&self, _call: &Concrete<'_>) -> Work {
        Work::default()
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, _call: &Concrete<'_>, _output: usize) -> Layout {
        Layout::Flat(0)
    }
}

impl Kernels for Reshape {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        call.outputs[0].data_mut().copy_from_slice(call.inputs[0].data());
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, _call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        Ok(()) // a view: the bytes are there already
    }

    fn cuda(&self, _call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(CudaList::new()) // a view: the bytes are there already
    }
}
