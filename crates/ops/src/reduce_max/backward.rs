//! The gradient of a maximum: all of it goes to the element that was the maximum.

use super::{Window, cpu, cuda};
use crate::broadcast::{broadcast_reach, broadcast_shape};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// `dx[j, index[j]] = dy[j]`, and 0 elsewhere.
#[derive(Clone, Debug)]
pub struct ReduceMaxBackward {
    /// Shape and dtype of dx.
    pub fact: Fact,
}

impl Op for ReduceMaxBackward {
    fn name(&self) -> &'static str {
        "max_backward"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("shape", self.fact.shape.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["dy", "index"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("max_backward", "dy", inputs[0].dtype)?;
        let mut letters = Letters::new("max_backward");
        letters.bind("dy", &inputs[0].shape, "...")?;
        letters.bind("index", &inputs[1].shape, "...")?;
        if inputs[1].dtype != DType::I32 {
            return Err(Error::DType {
                op: "max_backward".into(),
                operand: "index".into(),
                got: inputs[1].dtype.to_string(),
                expected: "i32".into(),
                advice: "give the index that `max` found".into(),
            });
        }
        let shape = broadcast_shape("max_backward", ["x", "dy"], &self.fact.shape, &inputs[0].shape)?;
        if shape != self.fact.shape || inputs[0].shape.len() != shape.len() {
            return Err(Error::Shape {
                op: "max_backward".into(),
                operand: "dy".into(),
                got: inputs[0].shape.to_string(),
                expected: format!("{} with the reduced axes at size 1", self.fact.shape),
                origin: "; it comes from x".into(),
            });
        }
        Ok(vec![self.fact.clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, input: usize) -> Derivative {
        match input {
            0 => Derivative::Missing("second derivatives of maxima are not written"),
            _ => Derivative::Zero,
        }
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        Relation::Axes(broadcast_reach(call.inputs[input], call.outputs[0]))
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

/// Every index lies in its window; a window without elements has no index to look at.
fn check(indices: impl Iterator<Item = i64>, count: usize) -> std::result::Result<(), Fault> {
    let outside = |&(_, index): &(usize, i64)| index < 0 || index as usize >= count;
    indices.enumerate().find(outside).map_or(Ok(()), |(j, index)| Err(outside_of(j, index, count)))
}

/// What to say of an index outside of its window.
pub(super) fn outside_of(j: usize, index: i64, count: usize) -> Fault {
    let what = format!("index {j} is {index}, the maximum was over {count} elements");
    Fault { op: "max_backward", what, advice: "give the index that `max` found" }
}

impl Kernels for ReduceMaxBackward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [dy, index] = [call.inputs[0], call.inputs[1]];
        let window = Window::new(call.outputs[0].dims(), dy.dims());
        if call.outputs[0].dims().count() == 0 {
            return Ok(());
        }
        check(index.data().iter().map(|&i| i as i64), window.dims.count())?;
        for (j, (&dy_j, &i)) in dy.data().iter().zip(index.data()).enumerate() {
            let at = window.base(&dy.dims(), j) + window.offset(i as usize);
            call.outputs[0].data_mut()[at] = dy_j;
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
        if call.out_dims(0).count() == 0 {
            return Ok(());
        }
        let window = Window::new(call.out_dims(0), call.dims(0));
        check(call.i32(1).iter().map(|&i| i64::from(i)), window.dims.count())?;
        cpu::backward(call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::backward(call))
    }
}
