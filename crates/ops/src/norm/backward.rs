//! The backward pass of the norms over the last axis: the gradient of h (with the one that arrives at the
//! residual stream added), of scale and of shift, in one pass over the rows.

use super::{NormKind, cpu_backward, cuda, reference};
use crate::{
    BinaryOps, CastOps, CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request,
};
use regard_graph::*;

/// Operands: dy, h, the mean of layer norm, 1/√(σ² + ε), then scale and the gradient of the stream as far as
/// present. Results: dh, then its rounded copy, dscale and dshift as far as asked for.
#[derive(Clone, Copy, Debug)]
pub struct NormBackward {
    /// Which norm.
    pub kind: NormKind,
    /// Whether there is a scale.
    pub scale: bool,
    /// Whether there is a shift.
    pub shift: bool,
    /// Whether a gradient arrives at h from elsewhere.
    pub stream: bool,
    /// The dtype of a second copy of dh, for a summand of h that has another dtype.
    pub rounded: Option<DType>,
}

impl NormBackward {
    pub(super) fn mean_at(&self) -> Option<usize> {
        (self.kind == NormKind::Layer).then_some(2)
    }

    pub(super) fn rstd_at(&self) -> usize {
        2 + usize::from(self.kind == NormKind::Layer)
    }

    pub(super) fn scale_input(&self) -> Option<usize> {
        self.scale.then_some(self.rstd_at() + 1)
    }

    pub(super) fn stream_at(&self) -> Option<usize> {
        self.stream.then_some(self.rstd_at() + 1 + usize::from(self.scale))
    }

    pub(super) fn scale_at(&self) -> Option<usize> {
        self.scale.then_some(1 + usize::from(self.rounded.is_some()))
    }

    pub(super) fn shift_at(&self) -> Option<usize> {
        self.shift.then_some(1 + usize::from(self.rounded.is_some()) + usize::from(self.scale))
    }
}

impl Op for NormBackward {
    fn name(&self) -> &'static str {
        match self.kind {
            NormKind::Layer => "layer_norm_backward",
            NormKind::Rms => "rms_norm_backward",
        }
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        let all = [
            ("dy", true),
            ("h", true),
            ("mean", self.mean_at().is_some()),
            ("rstd", true),
            ("scale", self.scale),
            ("stream", self.stream),
        ];
        all.into_iter().filter(|(_, present)| *present).map(|(name, _)| name).collect()
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = Letters::new(self.name());
        for (fact, operand) in inputs.iter().zip(self.operands()) {
            let pattern = match operand {
                "scale" => "C",
                "mean" | "rstd" => "...",
                _ => "... C",
            };
            letters.bind(operand, &fact.shape, pattern)?;
        }
        let mut facts = vec![inputs[1].clone()];
        facts.extend(self.rounded.map(|dtype| Fact::new(&inputs[1].shape, dtype)));
        let parameters = usize::from(self.scale) + usize::from(self.shift);
        facts.extend((0..parameters).map(|_| Fact::f32(letters.shape("C"))));
        Ok(facts)
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }, Alias::Reuse { output: 0, input: 1 }]
    }

    fn derivative(&self, input: usize) -> Derivative {
        if self.stream_at() == Some(input) {
            return Derivative::Exists;
        }
        Derivative::Missing("second derivatives of the norms are not written")
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let mut grads = vec![None; tape.inputs.len()];
        // The gradient of the stream is added to dh, and so to its rounded copy.
        if let Some(stream) = self.stream_at() {
            let dtype = g.dtype(tape.inputs[stream]);
            let copies = 1 + usize::from(self.rounded.is_some());
            for copy in tape.grads[..copies].iter().copied().flatten() {
                let copy = if g.dtype(copy) == dtype { copy } else { g.cast(copy, dtype)? };
                grads[stream] = Some(grads[stream].map_or(Ok(copy), |sum| g.add(sum, copy))?);
            }
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let (rows, width) = (call.inputs[1].rows() as u64, call.inputs[1].last_size() as u64);
        let [scale, shift, stream] = [self.scale, self.shift, self.stream].map(u64::from);
        let centred = u64::from(self.kind == NormKind::Layer);
        let mut math = Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() };
        math.macs = rows * width * (2 + scale);
        math.flops = rows * (width * (2 + 3 * centred + scale + shift + stream) + 1 + centred);
        math
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        let rank = call.inputs[1].len();
        let leading = || (0..rank - 1).map(Along::Same);
        let is_parameter = Some(output) == self.scale_at() || Some(output) == self.shift_at();
        let is_statistic = Some(input) == self.mean_at() || input == self.rstd_at();
        if is_parameter {
            // dscale = Σ dy · normed and dshift = Σ dy, down the columns.
            if input != 0 && (Some(output) == self.shift_at() || input > self.rstd_at()) {
                return Relation::Nothing;
            }
            let mut axes = vec![Along::All; rank - 1];
            if !is_statistic {
                axes.push(Along::Same(0));
            }
            return Relation::Axes(axes);
        }
        if Some(input) == self.stream_at() {
            return Relation::Same;
        }
        if Some(input) == self.scale_input() {
            return Relation::Axes(vec![Along::All]);
        }
        let mut axes: Vec<Along> = leading().collect();
        if !is_statistic {
            axes.push(Along::All);
        }
        Relation::Axes(axes)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let rank = call.inputs[1].len();
        let is_parameter = Some(output) == self.scale_at() || Some(output) == self.shift_at();
        let mut layout = Layout::own(call, output);
        for (input, operand) in self.operands().into_iter().enumerate() {
            layout = match (operand, is_parameter) {
                ("mean" | "rstd", false) => layout.leading(input, rank - 1),
                ("mean" | "rstd", true) => layout,
                ("scale", false) => layout.with(rank - 1, input, 0),
                ("scale", true) => layout.with(0, input, 0),
                (_, false) => layout.leading(input, rank),
                (_, true) => layout.with(0, input, rank - 1),
            };
        }
        layout
    }
}

impl Kernels for NormBackward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::backward(self, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        let (rows, width) = (call.inputs[1].rows() as u64, call.inputs[1].last_size() as u64);
        let centred = u64::from(self.kind == NormKind::Layer);
        // The mean is corrected as in the forward pass, with a sum of squares that nobody reads.
        let (macs, flops) = (rows * centred * width, rows * centred * (2 * width + 1));
        self.cost(call) + Work { macs, flops, ..Work::default() }
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        let h = request.call.inputs[1];
        let sums = if self.scale || self.shift { 2 } else { 0 };
        Needs {
            scratch: cpu_backward::blocks(h.rows()) * sums * h.last_size() * 4,
            thread_scratch: h.last_size() * 4 * (2 + usize::from(self.stream)),
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
