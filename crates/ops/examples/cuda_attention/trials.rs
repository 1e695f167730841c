//! The trials: every mask with every bias over odd shapes, positions, picked rows, kinds, dropout, several
//! tiles, bf16 on tensor cores at every width, and empty sizes. Each is recorded with its gradients and
//! computed by the reference in f64.

use crate::room::{Call, Op, Value};
use regard_engine::Result;
use regard_engine::check::{Case, Recorded, largest};
use regard_engine::reference::{Mode, run};
use regard_graph::{DType, Graph, Precision, Var};
use regard_ops::prelude::*;
use regard_ops::{
    Attention, AttentionBackward, AttentionBias, AttentionKind, AttentionMask, AttentionOp, AttentionScale,
    Window, random_numbers,
};
use std::any::Any;

/// B T S H G D E.
pub type Size = [usize; 7];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Masked {
    No,
    Causal,
    Window,
    CausalWindow,
    Lengths,
    Bits,
    Explicit,
    ExplicitShared,
    All,
}
pub const MASKS: [Masked; 9] = [
    Masked::No,
    Masked::Causal,
    Masked::Window,
    Masked::CausalWindow,
    Masked::Lengths,
    Masked::Bits,
    Masked::Explicit,
    Masked::ExplicitShared,
    Masked::All,
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Biased {
    No,
    Buckets,
    BucketsBack,
    Alibi,
    Clipped,
    Dense,
    DenseShared,
}
pub const BIASES: [Biased; 7] = [
    Biased::No,
    Biased::Buckets,
    Biased::BucketsBack,
    Biased::Alibi,
    Biased::Clipped,
    Biased::Dense,
    Biased::DenseShared,
];

impl Biased {
    /// Whether the bias is a table by distance.
    pub fn is_table(self) -> bool {
        matches!(self, Biased::Buckets | Biased::BucketsBack | Biased::Clipped)
    }
}

/// How values are kept and products done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kept {
    /// f32 throughout.
    F32,
    /// f32 values, products of bf16.
    Rounded,
    /// bf16 values, products of bf16.
    Bf16,
}

/// One trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub size: Size,
    pub masked: Masked,
    pub biased: Biased,
    pub kind: AttentionKind,
    pub dropout: f32,
    pub positions: bool,
    pub picked: bool,
    pub scaled: bool,
    pub constant: Option<f32>,
    pub lse: bool,
    pub kept: Kept,
}

impl Trial {
    pub fn new(size: Size) -> Trial {
        Trial {
            size,
            masked: Masked::No,
            biased: Biased::No,
            kind: AttentionKind::Soft,
            dropout: 0.0,
            positions: false,
            picked: false,
            scaled: false,
            constant: None,
            lse: false,
            kept: Kept::F32,
        }
    }

    pub fn name(&self) -> String {
        let mut name =
            format!("{:?} {:?} {:?} {:?} {:?}", self.kept, self.size, self.masked, self.biased, self.kind);
        for (setting, on) in [
            ("positions", self.positions),
            ("picked rows", self.picked),
            ("scale per head", self.scaled),
            ("lse", self.lse),
        ] {
            if on {
                name += &format!(", {setting}");
            }
        }
        if self.dropout > 0.0 {
            name += &format!(", dropout {}", self.dropout);
        }
        if let Some(scale) = self.constant {
            name += &format!(", scale {scale}");
        }
        name
    }

    fn mask(&self, g: &mut Graph) -> regard_graph::Result<AttentionMask> {
        let [b, t, s, h, ..] = self.size;
        let mut mask = AttentionMask::default();
        let narrow = t.max(s) < 64;
        let window = |before: usize, after: usize| {
            let wide = if narrow { 1 } else { 17 };
            Some(Window { before: before * wide, after: after.saturating_mul(wide) })
        };
        match self.masked {
            Masked::No => {}
            Masked::Causal => mask.causal = true,
            Masked::Window => mask.window = window(2, 1),
            Masked::CausalWindow => (mask.causal, mask.window) = (true, window(1, usize::MAX)),
            Masked::Lengths => mask.key_lengths = Some(g.input("lengths", DType::I32, [b])?),
            Masked::Bits => mask.key_mask = Some(g.input("key_mask", DType::Bool, [b, s])?),
            Masked::Explicit => mask.explicit = Some(g.input("explicit", DType::Bool, [b, h, t, s])?),
            Masked::ExplicitShared => mask.explicit = Some(g.input("shared", DType::Bool, [1, 1, t, s])?),
            Masked::All => {
                mask.window = window(3, 4);
                mask.key_lengths = Some(g.input("lengths", DType::I32, [b])?);
                mask.key_mask = Some(g.input("key_mask", DType::Bool, [b, s])?);
                mask.explicit = Some(g.input("per_head", DType::Bool, [1, h, t, s])?);
            }
        }
        Ok(mask)
    }

    fn bias(&self, g: &mut Graph) -> regard_graph::Result<AttentionBias> {
        let [b, t, s, h, ..] = self.size;
        let mut table = |rows: &[usize]| g.input_with_gradient("table", rows);
        Ok(match self.biased {
            Biased::No => AttentionBias::None,
            Biased::Buckets => {
                AttentionBias::Buckets { table: table(&[8, h])?, bidirectional: true, max_distance: 6 }
            }
            Biased::BucketsBack => {
                AttentionBias::Buckets { table: table(&[6, h])?, bidirectional: false, max_distance: 9 }
            }
            Biased::Alibi => AttentionBias::Alibi { slopes: table(&[h])? },
            Biased::Clipped => AttentionBias::Clipped { table: table(&[5, h])? },
            Biased::Dense => AttentionBias::Dense(g.input_with_gradient("bias", [b, h, t, s])?),
            Biased::DenseShared => AttentionBias::Dense(g.input_with_gradient("bias", [1, 1, t, s])?),
        })
    }

    fn record(&self, g: &mut Graph) -> regard_graph::Result<Vec<Var>> {
        let [b, t, s, h, groups, d, e] = self.size;
        if self.kept != Kept::F32 {
            g.set_precision(Precision::Bf16);
        }
        let rows = if self.picked { 2 } else { b };
        let mut operand = |name: &str, dims: [usize; 4]| {
            let value = g.input_with_gradient(name, dims)?;
            if self.kept == Kept::Bf16 { g.cast(value, DType::BF16) } else { Ok(value) }
        };
        let q = operand("q", [b, t, h, d])?;
        let k = operand("k", [rows, s, groups, d])?;
        let v = operand("v", [rows, s, groups, e])?;
        let scale = match (self.scaled, self.constant) {
            (true, _) => AttentionScale::Parameter(g.input_with_gradient("scale", [h])?),
            (_, Some(scale)) => AttentionScale::Constant(scale),
            _ => AttentionScale::Default,
        };
        let spec = Attention {
            cap: None,
            scale,
            mask: self.mask(g)?,
            bias: self.bias(g)?,
            query_position: match self.positions {
                true => Some(g.input("query_position", DType::I32, [b, t])?),
                false => None,
            },
            key_position: match self.positions {
                true => Some(g.input("key_position", DType::I32, [b, s])?),
                false => None,
            },
            key_row: if self.picked { Some(g.input("key_row", DType::I32, [b, s])?) } else { None },
            kind: self.kind,
            dropout: self.dropout,
        };
        let found = g.attention(q, k, v, &spec)?;
        let y = if self.kept == Kept::Bf16 { g.cast(found.y, DType::F32)? } else { found.y };
        Ok(if self.lse { vec![y, found.lse] } else { vec![y] })
    }

    /// The largest |β| of a backward call.
    pub fn largest_scale(&self, call: &Call) -> f64 {
        match (self.scaled, self.constant) {
            // The first of the optional operands.
            (true, _) => largest(&call.inputs[if self.lse { 7 } else { 6 }].numbers()),
            (_, Some(scale)) => f64::from(scale).abs(),
            _ => 1.0 / (self.size[5] as f64).sqrt(),
        }
    }

    /// The calls of the trial with what the reference says about their results.
    pub fn prepare(&self) -> Result<Vec<(Call, Vec<Vec<f64>>)>> {
        let [b, t, s, h, ..] = self.size;
        let pairs = t * s;
        let positions = |count: usize, of: usize, first: i64, away: i64| -> Vec<f64> {
            (0..count).map(|i| ((i % of) as i64 + first - (i / of) as i64 * away) as f64).collect()
        };
        // Nonsense where a key does not exist.
        let mut key_row = scramble(b * s, 2);
        if self.masked == Masked::Bits {
            let exists = bits(b * s, 6);
            key_row
                .iter_mut()
                .zip(exists)
                .for_each(|(row, exists)| *row = if exists > 0.0 { *row } else { 77.0 });
        }
        let case = Case::new(|g| self.record(g))
            .given("lengths", &[b], &scramble(b, s + 2))
            .given("key_mask", &[b, s], &bits(b * s, 6))
            .given("explicit", &[b, h, t, s], &bits(b * h * pairs, 5))
            .given("per_head", &[1, h, t, s], &bits(h * pairs, 7))
            .given("shared", &[1, 1, t, s], &bits(pairs, 4))
            .given("random", &[5], &random_numbers(7, 3, 11).map(f64::from))
            .given("query_position", &[b, t], &positions(b * t, t, 2, 1))
            .given("key_position", &[b, s], &positions(b * s, s, -2, -3))
            .given("key_row", &[b, s], &key_row);
        let Recorded { graph, feed, .. } = case.backward()?;
        let found = run(&graph, &feed, Mode::Rounded)?;
        let mut calls = Vec::new();
        for node in graph.nodes() {
            let any: &dyn Any = node.op.as_ref();
            let op = if let Some(op) = any.downcast_ref::<AttentionOp>() {
                Op::Forward(op.clone())
            } else if let Some(op) = any.downcast_ref::<AttentionBackward>() {
                Op::Backward(op.clone())
            } else {
                continue;
            };
            let value = |&var: &Var| {
                let array = found.value(var);
                Value::new(graph.dtype(var), array.dims(), array.data())
            };
            let outputs =
                node.outputs.iter().map(|&var| (graph.dtype(var), found.value(var).dims())).collect();
            let used = vec![true; node.outputs.len()];
            let call = Call { op, inputs: node.inputs.iter().map(value).collect(), outputs, used };
            let wanted = node.outputs.iter().map(|&var| found.value(var).data().to_vec()).collect();
            calls.push((call, wanted));
        }
        Ok(calls)
    }
}

/// Numbers that look random and are not: the same on every machine.
fn scramble(count: usize, below: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 2_654_435_761 + 12_345) / 7 % below.max(1)) as f64).collect()
}

fn bits(count: usize, of_ten: usize) -> Vec<f64> {
    scramble(count, 10).into_iter().map(|x| f64::from(x < of_ten as f64)).collect()
}

const SIZES: [Size; 5] = [
    [2, 5, 7, 4, 2, 3, 5],
    [1, 1, 13, 3, 3, 7, 1],
    [3, 17, 2, 2, 1, 1, 2],
    [1, 3, 1, 1, 1, 5, 3],
    [2, 7, 5, 6, 3, 2, 4],
];

/// All of them.
pub fn all() -> Vec<Trial> {
    let mut all = Vec::new();
    for (index, size) in SIZES.into_iter().enumerate() {
        for masked in MASKS {
            for (number, biased) in BIASES.into_iter().enumerate() {
                // Each pair of mask and bias meets two of the shapes; each shape meets all masks and biases.
                if (index + number) % 5 <= 1 {
                    all.push(Trial { masked, biased, lse: number % 2 == 0, ..Trial::new(size) });
                }
            }
        }
        for masked in [Masked::No, Masked::Causal, Masked::All] {
            all.push(Trial { masked, scaled: true, ..Trial::new(size) });
        }
        all.push(Trial { masked: Masked::Causal, constant: Some(-0.7), lse: true, ..Trial::new(size) });
        if size[2] > 1 {
            for kind in [AttentionKind::Soft, AttentionKind::Hard] {
                all.push(Trial { masked: Masked::Bits, dropout: 0.3, kind, ..Trial::new(size) });
            }
        }
    }
    for masked in MASKS {
        for biased in [Biased::No, Biased::Buckets, Biased::Alibi, Biased::Dense] {
            all.push(Trial { masked, biased, positions: true, ..Trial::new([3, 4, 6, 2, 1, 3, 2]) });
        }
    }
    let kinds = [
        AttentionKind::Hard,
        AttentionKind::StraightThrough,
        AttentionKind::Gumbel { temperature: 0.7, hard: false },
        AttentionKind::Gumbel { temperature: 1.3, hard: true },
    ];
    for size in [[2, 5, 7, 4, 2, 3, 5], [1, 70, 135, 2, 1, 8, 4]] {
        for kind in kinds {
            for dropout in [0.0, 0.2] {
                all.push(Trial { masked: Masked::Bits, kind, dropout, lse: true, ..Trial::new(size) });
                all.push(Trial {
                    masked: Masked::Causal,
                    biased: Biased::Buckets,
                    kind,
                    dropout,
                    ..Trial::new(size)
                });
            }
        }
    }
    all.push(Trial { masked: Masked::Bits, picked: true, ..Trial::new([3, 2, 4, 4, 2, 3, 5]) });
    all.push(Trial {
        masked: Masked::Bits,
        picked: true,
        dropout: 0.2,
        ..Trial::new([3, 70, 90, 2, 1, 16, 16])
    });
    let several = [[2, 131, 259, 2, 1, 8, 16], [1, 200, 200, 4, 4, 32, 32], [1, 65, 129, 3, 1, 33, 70]];
    let pairs = [
        (Masked::No, Biased::No),
        (Masked::Causal, Biased::Buckets),
        (Masked::Window, Biased::Alibi),
        (Masked::Lengths, Biased::Clipped),
        (Masked::All, Biased::Dense),
        (Masked::Explicit, Biased::DenseShared),
    ];
    for size in several {
        for (masked, biased) in pairs {
            all.push(Trial { masked, biased, dropout: 0.1, scaled: true, ..Trial::new(size) });
        }
    }
    // Tensor cores: every width, both ways of keeping values; then every mask and bias.
    for (index, width) in [16, 32, 48, 64, 80, 96, 112, 128].into_iter().enumerate() {
        for kept in [Kept::Rounded, Kept::Bf16] {
            let size = [2, 150, 200, 4, 2, width, width];
            let masked = if index % 2 == 0 { Masked::Causal } else { Masked::No };
            all.push(Trial { masked, kept, lse: index % 3 == 0, ..Trial::new(size) });
        }
    }
    for masked in MASKS {
        for (number, biased) in BIASES.into_iter().enumerate() {
            let size = [2, 133, 140, 2, if number % 2 == 0 { 1 } else { 2 }, 32, 32];
            let dropout = if number % 3 == 1 { 0.1 } else { 0.0 };
            all.push(Trial { masked, biased, dropout, kept: Kept::Bf16, ..Trial::new(size) });
        }
    }
    for masked in [Masked::Causal, Masked::Window, Masked::All] {
        for biased in [Biased::No, Biased::Buckets, Biased::Alibi] {
            let trial = Trial { masked, biased, positions: true, ..Trial::new([2, 133, 140, 2, 1, 64, 64]) };
            all.push(Trial { dropout: 0.1, kept: Kept::Bf16, ..trial });
        }
    }
    all.push(Trial {
        scaled: true,
        kept: Kept::Bf16,
        dropout: 0.2,
        ..Trial::new([1, 70, 130, 4, 2, 64, 64])
    });
    all.push(Trial { constant: Some(-0.2), kept: Kept::Bf16, ..Trial::new([1, 70, 130, 4, 2, 64, 64]) });
    let picked = Trial {
        masked: Masked::Bits,
        picked: true,
        kept: Kept::Bf16,
        ..Trial::new([3, 70, 90, 2, 1, 32, 32])
    };
    all.push(picked);
    all.push(Trial { kept: Kept::Bf16, ..Trial::new([2, 37, 70, 4, 2, 16, 24]) });
    all.extend(few_queries());
    for size in [[0, 5, 7, 2, 1, 16, 16], [2, 0, 7, 2, 1, 16, 16], [2, 5, 0, 2, 1, 16, 16]] {
        for kept in [Kept::F32, Kept::Bf16] {
            all.push(Trial {
                masked: Masked::Causal,
                biased: Biased::Buckets,
                scaled: true,
                kept,
                ..Trial::new(size)
            });
        }
    }
    all
}

/// Few queries over keys that end inside of a chunk, at its end and behind it.
fn few_queries() -> Vec<Trial> {
    let mut all = Vec::new();
    let sizes = [
        [2, 1, 1000, 4, 2, 64, 64],
        [1, 3, 257, 6, 1, 40, 70],
        [3, 4, 384, 2, 2, 7, 129],
        [2, 2, 128, 6, 2, 128, 32],
    ];
    let forms = [
        (Masked::No, Biased::No),
        (Masked::Lengths, Biased::No),
        (Masked::Bits, Biased::Buckets),
        (Masked::Window, Biased::Alibi),
        (Masked::ExplicitShared, Biased::Clipped),
        (Masked::All, Biased::Dense),
    ];
    for (index, size) in sizes.into_iter().enumerate() {
        for (number, (masked, biased)) in forms.into_iter().enumerate() {
            let kept = if (index + number) % 2 == 0 { Kept::F32 } else { Kept::Bf16 };
            let dropout = if number % 3 == 2 { 0.2 } else { 0.0 };
            let (scaled, positions) = (number == 1, number == 3);
            all.push(Trial { masked, biased, kept, dropout, scaled, positions, ..Trial::new(size) });
        }
        for kept in [Kept::F32, Kept::Bf16, Kept::Rounded] {
            all.push(Trial { masked: Masked::Bits, picked: true, kept, ..Trial::new(size) });
        }
    }
    all
}
