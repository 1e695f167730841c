//! Reading the loss of some steps only: what must not change, what is said of the steps in between, and when
//! it is noticed that something went wrong there.

use crate::failing::{Listed, Squares, batch};
use crate::tiny::*;
use regard_engine::{Cpu, Store};
use regard_train::*;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn reading(read_every: u64, log_every: u64, settings: Settings) -> Settings {
    Settings { read_every, log_every, ..settings }
}

/// The bits of what is learnt: everything but the sum of losses.
fn learnt(store: &Store) -> Vec<(String, Vec<u32>)> {
    bits(store).into_iter().filter(|(name, _)| name != "trainer.loss_sum").collect()
}

#[test]
fn the_weights_and_the_losses_of_lines_are_the_same() {
    for micro_batches in [1, 3] {
        let base = Settings { micro_batches, ..settings(24) };
        let (every, store) = Trial::new(base.clone()).run().unwrap();
        let wanted = learnt(&store);
        assert!(store.names().all(|name| name != "trainer.loss_sum"), "nothing is summed up for nobody");
        assert!(every.history.steps.iter().all(|record| record.mean_loss.is_none()));
        for (read_every, log_every) in [(2, 2), (4, 4), (4, 8), (24, 24)] {
            let (some, store) = Trial::new(reading(read_every, log_every, base.clone())).run().unwrap();
            assert!(learnt(&store) == wanted, "read every {read_every}, {micro_batches} micro-batches");
            assert_eq!(some.history.steps.len() as u64, 24 / log_every);
            for record in &some.history.steps {
                let own = &every.history.steps[record.step as usize - 1];
                let same = |x: f64, y: f64| x.to_bits() == y.to_bits();
                assert!(same(record.loss, own.loss) && same(record.gradient_norm, own.gradient_norm));
                assert_eq!((record.step, record.epoch, record.tokens), (own.step, own.epoch, own.tokens));
                let since = &every.history.steps[(record.step - log_every) as usize..record.step as usize];
                let mean = since.iter().map(|record| record.loss).sum::<f64>() / log_every as f64;
                let got = record.mean_loss.unwrap();
                assert!((got - mean).abs() < 1e-6 * mean, "{got}, the losses have a mean of {mean}");
            }
        }
    }
}

#[test]
fn a_run_that_is_interrupted_between_readings_goes_on_with_its_sum() {
    let base = |steps| reading(4, 4, settings(steps));
    let (whole, store) = Trial::new(base(20)).run().unwrap();
    let path = Temporary::new("between-readings");
    let folder = RunFolder::create(path.path(), "").unwrap();
    let part = |steps| Trial { folder: Some(&folder), ..Trial::new(base(steps)) }.run().unwrap();
    // Steps 5, 6 and 7 are summed up in one process, step 8 in the next.
    part(7);
    let (resumed, again) = part(20);
    assert!(bits(&again) == bits(&store));
    let recorded = |outcome: &Outcome| -> Vec<_> {
        let steps = outcome.history.steps.iter();
        steps.map(|record| (record.step, record.loss, record.mean_loss)).collect()
    };
    assert_eq!(recorded(&resumed), recorded(&whole));
    // The sum of a run is part of it.
    let other = Trial { folder: Some(&folder), ..Trial::new(settings(30)) }.run();
    let text = other.err().unwrap().to_string();
    assert!(text.contains("read_every was `4`, is `1`"), "{text}");
}

/// A run over batches of which the fifth overflows.
fn failing(settings: Settings, folder: Option<&RunFolder>) -> String {
    let mut batches = vec![batch([1.0, 2.0, 3.0, 4.0]); 4];
    batches.push(batch([1.0, 1e30, 1.0, 1.0]));
    batches.extend(vec![batch([1.0, 2.0, 3.0, 4.0]); 7]);
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut trainer = Trainer::new(&Squares, settings, &mut store, &cpu).unwrap();
    let mut run = Run::new(Arc::new(Listed(batches)));
    run.folder = folder;
    trainer.run(&mut store, run).unwrap_err().to_string()
}

#[test]
fn what_is_not_finite_is_noticed_at_the_next_reading() {
    let text = failing(settings(12), None);
    assert!(text.starts_with("step 5: the loss is inf: the first layer to fail is `layer.1.mul`"), "{text}");
    let text = failing(reading(5, 5, settings(12)), None);
    assert!(text.starts_with("step 5: the loss is inf: the first layer to fail is `layer.1.mul`"), "{text}");
    let text = failing(reading(4, 4, settings(12)), None);
    let words = "step 8: the loss is inf: which layer failed first is not known: it was in a step before, of which nothing \
                 was read; lower the learning rate";
    assert!(text.starts_with(words), "{text}");
}

#[test]
fn nothing_is_saved_of_steps_that_were_not_looked_at() {
    let path = Temporary::new("not-looked-at");
    let folder = RunFolder::create(path.path(), "").unwrap();
    let text = failing(Settings { save: Every::Steps(3), ..reading(12, 12, settings(12)) }, Some(&folder));
    assert!(text.starts_with("step 6: the loss is inf"), "{text}");
    assert!(text.contains("the checkpoint of step 3 is kept in"), "{text}");
}

#[test]
fn a_loss_that_is_read_stands_for_the_steps_before_it() {
    let mut batches = vec![batch([1.0; 4]); 4];
    batches.extend(vec![batch([100.0; 4]); 12]);
    let divergence = Some(Divergence { factor: 10.0, steps: 4 });
    let settings = Settings { divergence, learning_rate: 1e-6, ..reading(2, 2, settings(16)) };
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut trainer = Trainer::new(&Squares, settings, &mut store, &cpu).unwrap();
    let text = trainer.run(&mut store, Run::new(Arc::new(Listed(batches)))).unwrap_err().to_string();
    assert!(text.starts_with("step 8: the loss is "), "{text}");
    assert!(text.contains("and has been above 10 times its best (1.0000) for 4 steps"), "{text}");
}

#[test]
fn intervals_that_make_no_sense() {
    let refused = |settings: Settings| Trial::new(settings).run().err().unwrap().to_string();
    assert_eq!(refused(reading(0, 1, settings(1))), "read_every is 0; give at least 1");
    assert_eq!(
        refused(reading(4, 6, settings(1))),
        "a line is due every 6 steps, the loss is read every 4; give a `log_every` that is a multiple of `read_every`"
    );
}

#[test]
fn an_interruption_looks_at_what_was_not_read() {
    let stop = AtomicBool::new(false);
    let trial = Trial::new(reading(5, 5, settings(20)));
    let (outcome, store) = trial.run_with(&mut StopAt(5, &stop), None, &stop).unwrap();
    assert_eq!((outcome.end, outcome.state.step, outcome.state.line), (End::Interrupted, 5, 5));
    assert_eq!(store.f32("trainer.loss_sum").unwrap(), [0.0]);
}
