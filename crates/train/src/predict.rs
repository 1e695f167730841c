//! What a run will take, said before its first step: memory as planned, compared with what the machine has
//! left, and a time that is measured on the forward pass and scaled by the cost reader. The time is a guess;
//! the memory is not.

use crate::step::{Recorded, Steps};
use crate::{Error, Result};
use regard_engine::{Device, Program, Store};
use regard_graph::{Graph, Integers, Sizes, Var};
use regard_picture::bytes;
use std::collections::BTreeMap;

/// What a run will take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Bytes of intermediate values and scratch.
    pub arena: u64,
    /// Bytes of inputs, outputs and constants.
    pub io: u64,
    /// Bytes of parameters, moments and other states.
    pub stored: u64,
    /// Bytes of packed copies of weights.
    pub packed: u64,
    /// Bytes that the machine has left, where it says.
    pub available: Option<u64>,
    /// Steps that the run will have made when it is complete.
    pub steps: u64,
    /// Seconds of one step, guessed from a forward pass.
    pub step_seconds: Option<f64>,
}

impl Prediction {
    /// Bytes of everything.
    pub fn memory(&self) -> u64 {
        self.arena + self.io + self.stored + self.packed
    }

    /// Seconds from one step to the end, evaluations not counted.
    pub fn seconds(&self, from: u64) -> Option<f64> {
        self.step_seconds.map(|seconds| seconds * self.steps.saturating_sub(from) as f64)
    }
}

/// The bytes of parameters and states that a run of these graphs will add to a store, before any of it is
/// taken.
pub(crate) fn new_states(recorded: &Recorded, store: &Store) -> u64 {
    let stored = recorded.graphs().flat_map(|g| g.stored());
    let bytes: BTreeMap<&str, usize> =
        stored.map(|stored| (stored.name.as_str(), stored.fact.bytes())).collect();
    let new = bytes.into_iter().filter(|(name, _)| store.fact(name).is_err());
    new.map(|(_, bytes)| bytes as u64).sum()
}

/// The bytes that the programs of a step were planned with besides: reserved, but not touched before the
/// first run.
pub(crate) fn reserved(steps: &Steps) -> u64 {
    let memory = || steps.programs().map(|program| program.memory());
    let arena = memory().map(|memory| memory.arena).max().unwrap_or(0);
    (arena + memory().map(|memory| memory.io + memory.constants).sum::<usize>()) as u64
}

/// The memory of programs that are there.
pub(crate) fn taken(steps: &Steps, others: &[&Program], store: &Store, device: &Device) -> Prediction {
    let io = steps.programs().chain(others.iter().copied()).map(|program| program.memory());
    Prediction {
        arena: device.shared_bytes() as u64,
        io: io.map(|memory| memory.io + memory.constants).sum::<usize>() as u64,
        stored: store.bytes() as u64,
        packed: store.packed_bytes() as u64,
        ..Prediction::default()
    }
}

/// Refuses a run that does not fit.
pub(crate) fn check_fits(needed: u64, available: Option<u64>) -> Result<()> {
    match available {
        Some(available) if needed > available => Err(Error::TooLarge {
            needed: bytes(needed),
            available: bytes(available),
            advice: "take a smaller batch and more micro-batches, a shorter context, or a smaller model",
        }),
        _ => Ok(()),
    }
}

/// How much more work one program is than another on a device, at their largest sizes.
pub(crate) fn work_ratio(of: &Graph, to: &Graph, device: &Device) -> Result<f64> {
    let work = |g: &Graph| -> Result<f64> {
        let mut sizes = Sizes::none();
        for letter in g.letters() {
            sizes.set(*letter, letter.bound())?;
        }
        let keep: Vec<Var> = g.outputs().map(|(_, var)| var).collect();
        let total = device.executed(g, &sizes, &Integers::none(), Some(&keep))?.total();
        Ok((2 * total.macs + total.flops) as f64)
    };
    Ok(work(of)? / work(to)?.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_does_not_fit_is_refused_with_what_to_change() {
        assert!(check_fits(5, Some(5)).is_ok());
        assert!(check_fits(u64::MAX, None).is_ok(), "where nothing is known, nothing is refused");
        assert_eq!(
            check_fits(3 << 30, Some(1 << 20)).unwrap_err().to_string(),
            "the run needs about 3.0 GiB, and 1.0 MiB of memory are available; take a smaller batch and more \
             micro-batches, a shorter context, or a smaller model"
        );
    }
}
