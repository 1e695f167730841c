//! Every op that has a derivative, alone: small recordings that differentiate each of its operands, in f32
//! and with operands of bf16. Agreement judges them node by node, and the mutants are made of their
//! gradients. `tests/mutants.rs` asks for a case of every folder of `ops` that has a derivative.

mod attentions;
mod moving;

use regard::check::{Case, Recorded};
use regard::device::Stream;
use regard::graph::{Derivative, Flow, Graph, Result, Var};
use regard::ops::{
    Activation, BatchNormSpec, CrossEntropyOptions, Gate, LinearOptions, MatmulOptions, NormSpec, Pairing,
    RotarySpec, random_numbers,
};
use regard::prelude::*;

/// An op alone.
#[derive(Clone, Copy)]
pub struct OpCase {
    /// Its folder in `crates/ops/src`.
    pub folder: &'static str,
    /// The op, as its nodes are named.
    pub op: &'static str,
    /// Which of several cases of it; empty if it has one.
    pub what: &'static str,
    /// Whether it has a mask or indices, and with them the mutant whose mask is off by one.
    pub masked: bool,
    record: fn(&mut Sheet<'_>) -> Result<Vec<Var>>,
}

impl OpCase {
    /// What it is called in reports.
    pub fn name(&self) -> String {
        format!("{} {}", self.op, self.what).trim_end().into()
    }

    /// The recording with the gradients of all operands of the op that have a derivative, named by operand;
    /// `off` records the mutant whose mask is off by one.
    pub fn recorded(&self, precision: Precision, seed: u64, off: bool) -> Result<Recorded> {
        let random: Vec<f64> = random_numbers(7, 3, 11).map(f64::from).to_vec();
        let case = Case::new(|g| {
            g.set_precision(precision);
            (self.record)(&mut Sheet { g, bf16: precision == Precision::Bf16, off })
        });
        let case = case.given("random", &[random.len()], &random).given("loss scale", &[], &[0.5]).seed(seed);
        let mut recorded = case.forward().unwrap_or_else(|error| panic!("{}: {error}", self.name()));
        let g = &mut recorded.graph;
        let mut wrt: Vec<(String, Var)> = Vec::new();
        for node in g.nodes().iter().filter(|node| node.op.name() == self.op) {
            for (index, &var) in node.inputs.iter().enumerate() {
                let wanted = matches!(node.op.derivative(index), Derivative::Exists);
                if wanted && g.value(var).flow == Flow::Open && wrt.iter().all(|(_, known)| *known != var) {
                    wrt.push((node.declared.operands[index].into(), var));
                }
            }
        }
        let loss = loss(g, &recorded.outputs, seed)?;
        let vars: Vec<Var> = wrt.iter().map(|(_, var)| *var).collect();
        let gradients = g.gradient(loss, &vars)?;
        recorded.gradients =
            wrt.into_iter().zip(gradients).map(|((name, var), gradient)| (name, var, gradient)).collect();
        Ok(recorded)
    }
}

/// Σ cotangent · output, with drawn cotangents.
fn loss(g: &mut Graph, outputs: &[Var], seed: u64) -> Result<Var> {
    let mut loss = None;
    for (index, &output) in outputs.iter().enumerate() {
        let dims = g.shape(output).bound();
        let stream = Stream::new(seed, index as u64, "cotangent");
        let numbers: Vec<f64> =
            (0..dims.count()).map(|i| f64::from(stream.normal(0, 0, i as u32) as f32)).collect();
        let cotangent = g.constant(DType::F32, &*dims, &numbers)?;
        let output = if g.dtype(output) == DType::F32 { output } else { g.cast(output, DType::F32)? };
        let product = g.mul(output, cotangent)?;
        let term = g.sum_all(product)?;
        loss = Some(match loss {
            None => term,
            Some(sum) => g.add(sum, term)?,
        });
    }
    Ok(loss.expect("a case has an output"))
}

/// What cases record on.
struct Sheet<'g> {
    g: &'g mut Graph,
    bf16: bool,
    off: bool,
}

impl Sheet<'_> {
    /// An operand with a gradient, of bf16 where that is asked for.
    fn x(&mut self, name: &str, dims: &[usize]) -> Result<Var> {
        let x = self.g.input_with_gradient(name, dims)?;
        if self.bf16 { self.g.cast(x, DType::BF16) } else { Ok(x) }
    }

    /// A parameter; those are f32.
    fn weight(&mut self, name: &str, dims: &[usize]) -> Result<Var> {
        self.g.parameter(name, dims, Init::Normal(1.0))
    }

    /// Integers, or truths, repeated as often as they fit; off by one, each stands where the one before it
    /// stood.
    fn whole(&mut self, dtype: DType, dims: &[usize], numbers: &[f64]) -> Result<Var> {
        let (count, shift) = (dims.iter().product::<usize>(), usize::from(self.off));
        let numbers: Vec<f64> = (0..count).map(|i| numbers[(i + shift) % numbers.len()]).collect();
        self.g.constant(dtype, dims, &numbers)
    }
}

const ROWS: [usize; 2] = [12, 10];

/// Functions of one operand, of either sign.
macro_rules! unary {
    ($($name:ident),*) => {
        [$(OpCase {
            folder: "unary", op: stringify!($name), what: "", masked: false,
            record: |s| {
                let x = s.x("x", &ROWS)?;
                Ok(vec![s.g.$name(x)?])
            },
        }),*]
    };
}

/// Functions of one operand above 0.
macro_rules! unary_of_positive {
    ($($name:ident),*) => {
        [$(OpCase {
            folder: "unary", op: stringify!($name), what: "", masked: false,
            record: |s| {
                let x = s.x("x", &ROWS)?;
                let x = s.g.square(x)?;
                let x = s.g.shift(x, 0.1)?;
                Ok(vec![s.g.$name(x)?])
            },
        }),*]
    };
}

macro_rules! binary {
    ($($name:ident),*) => {
        [$(OpCase {
            folder: "binary", op: stringify!($name), what: "", masked: false,
            record: |s| {
                let (a, b) = (s.x("a", &ROWS)?, s.x("b", &[10])?);
                let b = s.g.square(b)?;
                let b = s.g.shift(b, 0.3)?;
                Ok(vec![s.g.$name(a, b)?])
            },
        }),*]
    };
}

macro_rules! linear {
    ($($what:literal $activation:ident),*) => {
        [$(OpCase {
            folder: "linear", op: "linear", what: $what, masked: false,
            record: |s| {
                let (x, residual) = (s.x("x", &ROWS)?, s.g.input_with_gradient("residual", [12, 9])?);
                let (weight, bias) = (s.weight("weight", &[9, 10])?, s.weight("bias", &[9])?);
                let residual = if s.bf16 { s.g.cast(residual, DType::BF16)? } else { residual };
                let options = LinearOptions {
                    bias: Some(bias), activation: Activation::$activation, residual: Some(residual),
                    ..Default::default()
                };
                Ok(vec![s.g.linear(x, weight, options)?])
            },
        }),*]
    };
}

macro_rules! gated {
    ($($what:literal $gate:ident),*) => {
        [$(OpCase {
            folder: "gated", op: "gated", what: $what, masked: false,
            record: |s| {
                let (a, b) = (s.x("a", &ROWS)?, s.x("b", &ROWS)?);
                Ok(vec![s.g.gated(Gate::$gate, a, b)?])
            },
        }),*]
    };
}

/// All cases.
pub fn op_cases() -> Vec<OpCase> {
    let mut cases = Vec::new();
    cases.extend(unary!(relu, gelu, gelu_tanh, silu, tanh, sigmoid, exp, square, abs));
    cases.extend(unary_of_positive!(log, sqrt, recip));
    cases.extend(binary!(add, sub, mul, div));
    cases.extend(linear!("none" None, "relu" Relu, "gelu" Gelu, "gelu_tanh" GeluTanh, "silu" Silu));
    cases.extend(gated!("relu" Relu, "gelu" Gelu, "gelu_tanh" GeluTanh, "silu" Silu, "sigmoid" Sigmoid));
    cases.extend(attentions::ATTENTIONS);
    cases.extend(COMPUTING);
    cases.extend(moving::MOVING);
    cases
}

const TARGETS: [f64; 5] = [3.0, 0.0, -100.0, 7.0, 5.0];

/// Ops whose gradients are computed.
const COMPUTING: [OpCase; 19] = [
    OpCase {
        folder: "rotary",
        op: "rotary",
        what: "halves",
        masked: true,
        record: |s| {
            let (x, position) = (s.x("x", &[2, 6, 2, 8])?, s.whole(DType::I32, &[2, 6], &[0.0, 4.0, 9.0])?);
            Ok(vec![s.g.rotary(x, Some(position), RotarySpec::default())?])
        },
    },
    OpCase {
        folder: "rotary",
        op: "rotary",
        what: "interleaved",
        masked: false,
        record: |s| {
            let x = s.x("x", &[2, 6, 2, 8])?;
            let spec = RotarySpec { pairing: Pairing::Interleaved, ..Default::default() };
            Ok(vec![s.g.rotary(x, None, spec)?])
        },
    },
    OpCase {
        folder: "cross_entropy",
        op: "cross_entropy",
        what: "",
        masked: true,
        record: |s| {
            let (logits, targets) = (s.x("logits", &ROWS)?, s.whole(DType::I32, &[12], &TARGETS)?);
            let options = CrossEntropyOptions { label_smoothing: 0.1, ..Default::default() };
            Ok(vec![s.g.cross_entropy(logits, targets, options)?])
        },
    },
    OpCase {
        folder: "linear_cross_entropy",
        op: "linear_cross_entropy",
        what: "",
        masked: true,
        record: |s| {
            let (x, targets) = (s.x("x", &ROWS)?, s.whole(DType::I32, &[12], &TARGETS)?);
            let (weight, bias) = (s.weight("weight", &[9, 10])?, s.weight("bias", &[9])?);
            let scale = s.g.input("loss scale", DType::F32, shape![])?;
            let options = CrossEntropyOptions::default();
            Ok(vec![s.g.linear_cross_entropy(x, weight, Some(bias), targets, scale, options)?.loss])
        },
    },
    OpCase {
        folder: "dropout",
        op: "dropout",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &ROWS)?;
            Ok(vec![s.g.dropout(x, 0.3)?])
        },
    },
    OpCase {
        folder: "batch_norm",
        op: "batch_norm",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &ROWS)?;
            let mean = s.g.state("mean", DType::F32, [10], Init::Zeros)?;
            let variance = s.g.state("variance", DType::F32, [10], Init::Ones)?;
            let (scale, shift) = (Some(s.weight("scale", &[10])?), Some(s.weight("shift", &[10])?));
            let spec = BatchNormSpec::default();
            Ok(vec![s.g.batch_norm(x, [mean, variance], scale, shift, spec)?.normed])
        },
    },
    OpCase {
        folder: "norm",
        op: "layer_norm",
        what: "",
        masked: false,
        record: |s| {
            let (x, residual) = (s.x("x", &ROWS)?, s.x("residual", &ROWS)?);
            let (scale, shift) = (Some(s.weight("scale", &[10])?), Some(s.weight("shift", &[10])?));
            let normed = s.g.add_layer_norm(x, residual, scale, shift, NormSpec::default())?;
            Ok(vec![normed.normed, normed.stream])
        },
    },
    OpCase {
        folder: "norm",
        op: "rms_norm",
        what: "",
        masked: false,
        record: |s| {
            let (x, scale) = (s.x("x", &ROWS)?, Some(s.weight("scale", &[10])?));
            Ok(vec![s.g.rms_norm(x, scale, NormSpec::default())?])
        },
    },
    OpCase {
        folder: "softmax",
        op: "softmax",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &ROWS)?;
            Ok(vec![s.g.softmax(x)?])
        },
    },
    OpCase {
        folder: "softmax",
        op: "log_softmax",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &ROWS)?;
            Ok(vec![s.g.log_softmax(x)?])
        },
    },
    OpCase {
        folder: "scale",
        op: "scale",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &ROWS)?;
            Ok(vec![s.g.scale(x, 0.7)?])
        },
    },
    OpCase {
        folder: "embedding",
        op: "embedding",
        what: "",
        masked: true,
        record: |s| {
            let table = s.weight("table", &[9, 10])?;
            let ids = s.whole(DType::I32, &[3, 4], &[2.0, 0.0, 8.0, 5.0, 2.0])?;
            let output = s.bf16.then_some(DType::BF16);
            Ok(vec![s.g.embedding(table, ids, output)?])
        },
    },
    OpCase {
        folder: "add_position",
        op: "add_position",
        what: "",
        masked: true,
        record: |s| {
            let (x, table) = (s.x("x", &[3, 4, 10])?, s.weight("table", &[9, 10])?);
            let position = s.whole(DType::I32, &[3, 4], &[2.0, 0.0, 8.0, 5.0, 2.0])?;
            Ok(vec![s.g.add_position(x, table, Some(position))?])
        },
    },
    OpCase {
        folder: "matmul",
        op: "matmul",
        what: "",
        masked: false,
        record: |s| {
            let (a, b) = (s.x("a", &[2, 9, 11])?, s.x("b", &[2, 10, 11])?);
            let options = MatmulOptions { transpose_b: true, scale: 0.3, ..Default::default() };
            Ok(vec![s.g.matmul(a, b, options)?])
        },
    },
    OpCase {
        folder: "linear",
        op: "weight_gradient",
        what: "",
        masked: false,
        record: |s| {
            let (x, dy) = (s.x("x", &ROWS)?, s.x("dy", &[12, 9])?);
            let weight = s.weight("weight", &[9, 10])?;
            let y = s.g.linear(x, weight, LinearOptions::default())?;
            let dy = if s.g.dtype(dy) == s.g.dtype(y) { dy } else { s.g.cast(dy, s.g.dtype(y))? };
            s.g.pullback(y, dy, &[weight])
        },
    },
    OpCase {
        folder: "sum_to",
        op: "sum_to",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &[3, 4, 10])?;
            Ok(vec![s.g.sum_keep(x, &[1])?])
        },
    },
    OpCase {
        folder: "sum_to",
        op: "mean_to",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &[3, 4, 10])?;
            Ok(vec![s.g.mean_keep(x, &[1])?])
        },
    },
    OpCase {
        folder: "gather",
        op: "gather",
        what: "",
        masked: true,
        record: |s| {
            let (x, indices) = (s.x("x", &[3, 5, 10])?, s.whole(DType::I32, &[6], &[4.0, 1.0, 1.0, 0.0])?);
            Ok(vec![s.g.gather(x, indices, 1)?])
        },
    },
    OpCase {
        folder: "broadcast_to",
        op: "broadcast_to",
        what: "",
        masked: false,
        record: |s| {
            let (x, like) = (s.x("x", &[1, 10])?, s.x("like", &ROWS)?);
            Ok(vec![s.g.broadcast_to(x, like)?])
        },
    },
];
