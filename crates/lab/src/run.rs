//! Runs claims, a few at once. Each has random numbers of its own name, so that neither order nor neighbours
//! change a number.

use crate::{Claim, Context, Finding};
use regard::Result;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What became of one claim.
pub struct Outcome {
    /// The claim.
    pub claim: &'static Claim,
    /// What was found; `None` if it is pending.
    pub found: Option<Result<Finding>>,
    /// How long it took.
    pub seconds: f64,
}

impl Outcome {
    /// True if something is not as it must be: a number outside, or an experiment that failed.
    pub fn failed(&self) -> bool {
        match &self.found {
            Some(Ok(finding)) => finding.failures().next().is_some(),
            Some(Err(_)) => true,
            None => false,
        }
    }

    /// What is wrong, in words.
    pub fn faults(&self) -> Vec<String> {
        match &self.found {
            Some(Ok(finding)) => finding.failures().map(crate::json::in_words).collect(),
            Some(Err(error)) => vec![error.to_string()],
            None => vec![],
        }
    }

    /// The state in a word or two, for tables.
    pub fn state(&self) -> &'static str {
        match &self.found {
            None => "pending",
            Some(Err(_)) => "failed",
            Some(Ok(_)) if self.failed() => "outside",
            Some(Ok(finding)) => finding.verdict.name(),
        }
    }
}

/// Runs these claims on so many threads; `done` hears of each as it ends. Outcomes come back in the given
/// order.
pub fn run(
    claims: &[&'static Claim],
    context: &Context,
    threads: usize,
    done: &(dyn Fn(&Outcome) + Sync),
) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes: Vec<Mutex<Option<Outcome>>> = claims.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(&claim) = claims.get(place) else { return };
            let begun = Instant::now();
            let found = claim.experiment().map(|experiment| experiment(context));
            let outcome = Outcome { claim, found, seconds: begun.elapsed().as_secs_f64() };
            done(&outcome);
            if let Ok(mut slot) = outcomes[place].lock() {
                *slot = Some(outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    outcomes.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, claims, outcomes_json, select};

    #[test]
    fn every_exact_claim_holds() {
        let exact: Vec<_> = claims().filter(|claim| claim.evidence() == Evidence::Exact).collect();
        assert!(exact.len() > 40);
        for outcome in run(&exact, &Context { seed: 7, ..Default::default() }, 2, &|_| ()) {
            assert!(!outcome.failed(), "{}: {:?}", outcome.claim.id, outcome.faults());
        }
    }

    #[test]
    fn neither_threads_nor_neighbours_change_a_number() {
        let context = Context::default();
        let numbers = |ids: &[&str], threads: usize| {
            let mut value = outcomes_json(&run(&select(ids).unwrap(), &context, threads, &|_| ()), &context);
            for claim in value["claims"].as_array_mut().unwrap() {
                claim["seconds"] = 0.into();
            }
            value["claims"].clone()
        };
        let alone = numbers(&["B12"], 1);
        let among = numbers(&["A5", "B12", "C4", "D6"], 3);
        assert_eq!(alone[0], among[1]);
        assert_eq!(among, numbers(&["A5", "B12", "C4", "D6"], 1));
    }

    #[test]
    fn a_number_outside_and_an_error_are_failures() {
        use crate::{Claim, Finding, Number, Run, Verdict};
        const fn claim(run: Run) -> Claim {
            Claim { id: "A1", title: "", note: "", statement: "", formula: "", errata: &[], run }
        }
        static OUTSIDE: Claim = claim(Run::Exact(|_| {
            Ok(Finding::new(Verdict::True, "so").number(Number::equal("weight", 0.5, 0.25, 0.1)))
        }));
        static BROKEN: Claim =
            claim(Run::Exact(|_| Err(regard_graph::Error::invalid("here", "this", "that").into())));
        static LATER: Claim = claim(Run::Pending("a thing"));
        let found = run(&[&OUTSIDE, &BROKEN, &LATER], &Context::default(), 1, &|_| ());
        assert_eq!(found.iter().map(Outcome::failed).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(found.iter().map(Outcome::state).collect::<Vec<_>>(), ["outside", "failed", "pending"]);
        assert_eq!(found[0].faults(), ["weight: 0.5; expected 0.25 ± 0.1"]);
        assert_eq!(found[1].faults(), ["here: this; that"]);
    }
}
