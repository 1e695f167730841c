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

use crate::predicate::SEEDS;
use crate::remembered::Remembered;
use crate::statistics::{Estimate, exact_share, over_runs};
use crate::{Context, Effort, Number};
use regard::Result;
use regard::prelude::*;

/// The seeds of a trained experiment: one when quick, eight in full.
pub fn seeds(context: &Context) -> Vec<u64> {
    let first = context.seed.wrapping_mul(1000);
    (0..context.size(1, SEEDS) as u64).map(|at| first.wrapping_add(at)).collect()
}

/// The same for every seed, shared among the workers: what came of each, in the order of the seeds.
pub fn each_seed<R: Send>(context: &Context, train: impl Fn(u64) -> Result<R> + Sync) -> Result<Vec<R>> {
    context.workers.each(&seeds(context), |&seed| train(seed)).into_iter().collect()
}

/// What is made of each of some settings with each seed: by setting, then by seed.
pub fn each_setting<S: Sync, R: Send>(
    context: &Context,
    settings: &[S],
    train: impl Fn(&S, u64) -> Result<R> + Sync,
) -> Result<Vec<Vec<R>>> {
    let seeds = seeds(context);
    let parts: Vec<(usize, u64)> =
        (0..settings.len()).flat_map(|at| seeds.iter().map(move |&seed| (at, seed))).collect();
    let found: Vec<R> = context
        .workers
        .each(&parts, |&(at, seed)| train(&settings[at], seed))
        .into_iter()
        .collect::<Result<_>>()?;
    let mut found = found.into_iter();
    Ok(settings.iter().map(|_| found.by_ref().take(seeds.len()).collect()).collect())
}

/// The mean over seeds with its interval of 95 %.
pub fn over_seeds(numbers: &[f64]) -> Estimate {
    over_runs(numbers)
}

/// A number over seeds, with its interval; bare if there was one run.
pub fn number(name: impl Into<String>, runs: &[f64]) -> Number {
    match runs {
        [one] => Number::shown(name, *one),
        runs => Number::sampled(name, over_runs(runs)),
    }
}

/// A share of so many questions in every run. Where all runs have the same share, their spread tells nothing:
/// the interval is then the exact one of all questions together.
pub fn share(name: impl Into<String>, runs: &[f64], questions: usize) -> Number {
    match runs {
        [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|share| share == first) => {
            let of = questions * runs.len();
            Number::sampled(name, exact_share((first * of as f64).round() as usize, of))
        }
        runs => number(name, runs),
    }
}

/// One number less another, seed by seed: what both share cancels.
pub fn less(name: impl Into<String>, these: &[f64], those: &[f64]) -> Number {
    number(name, &these.iter().zip(those).map(|(a, b)| a - b).collect::<Vec<_>>())
}

/// What a summary says about how far a trained result carries.
pub fn carries(context: &Context) -> String {
    match context.effort {
        Effort::Quick => "One short run: indicative. `--full` trains longer and over eight seeds.".into(),
        Effort::Full => format!("{SEEDS} seeds."),
    }
}

/// The mean.
pub fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// A model of two layers and four heads that has learned to go on with repeating sequences, as several claims
/// look at: its parameters, and those that it began with.
pub struct Inductive {
    /// The model.
    pub model: Model,
    /// What it learned.
    pub learned: Store,
    /// What it began with.
    pub begun: Store,
    /// The share of held-out answers that are right.
    pub accuracy: f64,
}

/// One such model, trained once for each seed. Asked for a copy, for looking changes a store's caches.
pub fn induction(context: &Context, seed: u64) -> Result<Inductive> {
    type Numbers = Vec<(String, Vec<f32>)>;
    static KNOWN: Remembered<(Effort, bool, u64), (Numbers, f64)> = Remembered::new();
    let tiny = Tiny { layers: 2, heads: 4, causal: true, ..Tiny::new(INDUCTION.vocabulary(), 32) };
    let model = Model::new(tiny)?;
    let fresh = || -> Result<Store> {
        let mut store = Store::new(seed);
        for declared in model.parameters().declared() {
            store.declare(&declared.name, declared.shape.clone(), declared.init.clone())?;
        }
        Ok(store)
    };
    let found = KNOWN.get(context, (context.effort, context.device.is_some(), seed), || {
        let steps = context.size(450, 1500);
        let training = Training { seed, steps, batch: 16, length: INDUCTION_LENGTH, rate: 4e-3, watch: &[] };
        let mut trained = train(context, &model, INDUCTION, &training)?;
        let names: Vec<String> =
            model.parameters().declared().map(|declared| declared.name.clone()).collect();
        let numbers = names
            .into_iter()
            .map(|name| Ok((name.clone(), trained.store.f32(&name)?.to_vec())))
            .collect::<Result<Numbers>>()?;
        let score = evaluate(context, &model, &mut trained.store, INDUCTION, 128, INDUCTION_LENGTH)?;
        Ok((numbers, score.accuracy))
    })?;
    let mut learned = fresh()?;
    for (name, numbers) in &found.0 {
        learned.set_f32(name, numbers)?;
    }
    let begun = fresh()?;
    Ok(Inductive { model, learned, begun, accuracy: found.1 })
}

/// The task of [`induction`].
pub const INDUCTION: Task = Task::Induction { symbols: 16 };

/// The length of its sequences.
pub const INDUCTION_LENGTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::Workers;

    #[test]
    fn settings_and_seeds_come_back_by_setting_whoever_trained_them() {
        let workers = Workers::new(3);
        let context = Context { seed: 2, effort: Effort::Full, workers: &workers, device: None };
        let found = each_setting(&context, &[10, 20], |setting, seed| Ok(setting + seed)).unwrap();
        assert_eq!(found[0], (2010..2018).collect::<Vec<u64>>());
        assert_eq!(found[1], (2020..2028).collect::<Vec<u64>>());
        assert_eq!(each_seed(&Context::default(), Ok).unwrap(), [0]);
    }

    #[test]
    fn one_run_has_no_interval_and_equal_shares_have_the_exact_one() {
        assert_eq!(number("x", &[0.25]).interval, None);
        let (low, high) = share("x", &[1.0; 8], 100).interval.unwrap();
        assert!((low - 0.025f64.powf(1.0 / 800.0)).abs() < 1e-9 && high == 1.0);
        assert_eq!(less("x", &[1.0, 3.0], &[0.5, 0.5]).value, 1.5);
    }
}
