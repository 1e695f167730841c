//! Small trained experiments: a tiny Transformer whose every part can be changed or left out ([`Tiny`]), tasks whose answers
//! are known ([`Task`]), training by AdamW on the CPU engine, and a look at what was learned. Everything follows from a
//! seed; one thread, so that experiments can run beside each other.

mod look;
mod tasks;
mod tiny;
mod train;

pub use look::{Pattern, patterns, spearman};
pub use tasks::{Batch, Task};
pub use tiny::{Encoding, Middle, Model, Norming, Tiny};
pub use train::{Score, Trained, Training, evaluate, one_cpu, train, train_on};

use crate::statistics::{Estimate, mean};
use crate::{Context, Effort};

/// The seeds of a trained experiment: one when quick, so many in full.
pub fn seeds(context: &Context, full: usize) -> Vec<u64> {
    (0..context.size(1, full) as u64).map(|at| context.seed.wrapping_mul(1000).wrapping_add(at)).collect()
}

/// The mean over seeds, with its interval where there are several.
pub fn over_seeds(numbers: &[f64]) -> Estimate {
    match numbers {
        [one] => Estimate { value: *one, low: *one, high: *one },
        many => mean(many),
    }
}

/// What a summary says about how far a trained result carries.
pub fn carries(context: &Context, seeds: usize) -> String {
    match context.effort {
        Effort::Quick => "One short run: indicative. `--full` trains longer and over several seeds.".into(),
        Effort::Full => format!("{seeds} seeds."),
    }
}

/// A model of two layers and four heads that has learned to go on with repeating sequences, as several claims look at.
pub fn induction(context: &Context, seed: u64) -> regard::Result<(Model, Trained)> {
    let tiny = Tiny { layers: 2, heads: 4, causal: true, ..Tiny::new(INDUCTION.vocabulary(), 32) };
    let model = Model::new(tiny)?;
    let steps = context.size(450, 2500);
    let training = Training { seed, steps, batch: 16, length: INDUCTION_LENGTH, rate: 4e-3, watch: &[] };
    let trained = train(&model, INDUCTION, &training)?;
    Ok((model, trained))
}

/// The task of [`induction`].
pub const INDUCTION: Task = Task::Induction { symbols: 16 };

/// The length of its sequences.
pub const INDUCTION_LENGTH: usize = 16;
