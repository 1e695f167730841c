//! No input makes anything panic: every recording method with operands that mostly fit nothing, then every
//! reader and both engines on what could be recorded; and sizes that no machine has.

use regard::graph::Integers;
use regard::prelude::*;
use regard::reference::{Mode, run};
use regard::{cost, describe};
use regard_conformance::choices::Choices;
use regard_conformance::nonsense::{METHODS, Nonsense, Sizes};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Records nonsense; `doing` always says what is being done.
fn record(seed: u64, sizes: Sizes, g: &mut Graph, doing: &RefCell<String>) -> usize {
    let mut choices = Choices::new(seed ^ 0x5eed);
    let Ok(mut nonsense) = Nonsense::new(seed, sizes, g) else { panic!("leaves are always right") };
    let mut recorded = 0;
    for index in 0..30 {
        // The first calls go through all methods, one seed after the other.
        let method = if index < 3 { (3 * seed as usize + index) % METHODS } else { choices.below(METHODS) };
        *doing.borrow_mut() = format!("method {method}");
        recorded += usize::from(nonsense.step(g, method).is_ok());
    }
    for (index, &var) in nonsense.values().iter().enumerate() {
        *doing.borrow_mut() = format!("output {index}");
        let _ = g.output(&format!("y.{index}"), var);
    }
    *doing.borrow_mut() = "the gradient".into();
    let values = nonsense.values();
    let chosen = values[choices.below(values.len())];
    if let Ok(number) = g.sum_all(chosen) {
        let wrt = g.parameters();
        if let Ok(grads) = g.gradient(number, &wrt) {
            for (index, &grad) in grads.iter().enumerate() {
                let _ = g.output(&format!("grad.{index}"), grad);
            }
        }
    }
    recorded
}

/// Calls `body` and says which seed did what, should it panic.
fn watched<T>(seed: u64, body: impl FnOnce(&RefCell<String>) -> T) -> T {
    let doing = RefCell::new(String::new());
    match catch_unwind(AssertUnwindSafe(|| body(&doing))) {
        Ok(made) => made,
        Err(_) => panic!("seed {seed} panicked in {}", doing.borrow()),
    }
}

/// The readers that need no numbers.
fn read(g: &Graph, doing: &RefCell<String>, sizes: &regard::graph::Sizes) {
    *doing.borrow_mut() = "describe".into();
    let _ = (describe::text(g), describe::dot(g), describe::json(g), describe::parameter_count(g, ""));
    *doing.borrow_mut() = "cost".into();
    if let Ok(costs) = cost::cost(g, sizes, &Integers::none(), None) {
        let _ = (costs.total(), costs.table(None));
    }
}

/// Small numbers for an input, some of them outside of what ids and positions may be.
fn numbers(dims: &[usize], dtype: DType, choices: &mut Choices) -> Array {
    let count = dims.iter().product();
    let one = |choices: &mut Choices| match dtype {
        DType::F32 | DType::BF16 => choices.pick(&[0.5, -1.25, 3.0, 0.0, f64::NAN, f64::INFINITY]),
        DType::I32 => choices.pick(&[0.0, 0.0, 1.0, 1.0, 2.0, 3.0, -1.0, i32::MAX as f64, i32::MIN as f64]),
        DType::Bool => choices.below(2) as f64,
    };
    Array::new(dims, (0..count).map(|_| one(choices)).collect()).expect("as many as the shape says")
}

#[test]
fn nothing_panics_on_small_nonsense() {
    let cpu = Cpu::with(2, regard::device::Level::best()).unwrap();
    let (mut recorded, mut ran, mut both) = (0, 0, 0);
    for seed in 0..2000 {
        watched(seed, |doing| {
            let mut g = if seed % 3 == 0 { Graph::new() } else { Graph::inference() };
            recorded += record(seed, Sizes::Small, &mut g, doing);
            let mut choices = Choices::new(seed ^ 0xfeed);
            let sizes = [("B", choices.below(5)), ("T", choices.below(3))];
            let mut known = regard::graph::Sizes::none();
            for (letter, (_, size)) in g.letters().to_vec().into_iter().zip(sizes) {
                known.set(letter, size).unwrap();
            }
            read(&g, doing, &known);
            *doing.borrow_mut() = "feeding".into();
            let mut feed = Feed::new();
            let inputs: Vec<(String, Var)> = g.inputs().map(|(name, var)| (name.into(), var)).collect();
            for (name, var) in inputs {
                let dims = g.shape(var).at(&known).unwrap();
                feed = feed.with(&name, numbers(&dims, g.dtype(var), &mut choices));
            }
            *doing.borrow_mut() = "the reference".into();
            let reference = run(&g, &feed, Mode::Exact).map(|_| ());
            *doing.borrow_mut() = "planning".into();
            let mut store = Store::new(0);
            let Ok(mut program) = Program::new(g, &[], &mut store, &cpu) else { return };
            *doing.borrow_mut() = "running".into();
            for (name, array) in &feed.inputs {
                program.set_array(name, array).unwrap();
            }
            let result = program.run(&mut store);
            ran += usize::from(result.is_ok());
            // The reference computes values that nobody reads, too, and may find more to refuse; never less.
            match (&result, &reference) {
                (Err(fault), Ok(())) => panic!("only the CPU refuses: {fault}"),
                _ => both += usize::from(result.is_ok() && reference.is_ok()),
            }
        });
    }
    // Nonsense that fits nothing would test nothing.
    assert!(recorded > 10_000 && both > 500, "{recorded} recorded, {ran} ran, {both} on both engines");
}

#[test]
fn nothing_panics_on_huge_nonsense() {
    let cpu = Cpu::with(2, regard::device::Level::best()).unwrap();
    let mut refused = 0;
    for seed in 0..2000 {
        watched(seed, |doing| {
            let mut g = if seed % 3 == 0 { Graph::new() } else { Graph::inference() };
            record(seed, Sizes::Huge, &mut g, doing);
            let mut known = regard::graph::Sizes::none();
            for letter in g.letters().to_vec() {
                known.set(letter, letter.bound()).unwrap();
            }
            read(&g, doing, &known);
            *doing.borrow_mut() = "planning".into();
            refused += usize::from(Program::new(g, &[], &mut Store::new(0), &cpu).is_err());
        });
    }
    assert!(refused > 1000, "{refused} refused");
}
