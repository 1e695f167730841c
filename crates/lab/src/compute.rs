//! From a recording to numbers, exactly by the reference or in f32 by the CPU engine, and the few sums that
//! checks need.

use regard::prelude::*;
use regard::reference::{self, Mode};
use regard::{Array, Result};
use regard_graph::Error;

/// Records a graph and computes the values it returns, in f64, by the reference engine.
pub fn compute(
    feed: &Feed,
    record: impl FnOnce(&mut Graph) -> regard_graph::Result<Vec<Var>>,
) -> Result<Vec<Array>> {
    let mut g = Graph::new();
    let wanted = record(&mut g)?;
    let run = reference::run(&g, feed, Mode::Exact)?;
    Ok(wanted.into_iter().map(|var| run.value(var).clone()).collect())
}

/// Records a graph and computes the values it returns, as the CPU engine does, on so many threads.
pub fn compute_on_cpu(
    feed: &Feed,
    threads: usize,
    record: impl FnOnce(&mut Graph) -> regard_graph::Result<Vec<Var>>,
) -> Result<Vec<Array>> {
    let mut g = Graph::new();
    let wanted = record(&mut g)?;
    let names: Vec<String> = (0..wanted.len()).map(|index| format!("wanted.{index}")).collect();
    for (name, &var) in names.iter().zip(&wanted) {
        g.output(name, var)?;
    }
    let inputs: Vec<String> = g.inputs().map(|(name, _)| name.to_string()).collect();
    let mut store = Store::new(0);
    let cpu = Cpu::with(threads, regard::device::Level::best())?;
    let mut program = Program::new(g, &[], &mut store, &cpu)?;
    for (name, numbers) in &feed.stored {
        store.set_array(name, numbers)?;
    }
    for name in inputs {
        if let Some(numbers) = feed.inputs.get(&name) {
            program.set_array(&name, numbers)?;
        }
    }
    program.run(&mut store)?;
    names.iter().map(|name| Ok(program.array(name)?)).collect()
}

/// Numbers in a shape.
pub fn array(dims: &[usize], numbers: &[f64]) -> Result<Array> {
    let wrong =
        || Error::invalid("array", format!("{} numbers for {dims:?}", numbers.len()), "give as many as fit");
    Ok(Array::new(dims, numbers.to_vec()).ok_or_else(wrong)?)
}

/// Σ aᵢbᵢ.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// √Σaᵢ².
pub fn length(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// a − b.
pub fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// The largest |aᵢ − bᵢ|; infinite where the lengths differ or a number is missing.
pub fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::INFINITY;
    }
    let each = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    each.fold(0.0, |most, x| if x.is_nan() { f64::INFINITY } else { most.max(x) })
}

/// How many numbers differ in any bit.
pub fn differing(a: &[f64], b: &[f64]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).count() + a.len().abs_diff(b.len())
}
