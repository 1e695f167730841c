//! From `[train]` to the settings of the training loop.

use super::model::word;
use crate::language::{DecayRecipe, Kind, OptimizerRecipe, PrecisionRecipe, Recipe, ScheduleRecipe};
use regard_graph::Precision;
use regard_train::{
    AdamW, Decay, Every, Goal, Group, Length, Optimizer, Schedule, Settings, Sgd, Shape, Unit,
};

/// How products are computed.
pub(crate) fn precision(recipe: &Recipe) -> Precision {
    match recipe.train.precision {
        PrecisionRecipe::F32 => Precision::F32,
        PrecisionRecipe::Bf16 => Precision::Bf16,
    }
}

/// What the settings need to know about the batches of a stage.
pub(super) struct Extent {
    /// Batches of an epoch, each a micro-batch.
    pub batches: u64,
    /// Tokens of one of them, about.
    pub tokens: u64,
    /// Whether there is anything to examine with.
    pub examined: bool,
}

/// The settings of one stage.
pub(super) fn settings(recipe: &Recipe, extent: Extent) -> Settings {
    let Extent { batches, tokens, examined } = extent;
    let train = &recipe.train;
    let micro_batches = train.micro_batch.map_or(1, |micro| train.batch / micro.max(1)).max(1);
    let steps_of_epoch = batches.div_ceil(micro_batches as u64).max(1);
    let steps = train.steps.unwrap_or(train.epochs * steps_of_epoch);
    let optimizer = match train.optimizer {
        OptimizerRecipe::Adamw => Optimizer::AdamW(AdamW {
            beta1: train.betas[0],
            beta2: train.betas[1],
            epsilon: train.epsilon,
            weight_decay: train.weight_decay,
        }),
        OptimizerRecipe::Sgd => Optimizer::Sgd(Sgd {
            momentum: train.momentum,
            nesterov: false,
            weight_decay: train.weight_decay,
        }),
    };
    let mut groups: Vec<Group> = recipe.from.freeze.iter().map(Group::frozen).collect();
    groups.extend(train.groups.iter().map(|group| {
        let rate = group.lr.unwrap_or(1.0);
        Group { rate, weight_decay: group.weight_decay, frozen: rate == 0.0, ..Group::of(&group.pattern) }
    }));
    let by_tokens = train.warmup_tokens > 0 || train.decay_tokens.is_some();
    let (unit, warm_up, end) = match (by_tokens, train.decay_tokens) {
        (true, Some(end)) => (Unit::Tokens, train.warmup_tokens, end),
        (true, None) => {
            let all = steps.saturating_mul(micro_batches as u64).saturating_mul(tokens);
            (Unit::Tokens, train.warmup_tokens, all.max(train.warmup_tokens + 1))
        }
        (false, _) => (Unit::Steps, train.warmup_steps.min(steps.saturating_sub(1)), steps),
    };
    let shape = match train.schedule {
        ScheduleRecipe::Constant => Shape::Constant,
        ScheduleRecipe::Linear => Shape::Linear,
        ScheduleRecipe::Cosine => Shape::Cosine,
        ScheduleRecipe::InverseRoot => Shape::InverseRoot,
    };
    // What a shape does not look at must not stand in the way of making a run longer.
    let end = if matches!(shape, Shape::Constant | Shape::InverseRoot) { 0 } else { end };
    let (metric, higher) = match recipe.task {
        Kind::Classify | Kind::Images => ("accuracy", true),
        Kind::Translate => ("bleu", true),
        Kind::Contrast => ("mrr", true),
        Kind::Language | Kind::Masked => ("loss", false),
    };
    let evaluate = match (examined, train.evaluate_every) {
        (false, _) => Every::End,
        (true, Some(steps)) => Every::Steps(steps.max(1)),
        (true, None) => Every::Epochs(1),
    };
    let log_every = train.log_every.unwrap_or(1).max(1);
    Settings {
        optimizer,
        groups,
        decay: match train.decay {
            DecayRecipe::Matrices => Decay::Matrices,
            DecayRecipe::NotBiases => Decay::NotBiases,
            DecayRecipe::Everything => Decay::Everything,
        },
        learning_rate: train.lr,
        schedule: Schedule { shape, unit, warm_up, end, floor: train.floor },
        clip: (train.clip > 0.0).then_some(train.clip),
        precision: precision(recipe),
        micro_batches,
        length: match train.steps {
            Some(steps) => Length::Steps(steps),
            None => Length::Epochs(train.epochs),
        },
        seed: recipe.seed,
        evaluate,
        save: match (train.checkpoint_every, examined) {
            (Some(steps), _) => Every::Steps(steps.max(1)),
            (None, true) => evaluate,
            // A run that nobody examines is to be resumed all the same.
            (None, false) => Every::Epochs(1),
        },
        goal: Goal { metric: metric.into(), higher, patience: train.patience },
        log_every,
        read_every: log_every,
        about: vec![("task".into(), word(recipe.task))],
        ..Settings::default()
    }
}
