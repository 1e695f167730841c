//! A model in bf16 against PyTorch's autocast, on the training batch of a golden: logits, loss, every
//! gradient and ten steps of training, each held to the exact numbers as closely as PyTorch's own.
//!
//! Two engines that round to bf16 do so in places of their own, so that their numbers are apart by the
//! roundings of both. What can be asked is that ours are no further from the exact ones than theirs.

use crate::parity::{Golden, Tensors, folder};
use crate::parity_training::layer_of;
use regard::check::largest;
use regard::ops::AdamW;
use regard::prelude::*;
use regard::{Result, graph};
use regard_models::import::Import;
use std::collections::BTreeMap;

/// How many times PyTorch's error ours may be, in the root of the mean square.
const TIMES: f64 = 1.5;
/// The same for single numbers, whose rounding is luck.
const LUCK: f64 = 3.0;
/// Of the largest number of a layer: what one rounding to bf16 makes, allowed besides.
const ROUNDING: f64 = 1.0 / 512.0;
/// The most that anything may be off by, of the largest number of a layer.
const CAP: f64 = 0.05;

/// Compares a model in bf16 with `bf16.safetensors` of a case. `loss` and `logits` record, with inputs that
/// `feed` sets; the logits must be 0 where the golden's are, at padding.
pub fn check_bf16(
    case: &str,
    table: &[Import],
    loss: impl Fn(&mut Graph) -> graph::Result<Var>,
    logits: impl Fn(&mut Graph) -> graph::Result<Var>,
    feed: impl Fn(&mut Program) -> Result<()>,
) -> Result<()> {
    let golden = Golden::read(case);
    let theirs = Tensors::read(&folder(case).join("bf16.safetensors"));
    let (exact, cpu, mut store) = (&golden.answers, Cpu::new()?, Store::new(0));

    let mut g = Graph::inference();
    g.set_precision(Precision::Bf16);
    let scores = logits(&mut g)?;
    g.output("logits", scores)?;
    let mut program = Program::new(g, &[], &mut store, &cpu)?;
    golden.weights.fill(&mut store, table);
    feed(&mut program)?;
    program.run(&mut store)?;
    let (ours, wanted) = (program.array("logits")?, exact.get("exact.logits"));
    let error =
        as_good(&format!("{case}: logits"), &ours, theirs.get("logits"), wanted, largest(wanted.data()));
    assert!(error > 1e-4, "{case}: logits are off by {error:.1e} only: nothing was rounded to bf16");

    let mut program = step(&loss, &mut store, &cpu)?;
    feed(&mut program)?;
    let mut losses = Vec::new();
    for number in 1..=10 {
        program.set_i32("step", &[], &[number])?;
        program.run(&mut store)?;
        losses.push(f64::from(program.scalar("loss")?));
        if number == 1 {
            check_gradients(case, &program, table, exact, &theirs)?;
        }
    }
    let wanted = exact.get("exact.losses");
    let ours = Array::new(&[losses.len()], losses).expect("ten losses");
    as_good(&format!("{case}: ten losses"), &ours, theirs.get("losses"), wanted, largest(wanted.data()));
    Ok(())
}

/// A step of AdamW in bf16, with loss and gradients as outputs.
fn step(loss: &dyn Fn(&mut Graph) -> graph::Result<Var>, store: &mut Store, cpu: &Cpu) -> Result<Program> {
    let mut g = Graph::new();
    g.set_precision(Precision::Bf16);
    let value = loss(&mut g)?;
    g.output("loss", value)?;
    let (rate, number) = (g.input("rate", DType::F32, shape![])?, g.input("step", DType::I32, shape![])?);
    let parameters = g.parameters();
    let gradients = g.gradient(value, &parameters)?;
    for (&parameter, &gradient) in parameters.iter().zip(&gradients) {
        let stored = g.value(parameter).version_of.expect("a parameter is stored");
        let name = format!("gradient.{}", g.stored()[stored].name);
        g.output(&name, gradient)?;
    }
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW::default(), rate, number, None)?;
    let mut program = Program::new(g, &[], store, cpu)?;
    program.set_f32("rate", &[], &[1e-3])?;
    Ok(program)
}

fn check_gradients(
    case: &str,
    program: &Program,
    table: &[Import],
    exact: &Tensors,
    theirs: &Tensors,
) -> Result<()> {
    let numbers = |tensors: &Tensors, import: &Import| -> Vec<f64> {
        tensors.ours(import, "gradient.").into_iter().map(f64::from).collect()
    };
    let mut most: BTreeMap<&str, f64> = BTreeMap::new();
    for import in table {
        let entry = most.entry(layer_of(&import.ours)).or_default();
        *entry = entry.max(largest(&numbers(exact, import)));
    }
    for import in table {
        let name = format!("gradient.{}", import.ours);
        let ours = program.array(&name)?;
        let like = |numbers: Vec<f64>| Array::new(&ours.dims(), numbers).expect("as many numbers as ours");
        let (theirs, wanted) = (like(numbers(theirs, import)), like(numbers(exact, import)));
        as_good(&format!("{case}: {name}"), &ours, &theirs, &wanted, most[layer_of(&import.ours)]);
    }
    Ok(())
}

/// Panics unless ours are as close to what is exact as theirs; how far they are, relative to `scale`.
fn as_good(what: &str, ours: &Array, theirs: &Array, exact: &Array, scale: f64) -> f64 {
    assert_eq!((ours.dims(), theirs.dims()), (exact.dims(), exact.dims()), "{what}");
    let apart = |array: &Array| -> (f64, f64) {
        let differences: Vec<f64> = array.data().iter().zip(exact.data()).map(|(x, y)| x - y).collect();
        let squares: f64 = differences.iter().map(|x| x * x).sum();
        ((squares / differences.len() as f64).sqrt() / scale, largest(&differences) / scale)
    };
    let ((ours, worst), (theirs, their_worst)) = (apart(ours), apart(theirs));
    let (most, most_of_one) = (TIMES * theirs + ROUNDING / 4.0, LUCK * their_worst + ROUNDING);
    assert!(
        ours <= most.min(CAP) && worst <= most_of_one.min(CAP),
        "{what}: off by {ours:.1e} (one number by {worst:.1e}), PyTorch by {theirs:.1e} ({their_worst:.1e})"
    );
    ours
}
