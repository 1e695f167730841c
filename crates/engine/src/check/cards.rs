//! A CUDA card against the reference and against itself: eager and captured, once and again.

use super::agreement::same_bits;
use super::{Case, Limit, Recorded, fail};
use crate::reference::{Mode, run};
use crate::{Cuda, Result};
use std::sync::OnceLock;

/// Runs of a program until it is replayed as one graph, and once more.
const CAPTURED: usize = 3;

/// The first card, opened once for all checks of a process; `None` where there is none.
pub fn card() -> Option<&'static Cuda> {
    static CARD: OnceLock<Option<Cuda>> = OnceLock::new();
    CARD.get_or_init(|| Cuda::new(0).ok()).as_ref()
}

impl Case<'_> {
    /// Compares outputs and gradients of a card with the reference in its rounded mode, and asks for the same
    /// bits of another program and of a captured one. Does nothing where there is no card.
    pub fn cuda(&self, bound: f64) -> Result<()> {
        let Some(cuda) = card() else { return Ok(()) };
        let limit = Limit::relative(self.card_bound.unwrap_or(bound));
        let Recorded { graph, outputs, gradients, feed } = self.backward()?;
        let expected = run(&graph, &feed, Mode::Rounded)?;
        let named = outputs.iter().enumerate().map(|(index, &var)| (format!("output {index}"), var));
        let named = named.chain(gradients.iter().map(|(name, _, var)| (format!("gradient of {name}"), *var)));
        let wanted: Vec<_> = named.map(|(name, var)| (name, expected.value(var))).collect();
        let first = self.run_on(cuda)?;
        for ((name, want), got) in wanted.iter().zip(&first) {
            if let Some(objection) = limit.objection(got, want) {
                return Err(fail("cuda", format!("{name} {objection}")));
            }
        }
        // What is replayed must give the same bits, where no state is carried from run to run.
        let updates = graph.nodes().iter().any(|node| node.declared.updates());
        let again = if updates { self.run_on(cuda)? } else { self.run_often(cuda, CAPTURED)? };
        for (((name, _), a), b) in wanted.iter().zip(&first).zip(&again) {
            if !same_bits(a, b) {
                return Err(fail("cuda", format!("{name} has other bits when it runs again")));
            }
        }
        Ok(())
    }
}
