//! Rotary positions: pairs of channels of a head are turned by an angle that grows with the position, so that
//! products of queries and keys depend on the distance alone. Su et al., RoFormer (arXiv:2104.09864). x `[B T
//! H D]`, position `[B T]`; pair i of R/2 turns by position · base^(−2i/R). The first R channels turn, the
//! others stay. Turning back is the inverse, and the gradient. Where a model was stretched to longer
//! contexts, pairs turn more slowly ([`Stretch`]), and what turned may be multiplied by a number.

mod cpu;
mod cuda;
mod stretch;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_dtype,
    check_float,
};
use regard_graph::*;
use std::sync::Arc;

/// Which channels make a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// i and i + R/2, as in Llama and GPT-NeoX.
    #[default]
    Halves,
    /// 2i and 2i + 1, as in RoFormer and GPT-J.
    Interleaved,
}

/// How to turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RotarySpec {
    /// The base of the frequencies: 10000.
    pub base: f64,
    /// R, how many channels of a head turn; all D of them if not given.
    pub width: Option<usize>,
    /// Which channels make a pair.
    pub pairing: Pairing,
    /// Turns the other way.
    pub inverse: bool,
    /// For contexts longer than those of training: how pairs are slowed down.
    pub stretch: Option<Stretch>,
    /// What turned channels are multiplied by: 1, or YaRN's correction for longer contexts.
    pub scale: f64,
}

pub use stretch::Stretch;

impl Default for RotarySpec {
    fn default() -> Self {
        RotarySpec {
            base: 10_000.0,
            width: None,
            pairing: Pairing::Halves,
            inverse: false,
            stretch: None,
            scale: 1.0,
        }
    }
}

/// `(a, b) → (a·cos − b·sin, a·sin + b·cos)` for each pair of channels.
#[derive(Clone, Debug)]
pub struct Rotary {
    spec: RotarySpec,
    positions: bool,
    /// The angle of one step, for each pair.
    frequencies: Arc<[f64]>,
}

/// Records rotary positions.
pub trait RotaryOps {
    /// Turns the pairs of each head by its position. x `[B T H D]`, position `[B T]` i32 (0, 1, 2, … if not
    /// given) → `[B T H D]` in the dtype of x.
    fn rotary(&mut self, x: Var, position: Option<Var>, spec: RotarySpec) -> Result<Var>;
}

impl RotaryOps for Graph {
    fn rotary(&mut self, x: Var, position: Option<Var>, spec: RotarySpec) -> Result<Var> {
        self.check_operands("rotary", &[x])?;
        let head = self.shape(x).last().and_then(Dim::fixed);
        let op = Rotary::new(spec, head, position.is_some())?;
        let inputs: Vec<Var> = [x].into_iter().chain(position).collect();
        self.apply_one(op, &inputs)
    }
}

/// More channels than any head has.
const MOST_CHANNELS: usize = 1 << 20;

impl Rotary {
    /// For heads of width `head`; `positions` says whether they are an operand.
    pub fn new(spec: RotarySpec, head: Option<usize>, positions: bool) -> Result<Self> {
        let Some(width) = spec.width.or(head) else {
            return Err(Error::invalid("rotary", "D is open", "fix it, or give the width that turns"));
        };
        if !(spec.base.is_finite() && spec.base > 0.0) {
            let what = format!("base is {}", spec.base);
            return Err(Error::invalid("rotary", what, "give a positive number such as 10000"));
        }
        if width == 0 || width % 2 != 0 {
            let what = format!("the width that turns is {width}");
            return Err(Error::invalid("rotary", what, "channels turn in pairs; give an even number"));
        }
        // The frequencies are written down while recording, before a plan could refuse the size.
        if width > MOST_CHANNELS {
            let what = format!("the width that turns is {width}");
            let advice = format!("turn at most {MOST_CHANNELS} channels of a head");
            return Err(Error::invalid("rotary", what, advice));
        }
        if !(spec.scale.is_finite() && spec.scale > 0.0) {
            let what = format!("turned channels are multiplied by {}", spec.scale);
            return Err(Error::invalid("rotary", what, "give a positive number such as 1"));
        }
        spec.stretch.map_or(Ok(()), |stretch| stretch.check())?;
        let frequency = |pair: usize| {
            let frequency = spec.base.powf(-2.0 * pair as f64 / width as f64);
            spec.stretch.map_or(frequency, |stretch| stretch.slow(frequency, pair, spec.base, width))
        };
        let frequencies = (0..width / 2).map(frequency).collect();
        Ok(Rotary { spec: RotarySpec { width: Some(width), ..spec }, positions, frequencies })
    }

    /// R.
    fn width(&self) -> usize {
        2 * self.frequencies.len()
    }

    /// Whether turned channels change their length.
    fn scales(&self) -> bool {
        self.spec.scale != 1.0
    }

    /// The two channels of a pair.
    fn pair(&self, pair: usize) -> [usize; 2] {
        match self.spec.pairing {
            Pairing::Halves => [pair, pair + self.frequencies.len()],
            Pairing::Interleaved => [2 * pair, 2 * pair + 1],
        }
    }

    /// The channel that turns with this one.
    fn partner(&self, channel: usize) -> usize {
        match self.spec.pairing {
            Pairing::Halves => (channel + self.frequencies.len()) % self.width(),
            Pairing::Interleaved => channel ^ 1,
        }
    }
}

impl Op for Rotary {
    fn name(&self) -> &'static str {
        "rotary"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let mut attributes = vec![("base", self.spec.base.to_string()), ("width", self.width().to_string())];
        if self.spec.pairing == Pairing::Interleaved {
            attributes.push(("pairing", "interleaved".into()));
        }
        if let Some(stretch) = self.spec.stretch {
            attributes.push(("stretch", stretch.to_string()));
        }
        if self.scales() {
            attributes.push(("scale", self.spec.scale.to_string()));
        }
        if self.spec.inverse {
            attributes.push(("inverse", "true".into()));
        }
        attributes
    }

    fn operands(&self) -> Vec<&'static str> {
        if self.positions { vec!["x", "position"] } else { vec!["x"] }
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = Letters::new("rotary");
        check_float("rotary", "x", inputs[0].dtype)?;
        letters.bind("x", &inputs[0].shape, "B T H D")?;
        if self.positions {
            check_dtype("rotary", "position", inputs[1].dtype, DType::I32)?;
            letters.bind("position", &inputs[1].shape, "B T")?;
        }
        let head = &inputs[0].shape[3];
        if head.fixed().is_none_or(|head| head < self.width()) {
            return Err(Error::invalid(
                "rotary",
                format!("the width that turns is {}, heads have D={head}", self.width()),
                "turn at most D channels, and fix D",
            ));
        }
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }]
    }

    fn derivative(&self, input: usize) -> Derivative {
        if input == 0 { Derivative::Exists } else { Derivative::Zero }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let mut grads = vec![None; tape.inputs.len()];
        let Some(dy) = tape.grads[0] else { return Ok(grads) };
        // y = a R x with a rotation R, so dx = a Rᵀ dy, which turns back
        let spec = RotarySpec { inverse: !self.spec.inverse, ..self.spec };
        let op = Rotary { spec, ..self.clone() };
        let inputs: Vec<Var> = [dy].into_iter().chain(tape.inputs.get(1).copied()).collect();
        grads[0] = Some(g.apply_one(op, &inputs)?);
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let x = call.inputs[0];
        let angles = (x[0] * x[1] * self.frequencies.len()) as u64;
        let pairs = angles * x[2] as u64;
        let (read, written) = (call.bytes_in(), call.bytes_out());
        let scaled = if self.scales() { 2 * angles } else { 0 };
        Work { macs: 2 * pairs, flops: 3 * angles + scaled + 2 * pairs, read, written }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let x = call.inputs[0];
        let [b, t, d] = [x[0], x[1], x[3]];
        let turns = |channel: usize| channel < self.width();
        if input == 1 {
            let examples = (0..b).flat_map(|b| (0..d).map(move |c| if turns(c) { vec![b] } else { vec![] }));
            let examples = Along::Listed { axes: vec![0, 3], lists: examples.collect() };
            return Relation::Axes(vec![examples, Along::Same(1)]);
        }
        let channels = |stays: bool| {
            (0..d).map(move |c| if stays || !turns(c) { vec![c] } else { vec![c, self.partner(c)] })
        };
        // Position 0 does not turn; lists that tell it apart are worth their length in small programs only.
        let known = if self.positions {
            call.integers[1].map(<[i64]>::to_vec)
        } else {
            Some((0..t as i64).collect())
        };
        let (axes, lists) = match known {
            Some(positions) if positions.len() * d <= 1 << 16 => {
                let axes = if self.positions { vec![0, 1, 3] } else { vec![1, 3] };
                (axes, positions.iter().flat_map(|&position| channels(position == 0)).collect())
            }
            _ => (vec![3], channels(false).collect()),
        };
        let same = [0, 1, 2].map(Along::Same);
        Relation::Axes(same.into_iter().chain([Along::Listed { axes, lists }]).collect())
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let layout = Layout::aligned(call, output, [0]);
        if self.positions { layout.leading(1, 2) } else { layout }
    }
}

impl Kernels for Rotary {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0];
        let [b, t, h, _] = [0, 1, 2, 3].map(|axis| x.dims()[axis]);
        for row in 0..b * t {
            let position = if self.positions { call.inputs[1].data()[row] } else { (row % t) as f64 };
            let mut turned = vec![(0.0, 0.0); self.frequencies.len()];
            for (pair, &frequency) in self.frequencies.iter().enumerate() {
                let (sin, cos) = (position * frequency).sin_cos();
                let scale = self.spec.scale;
                turned[pair] = (scale * cos, scale * if self.spec.inverse { -sin } else { sin });
                call.count_flops(if self.scales() { 5 } else { 3 });
            }
            for head in row * h..(row + 1) * h {
                let from = x.row(head);
                call.outputs[0].row_mut(head).copy_from_slice(from);
                for (pair, (cos, sin)) in turned.iter().enumerate() {
                    let [i, j] = self.pair(pair);
                    call.outputs[0].row_mut(head)[i] = from[i] * cos - from[j] * sin;
                    call.outputs[0].row_mut(head)[j] = from[i] * sin + from[j] * cos;
                    call.count_macs(2);
                    call.count_flops(2);
                }
            }
        }
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        let x = call.inputs[0];
        let (angles, work) = ((x[0] * x[1] * self.frequencies.len()) as u64, self.cost(call));
        // Sine and cosine are polynomials of seven terms each, after a reduction.
        Work { macs: work.macs + 17 * angles, ..work }
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        let head = request.call.inputs[0].last_size();
        Needs { thread_scratch: (self.width() + head) * 4, ..Needs::default() }
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(self, call))
    }
}
