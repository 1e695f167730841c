//! Small trained experiments: a tiny Transformer whose every part can be changed or left out ([`Tiny`]),
//! tasks whose answers are known ([`Task`]), training by AdamW on the CPU engine, and a look at what was
//! learned. Everything follows from a seed; one thread, so that experiments can run beside each other.

mod learner;
mod look;
mod tasks;
mod tiny;
mod train;

pub(crate) use learner::Learner;
pub(crate) use look::{Pattern, patterns, spearman};
pub(crate) use tasks::{Batch, Task};
pub(crate) use tiny::{Encoding, Middle, Model, Norming, Tiny};
pub(crate) use train::{Trained, Training, evaluate, one_cpu, train, train_on};

use crate::statistics::{Estimate, REACH};
use crate::{Context, Effort, Number};

/// The seeds of a trained experiment: one when quick, so many in full.
pub fn seeds(context: &Context, full: usize) -> Vec<u64> {
    (0..context.size(1, full) as u64).map(|at| context.seed.wrapping_mul(1000).wrapping_add(at)).collect()
}

/// The mean over seeds. Its interval is Student's, for seeds are few; a single run has none.
pub fn over_seeds(numbers: &[f64]) -> Estimate {
    let n = numbers.len() as f64;
    let value = numbers.iter().sum::<f64>() / n;
    if numbers.len() < 2 {
        return Estimate { value, low: value, high: value };
    }
    let variance = numbers.iter().map(|x| (x - value).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student(numbers.len() - 1) * (variance / n).sqrt();
    Estimate { value, low: value - half, high: value + half }
}

/// How many standard errors an interval of 99.99 % reaches to either side with so many degrees of freedom: a
/// table for few, the expansion around the normal distribution (Fisher and Cornish 1960) for more.
fn student(freedom: usize) -> f64 {
    const FEW: [f64; 9] = [6366.2, 99.992, 28.000, 15.544, 11.178, 9.082, 7.885, 7.120, 6.594];
    if let Some(&few) = freedom.checked_sub(1).and_then(|at| FEW.get(at)) {
        return few;
    }
    let (z, v) = (REACH, freedom as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / v + second / v.powi(2) + third / v.powi(3)
}

/// A number over seeds: with its interval, or bare if there was one run.
pub fn number(name: impl Into<String>, found: Estimate) -> Number {
    match found.low < found.high {
        true => Number::sampled(name, found),
        false => Number::shown(name, found.value),
    }
}

/// What a summary says about how far a trained result carries.
pub fn carries(context: &Context, seeds: usize) -> String {
    match context.effort {
        Effort::Quick => "One short run: indicative. `--full` trains longer and over several seeds.".into(),
        Effort::Full => format!("{seeds} seeds."),
    }
}

/// A model of two layers and four heads that has learned to go on with repeating sequences, as several claims
/// look at.
pub fn induction(context: &Context, seed: u64) -> regard::Result<(Model, Trained)> {
    let tiny = Tiny { layers: 2, heads: 4, causal: true, ..Tiny::new(INDUCTION.vocabulary(), 32) };
    let model = Model::new(tiny)?;
    let steps = context.size(450, 1500);
    let training = Training { seed, steps, batch: 16, length: INDUCTION_LENGTH, rate: 4e-3, watch: &[] };
    let trained = train(&model, INDUCTION, &training)?;
    Ok((model, trained))
}

/// The task of [`induction`].
pub const INDUCTION: Task = Task::Induction { symbols: 16 };

/// The length of its sequences.
pub const INDUCTION_LENGTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_over_few_seeds_are_wide() {
        // By tables: t at 0.99995 is 15.544 with 4 degrees of freedom, 4.897 with 19, and the normal's 3.891
        // with many.
        assert!((student(4) - 15.544).abs() < 1e-9 && (student(19) - 4.897).abs() < 0.005);
        assert!((student(1_000_000) - REACH).abs() < 1e-4);
        assert!((student(9) - 6.594).abs() < 1e-9 && student(10) < 6.594);
        let found = over_seeds(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((found.high - 3.0 - 15.544 * 0.5f64.sqrt()).abs() < 1e-9);
        assert_eq!(over_seeds(&[0.25]).low, 0.25);
        assert_eq!(number("x", over_seeds(&[0.25])).interval, None);
    }
}
