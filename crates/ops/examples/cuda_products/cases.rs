//! Small recordings that have every product, row-wise op, reduction, table and request for weights in them,
//! forward and backward: what the launch lists are tested with where there is no card, and run against the
//! reference where there is one.

use regard_engine::check::{Case, Recorded};
use regard_graph::{DType, Graph, Init, Precision, Var};
use regard_ops::prelude::*;
use regard_ops::{
    Activation, Attention, AttentionBias, AttentionKind, AttentionMask, BatchNormSpec, CrossEntropyOptions,
    IGNORE_INDEX, LinearOptions, MatmulOptions, Rounding, WeightLayout, WeightsRequest, Window, join,
};

/// A recording, and how far its results may be from the reference.
pub struct Trial {
    pub name: String,
    pub case: Case<'static>,
    #[allow(dead_code)] // lists are compared with nothing where there is no card
    pub bound: f64,
}

/// What an f32 result may be wrong by, as a part of the largest number; and one that products of bf16 gave.
const F32: f64 = 4e-6;
const BF16: f64 = 2e-3;

impl Trial {
    fn new(
        name: impl Into<String>,
        bound: f64,
        record: impl Fn(&mut Graph) -> regard_graph::Result<Vec<Var>> + 'static,
    ) -> Trial {
        Trial { name: name.into(), case: Case::new(record), bound }
    }

    fn given(mut self, name: &str, dims: &[usize], numbers: &[f64]) -> Trial {
        self.case = self.case.given(name, dims, numbers);
        self
    }

    /// The graphs of the recording: as recorded, and as a plan joins it.
    pub fn graphs(&self) -> [Recorded; 2] {
        let recorded = || self.case.backward().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let mut joined = recorded();
        let kept = joined.outputs.iter().copied();
        let keep: Vec<Var> = kept.chain(joined.gradients.iter().map(|&(_, _, gradient)| gradient)).collect();
        join(&mut joined.graph, &keep).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        [recorded(), joined]
    }
}

/// Integers below `size` that repeat some of themselves.
fn ids(count: usize, size: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * i + 3 * i) % size) as f64).collect()
}

fn in_dtype(g: &mut Graph, x: Var, dtype: DType) -> regard_graph::Result<Var> {
    if dtype == DType::F32 { Ok(x) } else { g.cast(x, dtype) }
}

fn to_f32(g: &mut Graph, x: Var) -> regard_graph::Result<Var> {
    if g.dtype(x) == DType::F32 { Ok(x) } else { g.cast(x, DType::F32) }
}

pub fn all() -> Vec<Trial> {
    let mut all = Vec::new();
    linear(&mut all);
    matmul(&mut all);
    norms(&mut all);
    rows(&mut all);
    sums(&mut all);
    tables(&mut all);
    losses(&mut all);
    weights(&mut all);
    all
}

const ACTIVATIONS: [Activation; 5] =
    [Activation::None, Activation::Relu, Activation::Gelu, Activation::GeluTanh, Activation::Silu];

fn linear(all: &mut Vec<Trial>) {
    for precision in [Precision::F32, Precision::Bf16] {
        for (k, n, rows) in [(5, 7, 3), (64, 96, 40), (1, 1, 1), (0, 3, 2), (5, 3, 0)] {
            for activation in ACTIVATIONS {
                for with in [false, true] {
                    let (layout, bound) = match with {
                        true => (WeightLayout::InOut, if precision == Precision::F32 { 1e-5 } else { BF16 }),
                        false => (WeightLayout::OutIn, if precision == Precision::F32 { 1e-5 } else { BF16 }),
                    };
                    let name = format!("linear {precision:?} {rows}x{k}x{n} {activation:?} {with}");
                    all.push(Trial::new(name, bound, move |g| {
                        g.set_precision(precision);
                        let x = g.input_with_gradient("x", [rows, k])?;
                        let sizes = if with { [k, n] } else { [n, k] };
                        let weight = g.parameter("weight", sizes, Init::Zeros)?;
                        let bias = g.parameter("bias", [n], Init::Zeros)?;
                        let residual = if with { Some(g.input_with_gradient("r", [rows, n])?) } else { None };
                        let options =
                            LinearOptions { bias: Some(bias), activation, residual, layout, output: None };
                        let y = g.linear(x, weight, options)?;
                        // What stands before it, so that gradients go on through activations.
                        let next = g.parameter("next", [k, n], Init::Zeros)?;
                        let options = LinearOptions { activation, ..Default::default() };
                        let y = g.linear(y, next, options)?;
                        let y = g.layer_norm_or(y)?;
                        Ok(vec![to_f32(g, y)?])
                    }));
                }
            }
        }
    }
    for bf16 in [false, true] {
        for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
            all.push(Trial::new(format!("quantised {bf16} {layout:?}"), F32, move |g| {
                let x = g.input("x", DType::F32, [6, 40])?;
                let x = in_dtype(g, x, if bf16 { DType::BF16 } else { DType::F32 })?;
                let sizes = if layout == WeightLayout::OutIn { [24, 40] } else { [40, 24] };
                let weight = g.input("weight", DType::F32, sizes)?;
                let bias = Some(g.input("bias", DType::F32, [24])?);
                let options =
                    LinearOptions { bias, activation: Activation::Gelu, layout, ..Default::default() };
                Ok(vec![g.quantised_linear(x, weight, Rounding::Outputs, options)?])
            }));
        }
    }
}

/// A norm behind a product, where there is a row to normalise.
trait LayerNormOr {
    fn layer_norm_or(&mut self, x: Var) -> regard_graph::Result<Var>;
}

impl LayerNormOr for Graph {
    fn layer_norm_or(&mut self, x: Var) -> regard_graph::Result<Var> {
        match self.shape(x).bound().last_size() {
            0..3 => Ok(x),
            _ => self.layer_norm(x, None, None, NormSpec::default()),
        }
    }
}

fn matmul(all: &mut Vec<Trial>) {
    for precision in [Precision::F32, Precision::Bf16] {
        for turned in 0..4 {
            for (lead_a, lead_b) in
                [(vec![], vec![]), (vec![2, 3], vec![2, 3]), (vec![4], vec![]), (vec![], vec![4])]
            {
                for (m, k, n) in [(8, 16, 24), (3, 5, 7)] {
                    let (transpose_a, transpose_b) = (turned & 1 != 0, turned & 2 != 0);
                    let a = if transpose_a { [k, m] } else { [m, k] };
                    let b = if transpose_b { [n, k] } else { [k, n] };
                    let (a, b) = ([&lead_a[..], &a].concat(), [&lead_b[..], &b].concat());
                    let name = format!("matmul {precision:?} {a:?} {b:?} {turned}");
                    all.push(Trial::new(
                        name,
                        if precision == Precision::F32 { F32 } else { BF16 },
                        move |g| {
                            g.set_precision(precision);
                            let x = g.input_with_gradient("a", &a[..])?;
                            let y = g.input_with_gradient("b", &b[..])?;
                            let options =
                                MatmulOptions { transpose_a, transpose_b, scale: 0.5, output: None };
                            let y = g.matmul(x, y, options)?;
                            Ok(vec![to_f32(g, y)?])
                        },
                    ));
                }
            }
        }
    }
}

fn norms(all: &mut Vec<Trial>) {
    for width in [1, 5, 64, 513, 1100, 9000] {
        for dtype in [DType::F32, DType::BF16] {
            for kind in 0..4 {
                let name = format!("norm {kind} {dtype} {width}");
                let rows = if width > 4096 { 5 } else { 70 };
                all.push(Trial::new(name, 1e-5, move |g| {
                    let x = g.input_with_gradient("x", [rows, width])?;
                    let x = in_dtype(g, x, dtype)?;
                    let scale = Some(g.parameter("scale", [width], Init::Zeros)?);
                    let shift = Some(g.parameter("shift", [width], Init::Zeros)?);
                    let spec = NormSpec::default();
                    let (y, stream) = match kind {
                        0 => (g.layer_norm(x, scale, shift, spec)?, None),
                        1 => (g.rms_norm(x, scale, spec)?, None),
                        _ => {
                            let residual = g.input_with_gradient("residual", [rows, width])?;
                            let found = match kind {
                                2 => g.add_layer_norm(x, residual, scale, shift, spec)?,
                                _ => g.add_rms_norm(x, residual, None, spec)?,
                            };
                            (found.normed, Some(found.stream))
                        }
                    };
                    let y = to_f32(g, y)?;
                    Ok([Some(y), stream].into_iter().flatten().collect())
                }));
            }
        }
    }
    for (rows, width) in [(5, 3), (700, 40), (33, 64)] {
        for train in [true, false] {
            all.push(Trial::new(format!("batch_norm {rows}x{width} {train}"), 1e-5, move |g| {
                let x = g.input_with_gradient("x", [rows, width])?;
                let scale = Some(g.parameter("scale", [width], Init::Zeros)?);
                let shift = Some(g.parameter("shift", [width], Init::Zeros)?);
                let mean = g.state("mean", DType::F32, [width], Init::Zeros)?;
                let variance = g.state("variance", DType::F32, [width], Init::Ones)?;
                let running = [mean, variance];
                let spec = BatchNormSpec::default();
                Ok(vec![match train {
                    true => g.batch_norm(x, running, scale, shift, spec)?.normed,
                    false => g.batch_norm_eval(x, running, scale, shift, spec)?,
                }])
            }));
        }
    }
}

fn rows(all: &mut Vec<Trial>) {
    for width in [1, 7, 64, 1500, 9001] {
        for dtype in [DType::F32, DType::BF16] {
            for log in [false, true] {
                all.push(Trial::new(format!("softmax {log} {dtype} {width}"), F32, move |g| {
                    let x = g.input_with_gradient("x", [5, width])?;
                    let x = in_dtype(g, x, dtype)?;
                    let y = if log { g.log_softmax_scaled(x, 0.7)? } else { g.softmax_scaled(x, 0.7)? };
                    Ok(vec![to_f32(g, y)?])
                }));
            }
            for label_smoothing in [0.0, 0.1] {
                let mut targets = ids(5, width);
                targets[2] = f64::from(IGNORE_INDEX);
                let trial =
                    Trial::new(format!("cross_entropy {dtype} {width} {label_smoothing}"), F32, move |g| {
                        let x = g.input_with_gradient("x", [5, width])?;
                        let x = in_dtype(g, x, dtype)?;
                        let targets = g.input("targets", DType::I32, [5])?;
                        let options = CrossEntropyOptions { ignore_index: IGNORE_INDEX, label_smoothing };
                        Ok(vec![g.cross_entropy(x, targets, options)?])
                    });
                all.push(trial.given("targets", &[5], &targets));
            }
        }
    }
}

fn sums(all: &mut Vec<Trial>) {
    let shapes: [(&[usize], &[usize]); 10] = [
        (&[3, 4], &[0]),
        (&[3, 4], &[1]),
        (&[3, 4], &[0, 1]),
        (&[2, 3, 4, 5], &[1, 3]),
        (&[2, 3, 4, 5], &[0, 2]),
        (&[5000, 3], &[0]),
        (&[3, 9000], &[1]),
        (&[100_000], &[0]),
        (&[2, 700, 40], &[1]),
        (&[0, 3], &[0]),
    ];
    for (dims, axes) in shapes {
        for dtype in [DType::F32, DType::BF16] {
            all.push(Trial::new(format!("sum {dims:?} {axes:?} {dtype}"), F32, move |g| {
                let x = g.input_with_gradient("x", dims)?;
                let x = in_dtype(g, x, dtype)?;
                let mut found = vec![g.sum(x, axes)?];
                if dims.iter().all(|&dim| dim > 0) {
                    found.push(g.mean(x, axes)?);
                }
                Ok(found)
            }));
        }
    }
}

fn tables(all: &mut Vec<Trial>) {
    for (count, rows, width) in [(7, 5, 3), (300, 4, 16), (5000, 7, 8), (1000, 900, 24)] {
        for output in [DType::F32, DType::BF16] {
            let trial = Trial::new(format!("embedding {count} {rows}x{width} {output}"), F32, move |g| {
                let table = g.parameter("table", [rows, width], Init::Zeros)?;
                let ids = g.input("ids", DType::I32, [count])?;
                let y = g.embedding(table, ids, Some(output))?;
                Ok(vec![to_f32(g, y)?])
            });
            all.push(trial.given("ids", &[count], &ids(count, rows)));
        }
    }
    for dtype in [DType::F32, DType::BF16] {
        for axis in [0, 1, 2] {
            let trial = Trial::new(format!("gather {axis} {dtype}"), F32, move |g| {
                let x = g.input_with_gradient("x", [4, 6, 8])?;
                let x = in_dtype(g, x, dtype)?;
                let indices = g.input("indices", DType::I32, [9])?;
                let y = g.gather(x, indices, axis)?;
                Ok(vec![to_f32(g, y)?])
            });
            all.push(trial.given("indices", &[9], &ids(9, 4)));
        }
        let trial = Trial::new(format!("gather_rows {dtype}"), F32, move |g| {
            let x = g.input_with_gradient("x", [3, 6, 5])?;
            let x = in_dtype(g, x, dtype)?;
            let indices = g.input("indices", DType::I32, [3, 70])?;
            let y = g.gather_rows(x, indices)?;
            Ok(vec![to_f32(g, y)?])
        });
        all.push(trial.given("indices", &[3, 70], &ids(210, 6)));
    }
}

fn losses(all: &mut Vec<Trial>) {
    for precision in [Precision::F32, Precision::Bf16] {
        for (rows, v, c) in [(5, 11, 8), (70, 300, 24), (3, 9000, 16), (0, 5, 4), (4, 6, 0)] {
            for (bias, label_smoothing) in [(false, 0.0), (true, 0.1)] {
                let bound = if precision == Precision::F32 { F32 } else { BF16 };
                let mut targets = ids(rows, v);
                if rows > 2 {
                    targets[1] = f64::from(IGNORE_INDEX);
                }
                let trial = Trial::new(
                    format!("linear_cross_entropy {precision:?} {rows}x{v}x{c} {bias}"),
                    bound,
                    move |g| {
                        g.set_precision(precision);
                        let x = g.input_with_gradient("x", [rows, c])?;
                        let weight = g.parameter("weight", [v, c], Init::Zeros)?;
                        let bias = if bias { Some(g.parameter("bias", [v], Init::Zeros)?) } else { None };
                        let targets = g.input("targets", DType::I32, [rows])?;
                        let scale = g.input("scale", DType::F32, Shape::scalar())?;
                        let options = CrossEntropyOptions { ignore_index: IGNORE_INDEX, label_smoothing };
                        let found = g.linear_cross_entropy(x, weight, bias, targets, scale, options)?;
                        Ok(vec![found.loss])
                    },
                );
                all.push(trial.given("targets", &[rows], &targets).given("scale", &[], &[0.25]));
            }
        }
    }
}

fn weights(all: &mut Vec<Trial>) {
    let kinds = [
        AttentionKind::Soft,
        AttentionKind::Hard,
        AttentionKind::Gumbel { temperature: 0.5, hard: false },
        AttentionKind::Gumbel { temperature: 0.5, hard: true },
    ];
    let requests = [
        WeightsRequest::Rows(vec![3, 0, 5, 5]),
        WeightsRequest::Columns(vec![2, 8]),
        WeightsRequest::Block { queries: 1..4, keys: 2..7 },
        WeightsRequest::TopK(3),
        WeightsRequest::ColumnSums,
        WeightsRequest::Entropy,
    ];
    for kind in kinds {
        for request in &requests {
            for form in 0..3 {
                let request = request.clone();
                let random = kind != AttentionKind::Soft && kind != AttentionKind::Hard;
                let trial = Trial::new(format!("weights {kind:?} {request:?} {form}"), 1e-5, move |g| {
                    // Two examples, six queries, nine keys, four heads of which two share keys.
                    let q = g.input("q", DType::F32, [2, 6, 4, 8])?;
                    let k = g.input("k", DType::F32, [2, 9, 2, 8])?;
                    let v = g.input("v", DType::F32, [2, 9, 2, 8])?;
                    let mut spec = Attention { kind, ..Attention::causal() };
                    if form == 1 {
                        let table = g.input("table", DType::F32, [8, 4])?;
                        spec.bias = AttentionBias::Buckets { table, bidirectional: true, max_distance: 16 };
                        spec.mask = AttentionMask {
                            window: Some(Window { before: 4, after: 2 }),
                            key_lengths: Some(g.input("lengths", DType::I32, [2])?),
                            ..AttentionMask::default()
                        };
                    }
                    if form == 2 {
                        spec.key_row = Some(g.input("key_row", DType::I32, [2, 9])?);
                    }
                    let found = g.attention(q, k, v, &spec)?;
                    let found = g.attention_weights(q, k, found.lse, &spec, request.clone())?;
                    Ok(vec![found.values])
                });
                let mut trial = trial;
                if form == 1 {
                    trial = trial.given("lengths", &[2], &[9.0, 4.0]);
                }
                if form == 2 {
                    trial = trial.given("key_row", &[2, 9], &ids(18, 2));
                }
                if random {
                    trial = trial.given("random", &[5], &[1.0, 2.0, 3.0, 0.0, 0.0]);
                }
                all.push(trial);
            }
        }
    }
}

/// Recordings of one op each, whose operands are wrong.
#[allow(dead_code)] // a card has to find it
pub fn faulty() -> Vec<Trial> {
    let embedding = Trial::new("an id outside of its table", 0.0, |g| {
        let table = g.input("table", DType::F32, [5, 8])?;
        let ids = g.input("ids", DType::I32, [2, 3])?;
        Ok(vec![g.embedding(table, ids, None)?])
    });
    let gather = Trial::new("an index outside of its axis", 0.0, |g| {
        let x = g.input("x", DType::F32, [5, 8])?;
        let indices = g.input("indices", DType::I32, [4])?;
        Ok(vec![g.gather(x, indices, 0)?])
    });
    let scatter = Trial::new("an index outside of a sum", 0.0, |g| {
        let x = g.input("x", DType::F32, [4, 8])?;
        let indices = g.input("indices", DType::I32, [4])?;
        Ok(vec![g.scatter_add(x, indices, 0, 3)?])
    });
    let loss = Trial::new("a target that is no class", 0.0, |g| {
        let x = g.input("x", DType::F32, [3, 8])?;
        let targets = g.input("targets", DType::I32, [3])?;
        Ok(vec![g.cross_entropy(x, targets, CrossEntropyOptions::default())?])
    });
    let fused = Trial::new("a target that is no class, fused", 0.0, |g| {
        let x = g.input("x", DType::F32, [3, 8])?;
        let weight = g.input("weight", DType::F32, [5, 8])?;
        let targets = g.input("targets", DType::I32, [3])?;
        let scale = g.input("scale", DType::F32, Shape::scalar())?;
        let options = CrossEntropyOptions::default();
        Ok(vec![g.linear_cross_entropy(x, weight, None, targets, scale, options)?.loss])
    });
    let weights = Trial::new("a row that is none", 0.0, |g| {
        let q = g.input("q", DType::F32, [2, 3, 1, 4])?;
        let k = g.input("k", DType::F32, [2, 3, 1, 4])?;
        let lse = g.input("lse", DType::F32, [2, 3, 1])?;
        let spec =
            Attention { key_row: Some(g.input("key_row", DType::I32, [2, 3])?), ..Attention::causal() };
        Ok(vec![g.attention_weights(q, k, lse, &spec, WeightsRequest::Columns(vec![0]))?.values])
    });
    let statistics = Trial::new("one row without a variance", 0.0, |g| {
        let rows = g.open('B', 4)?;
        let x = g.input("x", DType::F32, shape![rows, 3])?;
        let mean = g.state("mean", DType::F32, [3], Init::Zeros)?;
        let variance = g.state("variance", DType::F32, [3], Init::Ones)?;
        Ok(vec![g.batch_norm(x, [mean, variance], None, None, BatchNormSpec::default())?.normed])
    });
    vec![
        embedding.given("ids", &[2, 3], &[0.0, 4.0, 1.0, 5.0, -1.0, 2.0]),
        gather.given("indices", &[4], &[0.0, -7.0, 9.0, 1.0]),
        scatter.given("indices", &[4], &[0.0, 2.0, 3.0, 1.0]),
        loss.given("targets", &[3], &[7.0, f64::from(IGNORE_INDEX), 8.0]),
        fused.given("targets", &[3], &[4.0, 5.0, -3.0]).given("scale", &[], &[1.0]),
        weights.given("key_row", &[2, 3], &[0.0, 1.0, 0.0, 1.0, 2.0, 0.0]),
        Trial { case: statistics.case.size('B', 1), ..statistics },
    ]
}
