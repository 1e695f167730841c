//! The settings of a recorded attention, without the values: shared by the forward op, its backward and the
//! weights on request. Optional operands follow the fixed ones in one order, whichever op they belong to.

use super::bias::check_buckets;
use super::spec::{AttentionBias, AttentionKind, AttentionScale, Window};
use crate::check_float;
use regard_graph::*;

/// An optional operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// β of each head.
    Scale,
    /// Number of keys of each example.
    KeyLengths,
    /// Which keys exist.
    KeyMask,
    /// Which pairs may attend.
    Mask,
    /// Positions of the queries.
    QueryPosition,
    /// Positions of the keys.
    KeyPosition,
    /// Rows of the key/value batch.
    KeyRow,
    /// Table, slopes or dense bias.
    Bias,
    /// The random input.
    Random,
}

impl Extra {
    const ALL: [Extra; 9] = [
        Extra::Scale,
        Extra::KeyLengths,
        Extra::KeyMask,
        Extra::Mask,
        Extra::QueryPosition,
        Extra::KeyPosition,
        Extra::KeyRow,
        Extra::Bias,
        Extra::Random,
    ];
}

/// Which bias, without its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BiasForm {
    None,
    Buckets { bidirectional: bool, max_distance: usize },
    Alibi,
    Clipped,
    Dense,
}

impl BiasForm {
    pub fn of(bias: &AttentionBias) -> (Self, Option<Var>) {
        match *bias {
            AttentionBias::None => (BiasForm::None, None),
            AttentionBias::Buckets { table, bidirectional, max_distance } => {
                (BiasForm::Buckets { bidirectional, max_distance }, Some(table))
            }
            AttentionBias::Alibi { slopes } => (BiasForm::Alibi, Some(slopes)),
            AttentionBias::Clipped { table } => (BiasForm::Clipped, Some(table)),
            AttentionBias::Dense(bias) => (BiasForm::Dense, Some(bias)),
        }
    }

    /// The operand's name in errors and descriptions.
    pub fn operand(self) -> &'static str {
        match self {
            BiasForm::Buckets { .. } | BiasForm::Clipped => "bias table",
            BiasForm::Alibi => "slopes",
            BiasForm::None | BiasForm::Dense => "bias",
        }
    }
}

/// The settings of an attention.
#[derive(Clone, Debug)]
pub struct Form {
    /// β where it is a constant; `None` for 1/√D.
    pub constant_scale: Option<f32>,
    /// How far scaled scores can go.
    pub cap: Option<f32>,
    pub causal: bool,
    pub window: Option<Window>,
    pub bias: BiasForm,
    pub kind: AttentionKind,
    pub dropout: f32,
    /// The names of the random streams; empty where there are none.
    pub dropout_stream: String,
    pub noise_stream: String,
    pub precision: Precision,
    /// One bit for each optional operand, in the order of [`Extra`].
    pub extras: u16,
}

/// The sizes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Batch.
    pub b: usize,
    /// Query positions.
    pub t: usize,
    /// Key positions.
    pub s: usize,
    /// Heads.
    pub h: usize,
    /// Key/value heads.
    pub g: usize,
    /// Head width.
    pub d: usize,
    /// Value width; 0 where there is no value operand.
    pub e: usize,
    /// Rows of the key/value batch.
    pub rows: usize,
}

impl Extent {
    /// From the shapes of query [B T H D], key [. S G D] and, where there is one, value [. S G E].
    pub fn new(query: Dims, key: Dims, value: Option<Dims>) -> Self {
        Extent {
            b: query[0],
            t: query[1],
            s: key[1],
            h: query[2],
            g: key[2],
            d: query[3],
            e: value.map_or(0, |value| value[3]),
            rows: key[0],
        }
    }

    /// How many heads share one key/value head.
    pub fn share(&self) -> usize {
        self.h / self.g.max(1)
    }

    /// The flat index of (b, t, h) in [B T H].
    pub fn row(&self, b: usize, t: usize, h: usize) -> usize {
        (b * self.t + t) * self.h + h
    }
}

/// Random channels hold the head above these bits and the key's position in them.
pub const POSITION_BITS: u32 = 22;
/// The most heads that random channels can tell apart.
const MOST_HEADS: usize = 1 << (32 - POSITION_BITS);

impl Form {
    pub fn has(&self, extra: Extra) -> bool {
        self.extras & (1 << extra as u16) != 0
    }

    /// The same without an optional operand.
    pub fn drop_extra(&mut self, extra: Extra) {
        self.extras &= !(1 << extra as u16);
    }

    /// The place of an optional operand, the first of which is operand `base`.
    pub fn place(&self, base: usize, extra: Extra) -> Option<usize> {
        let before = self.extras & ((1 << extra as u16) - 1);
        self.has(extra).then(|| base + before.count_ones() as usize)
    }

    /// The optional operands there are, in order.
    pub fn extras(&self) -> impl Iterator<Item = Extra> + '_ {
        Extra::ALL.into_iter().filter(|&extra| self.has(extra))
    }

    /// An operand's name in errors and descriptions.
    pub fn name_of(&self, extra: Extra) -> &'static str {
        match extra {
            Extra::Scale => "scale",
            Extra::KeyLengths => "key_lengths",
            Extra::KeyMask => "key_mask",
            Extra::Mask => "explicit mask",
            Extra::QueryPosition => "query_position",
            Extra::KeyPosition => "key_position",
            Extra::KeyRow => "key_row",
            Extra::Bias => self.bias.operand(),
            Extra::Random => "random",
        }
    }

    /// β where it is the same for all heads.
    pub fn constant(&self, width: usize) -> f64 {
        self.constant_scale.map_or_else(|| 1.0 / (width as f64).sqrt(), |scale| scale as f64)
    }

    /// Multiply-adds and other operations for the score of one pair: q·k, times β, capped, plus bias, plus
    /// noise, over the temperature.
    pub fn score_work(&self, width: usize) -> (u64, u64) {
        let (macs, flops) = match self.bias {
            BiasForm::None => (0, 0),
            BiasForm::Alibi => (1, 0),
            _ => (0, 1),
        };
        let noise = if self.kind.temperature().is_some() { 2 } else { 0 };
        let cap = if self.cap.is_some() { 3 } else { 0 };
        (width as u64 + macs, 1 + cap + flops + noise)
    }

    pub fn attributes(&self) -> Vec<(&'static str, String)> {
        let mut shown = Vec::new();
        if let Some(scale) = self.constant_scale {
            shown.push(("scale", scale.to_string()));
        }
        if let Some(cap) = self.cap {
            shown.push(("cap", cap.to_string()));
        }
        if self.causal {
            shown.push(("causal", "yes".into()));
        }
        if let Some(Window { before, after }) = self.window {
            shown.push(("window", format!("{before} before, {after} after")));
        }
        match self.bias {
            BiasForm::None => {}
            BiasForm::Buckets { bidirectional, max_distance } => {
                let ways = if bidirectional { "both ways" } else { "back" };
                shown.push(("bias", format!("buckets {ways} up to {max_distance}")));
            }
            BiasForm::Alibi => shown.push(("bias", "alibi".into())),
            BiasForm::Clipped => shown.push(("bias", "clipped table".into())),
            BiasForm::Dense => shown.push(("bias", "dense".into())),
        }
        match self.kind {
            AttentionKind::Soft => {}
            AttentionKind::Hard => shown.push(("kind", "hard".into())),
            AttentionKind::StraightThrough => shown.push(("kind", "straight-through".into())),
            AttentionKind::Gumbel { temperature, hard } => {
                let hard = if hard { ", hard" } else { "" };
                shown.push(("kind", format!("gumbel at {temperature}{hard}")));
                shown.push(("noise", self.noise_stream.clone()));
            }
        }
        if self.dropout > 0.0 {
            shown.push(("dropout", self.dropout.to_string()));
        }
        if self.precision == Precision::Bf16 {
            shown.push(("precision", "bf16".into()));
        }
        shown
    }

    /// Checks settings, query, key, value (if there is one) and the optional operands, which begin at `base`.
    pub fn infer(&self, op: &str, inputs: &[Fact], has_value: bool, base: usize) -> Result<Letters> {
        self.check_settings(op)?;
        let mut letters = Letters::new(op);
        letters.bind("query", &inputs[0].shape, "B T H D")?;
        // With key_row, rows of keys are picked from a batch of any size, R.
        let batch = if self.has(Extra::KeyRow) { "R" } else { "B" };
        letters.bind("key", &inputs[1].shape, &format!("{batch} S G D"))?;
        check_float(op, "query", inputs[0].dtype)?;
        check_float(op, "key", inputs[1].dtype)?;
        if has_value {
            letters.bind("value", &inputs[2].shape, &format!("{batch} S G E"))?;
            check_float(op, "value", inputs[2].dtype)?;
        }
        self.check_heads(op, &letters, has_value)?;
        for extra in self.extras() {
            let fact = &inputs[self.place(base, extra).unwrap_or(base)];
            self.check_extra(op, &mut letters, extra, fact)?;
        }
        Ok(letters)
    }

    fn check_settings(&self, op: &str) -> Result<()> {
        if let Some(scale) = self.constant_scale.filter(|scale| !scale.is_finite()) {
            return Err(Error::invalid(op, format!("scale is {scale}"), "give a finite number"));
        }
        if let Some(cap) = self.cap.filter(|cap| !(cap.is_finite() && *cap > 0.0)) {
            return Err(Error::invalid(op, format!("the soft cap is {cap}"), "give a finite number above 0"));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            let what = format!("dropout is {}", self.dropout);
            return Err(Error::invalid(op, what, "give a probability from 0 to less than 1"));
        }
        match self.kind.temperature() {
            Some(temperature) if !(temperature > 0.0 && temperature.is_finite()) => {
                let what = format!("the temperature is {temperature}");
                Err(Error::invalid(op, what, "give a finite number above 0"))
            }
            _ => Ok(()),
        }
    }

    fn check_heads(&self, op: &str, letters: &Letters, has_value: bool) -> Result<()> {
        let size = |letter: &str| letters.get(letter).and_then(Dim::fixed);
        let wanted: &[&str] = if has_value { &["H", "G", "D", "E"] } else { &["H", "G", "D"] };
        for letter in wanted {
            if size(letter).is_none_or(|size| size == 0) {
                let got = letters.get(letter).map_or_else(String::new, Dim::to_string);
                let what = format!("{letter} is {got}");
                return Err(Error::invalid(op, what, "heads and widths must be fixed sizes above 0"));
            }
        }
        let (heads, groups) = (size("H").unwrap_or(1), size("G").unwrap_or(1));
        if heads % groups != 0 {
            let what = format!("H is {heads}, G is {groups}");
            return Err(Error::invalid(op, what, "the heads must be a multiple of the key/value heads"));
        }
        if self.has(Extra::Random) {
            let keys = letters.get("S").map_or(0, Dim::bound);
            if heads > MOST_HEADS || keys > 1 << POSITION_BITS {
                let what = format!("H is {heads}, S is up to {keys}");
                let advice = format!(
                    "random attention takes up to {MOST_HEADS} heads and {} keys",
                    1usize << POSITION_BITS
                );
                return Err(Error::invalid(op, what, advice));
            }
        }
        Ok(())
    }

    fn check_extra(&self, op: &str, letters: &mut Letters, extra: Extra, fact: &Fact) -> Result<()> {
        let name = self.name_of(extra);
        let (pattern, dtype) = match extra {
            Extra::Scale => ("H", DType::F32),
            Extra::KeyLengths => ("B", DType::I32),
            Extra::KeyMask => ("B S", DType::Bool),
            Extra::QueryPosition => ("B T", DType::I32),
            Extra::KeyPosition | Extra::KeyRow => ("B S", DType::I32),
            Extra::Random => ("5", DType::I32),
            Extra::Mask => (pair_pattern(letters, &fact.shape), DType::Bool),
            Extra::Bias => match self.bias {
                BiasForm::Alibi => ("H", DType::F32),
                BiasForm::Dense => (pair_pattern(letters, &fact.shape), DType::F32),
                _ => ("N H", DType::F32),
            },
        };
        letters.bind(name, &fact.shape, pattern)?;
        if fact.dtype != dtype {
            return Err(Error::DType {
                op: op.into(),
                operand: name.into(),
                got: fact.dtype.to_string(),
                expected: dtype.to_string(),
                advice: "cast it first".into(),
            });
        }
        let rows = if extra == Extra::Bias { letters.get("N").map(|dim| (dim.fixed(), dim)) } else { None };
        match (self.bias, rows) {
            (BiasForm::Buckets { bidirectional, max_distance }, Some((rows, _))) => {
                check_buckets(op, rows, bidirectional, max_distance)
            }
            (BiasForm::Clipped, Some((rows, dim))) if rows.is_none_or(|rows| rows % 2 == 0) => {
                let what = format!("the bias table has {dim} rows");
                Err(Error::invalid(op, what, "a table clipped to ±R has 2R+1, with R fixed"))
            }
            _ => Ok(()),
        }
    }
}

/// The pattern of an operand with one number for each pair, repeated along B or H where its size is 1.
fn pair_pattern(letters: &Letters, shape: &Shape) -> &'static str {
    let own = |axis: usize, letter: &str| {
        let size = shape.get(axis);
        size.is_none() || size == letters.get(letter) || size.and_then(Dim::fixed) != Some(1)
    };
    match (own(0, "B"), own(1, "H")) {
        (true, true) => "B H T S",
        (true, false) => "B 1 T S",
        (false, true) => "1 H T S",
        (false, false) => "1 1 T S",
    }
}

/// β as the caller said it: a constant and a parameter.
pub fn scale_of(scale: &AttentionScale) -> (Option<f32>, Option<Var>) {
    match *scale {
        AttentionScale::Default => (None, None),
        AttentionScale::Constant(scale) => (Some(scale), None),
        AttentionScale::Parameter(scale) => (None, Some(scale)),
    }
}
