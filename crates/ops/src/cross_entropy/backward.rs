//! The gradient of the cross-entropy: `loss = lse(logits) − Σ q · logits`, so
//! `dlogits = dloss · (softmax(logits) − q)`, with the softmax taken from the kept log-sum-exp.

use super::targets::{check_options, check_target_dtype, live_rows, only_live};
use super::{cpu, cuda, gradient_flops, reference};
use crate::linear::check_f32;
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// `dlogits = dloss · (exp(logits − lse) − q)`, 0 where the target is ignored.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyBackward {
    /// The target of rows that do not count.
    pub ignore_index: i32,
    /// How much of the target is spread over all classes.
    pub label_smoothing: f32,
}

impl Op for CrossEntropyBackward {
    fn name(&self) -> &'static str {
        "cross_entropy_backward"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![
            ("ignore_index", self.ignore_index.to_string()),
            ("label_smoothing", self.label_smoothing.to_string()),
        ]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["logits", "targets", "lse", "dloss"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float(self.name(), "logits", inputs[0].dtype)?;
        check_target_dtype(self.name(), inputs[1].dtype)?;
        check_f32(self.name(), "lse", inputs[2].dtype)?;
        check_f32(self.name(), "dloss", inputs[3].dtype)?;
        check_options(self.name(), self.label_smoothing)?;
        let mut letters = Letters::new(self.name());
        letters.bind("logits", &inputs[0].shape, "... V")?;
        for (operand, fact) in self.operands().into_iter().zip(inputs).skip(1) {
            letters.bind(operand, &fact.shape, "...")?;
        }
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }]
    }

    fn derivative(&self, input: usize) -> Derivative {
        match input {
            1 => Derivative::Zero,
            _ => Derivative::Missing("the second derivative of the cross-entropy is not written"),
        }
    }

    fn gradient(&self, _g: &mut Graph, _tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; 4])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let live = live_rows(call, 1, self.ignore_index);
        let flops = (live * gradient_flops(call.inputs[0].last_size(), self.label_smoothing)) as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let axes = (0..call.inputs[input].len()).map(Along::Same).collect();
        if input == 1 {
            return Relation::Axes(axes);
        }
        only_live(call, 1, self.ignore_index, axes, call.outputs[0].last_size())
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let rows = call.inputs[1].len();
        (1..4).fold(Layout::aligned(call, output, [0]), |layout, input| layout.leading(input, rows))
    }
}

impl Kernels for CrossEntropyBackward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run_backward(self, call)
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run_backward(self, call)
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::backward(self, call))
    }
}
