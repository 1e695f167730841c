//! Layer norm and RMS norm over the last axis, with the residual add fused:
//! `h = x + residual`, `y = (h − μ)/√(σ² + ε) · scale + shift`; RMS norm has no μ and no shift.
//! The sum h is a result of its own, so that the residual stream goes on from it.

mod backward;
mod cpu;
mod cpu_backward;
pub(crate) mod cuda;
mod reference;
pub(crate) mod statistics;

pub(crate) use cpu::gathering;

pub use backward::NormBackward;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, SumToOps,
    check_dtype, check_float,
};
use regard_graph::*;

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// Mean 0 and variance 1 over the last axis.
    Layer,
    /// Root mean square 1 over the last axis.
    Rms,
}

/// How to normalise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormSpec {
    /// What is added to the variance or to the mean square: 1e-5.
    pub epsilon: f32,
    /// The dtype of y; that of x if not given.
    pub output: Option<DType>,
}

impl Default for NormSpec {
    fn default() -> Self {
        NormSpec { epsilon: 1e-5, output: None }
    }
}

/// What a norm with a fused residual add returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normed {
    /// The normalised sum, which the next layer reads.
    pub normed: Var,
    /// The sum itself, with which the residual stream goes on.
    pub stream: Var,
}

/// A norm over the last axis. Operands: x, then residual, scale, shift and what is known of the rows of x as
/// far as present. Results: y, then h if there is a residual, the mean of layer norm, and 1/√(σ² + ε); the
/// statistics serve the backward pass.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    /// Which norm.
    pub kind: NormKind,
    /// Precision of the result and ε.
    pub spec: NormSpec,
    /// Whether a residual is added first.
    pub residual: bool,
    /// Whether there is a scale.
    pub scale: bool,
    /// Whether there is a shift; layer norm only.
    pub shift: bool,
    /// Whether the product that made x says what its rows are like, the last operand: [... parts 3]. See
    /// [`crate::join`].
    pub statistics: bool,
}

/// Records norms over the last axis.
pub trait NormOps {
    /// Layer norm. x `[... C]`, scale and shift `[C]` f32, each optional → `[... C]`.
    fn layer_norm(&mut self, x: Var, scale: Option<Var>, shift: Option<Var>, spec: NormSpec) -> Result<Var>;

    /// Layer norm of x + residual, both `[... C]`; the sum is f32 as soon as one of them is.
    fn add_layer_norm(
        &mut self,
        x: Var,
        residual: Var,
        scale: Option<Var>,
        shift: Option<Var>,
        spec: NormSpec,
    ) -> Result<Normed>;

    /// RMS norm. x `[... C]`, scale `[C]` f32, optional → `[... C]`.
    fn rms_norm(&mut self, x: Var, scale: Option<Var>, spec: NormSpec) -> Result<Var>;

    /// RMS norm of x + residual, both `[... C]`; the sum is f32 as soon as one of them is.
    fn add_rms_norm(&mut self, x: Var, residual: Var, scale: Option<Var>, spec: NormSpec) -> Result<Normed>;
}

impl NormOps for Graph {
    fn layer_norm(&mut self, x: Var, scale: Option<Var>, shift: Option<Var>, spec: NormSpec) -> Result<Var> {
        Ok(record(self, NormKind::Layer, spec, x, None, scale, shift)?[0])
    }

    fn add_layer_norm(
        &mut self,
        x: Var,
        residual: Var,
        scale: Option<Var>,
        shift: Option<Var>,
        spec: NormSpec,
    ) -> Result<Normed> {
        let outputs = record(self, NormKind::Layer, spec, x, Some(residual), scale, shift)?;
        Ok(Normed { normed: outputs[0], stream: outputs[1] })
    }

    fn rms_norm(&mut self, x: Var, scale: Option<Var>, spec: NormSpec) -> Result<Var> {
        Ok(record(self, NormKind::Rms, spec, x, None, scale, None)?[0])
    }

    fn add_rms_norm(&mut self, x: Var, residual: Var, scale: Option<Var>, spec: NormSpec) -> Result<Normed> {
        let outputs = record(self, NormKind::Rms, spec, x, Some(residual), scale, None)?;
        Ok(Normed { normed: outputs[0], stream: outputs[1] })
    }
}

fn record(
    g: &mut Graph,
    kind: NormKind,
    spec: NormSpec,
    x: Var,
    residual: Option<Var>,
    scale: Option<Var>,
    shift: Option<Var>,
) -> Result<Vec<Var>> {
    let [with_residual, with_scale, with_shift] = [residual, scale, shift].map(|operand| operand.is_some());
    let op =
        Norm { kind, spec, residual: with_residual, scale: with_scale, shift: with_shift, statistics: false };
    let inputs: Vec<Var> = [Some(x), residual, scale, shift].into_iter().flatten().collect();
    g.apply(op, &inputs)
}

impl Norm {
    fn scale_at(&self) -> Option<usize> {
        self.scale.then_some(1 + usize::from(self.residual))
    }

    fn shift_at(&self) -> Option<usize> {
        self.shift.then_some(1 + usize::from(self.residual) + usize::from(self.scale))
    }

    fn statistics_at(&self) -> Option<usize> {
        self.statistics
            .then_some(1 + [self.residual, self.scale, self.shift].map(usize::from).iter().sum::<usize>())
    }

    /// The result that holds h = x + residual.
    fn sum_at(&self) -> Option<usize> {
        self.residual.then_some(1)
    }

    fn mean_at(&self) -> Option<usize> {
        (self.kind == NormKind::Layer).then_some(1 + usize::from(self.residual))
    }

    fn rstd_at(&self) -> usize {
        1 + usize::from(self.residual) + usize::from(self.kind == NormKind::Layer)
    }
}

impl Op for Norm {
    fn name(&self) -> &'static str {
        match self.kind {
            NormKind::Layer => "layer_norm",
            NormKind::Rms => "rms_norm",
        }
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let mut attributes = vec![("epsilon", self.spec.epsilon.to_string())];
        attributes.extend(self.spec.output.map(|dtype| ("output", dtype.to_string())));
        attributes
    }

    fn operands(&self) -> Vec<&'static str> {
        let all = [
            ("x", true),
            ("residual", self.residual),
            ("scale", self.scale),
            ("shift", self.shift),
            ("statistics", self.statistics),
        ];
        all.into_iter().filter(|(_, present)| *present).map(|(name, _)| name).collect()
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let name = self.name();
        let mut letters = Letters::new(name);
        for (fact, operand) in inputs.iter().zip(self.operands()) {
            if matches!(operand, "x" | "residual") {
                check_float(name, operand, fact.dtype)?;
                letters.bind(operand, &fact.shape, "... C")?;
            } else if operand == "statistics" {
                check_dtype(name, operand, fact.dtype, DType::F32)?;
                let pattern = statistics::statistics_pattern(name, "C", &letters)?;
                letters.bind(operand, &fact.shape, &pattern)?;
            } else {
                check_dtype(name, operand, fact.dtype, DType::F32)?;
                letters.bind(operand, &fact.shape, "C")?;
            }
        }
        check_epsilon(name, self.spec.epsilon)?;
        if letters.get("C").and_then(Dim::fixed) == Some(0) {
            return Err(Error::invalid(name, "C is 0", "a row needs at least one element to be normalised"));
        }
        if self.shift && self.kind == NormKind::Rms {
            return Err(Error::invalid(name, "it has a shift", "leave it out, or use layer_norm"));
        }
        let output = self.spec.output.unwrap_or(inputs[0].dtype);
        check_float(name, "output", output)?;
        let mut facts = vec![Fact::new(&inputs[0].shape, output)];
        if self.residual {
            let both_bf16 = inputs[..2].iter().all(|fact| fact.dtype == DType::BF16);
            facts.push(Fact::new(&inputs[0].shape, if both_bf16 { DType::BF16 } else { DType::F32 }));
        }
        let statistics = Fact::f32(letters.shape("..."));
        facts.extend(self.mean_at().map(|_| statistics.clone()));
        facts.push(statistics);
        Ok(facts)
    }

    fn aliases(&self) -> Vec<Alias> {
        let mut aliases = Vec::new();
        if let Some(output) = self.sum_at() {
            aliases.extend([Alias::Reuse { output, input: 1 }, Alias::Reuse { output, input: 0 }]);
        }
        aliases.push(Alias::Reuse { output: 0, input: 0 });
        aliases
    }

    fn derivative(&self, input: usize) -> Derivative {
        // What the statistics say of x belongs to the gradient of x.
        if Some(input) == self.statistics_at() { Derivative::Zero } else { Derivative::Exists }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let statistics = self.sum_at().map_or(1, |sum| sum + 1)..=self.rstd_at();
        if tape.grads[statistics].iter().any(Option::is_some) {
            return Err(Error::NoGradient {
                op: self.name().into(),
                operand: "x through the saved statistics".into(),
                reason: "they serve the backward pass alone".into(),
            });
        }
        let mut grads = vec![None; tape.inputs.len()];
        let stream = self.sum_at().and_then(|sum| tape.grads[sum]);
        let Some(dy) = tape.grads[0] else {
            // Only h = x + residual is read, so both get its gradient.
            if let Some(dh) = stream {
                for (grad, &summand) in grads.iter_mut().zip(&tape.inputs[..2]) {
                    *grad = Some(g.sum_to(dh, summand)?);
                }
            }
            return Ok(grads);
        };
        let h = self.sum_at().map_or(tape.inputs[0], |sum| tape.outputs[sum]);
        // h may be f32 where one of its summands is bf16: that one gets a rounded copy of the gradient.
        let summands = &tape.inputs[..1 + usize::from(self.residual)];
        let other = summands.iter().map(|&var| g.dtype(var)).find(|&dtype| dtype != g.dtype(h));
        let op = NormBackward {
            kind: self.kind,
            scale: self.scale,
            shift: self.shift,
            stream: stream.is_some(),
            rounded: other,
        };
        let mut inputs = vec![dy, h];
        inputs.extend(self.mean_at().map(|mean| tape.outputs[mean]));
        inputs.push(tape.outputs[self.rstd_at()]);
        inputs.extend(self.scale_at().map(|scale| tape.inputs[scale]));
        inputs.extend(stream);
        let found = g.apply(op, &inputs)?;
        for (grad, &summand) in grads.iter_mut().zip(summands) {
            let same = g.dtype(summand) == g.dtype(h);
            *grad = Some(found[if same { 0 } else { 1 }]);
        }
        if let (Some(input), Some(output)) = (self.scale_at(), op.scale_at()) {
            grads[input] = Some(found[output]);
        }
        if let (Some(input), Some(output)) = (self.shift_at(), op.shift_at()) {
            grads[input] = Some(found[output]);
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let (rows, width) = (call.inputs[0].rows() as u64, call.inputs[0].last_size() as u64);
        let [residual, scale, shift] = [self.residual, self.scale, self.shift].map(u64::from);
        let centred = u64::from(self.kind == NormKind::Layer);
        // Σh², y = h·rstd; centring adds Σh and h − μ, once each.
        let mut math = Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() };
        math.macs = rows * width * (1 + scale * shift);
        math.flops = rows * (width * (1 + residual + 2 * centred + (scale ^ shift)) + 4 + centred);
        if let Some(at) = self.statistics_at() {
            // Where mean and squares are known already: the mathematics has them here.
            math.read -= call.inputs[at].count() as u64 * 4;
        }
        math
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        let rank = call.inputs[0].len();
        if Some(input) == self.statistics_at() {
            return Relation::Axes((0..rank - 1).map(Along::Same).chain([Along::All, Along::All]).collect());
        }
        if input > usize::from(self.residual) {
            // scale and shift meet y alone; a row of one element is 0 before its scale.
            let silent = output != 0 || (Some(input) == self.scale_at() && self.is_constant(call));
            return if silent { Relation::Nothing } else { Relation::Axes(vec![Along::Same(rank - 1)]) };
        }
        if Some(output) == self.sum_at() {
            return Relation::Same;
        }
        if Some(output) != self.mean_at() && self.is_constant(call) {
            return Relation::Nothing;
        }
        let mut axes: Vec<Along> = (0..rank - 1).map(Along::Same).collect();
        axes.push(Along::All);
        Relation::Axes(axes)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let rank = call.inputs[0].len();
        let common = call.outputs[output].len().min(rank);
        let mut layout = Layout::own(call, output);
        for (input, operand) in self.operands().into_iter().enumerate() {
            layout = match operand {
                "x" | "residual" => layout.leading(input, common),
                "statistics" => layout.leading(input, rank - 1),
                _ if common == rank => layout.with(rank - 1, input, 0),
                _ => layout,
            };
        }
        layout
    }
}

impl Norm {
    /// One element is its own mean, which is for others to say where statistics are given.
    fn is_constant(&self, call: &Concrete<'_>) -> bool {
        self.kind == NormKind::Layer && call.inputs[0].last_size() == 1 && !self.statistics
    }
}

impl Kernels for Norm {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(self, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        cpu::work(self, call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        let width = request.call.inputs[0].last_size();
        let floats: usize = cpu::thread_floats(self, width).iter().sum();
        Needs { thread_scratch: floats * 4, ..Needs::default() }
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::forward(self, call))
    }
}

/// An ε that cannot make the root vanish.
pub(crate) fn check_epsilon(op: &str, epsilon: f32) -> Result<()> {
    if epsilon.is_finite() && epsilon > 0.0 {
        return Ok(());
    }
    Err(Error::invalid(op, format!("epsilon is {epsilon}"), "give a small positive number such as 1e-5"))
}
