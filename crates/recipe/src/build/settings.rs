//! From `[train]` to the settings of the loop.

use crate::language::{OptimizerRecipe, PrecisionRecipe, Recipe, ScheduleRecipe};
use regard_graph::Precision;
use regard_train::{AdamW, Every, Goal, Group, Length, Optimizer, Schedule, Settings, Sgd, Shape, Unit};

/// How products are computed.
pub(crate) fn precision(recipe: &Recipe) -> Precision {
    match recipe.train.precision {
        PrecisionRecipe::F32 => Precision::F32,
        PrecisionRecipe::Bf16 => Precision::Bf16,
    }
}

/// The settings of a run whose epochs have this many steps. `goal` is the metric by which the best is chosen, and whether
/// more of it is better.
pub(crate) fn settings(recipe: &Recipe, steps_per_epoch: u64, goal: (&str, bool)) -> Settings {
    let train = &recipe.train;
    let length = match train.steps {
        Some(steps) => Length::Steps(steps),
        None => Length::Epochs(train.epochs),
    };
    let steps = match length {
        Length::Steps(steps) => steps,
        Length::Epochs(epochs) => epochs.saturating_mul(steps_per_epoch),
    };
    let weight_decay = train.weight_decay;
    let optimizer = match train.optimizer {
        OptimizerRecipe::Adamw => {
            let [beta1, beta2] = train.betas;
            Optimizer::AdamW(AdamW { beta1, beta2, epsilon: train.epsilon, weight_decay })
        }
        OptimizerRecipe::Sgd => {
            Optimizer::Sgd(Sgd { momentum: train.momentum, nesterov: false, weight_decay })
        }
    };
    let shape = match train.schedule {
        ScheduleRecipe::Constant => Shape::Constant,
        ScheduleRecipe::Linear => Shape::Linear,
        ScheduleRecipe::Cosine => Shape::Cosine,
    };
    let (unit, warm_up, end) = match (train.warmup_tokens, train.decay_tokens) {
        (0, None) => (Unit::Steps, train.warmup_steps, steps),
        (warm_up, end) => (Unit::Tokens, warm_up, end.unwrap_or(u64::MAX)),
    };
    let frozen = recipe.from.freeze.iter().map(Group::frozen);
    let others = train.groups.iter().map(|group| Group {
        rate: group.lr.unwrap_or(1.0),
        weight_decay: group.weight_decay,
        frozen: group.lr == Some(0.0),
        ..Group::of(&group.pattern)
    });
    let every = |steps: Option<u64>| steps.map_or(Every::Epochs(1), Every::Steps);
    Settings {
        optimizer,
        groups: frozen.chain(others).collect(),
        learning_rate: train.lr,
        // A warm-up as long as the run leaves nothing to come down in.
        schedule: Schedule { shape, unit, warm_up, end: end.max(warm_up + 1), floor: train.floor },
        clip: (train.clip > 0.0).then_some(train.clip),
        precision: precision(recipe),
        micro_batches: train.micro_batch.map_or(1, |micro| train.batch / micro),
        length,
        seed: recipe.seed,
        evaluate: every(train.evaluate_every),
        save: every(train.checkpoint_every),
        goal: Goal { metric: goal.0.into(), higher: goal.1, patience: train.patience },
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_recipe_says_is_what_the_loop_does() {
        let text = "seed = 4\n[train]\nlr = 0.5\nbatch = 8\nmicro_batch = 2\nepochs = 3\nwarmup_steps = 5\nclip = 0.0\n\
                    patience = 2\nevaluate_every = 7\n[[train.groups]]\npattern = \"head.*\"\nlr = 10.0\n\
                    [from]\nfreeze = [\"token*\"]\n";
        let recipe = Recipe::parse(text, "x", &[]).unwrap();
        let settings = settings(&recipe, 10, ("accuracy", true));
        assert_eq!((settings.learning_rate, settings.micro_batches, settings.seed), (0.5, 4, 4));
        assert_eq!((settings.length, settings.clip), (Length::Epochs(3), None));
        assert_eq!((settings.schedule.warm_up, settings.schedule.end), (5, 30));
        assert_eq!((settings.evaluate, settings.save), (Every::Steps(7), Every::Epochs(1)));
        assert!(settings.groups[0].frozen && settings.groups[0].pattern == "token*");
        assert_eq!((settings.groups[1].rate, settings.groups[1].frozen), (10.0, false));
        assert_eq!(settings.goal, Goal { metric: "accuracy".into(), higher: true, patience: Some(2) });
    }
}
