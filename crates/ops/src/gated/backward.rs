//! Both gradients of a gated unit in one pass.

use super::{Gate, cpu, infer};
use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request};
use regard_graph::*;

/// `da = dy ⊙ b ⊙ act′(a)` and `db = dy ⊙ act(a)`.
#[derive(Clone, Copy, Debug)]
pub struct GatedBackward {
    /// The activation.
    pub gate: Gate,
}

impl Op for GatedBackward {
    fn name(&self) -> &'static str {
        "gated_backward"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("gate", self.gate.function().name().into())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["a", "b", "dy"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let out = infer(&inputs[0], &inputs[1])?;
        if inputs[2] != out {
            return Err(Error::Shape {
                op: "gated_backward".into(),
                operand: "dy".into(),
                got: inputs[2].to_string(),
                expected: out.to_string(),
                origin: "; it comes from a and b".into(),
            });
        }
        Ok(vec![inputs[0].clone(), inputs[1].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        // Each result over its own operand; the third is free in either case.
        vec![Alias::Reuse { output: 0, input: 0 }, Alias::Reuse { output: 1, input: 1 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Missing("second derivatives of gated units are not written")
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = (call.inputs[0].count() * flops_per_element(self.gate)) as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        // db = dy·act(a) does not look at b.
        if output == 1 && input == 1 { Relation::Nothing } else { Relation::Same }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

fn flops_per_element(gate: Gate) -> usize {
    let function = gate.function();
    function.flops() + 1 + function.backward_flops() + 1
}

impl Kernels for GatedBackward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [a, b, dy] = [call.inputs[0], call.inputs[1], call.inputs[2]];
        let function = self.gate.function();
        for i in 0..a.data().len() {
            let (a, b, dy) = (a.data()[i], b.data()[i], dy.data()[i]);
            let (value, operations) = function.counted_value(a);
            call.count_flops(operations);
            let saved = if function.from_result() { value } else { a };
            let (da, operations) = function.counted_backward(saved, dy * b); // y = act(a)·b
            call.outputs[0].data_mut()[i] = da;
            call.count_flops(1 + operations);
            call.outputs[1].data_mut()[i] = dy * value;
            call.count_flops(1);
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
        cpu::backward(self.gate.function(), call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        let function = self.gate.function();
        let value = function.expression("x0");
        let saved = if function.from_result() { &value } else { "x0" };
        let da = function.slope_expression(saved, "(x2 * x1)"); // y = act(a)·b
        Ok(call.map_both([&da, &format!("x2 * {value}")], &[]))
    }
}
