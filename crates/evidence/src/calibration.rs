//! Confidence that means something: from signs that an answer is right (the model's own probability, its
//! margin, what the text says) to a probability, learned on questions whose answers are known. Logistic
//! regression, which is Platt's scaling (1999) where there is one sign; and the best rising steps (isotonic
//! regression) where there are many questions.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// An answer to a question that was used to learn from: its signs, and whether it was right.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The signs, in the order of their names.
    pub signs: Vec<f64>,
    /// Whether the answer was right.
    pub right: bool,
}

/// From signs to a probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    signs: Vec<Sign>,
    bias: f64,
    /// How many examples it was learned from.
    examples: usize,
}

/// What one sign says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sign {
    name: String,
    /// Its mean and its deviation among the examples: weights are of what is left without them.
    mean: f64,
    deviation: f64,
    weight: f64,
}

/// What is added to the diagonal, as if each weight had been seen to be small once: signs that tell right
/// from wrong without error would want infinite ones.
const RIDGE: f64 = 1.0;
/// Steps of Newton's method; ten are enough for what converges at all.
const STEPS: usize = 50;

impl Calibration {
    /// Learns from examples; all have as many signs as there are names.
    pub fn fit(names: &[impl AsRef<str>], examples: &[Example]) -> Result<Calibration> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let finite = |example: &Example| {
            example.signs.len() == names.len() && example.signs.iter().all(|sign| sign.is_finite())
        };
        if let Some(at) = examples.iter().position(|example| !finite(example)) {
            return Err(Error::invalid(
                format!("example {} has {} signs", at + 1, examples[at].signs.len()),
                format!("give each {} finite numbers: {}", names.len(), names.join(", ")),
            ));
        }
        let right = examples.iter().filter(|example| example.right).count();
        if right == 0 || right == examples.len() {
            return Err(Error::invalid(
                format!("{right} of {} answers to calibrate with are right", examples.len()),
                "give some that are right and some that are wrong",
            ));
        }
        let n = examples.len() as f64;
        let signs = names.iter().enumerate().map(|(at, name)| {
            let mean = examples.iter().map(|example| example.signs[at]).sum::<f64>() / n;
            let square = examples.iter().map(|example| (example.signs[at] - mean).powi(2)).sum::<f64>() / n;
            let deviation = if square > 1e-12 { square.sqrt() } else { 1.0 };
            Sign { name: name.to_string(), mean, deviation, weight: 0.0 }
        });
        let bias = (right as f64 / (n - right as f64)).ln();
        let mut fitted = Calibration { signs: signs.collect(), bias, examples: examples.len() };
        fitted.descend(examples);
        Ok(fitted)
    }

    /// Newton's method on the likelihood of the examples.
    fn descend(&mut self, examples: &[Example]) {
        let size = self.signs.len() + 1;
        for _ in 0..STEPS {
            let (mut gradient, mut curvature) = (vec![0.0; size], vec![vec![0.0; size]; size]);
            for example in examples {
                let row: Vec<f64> = self.row(&example.signs).chain([1.0]).collect();
                let p = self.confidence(&example.signs);
                for i in 0..size {
                    gradient[i] += (f64::from(u8::from(example.right)) - p) * row[i];
                    for j in 0..size {
                        curvature[i][j] += p * (1.0 - p) * row[i] * row[j];
                    }
                }
            }
            for i in 0..size - 1 {
                gradient[i] -= RIDGE * self.signs[i].weight;
                curvature[i][i] += RIDGE;
            }
            curvature[size - 1][size - 1] += 1e-9;
            let step = solved(curvature, gradient);
            self.signs.iter_mut().zip(&step).for_each(|(sign, step)| sign.weight += step);
            self.bias += step[size - 1];
            if step.iter().all(|step| step.abs() < 1e-10) {
                return;
            }
        }
    }

    fn row<'a>(&'a self, signs: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        self.signs.iter().zip(signs).map(|(sign, value)| (value - sign.mean) / sign.deviation)
    }

    /// The names of the signs, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.signs.iter().map(|sign| sign.name.as_str())
    }

    /// The probability that an answer with these signs is right.
    pub fn confidence(&self, signs: &[f64]) -> f64 {
        let weights = self.signs.iter().map(|sign| sign.weight);
        let score = self.bias + self.row(signs).zip(weights).map(|(sign, weight)| sign * weight).sum::<f64>();
        1.0 / (1.0 + (-score).exp())
    }
}

/// Solves a small system with a positive diagonal, by elimination.
fn solved(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let size = b.len();
    for pivot in 0..size {
        let best = (pivot..size).max_by(|&i, &j| a[i][pivot].abs().total_cmp(&a[j][pivot].abs()));
        let best = best.unwrap_or(pivot);
        a.swap(pivot, best);
        b.swap(pivot, best);
        let (done, rest) = a.split_at_mut(pivot + 1);
        let own = &done[pivot];
        for (below, row) in rest.iter_mut().enumerate() {
            let factor = row[pivot] / own[pivot];
            row.iter_mut().zip(own).skip(pivot).for_each(|(x, own)| *x -= factor * own);
            b[pivot + 1 + below] -= factor * b[pivot];
        }
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| a[row][column] * b[column]).sum();
        b[row] = (b[row] - known) / a[row][row];
    }
    b
}

/// The rising steps that fit best (isotonic regression, by pooling neighbours that fall).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Isotonic {
    /// From which score on, how often answers were right.
    steps: Vec<(f64, f64)>,
}

impl Isotonic {
    /// Learns from scores and whether their answers were right.
    pub fn fit(scored: &[(f64, bool)]) -> Result<Isotonic> {
        if scored.is_empty() || scored.iter().any(|(score, _)| !score.is_finite()) {
            return Err(Error::invalid(
                format!("{} scores, not all of them numbers", scored.len()),
                "give at least one, and only finite ones",
            ));
        }
        let mut sorted = scored.to_vec();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Lowest score, right answers, answers: of blocks that rise.
        let mut blocks: Vec<(f64, f64, f64)> = Vec::new();
        for (score, right) in sorted {
            let hit = f64::from(u8::from(right));
            match blocks.last_mut() {
                // Equal scores are one question to this.
                Some(last) if last.0 == score => (last.1, last.2) = (last.1 + hit, last.2 + 1.0),
                _ => blocks.push((score, hit, 1.0)),
            }
        }
        let mut pooled: Vec<(f64, f64, f64)> = Vec::new();
        for block in blocks {
            pooled.push(block);
            while let [.., before, last] = pooled.as_mut_slice() {
                if before.1 * last.2 < last.1 * before.2 {
                    break;
                }
                (before.1, before.2) = (before.1 + last.1, before.2 + last.2);
                pooled.pop();
            }
        }
        Ok(Isotonic { steps: pooled.into_iter().map(|(score, right, all)| (score, right / all)).collect() })
    }

    /// How often answers of this score were right.
    pub fn confidence(&self, score: f64) -> f64 {
        let at = self.steps.partition_point(|&(from, _)| from <= score);
        self.steps[at.saturating_sub(1)].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A population whose odds are known: ln p/(1−p) = 2 s − 1 + 0 · noise.
    fn drawn(count: usize) -> Vec<Example> {
        let mut state = 9u64;
        let mut unit = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..count)
            .map(|_| {
                let signs = vec![4.0 * unit() - 2.0, unit()];
                let p = 1.0 / (1.0 + (1.0 - 2.0 * signs[0]).exp());
                Example { right: unit() < p, signs }
            })
            .collect()
    }

    #[test]
    fn the_odds_of_a_population_are_found() {
        let fitted = Calibration::fit(&["sign", "noise"], &drawn(20_000)).unwrap();
        for (sign, expected) in [(-1.5, 0.018), (0.5, 0.5), (1.5, 0.881)] {
            let found = fitted.confidence(&[sign, 0.5]);
            assert!((found - expected).abs() < 0.02, "{sign}: {found}");
        }
        assert!((fitted.confidence(&[0.5, 0.0]) - fitted.confidence(&[0.5, 1.0])).abs() < 0.05);
        assert_eq!(fitted.names().collect::<Vec<_>>(), ["sign", "noise"]);
        let json = serde_json::to_string(&fitted).unwrap();
        let again: Calibration = serde_json::from_str(&json).unwrap();
        assert!((again.confidence(&[0.3, 0.5]) - fitted.confidence(&[0.3, 0.5])).abs() < 1e-12);
    }

    #[test]
    fn a_sign_that_never_errs_stays_finite() {
        let examples: Vec<Example> =
            (0..40).map(|at| Example { signs: vec![f64::from(at % 2), 3.0], right: at % 2 == 1 }).collect();
        let fitted = Calibration::fit(&["sure", "same"], &examples).unwrap();
        let (low, high) = (fitted.confidence(&[0.0, 3.0]), fitted.confidence(&[1.0, 3.0]));
        assert!(low < 0.1 && high > 0.9 && high < 1.0, "{low} {high}");
    }

    #[test]
    fn steps_rise_and_pool() {
        let scored = [(0.1, false), (0.2, true), (0.3, false), (0.4, true), (0.4, true), (0.9, true)];
        let fitted = Isotonic::fit(&scored).unwrap();
        let found: Vec<f64> = [0.0, 0.1, 0.2, 0.35, 0.4, 2.0].map(|score| fitted.confidence(score)).into();
        assert_eq!(found, [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]);
        let same = Isotonic::fit(&[(1.0, true), (1.0, false)]).unwrap();
        assert_eq!(same.confidence(0.0), 0.5);
    }

    #[test]
    fn nonsense_is_refused() {
        let one = |signs: &[f64], right| Example { signs: signs.to_vec(), right };
        assert_eq!(
            Calibration::fit(&["a"], &[one(&[1.0], true), one(&[], false)]).unwrap_err().to_string(),
            "example 2 has 0 signs; give each 1 finite numbers: a"
        );
        assert_eq!(
            Calibration::fit(&["a"], &[one(&[1.0], true)]).unwrap_err().to_string(),
            "1 of 1 answers to calibrate with are right; give some that are right and some that are wrong"
        );
        assert_eq!(
            Isotonic::fit(&[]).unwrap_err().to_string(),
            "0 scores, not all of them numbers; give at least one, and only finite ones"
        );
    }
}
