//! The table of mutants: of every op with a derivative, at each precision, each gradient broken in every way
//! there is ([`Mutant`]), and the same run with its mask off by one; and which bound of agreement refuses it.
//! `goldens/mutants.txt` is this table; `tests/mutants.rs` makes it again.

use crate::bounds::Bounds;
use crate::nodes::{NodeRun, runs_of};
use crate::op_cases::{OpCase, op_cases};
use regard::check::{Mutant, Recorded};
use regard::device::Level;
use regard::graph::Origin;
use regard::prelude::*;
use std::collections::HashMap;

/// The seeds of what the ops are given: none of those that the bounds were made with. With operands of one
/// seed a sum may cancel so far that two percent of it are rounding.
pub const SEEDS: std::ops::Range<u64> = 0..4;

/// The mutant that is no change of a result but a run of its own.
const OFF_BY_ONE: &str = "mask off by one";

/// What was found of all ops with a derivative.
pub struct MutantTable {
    /// A line for each gradient and precision.
    pub lines: Vec<String>,
    /// Gradients and mutants of them that agreement lets pass, with whatever seed.
    pub passing: Vec<String>,
}

/// What was found of one gradient at one precision.
#[derive(Default)]
struct Row {
    /// Each mutant that there is, and whether it was refused with some seed.
    mutants: Vec<(&'static str, bool)>,
    /// The op and result whose bound refuses it.
    bound: String,
}

impl Row {
    fn add(&mut self, mutant: &'static str, refused: bool) {
        match self.mutants.iter_mut().find(|(known, _)| *known == mutant) {
            Some((_, known)) => *known |= refused,
            None => self.mutants.push((mutant, refused)),
        }
    }
}

impl MutantTable {
    /// Makes the table. Gradients are those of the portable kernels, which are the same on every machine.
    pub fn new() -> MutantTable {
        let (bounds, cpu) = (Bounds::new(), Cpu::with(1, Level::PORTABLE).unwrap());
        let mut table = MutantTable { lines: Vec::new(), passing: Vec::new() };
        for case in op_cases() {
            for precision in [Precision::F32, Precision::Bf16] {
                table.add(&case, precision, &bounds, &cpu);
            }
        }
        table
    }

    fn add(&mut self, case: &OpCase, precision: Precision, bounds: &Bounds, cpu: &Cpu) {
        let mut rows: Vec<(String, Row)> = Vec::new();
        for seed in SEEDS {
            let record = |off: bool| case.recorded(precision, seed, off).unwrap();
            let runs = runs_of(&|| record(false), cpu);
            let off = case.masked.then(|| runs_of(&|| record(true), cpu));
            let found = gradients(&record(false));
            rows.resize_with(found.len(), Default::default);
            for ((name, place), (known, row)) in found.into_iter().zip(&mut rows) {
                let Some((node, index)) = place else {
                    panic!("{}: the gradient of {name} is computed by no node", case.name());
                };
                judge(&runs[node], index, bounds, off.as_ref().map(|off| &off[node]), row);
                *known = name;
            }
        }
        for (name, row) in rows {
            let dtype = format!("{precision:?}").to_lowercase();
            let place = format!("{}/{} | {name} | {dtype}", case.folder, case.name());
            let of = |refused: bool| -> Vec<&str> {
                row.mutants.iter().filter(|(_, known)| *known == refused).map(|(name, _)| *name).collect()
            };
            self.passing.extend(of(false).iter().map(|mutant| format!("{place} | {mutant}")));
            let refused =
                if row.mutants.is_empty() { "zero by definition".into() } else { of(true).join(", ") };
            self.lines.push(format!("{place} | {refused} | {}", row.bound));
        }
    }
}

/// Every mutant of one result, by the judge and the bound of agreement.
fn judge(run: &NodeRun, index: usize, bounds: &Bounds, off: Option<&NodeRun>, row: &mut Row) {
    let (result, limit) = (&run.results[index], bounds.of(run, index));
    row.bound = format!("{}, result {}", run.key(), result.name);
    for mutant in Mutant::ALL {
        if let Some(broken) = mutant.of(&result.got, &result.want) {
            row.add(mutant.name(), result.objection(&broken, &limit).is_some());
        }
    }
    // There are gradients that hang on no mask, as that of what a position is added to.
    if let Some(off) = off.map(|off| &off.results[index])
        && off.want != result.want
    {
        row.add(OFF_BY_ONE, result.objection(&off.got, &limit).is_some());
    }
}

impl Default for MutantTable {
    fn default() -> Self {
        MutantTable::new()
    }
}

/// Each gradient by the operand's name, and the node and result that is it.
fn gradients(recorded: &Recorded) -> Vec<(String, Option<(usize, usize)>)> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut named = |name: &str| {
        let count = seen.entry(name.into()).or_default();
        *count += 1;
        if *count == 1 { name.to_string() } else { format!("{name} {count}") }
    };
    let place = |gradient: &Var| match recorded.graph.value(*gradient).origin {
        Origin::Node { node, output } => Some((node, output)),
        _ => None,
    };
    recorded.gradients.iter().map(|(name, _, gradient)| (named(name), place(gradient))).collect()
}
