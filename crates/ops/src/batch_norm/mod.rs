//! Batch norm: every channel (the last axis) gets mean 0 and variance 1 over all leading axes. In training
//! the statistics are those of the batch, and running averages of them are kept as state; in evaluation the
//! running averages are used. x `[... C]`, everything else `[C]` f32.

mod backward;
mod cpu;
mod cpu_backward;
mod cuda;
mod reference;

pub use backward::BatchNormBackward;

use crate::norm::check_epsilon;
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_dtype,
    check_float,
};
use regard_graph::*;

/// Which statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchNormMode {
    /// Those of the batch; the running ones are updated.
    Train,
    /// The running ones, which stay as they are.
    Eval,
}

/// How to normalise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormSpec {
    /// What is added to the variance: 1e-5.
    pub epsilon: f32,
    /// The weight of a new batch in the running averages: 0.1.
    pub momentum: f32,
    /// The dtype of y; that of x if not given.
    pub output: Option<DType>,
}

impl Default for BatchNormSpec {
    fn default() -> Self {
        BatchNormSpec { epsilon: 1e-5, momentum: 0.1, output: None }
    }
}

/// What batch norm returns in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchNormed {
    /// The normalised value.
    pub normed: Var,
    /// The next version of the running mean.
    pub running_mean: Var,
    /// The next version of the running (unbiased) variance.
    pub running_variance: Var,
}

/// Operands: x, running mean, running variance, then scale and shift as far as present. Results: y, the mean
/// and 1/√(σ² + ε) that were used, and in training the updated running mean and variance.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm {
    /// Which statistics.
    pub mode: BatchNormMode,
    /// ε, momentum and the precision of the result.
    pub spec: BatchNormSpec,
    /// Whether there is a scale.
    pub scale: bool,
    /// Whether there is a shift.
    pub shift: bool,
}

/// Records batch norm.
pub trait BatchNormOps {
    /// Batch norm by the statistics of the batch, as in training; updates the running ones, which are states.
    /// x `[... C]`, running mean and variance, scale and shift `[C]` f32.
    fn batch_norm(
        &mut self,
        x: Var,
        running: [Var; 2],
        scale: Option<Var>,
        shift: Option<Var>,
        spec: BatchNormSpec,
    ) -> Result<BatchNormed>;

    /// Batch norm by the running mean and variance, as in evaluation.
    fn batch_norm_eval(
        &mut self,
        x: Var,
        running: [Var; 2],
        scale: Option<Var>,
        shift: Option<Var>,
        spec: BatchNormSpec,
    ) -> Result<Var>;
}

impl BatchNormOps for Graph {
    fn batch_norm(
        &mut self,
        x: Var,
        running: [Var; 2],
        scale: Option<Var>,
        shift: Option<Var>,
        spec: BatchNormSpec,
    ) -> Result<BatchNormed> {
        let outputs = record(self, BatchNormMode::Train, x, running, scale, shift, spec)?;
        Ok(BatchNormed { normed: outputs[0], running_mean: outputs[3], running_variance: outputs[4] })
    }

    fn batch_norm_eval(
        &mut self,
        x: Var,
        running: [Var; 2],
        scale: Option<Var>,
        shift: Option<Var>,
        spec: BatchNormSpec,
    ) -> Result<Var> {
        Ok(record(self, BatchNormMode::Eval, x, running, scale, shift, spec)?[0])
    }
}

fn record(
    g: &mut Graph,
    mode: BatchNormMode,
    x: Var,
    running: [Var; 2],
    scale: Option<Var>,
    shift: Option<Var>,
    spec: BatchNormSpec,
) -> Result<Vec<Var>> {
    let op = BatchNorm { mode, spec, scale: scale.is_some(), shift: shift.is_some() };
    let inputs: Vec<Var> = [x].into_iter().chain(running).chain(scale).chain(shift).collect();
    g.apply(op, &inputs)
}

impl BatchNorm {
    fn scale_at(&self) -> Option<usize> {
        self.scale.then_some(3)
    }

    fn shift_at(&self) -> Option<usize> {
        self.shift.then_some(3 + usize::from(self.scale))
    }

    fn trains(&self) -> bool {
        self.mode == BatchNormMode::Train
    }

    /// The unbiased variance of the running statistics needs two rows.
    fn check_rows(&self, rows: usize) -> std::result::Result<(), Fault> {
        if !self.trains() || rows >= 2 {
            return Ok(());
        }
        let what = format!("{rows} rows have no variance");
        Err(Fault { op: "batch_norm", what, advice: "feed at least two rows in training" })
    }
}

impl Op for BatchNorm {
    fn name(&self) -> &'static str {
        "batch_norm"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let mut attributes = vec![("epsilon", self.spec.epsilon.to_string())];
        match self.mode {
            BatchNormMode::Train => attributes.push(("momentum", self.spec.momentum.to_string())),
            BatchNormMode::Eval => attributes.push(("mode", "eval".into())),
        }
        attributes
    }

    fn operands(&self) -> Vec<&'static str> {
        let mut operands = vec!["x", "running_mean", "running_variance"];
        operands.extend(self.scale.then_some("scale"));
        operands.extend(self.shift.then_some("shift"));
        operands
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = Letters::new("batch_norm");
        check_float("batch_norm", "x", inputs[0].dtype)?;
        letters.bind("x", &inputs[0].shape, "... C")?;
        for (fact, operand) in inputs.iter().zip(self.operands()).skip(1) {
            check_dtype("batch_norm", operand, fact.dtype, DType::F32)?;
            letters.bind(operand, &fact.shape, "C")?;
        }
        check_epsilon("batch_norm", self.spec.epsilon)?;
        if !(0.0..=1.0).contains(&self.spec.momentum) {
            return Err(Error::invalid(
                "batch_norm",
                format!("momentum is {}", self.spec.momentum),
                "give the weight of a new batch, from 0 to 1",
            ));
        }
        if let Some(rows) = letters.shape("...").count().fixed().filter(|_| self.trains()) {
            let fault = |fault: Fault| Error::invalid(fault.op, fault.what, fault.advice);
            self.check_rows(rows).map_err(fault)?;
        }
        let output = self.spec.output.unwrap_or(inputs[0].dtype);
        check_float("batch_norm", "output", output)?;
        let mut facts = vec![Fact::new(&inputs[0].shape, output)];
        let channels = Fact::f32(letters.shape("C"));
        facts.extend(std::iter::repeat_n(channels, if self.trains() { 4 } else { 2 }));
        Ok(facts)
    }

    fn aliases(&self) -> Vec<Alias> {
        let mut aliases = vec![Alias::Reuse { output: 0, input: 0 }];
        if self.trains() {
            aliases.push(Alias::Update { output: 3, input: 1 });
            aliases.push(Alias::Update { output: 4, input: 2 });
        }
        aliases
    }

    fn derivative(&self, input: usize) -> Derivative {
        match input {
            1 | 2 => Derivative::Missing("running statistics are state"),
            _ => Derivative::Exists,
        }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        if tape.grads[1].is_some() || tape.grads[2].is_some() {
            return Err(Error::NoGradient {
                op: "batch_norm".into(),
                operand: "x through the saved statistics".into(),
                reason: "they serve the backward pass alone".into(),
            });
        }
        let mut grads = vec![None; tape.inputs.len()];
        let Some(dy) = tape.grads[0] else { return Ok(grads) };
        let op = BatchNormBackward { mode: self.mode, scale: self.scale, shift: self.shift };
        let mut inputs = vec![dy, tape.inputs[0], tape.outputs[1], tape.outputs[2]];
        inputs.extend(self.scale_at().map(|at| tape.inputs[at]));
        let found = g.apply(op, &inputs)?;
        grads[0] = Some(found[0]);
        for (grad, found) in grads[3..].iter_mut().zip(&found[1..]) {
            *grad = Some(*found);
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let (rows, width) = (call.inputs[0].rows() as u64, call.inputs[0].last_size() as u64);
        let [scale, shift, trains] = [self.scale, self.shift, self.trains()].map(u64::from);
        let mut math = Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() };
        math.macs = width * (rows * (scale * shift + trains) + 2 * trains);
        math.flops = width * (rows * (2 + (scale ^ shift) + 2 * trains) + 3 + 5 * trains);
        math
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        let rank = call.inputs[0].len();
        let column = |along: usize| {
            let mut axes = vec![Along::All; rank - 1];
            axes.push(Along::Same(along));
            Relation::Axes(axes)
        };
        let momentum = self.spec.momentum;
        match (self.mode, output, input) {
            (BatchNormMode::Train, 0, 0) => column(rank - 1),
            (BatchNormMode::Train, 1 | 2, 0) => column(0),
            (BatchNormMode::Train, 3 | 4, 0) if momentum > 0.0 => column(0),
            (BatchNormMode::Train, 3, 1) | (BatchNormMode::Train, 4, 2) if momentum < 1.0 => Relation::Same,
            (BatchNormMode::Eval, 0, 0) => Relation::Same,
            (BatchNormMode::Eval, 0, 1 | 2) => Relation::Axes(vec![Along::Same(rank - 1)]),
            (BatchNormMode::Eval, 1, 1) | (BatchNormMode::Eval, 2, 2) => Relation::Same,
            (_, 0, 3..) => Relation::Axes(vec![Along::Same(rank - 1)]),
            _ => Relation::Nothing,
        }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        // The statistics feel the whole batch; the result still has a row for each of its examples.
        Layout::elementwise(call, output)
    }
}

impl Kernels for BatchNorm {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        self.check_rows(call.inputs[0].dims().rows())?;
        reference::run(self, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        // Each block corrects its own mean, and y subtracts the mean in two parts.
        let corrected = 2 * call.inputs[0].count() as u64 * u64::from(self.trains());
        self.cost(call) + Work { flops: corrected, ..Work::default() }
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        let x = request.call.inputs[0];
        Needs {
            scratch: cpu::scratch(self.trains(), x.rows(), x.last_size()),
            thread_scratch: x.last_size() * 4,
            ..Needs::default()
        }
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        self.check_rows(call.dims(0).rows())?;
        cpu::run(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::forward(self, call))
    }
}
