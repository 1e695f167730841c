//! The backward pass of batch norm: the gradients of x, scale and shift.

use super::{BatchNormMode, cpu_backward, cuda, reference};
use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request};
use regard_graph::*;

/// Operands: dy, x, the mean and 1/√(σ² + ε) that were used, then scale if present. Results: dx, then dscale
/// and dshift as far as present.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormBackward {
    /// Whether the statistics are those of the batch, so that a gradient flows through them.
    pub mode: BatchNormMode,
    /// Whether there is a scale.
    pub scale: bool,
    /// Whether there is a shift.
    pub shift: bool,
}

impl BatchNormBackward {
    pub(super) fn trains(&self) -> bool {
        self.mode == BatchNormMode::Train
    }

    pub(super) fn scale_at(&self) -> Option<usize> {
        self.scale.then_some(1)
    }

    pub(super) fn shift_at(&self) -> Option<usize> {
        self.shift.then_some(1 + usize::from(self.scale))
    }
}

impl Op for BatchNormBackward {
    fn name(&self) -> &'static str {
        "batch_norm_backward"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        if self.trains() { Vec::new() } else { vec![("mode", "eval".into())] }
    }

    fn operands(&self) -> Vec<&'static str> {
        let mut operands = vec!["dy", "x", "mean", "rstd"];
        operands.extend(self.scale.then_some("scale"));
        operands
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = Letters::new(self.name());
        for (i, (fact, operand)) in inputs.iter().zip(self.operands()).enumerate() {
            letters.bind(operand, &fact.shape, if i < 2 { "... C" } else { "C" })?;
        }
        let mut facts = vec![inputs[1].clone()];
        let parameters = usize::from(self.scale) + usize::from(self.shift);
        facts.extend(std::iter::repeat_n(Fact::f32(letters.shape("C")), parameters));
        Ok(facts)
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }, Alias::Reuse { output: 0, input: 1 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Missing("second derivatives of batch_norm are not written")
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let (rows, width) = (call.inputs[1].rows() as u64, call.inputs[1].last_size() as u64);
        let [scale, shift] = [self.scale, self.shift].map(u64::from);
        let mut math = Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() };
        if self.trains() {
            math.macs = width * rows * 2;
            math.flops = width * (rows * 5 + 2 + scale);
        } else {
            math.macs = width * rows * scale;
            math.flops = width * (rows * (1 + shift + 2 * scale) + scale);
        }
        math
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        let last = call.inputs[1].len() - 1;
        let column = |along: usize| {
            let mut axes = vec![Along::All; last];
            axes.push(Along::Same(along));
            Relation::Axes(axes)
        };
        if Some(output) == self.shift_at() {
            return if input == 0 { column(0) } else { Relation::Nothing };
        }
        if Some(output) == self.scale_at() {
            return match input {
                0 | 1 => column(0),
                2 | 3 => Relation::Same,
                _ => Relation::Nothing,
            };
        }
        match (input, self.trains()) {
            (0, false) => Relation::Same,
            (1 | 2, false) => Relation::Nothing,
            (0 | 1, true) => column(last),
            _ => Relation::Axes(vec![Along::Same(last)]),
        }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for BatchNormBackward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::backward(self, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        // The mean is corrected once more, and x is centred in both passes.
        let again = 2 * call.inputs[1].count() as u64 * u64::from(self.trains());
        self.cost(call) + Work { flops: again, ..Work::default() }
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        let x = request.call.inputs[1];
        Needs {
            scratch: cpu_backward::scratch(x.rows(), x.last_size()),
            thread_scratch: x.last_size() * 8,
            ..Needs::default()
        }
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu_backward::run(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::backward(self, call))
    }
}
