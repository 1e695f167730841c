//! That it learns, and what must not change a bit of what is learnt.

use crate::tiny::*;
use regard_engine::{Cpu, Store};
use regard_graph::Precision;
use regard_train::*;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn losses(outcome: &Outcome) -> Vec<f64> {
    outcome.history.steps.iter().map(|record| record.loss).collect()
}

#[test]
fn every_optimizer_learns_in_both_precisions() {
    let sgd = Optimizer::Sgd(Sgd { momentum: 0.9, nesterov: false, weight_decay: 1e-4 });
    for (optimizer, learning_rate) in [(Optimizer::AdamW(AdamW::default()), 0.02), (sgd, 0.1)] {
        for precision in [Precision::F32, Precision::Bf16] {
            let settings = Settings { optimizer, learning_rate, precision, ..settings(150) };
            let mut trial = Trial::new(settings);
            trial.evaluation = Some(Points { seed: 99, ..POINTS });
            let (outcome, _) = trial.run().unwrap();
            assert_eq!((outcome.end.clone(), outcome.state.step), (End::Complete, 150));
            let losses = losses(&outcome);
            assert!(losses[0] > 1.0, "it begins knowing nothing: {}", losses[0]);
            let evaluations = &outcome.history.evaluations;
            assert_eq!(evaluations.len(), 15, "at the end of every epoch");
            let (name, last) = &evaluations.last().unwrap().metrics[0];
            assert!(name == "loss" && *last < 0.1, "{optimizer:?} {precision:?}: {last}");
        }
    }
}

#[test]
fn threads_and_the_frequency_of_lines_change_no_bit() {
    let run = |threads: usize, log_every: u64| {
        let settings = Settings { log_every, ..settings(23) };
        let mut trial = Trial { threads, ..Trial::new(settings) };
        trial.source = Points { batch: 70, ..POINTS };
        let (outcome, store) = trial.run().unwrap();
        (outcome.history.steps.len(), bits(&store))
    };
    let (lines, wanted) = run(1, 1);
    assert_eq!(lines, 23);
    let (lines, got) = run(3, 7);
    assert_eq!(lines, 3);
    assert!(got == wanted, "three threads and a line for every seventh step give other bits");
}

#[test]
fn evaluating_changes_no_bit() {
    let (_, wanted) = Trial::new(settings(20)).run().unwrap();
    let settings = Settings { evaluate: Every::Steps(3), ..settings(20) };
    let mut trial = Trial::new(settings);
    trial.evaluation = Some(POINTS);
    let (outcome, got) = trial.run().unwrap();
    let at: Vec<u64> = outcome.history.evaluations.iter().map(|record| record.step).collect();
    assert_eq!(at, [3, 6, 9, 12, 15, 18, 20]);
    assert!(bits(&got) == bits(&wanted));
}

#[test]
fn the_schedule_counts_tokens_with_padding() {
    let schedule = Schedule { shape: Shape::Linear, unit: Unit::Tokens, warm_up: 24, end: 120, floor: 0.0 };
    let settings = Settings { learning_rate: 1.0, schedule, clip: Some(0.01), ..settings(10) };
    let (outcome, _) = Trial::new(settings).run().unwrap();
    let rates: Vec<f64> = outcome.history.steps.iter().map(|record| record.rate).collect();
    assert_eq!(rates, [0.5, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0]);
    assert_eq!(outcome.state.tokens, 120);
}

/// Gives the numbers of a list, one at each examination.
struct Scores(Vec<f64>);

impl Examiner for Scores {
    fn examine(
        &mut self,
        _step: u64,
        _store: &mut Store,
    ) -> Result<Vec<(String, f64)>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(vec![("accuracy".into(), self.0.remove(0))])
    }
}

#[test]
fn it_stops_when_patience_is_at_an_end() {
    let goal = Goal { metric: "accuracy".into(), higher: true, patience: Some(2) };
    let settings = Settings { evaluate: Every::Steps(2), goal, ..settings(100) };
    let mut scores = Scores(vec![0.1, 0.3, 0.2, 0.4, f64::NAN, 0.4, 0.9]);
    let stop = AtomicBool::new(false);
    let (outcome, _) = Trial::new(settings).run_with(&mut Silent, Some(&mut scores), &stop).unwrap();
    assert_eq!((outcome.end.clone(), outcome.state.step), (End::EarlyStop, 12));
    assert_eq!((outcome.state.best, outcome.state.best_step), (Some(0.4), 8));
    let best: Vec<bool> = outcome.history.evaluations.iter().map(|record| record.best).collect();
    assert_eq!(best, [true, true, false, true, false, false]);
    assert_eq!(
        outcome.sentence(None),
        "stopped at step 12: no better for 2 evaluations, the best is that of step 8"
    );
}

#[test]
fn a_flag_ends_the_run_after_the_step_at_hand() {
    let stop = AtomicBool::new(false);
    let (outcome, _) = Trial::new(settings(100)).run_with(&mut StopAt(7, &stop), None, &stop).unwrap();
    assert_eq!((outcome.end.clone(), outcome.state.step), (End::Interrupted, 7));
    assert_eq!(outcome.sentence(None), "interrupted at step 7");
}

#[test]
fn a_second_stage_goes_on_from_the_first_with_new_moments() {
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(11));
    let stage = |seed: u64, store: &mut Store| {
        let mut trainer = Trainer::new(&SMALL, settings(30), store, &cpu).unwrap();
        assert!(store.f32("adamw.m.head.weight").unwrap().iter().all(|&m| m == 0.0));
        let run = Run::new(Arc::new(Points { seed, ..POINTS }));
        losses(&trainer.run(store, run).unwrap())
    };
    let first = stage(5, &mut store);
    let second = stage(6, &mut store);
    assert!(second[0] < 0.5 * first[0], "{} then {}", first[0], second[0]);
}

/// Keeps what it hears first.
#[derive(Default)]
struct Heard(Option<(u64, Prediction)>);

impl Listener for Heard {
    fn began(&mut self, step: u64, prediction: &Prediction) {
        assert!(self.0.replace((step, prediction.clone())).is_none());
    }
}

#[test]
fn memory_and_time_are_predicted_before_the_first_step() {
    let mut heard = Heard::default();
    let stop = AtomicBool::new(false);
    let mut trial = Trial::new(Settings { length: Length::Epochs(3), micro_batches: 4, ..settings(1) });
    trial.evaluation = Some(POINTS);
    trial.run_with(&mut heard, None, &stop).unwrap();
    let (step, prediction) = heard.0.unwrap();
    assert_eq!(
        (step, prediction.steps),
        (0, 9),
        "three windows of at most four batches for each of three epochs"
    );
    // Parameters, two moments and a sum of gradients for each.
    let parameters = (16 * FEATURES + 16 + CLASSES * 16) as u64;
    assert!(prediction.stored >= 4 * 4 * parameters, "{prediction:?}");
    assert!(prediction.arena > 0 && prediction.memory() > prediction.stored);
    assert!(prediction.step_seconds.unwrap() > 0.0);
    assert_eq!(prediction.seconds(9), Some(0.0));
}
