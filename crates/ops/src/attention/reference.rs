//! The specification of attention: one query at a time, the allowed keys listed first, every other pair left
//! out altogether. In the rounded mode a bf16 attention rounds q, k and v (and dy) and nothing else: an
//! engine may round the weights before they meet the values, and score gradients before they meet q and k, as
//! fused bf16 kernels do, but need not.

use super::bias::table_row;
use super::form::{BiasForm, Extent, Extra, Form};
use super::mask::{Known, Pairs};
use super::random::Randomness;
use crate::{Array, Fault, ReferenceCall};
use std::borrow::Cow;

/// One call: operands, masks and random numbers, and the score of a pair.
pub struct Naive<'a> {
    pub form: &'a Form,
    pub extent: Extent,
    pub known: Known,
    pub random: Randomness,
    pub query: Cow<'a, Array>,
    pub key: Cow<'a, Array>,
    beta: Vec<f64>,
    pub bias: Option<&'a Array>,
}

impl<'a> Naive<'a> {
    /// Query is operand 0, key 1; value, where there is one, 2; the optional operands begin at `base`.
    pub fn new(
        form: &'a Form,
        call: &ReferenceCall<'a>,
        has_value: bool,
        base: usize,
    ) -> Result<Self, Fault> {
        let dims = |input: usize| call.inputs[input].dims();
        let extent = Extent::new(dims(0), dims(1), has_value.then(|| dims(2)));
        let known = Known::of_call(form, extent, call, base);
        let (key_row, allowed) = (known.key_row.as_deref(), known.allowed());
        check_key_rows(key_row, &extent, |b, s| allowed.exists(b, s))?;
        let operand = |extra: Extra| form.place(base, extra).map(|input| call.inputs[input]);
        let random: Option<Vec<i32>> =
            operand(Extra::Random).map(|array| array.data().iter().map(|&x| x as i32).collect());
        let beta = match operand(Extra::Scale) {
            Some(scale) => scale.data().to_vec(),
            None => vec![form.constant(extent.d); extent.h],
        };
        Ok(Naive {
            form,
            extent,
            random: Randomness::new(form, random.as_deref()),
            query: call.operand(0, form.precision),
            key: call.operand(1, form.precision),
            beta,
            bias: operand(Extra::Bias),
            known,
        })
    }

    /// The keys that a query may attend to, in increasing order.
    pub fn keys(&self, b: usize, h: usize, t: usize) -> Vec<usize> {
        let allowed = self.known.allowed();
        (0..self.extent.s).filter(|&s| allowed.allows(b, h, t, s)).collect()
    }

    /// The row of the key/value batch that (b, s) comes from.
    pub fn row_of(&self, b: usize, s: usize) -> usize {
        self.known.key_row.as_ref().map_or(b, |rows| rows[b * self.extent.s + s] as usize)
    }

    /// Key position − query position.
    pub fn distance(&self, b: usize, t: usize, s: usize) -> i64 {
        let allowed = self.known.allowed();
        allowed.key_at(b, s) as i64 - allowed.query_at(b, t) as i64
    }

    /// The final score of a pair, and q·k before scaling.
    pub fn score(&self, call: &mut ReferenceCall<'_>, b: usize, h: usize, t: usize, s: usize) -> (f64, f64) {
        let (row, g) = (self.row_of(b, s), h / self.extent.share());
        let mut dot = 0.0;
        for d in 0..self.extent.d {
            dot += self.query[[b, t, h, d]] * self.key[[row, s, g, d]];
            call.count_macs(1);
        }
        let mut score = self.beta[h] * dot;
        call.count_flops(1);
        if let Some(cap) = self.form.cap {
            score = cap as f64 * (score / cap as f64).tanh();
            call.count_flops(3);
        }
        if let Some(bias) = self.bias {
            score += match self.form.bias {
                BiasForm::Alibi => {
                    call.count_macs(1);
                    -bias.data()[h] * self.distance(b, t, s).unsigned_abs() as f64
                }
                BiasForm::Dense => {
                    call.count_flops(1);
                    self.dense(bias).row(&self.extent, b, h, t)[s]
                }
                form => {
                    call.count_flops(1);
                    bias[[table_row(form, bias.dims()[0], self.distance(b, t, s)), h]]
                }
            };
        }
        if let Some(temperature) = self.form.kind.temperature() {
            let allowed = self.known.allowed();
            let noise = self.random.gumbel(b, h, allowed.query_at(b, t), allowed.key_at(b, s));
            score = (score + noise) / temperature as f64;
            call.count_flops(2);
        }
        (score, dot)
    }

    /// How much a score changes with β·q·k: 1, or less where it nears its cap.
    pub fn slope(&self, call: &mut ReferenceCall<'_>, h: usize, dot: f64) -> f64 {
        let Some(cap) = self.form.cap else { return 1.0 };
        call.count_flops(6); // times β, over the cap, tanh, its square, from 1, and times the gradient
        1.0 - (self.beta[h] * dot / cap as f64).tanh().powi(2)
    }

    /// A dense bias by pair.
    pub fn dense<'b>(&self, bias: &'b Array) -> Pairs<'b, f64> {
        let (per_batch, per_head) = (bias.dims()[0] == self.extent.b, bias.dims()[1] == self.extent.h);
        Pairs { data: bias.data(), per_batch, per_head }
    }

    /// β of a head.
    pub fn beta(&self, h: usize) -> f64 {
        self.beta[h]
    }

    /// What dropout multiplies a weight by.
    pub fn keep(&self, b: usize, h: usize, t: usize, s: usize) -> f64 {
        let allowed = self.known.allowed();
        self.random.keep(b, h, allowed.query_at(b, t), allowed.key_at(b, s))
    }
}

/// What is wrong with a key that comes from no row of the key/value batch.
pub fn no_such_row([b, s]: [usize; 2], row: i32, rows: usize) -> Fault {
    Fault {
        op: "attention",
        what: format!("key_row[{b}, {s}] is {row}, the keys have {rows} rows"),
        advice: "give rows of the key/value batch, or mask the key",
    }
}

/// Every key that exists must come from a row of the key/value batch.
pub fn check_key_rows(
    key_row: Option<&[i32]>,
    extent: &Extent,
    exists: impl Fn(usize, usize) -> bool,
) -> Result<(), Fault> {
    for (at, &row) in key_row.unwrap_or(&[]).iter().enumerate() {
        let (b, s) = (at / extent.s, at % extent.s);
        if exists(b, s) && !(0..extent.rows as i64).contains(&(row as i64)) {
            return Err(no_such_row([b, s], row, extent.rows));
        }
    }
    Ok(())
}

/// The first of the largest: ties go to the lowest index.
pub fn first_largest(scores: &[f64]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (at, score) in scores.iter().enumerate() {
        if best.is_none_or(|best| *score > scores[best]) {
            best = Some(at);
        }
    }
    best
}

/// y, lse and choice.
pub fn run(form: &Form, call: &mut ReferenceCall<'_>) -> Result<(), Fault> {
    let naive = Naive::new(form, call, true, 3)?;
    let value = call.operand(2, form.precision);
    let extent @ Extent { b: batch, t: queries, h: heads, e: width, .. } = naive.extent;
    for (b, t, h) in rows_of(batch, queries, heads) {
        let keys = naive.keys(b, h, t);
        let scores: Vec<f64> = keys.iter().map(|&s| naive.score(call, b, h, t, s).0).collect();
        let chosen = first_largest(&scores);
        let most = chosen.map_or(f64::NEG_INFINITY, |at| scores[at]);
        let exponentials: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        call.count_flops(4 * keys.len()); // compare, subtract, exp, add
        let row = extent.row(b, t, h);
        call.outputs[1].data_mut()[row] = if keys.is_empty() { f64::NEG_INFINITY } else { most + sum.ln() };
        call.outputs[2].data_mut()[row] = match chosen {
            Some(at) if form.kind.is_hard() => keys[at] as f64,
            _ => -1.0,
        };
        call.count_flops(if keys.is_empty() { 0 } else { 2 });
        for (at, &s) in keys.iter().enumerate() {
            let mut weight = if form.kind.is_hard() {
                if chosen != Some(at) {
                    continue;
                }
                1.0
            } else {
                call.count_flops(1);
                exponentials[at] / sum
            };
            if form.dropout > 0.0 {
                weight *= naive.keep(b, h, t, s);
                call.count_flops(1);
            }
            for e in 0..width {
                let v = value[[naive.row_of(b, s), s, h / extent.share(), e]];
                call.outputs[0][[b, t, h, e]] += weight * v;
            }
            call.count_macs(width);
        }
    }
    Ok(())
}

/// All (b, t, h), in order.
pub fn rows_of(b: usize, t: usize, h: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..b * t * h).map(move |row| (row / h / t, row / h % t, row % h))
}
