//! The CPU engine against the reference, and against itself over SIMD levels and threads.

use super::{Case, Limit, Mutant, Recorded, fail, fill_store};
use crate::reference::{Mode, run};
use crate::{AsDevice, Cpu, Program, Result, Store};
use regard_device::Level;
use regard_graph::{DType, Precision};
use regard_ops::Array;

/// The numbers of threads tried at each level: one, and an odd number that splits work unevenly.
const THREADS: [usize; 2] = [1, 3];

impl Case<'_> {
    /// Compares outputs and gradients of the CPU engine with the reference in its rounded mode (which is the
    /// exact one where nothing is bf16), and asks for the same bits at every SIMD level and thread count;
    /// where something is bf16, at all levels that sum its products in the same order ([`Level::same_bits`]).
    /// Every kernel runs in the debug mode, too ([`Cpu::checked`]): which task stored each byte, and whether
    /// all were. A bound under which a broken gradient would pass ([`Mutant`]) is refused: it judges nothing.
    /// Where there is an NVIDIA card it is asked, too ([`Case::cuda`]).
    pub fn cpu(&self, bound: f64) -> Result<()> {
        let Recorded { graph, outputs, gradients, feed } = self.backward()?;
        let (limit, expected) = (Limit::relative(bound), run(&graph, &feed, Mode::Rounded)?);
        let mut wanted: Vec<(String, &Array)> = Vec::new();
        for (index, &output) in outputs.iter().enumerate() {
            wanted.push((format!("output {index}"), expected.value(output)));
        }
        for (name, _, grad) in &gradients {
            wanted.push((format!("gradient of {name}"), expected.value(*grad)));
        }
        let bf16 = (0..graph.values().len()).any(|index| graph.dtype(graph.var(index)) == DType::BF16)
            || graph.precision() == Precision::Bf16;
        // The first run of each order of sums.
        let mut firsts: Vec<(Level, Vec<Array>)> = Vec::new();
        for &level in Level::available() {
            for threads in THREADS {
                // Once on one thread as programs run, once on several with every store watched.
                let cpu = if threads == 1 { Cpu::with(threads, level) } else { Cpu::checked(threads, level) };
                let got = self.run_on(&cpu?)?;
                for ((name, want), got) in wanted.iter().zip(&got) {
                    if let Some(objection) = limit.objection(got, want) {
                        let what = format!("{name} at {level}, {threads} threads, {objection}");
                        return Err(fail("cpu", what));
                    }
                }
                let Some((known, first)) = firsts.iter().find(|(known, _)| level.same_bits(*known, bf16))
                else {
                    can_refuse(&limit, &wanted[outputs.len()..], &got[outputs.len()..])?;
                    firsts.push((level, got));
                    continue;
                };
                for (((name, _), a), b) in wanted.iter().zip(first).zip(&got) {
                    if !same_bits(a, b) {
                        let what =
                            format!("{name} has other bits at {level}, {threads} threads than at {known}, 1");
                        return Err(fail("cpu", what));
                    }
                }
            }
        }
        self.cuda(bound)
    }

    /// Outputs, then gradients, as a device computes them.
    pub fn run_on(&self, device: &impl AsDevice) -> Result<Vec<Array>> {
        self.run_often(device, 1)
    }

    /// The same after several runs with the same inputs, each of which finds what the one before has left in
    /// the store.
    pub(super) fn run_often(&self, device: &impl AsDevice, runs: usize) -> Result<Vec<Array>> {
        let Recorded { mut graph, outputs, gradients, feed } = self.backward()?;
        let mut names = Vec::new();
        for (index, &output) in outputs.iter().enumerate() {
            names.push(format!("check.output.{index}"));
            graph.output(&names[index], output)?;
        }
        for (index, (_, _, grad)) in gradients.iter().enumerate() {
            names.push(format!("check.gradient.{index}"));
            graph.output(&names[outputs.len() + index], *grad)?;
        }
        let mut store = Store::new(0);
        let mut program = Program::new(graph, &[], &mut store, device)?;
        fill_store(&mut store, &feed)?;
        for (name, array) in &feed.inputs {
            program.set_array(name, array)?;
        }
        for _ in 0..runs {
            program.run(&mut store)?;
        }
        program.wait()?;
        let stored: Vec<(String, String)> = outputs
            .iter()
            .enumerate()
            .filter_map(|(index, &output)| {
                let stored = program.graph().value(output).version_of?;
                Some((names[index].clone(), program.graph().stored()[stored].name.clone()))
            })
            .collect();
        names
            .iter()
            .map(|name| match stored.iter().find(|(output, _)| output == name) {
                Some((_, entry)) => store.array(entry),
                None => program.array(name),
            })
            .collect()
    }
}

/// Whether the limit refuses every mutant of every gradient.
fn can_refuse(limit: &Limit, wanted: &[(String, &Array)], got: &[Array]) -> Result<()> {
    for ((name, want), got) in wanted.iter().zip(got) {
        if let Some(mutant) = Mutant::passing(limit, got, want).first() {
            let (broken, bound) = (mutant.name(), limit.relative);
            let what = format!("the {name} would pass, {broken}: a bound of {bound:.2e} is too loose for it");
            return Err(fail("cpu", what));
        }
    }
    Ok(())
}

/// Equal to the last bit; zeros of either sign are told apart.
pub fn same_bits(a: &Array, b: &Array) -> bool {
    a.dims() == b.dims() && a.data().iter().zip(b.data()).all(|(x, y)| x.to_bits() == y.to_bits())
}
