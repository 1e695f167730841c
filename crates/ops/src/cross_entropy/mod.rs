//! The loss of predicting a class: for each row of logits [... V] and its target, the cross-entropy of
//! softmax(logits) with the target, smoothed over all classes if asked. Rows whose target is the ignore index
//! have loss 0 and gradient 0. To average, scale by an input: the number of targets changes from run to run.

mod backward;
pub(crate) mod cpu;
mod cuda;
pub(crate) mod reference;
pub(crate) mod targets;

pub use backward::CrossEntropyBackward;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_graph::*;
use targets::{check_options, check_target_dtype, live_rows, only_live};

/// The target of a row that does not count, unless told otherwise: PyTorch's.
pub const IGNORE_INDEX: i32 = -100;

/// `loss[...] = −Σ_v q[v] · log softmax(logits)[v]` with q = (1 − smoothing) · one-hot + smoothing / V. A
/// second output is the log-sum-exp of each row, which the gradient reads. Both are 0 where the target is
/// ignored.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy {
    /// The target of rows that do not count.
    pub ignore_index: i32,
    /// How much of the target is spread over all classes, 0 to below 1.
    pub label_smoothing: f32,
}

/// Settings of a cross-entropy.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyOptions {
    /// The target of rows that do not count; −100 by default.
    pub ignore_index: i32,
    /// How much of the target is spread over all classes; 0 by default, below 1.
    pub label_smoothing: f32,
}

impl Default for CrossEntropyOptions {
    fn default() -> Self {
        CrossEntropyOptions { ignore_index: IGNORE_INDEX, label_smoothing: 0.0 }
    }
}

/// Records cross-entropies.
pub trait CrossEntropyOps {
    /// The loss of each row, f32: logits [... V], integer targets [...] → [...].
    fn cross_entropy(&mut self, logits: Var, targets: Var, options: CrossEntropyOptions) -> Result<Var>;
}

impl CrossEntropyOps for Graph {
    fn cross_entropy(&mut self, logits: Var, targets: Var, options: CrossEntropyOptions) -> Result<Var> {
        let CrossEntropyOptions { ignore_index, label_smoothing } = options;
        self.apply_one(CrossEntropy { ignore_index, label_smoothing }, &[logits, targets])
    }
}

/// Operations of one row's loss, given its logits: a comparison, a difference, an exponential and a sum for
/// each, then the logarithm, the maximum back, and the target's part.
pub(crate) fn loss_flops(v: usize, label_smoothing: f32) -> usize {
    if label_smoothing == 0.0 { 4 * v + 3 } else { 5 * v + 6 }
}

/// Operations of one row's gradient, given its logits and log-sum-exp: a difference, an exponential and the
/// factor for each, and the target's part.
pub(crate) fn gradient_flops(v: usize, label_smoothing: f32) -> usize {
    if label_smoothing == 0.0 { 3 * v + 1 } else { 4 * v + 1 }
}

impl Op for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![
            ("ignore_index", self.ignore_index.to_string()),
            ("label_smoothing", self.label_smoothing.to_string()),
        ]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["logits", "targets"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("cross_entropy", "logits", inputs[0].dtype)?;
        check_target_dtype("cross_entropy", inputs[1].dtype)?;
        check_options("cross_entropy", self.label_smoothing)?;
        let mut letters = Letters::new("cross_entropy");
        letters.bind("logits", &inputs[0].shape, "... V")?;
        letters.bind("targets", &inputs[1].shape, "...")?;
        let rows = Fact::f32(&inputs[1].shape);
        Ok(vec![rows.clone(), rows])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, input: usize) -> Derivative {
        if input == 0 { Derivative::Exists } else { Derivative::Zero }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        if tape.grads[1].is_some() {
            return Err(Error::invalid(
                "cross_entropy",
                "a gradient arrives at the log-sum-exp, which has none here",
                "differentiate the losses alone",
            ));
        }
        let (Some(dloss), true) = (tape.grads[0], tape.wanted[0]) else { return Ok(vec![None, None]) };
        let CrossEntropy { ignore_index, label_smoothing } = *self;
        let op = CrossEntropyBackward { ignore_index, label_smoothing };
        Ok(vec![Some(g.apply_one(op, &[tape.inputs[0], tape.inputs[1], tape.outputs[1], dloss])?), None])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let live = live_rows(call, 1, self.ignore_index);
        let flops = (live * loss_flops(call.inputs[0].last_size(), self.label_smoothing)) as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let leading = call.outputs[0].len();
        let mut axes: Vec<Along> = (0..leading).map(Along::Same).collect();
        if input == 0 {
            axes.push(Along::All);
            return only_live(call, 1, self.ignore_index, axes, 0);
        }
        Relation::Axes(axes)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let rows = call.outputs[output].len();
        Layout::own(call, output).leading(0, rows).leading(1, rows)
    }
}

impl Kernels for CrossEntropy {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(self, call)
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(self, call)
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::forward(self, call))
    }
}
