//! The gradient of a function of one number: `dx = dy · f′`, in one pass over what was kept and dy.

use super::{Function, cpu};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// `dx = dy · f′(x)`, from y where [`Function::from_result`], else from x.
#[derive(Clone, Copy, Debug)]
pub struct UnaryBackward {
    /// Which function.
    pub function: Function,
}

impl Op for UnaryBackward {
    fn name(&self) -> &'static str {
        "unary_backward"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("function", self.function.name().into())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec![if self.function.from_result() { "y" } else { "x" }, "dy"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("unary_backward", "x", inputs[0].dtype)?;
        check_float("unary_backward", "dy", inputs[1].dtype)?;
        let mut letters = Letters::new("unary_backward");
        letters.bind("x", &inputs[0].shape, "...")?;
        letters.bind("dy", &inputs[1].shape, "...")?;
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 1 }, Alias::Reuse { output: 0, input: 0 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Missing("second derivatives of functions of one number are not written")
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = (call.outputs[0].count() * self.function.backward_flops()) as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for UnaryBackward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [saved, dy] = [call.inputs[0], call.inputs[1]];
        for (i, (&saved, &dy)) in saved.data().iter().zip(dy.data()).enumerate() {
            let (dx, operations) = self.function.counted_backward(saved, dy);
            call.outputs[0].data_mut()[i] = dx;
            call.count_flops(operations);
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
        cpu::backward(self.function, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.map(&self.function.slope_expression("x0", "x1"), &[]))
    }
}
