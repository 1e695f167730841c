//! Attention: y(b,t,h) = Σ_s w(b,t,h,s) · v(b,s,g), w = softmax over the allowed keys of β·q·k + bias.
//! B T H D, B S G D, B S G E → B T H E; H is a multiple of G, T may differ from S, D from E.
//!
//! One op covers causal, window, padding and explicit masks, biases by distance, soft caps of scores, soft
//! and hard weights and dropout. Masks and biases work on *positions*, so that cached decoding, left padding,
//! chunks and ring caches are the same op. Memory grows with T + S, never with T·S: the log-sum-exp of each
//! row is kept, and backward makes the weights again from it (Dao et al., "FlashAttention", 2022).
//!
//! A row without an allowed key gives 0, weights 0 and gradients 0; `g.empty_rows(lse)` counts such rows.

mod backward;
mod bias;
mod cost;
mod cpu;
mod cpu_backward;
mod cpu_cap;
mod cpu_differentiate;
mod cpu_exp;
mod cpu_live;
mod cpu_rows;
mod cpu_score_gradient;
mod cpu_sharing;
mod cpu_softmax;
mod cpu_table;
mod cpu_tile;
mod cpu_work;
mod cuda;
mod cuda_arguments;
mod cuda_sources;
mod form;
mod layout;
mod mask;
mod random;
mod reach;
mod reference;
mod reference_backward;
mod spec;

pub use backward::Backward as AttentionBackward;
pub use spec::{Attended, Attention, AttentionBias, AttentionKind, AttentionMask, AttentionScale, Window};

pub(crate) use cpu_cap::cap_scores;
pub(crate) use cpu_rows::{KeyTile, Terms, by_distance_floats, carve, carved_bytes};
pub(crate) use cuda::line as cuda_line;
pub(crate) use cuda_arguments::Common as CudaCommon;
pub(crate) use form::{Extent, Extra, Form};
pub(crate) use mask::{Cover, Known};
pub(crate) use reference::{Naive, rows_of};

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, RandomOps, Record, ReferenceCall, Request,
};
use form::{BiasForm, scale_of};
use regard_graph::*;

/// The recorded op; its settings are private, [`Attention`] says them.
#[derive(Clone, Debug)]
pub struct AttentionOp {
    pub(crate) form: Form,
}

/// Records attention.
pub trait AttentionOps {
    /// query [B T H D], key [B S G D], value [B S G E] → y [B T H E] and what comes with it.
    ///
    /// In bf16 precision q, k and v are rounded to bf16, and the weights where they meet the values; the
    /// softmax and all sums are f32.
    fn attention(&mut self, query: Var, key: Var, value: Var, spec: &Attention) -> Result<Attended>;
}

impl AttentionOps for Graph {
    fn attention(&mut self, query: Var, key: Var, value: Var, spec: &Attention) -> Result<Attended> {
        let (form, extras) = record_form(self, spec, None)?;
        let inputs = [&[query, key, value], extras.as_slice()].concat();
        let outputs = self.apply(AttentionOp { form }, &inputs)?;
        Ok(Attended { y: outputs[0], lse: outputs[1], choice: outputs[2] })
    }
}

/// The settings and the optional operands, in order. `noise` is the stream of an attention recorded before,
/// whose noise is wanted again; dropout is then left out.
pub(crate) fn record_form(
    g: &mut Graph,
    spec: &Attention,
    noise: Option<String>,
) -> Result<(Form, Vec<Var>)> {
    let (constant_scale, scale) = scale_of(&spec.scale);
    let (bias, table) = BiasForm::of(&spec.bias);
    let gumbel = matches!(spec.kind, AttentionKind::Gumbel { .. });
    let again = noise.is_some();
    // NaN and nonsense are left for `infer` to refuse, by name.
    let drops = !again && spec.dropout != 0.0;
    let random = if gumbel || drops { Some(g.random()?) } else { None };
    let dropout_stream = if drops { format!("{}.dropout", g.next_name("attention")) } else { String::new() };
    let noise_stream = match noise {
        Some(name) => name,
        None if gumbel => format!("{}.noise", g.next_name("attention")),
        None => String::new(),
    };
    let operands = [
        scale,
        spec.mask.key_lengths,
        spec.mask.key_mask,
        spec.mask.explicit,
        spec.query_position,
        spec.key_position,
        spec.key_row,
        table,
        random,
    ];
    let extras = (0..operands.len()).filter(|&i| operands[i].is_some()).fold(0, |bits, i| bits | 1 << i);
    let form = Form {
        constant_scale,
        cap: spec.cap,
        causal: spec.mask.causal,
        window: spec.mask.window,
        bias,
        kind: spec.kind,
        dropout: if again { 0.0 } else { spec.dropout },
        dropout_stream,
        noise_stream,
        precision: g.precision(),
        extras,
    };
    Ok((form, operands.into_iter().flatten().collect()))
}

impl Op for AttentionOp {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        self.form.attributes()
    }

    fn operands(&self) -> Vec<&'static str> {
        let extras = self.form.extras().map(|extra| self.form.name_of(extra));
        ["query", "key", "value"].into_iter().chain(extras).collect()
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let letters = self.form.infer("attention", inputs, true, 3)?;
        Ok(vec![
            Fact::new(letters.shape("B T H E"), inputs[0].dtype),
            Fact::f32(letters.shape("B T H")),
            Fact::new(letters.shape("B T H"), DType::I32),
        ])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, input: usize) -> Derivative {
        let float = [Extra::Scale, Extra::Bias].map(|extra| self.form.place(3, extra));
        if input < 3 || float.contains(&Some(input)) { Derivative::Exists } else { Derivative::Zero }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        backward::record(&self.form, g, tape)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        cost::forward(&self.form, call)
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        reach::forward(&self.form, call, output, input)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        layout::forward(&self.form, call, output)
    }
}

impl Kernels for AttentionOp {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(&self.form, call)
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        cpu_work::forward(&self.form, call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        cpu::needs(&self.form, request)
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(&self.form, call)
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(self.cuda_list(call))
    }
}
