//! What others use of training by itself: feeding a batch, the loss of a source, a checkpoint.

use regard_data::{Batch, Field, Source};
use regard_device::Level;
use regard_engine::{Cpu, Program, Store};
use regard_graph::{DType, Graph, Init, Precision, Result, Var};
use regard_ops::prelude::*;
use regard_train::{Evaluator, Mode, Snapshot, Task, feed};
use std::path::Path;
use std::sync::Arc;

fn cpu() -> Cpu {
    Cpu::with(1, Level::best()).unwrap()
}

/// scale · Σ w·x, with weights of 1.
struct Sum;

impl Task for Sum {
    fn record(&self, g: &mut Graph, scale: Var, _: Mode) -> Result<Var> {
        let x = g.input("x", DType::F32, [2])?;
        let w = g.parameter("w", [2], Init::Ones)?;
        let sum = g.mul(x, w)?;
        let sum = g.sum_all(sum)?;
        g.mul(sum, scale)
    }
}

/// Batches of one field; none if there is no such field.
struct Batches(usize, Option<&'static str>);

impl Source for Batches {
    fn batches(&self, _: u64) -> usize {
        self.0
    }

    fn batch(&self, _: u64, index: usize) -> regard_data::Result<Batch> {
        let Some(name) = self.1 else {
            return regard_data::dataset::Lines::open("a file that is not there").map(|_| Batch::default());
        };
        let fields = vec![Field::f32(name, &[2], vec![1.0, index as f32])];
        Ok(Batch { fields, targets: 2, tokens: 2, examples: 1 })
    }
}

#[test]
fn losses_of_nothing_and_of_other_shapes() {
    let mut foreign = Store::new(0);
    foreign.declare("w", [3], Init::Zeros).unwrap();
    let message = Evaluator::new(&Sum, Precision::F32, &mut foreign, &cpu()).err().unwrap().to_string();
    assert!(message.contains('w') && message.contains("[3]"), "{message}");
    let mut store = Store::new(0);
    let mut evaluator = Evaluator::new(&Sum, Precision::F32, &mut store, &cpu()).unwrap();
    let source = |batches: usize, name| Arc::new(Batches(batches, name)) as Arc<dyn Source>;
    let mut loss = |source: Arc<dyn Source>| evaluator.loss(&source, &mut store, None);
    // Sums of 1 + index, over two targets each.
    assert_eq!(loss(source(2, Some("x"))).unwrap(), Some(((1.0 + 2.0) / 4.0, 4)));
    let message = loss(source(0, Some("x"))).unwrap_err().to_string();
    assert!(message.starts_with("the evaluation source has no targets"), "{message}");
    let message = loss(source(1, None)).unwrap_err().to_string();
    assert!(message.contains("a file that is not there"), "{message}");
}

#[test]
fn a_field_of_an_earlier_batch_is_never_taken() {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let y = g.input("own", DType::F32, [2]).unwrap();
    let sum = g.add(x, y).unwrap();
    g.output("sum", sum).unwrap();
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &cpu()).unwrap();
    let batch = |names: &[&'static str]| {
        let fields = names.iter().map(|name| Field::f32(name, &[2], vec![1.0, 2.0])).collect();
        Batch { fields, ..Batch::default() }
    };
    program.set_f32("own", &[2], &[10.0, 20.0]).unwrap();
    // Nobody asked for z.
    feed(&mut program, &batch(&["x", "z"]), &["own"]).unwrap();
    program.run(&mut store).unwrap();
    assert_eq!(program.array("sum").unwrap().data(), [11.0, 22.0]);
    assert_eq!(
        feed(&mut program, &batch(&["z"]), &["own"]).unwrap_err().to_string(),
        "the task asks for `x` (f32 [2]), which the batch has not; the batch has z; let source and task agree on names"
    );
    let message = feed(&mut program, &batch(&["x"]), &[]).unwrap_err().to_string();
    assert!(message.starts_with("the task asks for `own`"), "{message}");
}

#[test]
fn what_is_no_checkpoint_of_a_run_is_refused() {
    let message = Snapshot::open(Path::new("no/such/file.safetensors")).unwrap_err().to_string();
    assert!(message.contains("no/such/file.safetensors"), "{message}");
}
