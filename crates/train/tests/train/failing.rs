//! Numbers that fail: which layer is named, and what is left afterwards.

use crate::tiny::*;
use regard_data::{Batch, Field, Source, Values};
use regard_engine::{Cpu, Store};
use regard_graph::{DType, Graph, Init, Pass, Var};
use regard_ops::prelude::*;
use regard_train::*;
use std::sync::Arc;

/// Two layers of which the second squares: large inputs overflow there and nowhere before.
pub struct Squares;

impl Task for Squares {
    fn record(&self, g: &mut Graph, scale: Var, _mode: Mode) -> regard_graph::Result<Var> {
        let x = g.input("x", DType::F32, [4])?;
        let x = g.scope("layer.0", |g| {
            let w = g.parameter("layer.0.weight", [4], Init::Constant(0.5))?;
            g.mul(x, w)
        })?;
        let x = g.scope("layer.1", |g| g.mul(x, x))?;
        let x = g.mul(x, scale)?;
        g.sum_all(x)
    }
}

/// Forward it underflows to 0, backward it overflows: 1e25 times 1e25.
struct Backward;

impl Task for Backward {
    fn record(&self, g: &mut Graph, scale: Var, _mode: Mode) -> regard_graph::Result<Var> {
        let x = g.input("x", DType::F32, [4])?;
        let w = g.parameter("weight", [4], Init::Constant(0.5))?;
        let x = g.mul(x, w)?;
        let twice = |g: &mut Graph, x: Var, by: f32| {
            let x = g.scale(x, by)?;
            g.scale(x, by)
        };
        let x = g.scope("early", |g| twice(g, x, 1e-25))?;
        let x = g.scope("late", |g| twice(g, x, 1e25))?;
        let x = g.mul(x, scale)?;
        g.sum_all(x)
    }
}

pub fn batch(x: [f32; 4]) -> Batch {
    Batch { fields: vec![Field::f32("x", &[4], x.to_vec())], targets: 1, tokens: 4, examples: 1 }
}

/// Batches from a list, over and over.
pub struct Listed(pub Vec<Batch>);

impl Source for Listed {
    fn batches(&self, _epoch: u64) -> usize {
        self.0.len()
    }

    fn batch(&self, _epoch: u64, index: usize) -> Result<Batch, regard_data::Error> {
        Ok(self.0[index].clone())
    }
}

fn find(task: &dyn Task, x: [f32; 4], change: impl FnOnce(&mut Store)) -> Finding {
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let settings = settings(1);
    Trainer::new(task, settings.clone(), &mut store, &cpu).unwrap();
    change(&mut store);
    first_not_finite(task, &settings, &[batch([1.0; 4]), batch(x)], 1, &mut store, &cpu).unwrap()
}

#[test]
fn the_first_layer_to_fail_is_named() {
    let found = find(&Squares, [1.0, 1e30, 1.0, 1e30], |_| ());
    let wanted = Finding::Node {
        name: "layer.1.mul".into(),
        pass: Pass::Forward,
        number: f64::INFINITY,
        count: 2,
        of: 4,
    };
    assert_eq!(found, wanted);
    assert_eq!(
        found.to_string(),
        "the first layer to fail is `layer.1.mul` (forward), inf in 2 of its 4 numbers"
    );

    let found = find(&Backward, [1.0; 4], |_| ());
    let Finding::Node { name, pass: Pass::Backward, .. } = &found else { panic!("{found:?}") };
    assert!(name.starts_with("late."), "{name}");

    let found = find(&Squares, [1.0, f32::NAN, 1.0, 1.0], |_| ());
    assert_eq!(found.to_string(), "the input `x` already holds NaN, at place 1");
    let found = find(&Squares, [1.0; 4], |store| {
        store.set_f32("layer.0.weight", &[1.0, 1.0, f32::NEG_INFINITY, 1.0]).unwrap();
    });
    assert_eq!(found.to_string(), "the parameter `layer.0.weight` already holds -inf, at place 2");
    let found = find(&Squares, [1.0; 4], |_| ());
    assert_eq!(found, Finding::Nothing);
    assert_eq!(found.to_string(), "each layer by itself is finite, their sum or its square is not");
}

#[test]
fn a_run_that_fails_says_where_and_keeps_the_last_good_checkpoint() {
    for micro_batches in [1, 2] {
        let temporary = Temporary::new(&format!("fails-{micro_batches}"));
        let folder = RunFolder::create(temporary.path(), "").unwrap();
        let mut batches = vec![batch([1.0, 2.0, 3.0, 4.0]); 3 * micro_batches];
        batches.push(batch([1.0, 1e30, 1.0, 1.0]));
        let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
        let settings = Settings { save: Every::Steps(1), micro_batches, ..settings(10) };
        let mut trainer = Trainer::new(&Squares, settings, &mut store, &cpu).unwrap();
        let mut run = Run::new(Arc::new(Listed(batches)));
        run.folder = Some(&folder);
        let error = trainer.run(&mut store, run).unwrap_err();
        let text = error.to_string();
        for part in [
            "step 4: the loss is inf: the first layer to fail is `layer.1.mul` (forward), inf in 1 of its 4 numbers",
            "lower the learning rate",
            "the checkpoint of step 3 is kept in",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let weight = store.f32("layer.0.weight").unwrap().to_vec();
        assert!(weight.iter().all(|x| x.is_finite()), "the failing step changes nothing");
        let kept = regard_data::Checkpoint::open(folder.last()).unwrap();
        assert_eq!(kept.get("layer.0.weight").unwrap().f32s(), weight);
        assert_eq!(History::read(&folder.metrics()).unwrap().steps.len(), 3);
    }
}

#[test]
fn a_loss_that_stays_far_above_its_best_stops_the_run() {
    let mut batches = vec![batch([1.0; 4]); 3];
    batches.extend(vec![batch([100.0; 4]); 10]);
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let divergence = Some(Divergence { factor: 10.0, steps: 3 });
    let settings = Settings { divergence, learning_rate: 1e-6, ..settings(13) };
    let mut trainer = Trainer::new(&Squares, settings, &mut store, &cpu).unwrap();
    let text = trainer.run(&mut store, Run::new(Arc::new(Listed(batches)))).unwrap_err().to_string();
    assert!(text.starts_with("step 6: the loss is "), "{text}");
    assert!(text.contains("and has been above 10 times its best (1.0000) for 3 steps; lower the"), "{text}");
}

#[test]
fn batches_and_tasks_must_agree() {
    let fail = |batch: Batch| {
        let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
        let mut trainer = Trainer::new(&Squares, settings(2), &mut store, &cpu).unwrap();
        trainer.run(&mut store, Run::new(Arc::new(Listed(vec![batch])))).unwrap_err().to_string()
    };
    let named = |name: &'static str| Batch {
        fields: vec![Field { name, ..batch([1.0; 4]).fields[0].clone() }],
        ..batch([1.0; 4])
    };
    assert_eq!(
        fail(named("y")),
        "the task asks for `x` (f32 [4]), which the batch has not; the batch has y; let source and task agree on names"
    );
    assert_eq!(
        fail(Batch { targets: 0, ..batch([1.0; 4]) }),
        "no target counts in the batch of step 1; check what the source masks: a batch without targets teaches nothing"
    );
    let integers = Field { name: "x", dims: vec![4], values: Values::I32(vec![1; 4]) };
    let text = fail(Batch { fields: vec![integers], ..batch([1.0; 4]) });
    assert!(text.contains("`x` is i32 numbers, expected f32 [4]"), "{text}");
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut trainer = Trainer::new(&Squares, settings(2), &mut store, &cpu).unwrap();
    let text = trainer.run(&mut store, Run::new(Arc::new(Listed(vec![])))).unwrap_err().to_string();
    assert_eq!(text, "the source has no batches; give it data, or a smaller batch");
}
