//! Runs claims, a few at once. Each has random numbers of its own name, so that neither order nor neighbours
//! change a number.

use crate::{Claim, Context, Finding, Judgement, Predicate, Verdict, judge};
use regard::Result;
use std::time::Instant;

/// What became of one claim.
pub struct Outcome {
    /// The claim.
    pub claim: &'static Claim,
    /// What was found; `None` if it is pending.
    pub found: Option<Result<Finding>>,
    /// What its predicate says about that, or why it could not be asked.
    pub judged: Option<std::result::Result<Judgement, String>>,
    /// How long it took.
    pub seconds: f64,
}

impl Outcome {
    /// What was found, judged.
    pub fn new(claim: &'static Claim, found: Option<Result<Finding>>, seconds: f64) -> Outcome {
        let judged = match &found {
            Some(Ok(finding)) => Some(judge(claim, finding)),
            _ => None,
        };
        Outcome { claim, found, judged, seconds }
    }

    /// The judgement, if there is one.
    pub fn judgement(&self) -> Option<&Judgement> {
        self.judged.as_ref()?.as_ref().ok()
    }

    /// The verdict, if there is one.
    pub fn verdict(&self) -> Option<Verdict> {
        Some(self.judgement()?.verdict)
    }

    /// True if something is broken: an experiment that failed, a number that contradicts what the experiment
    /// knows, a verdict for which its sentence was not written. A claim that is wrong is not broken.
    pub fn failed(&self) -> bool {
        !self.faults().is_empty()
    }

    /// What is broken, in words.
    pub fn faults(&self) -> Vec<String> {
        let finding = match &self.found {
            Some(Ok(finding)) => finding,
            Some(Err(error)) => return vec![error.to_string()],
            None => return vec![],
        };
        let judgement = match &self.judged {
            Some(Ok(judgement)) => judgement,
            Some(Err(fault)) => return vec![fault.clone()],
            None => return vec![],
        };
        let mut faults: Vec<String> = finding.failures().map(crate::json::in_words).collect();
        if let Some(expected) = finding.written_for.filter(|expected| *expected != judgement.verdict)
            // Where every number decides, those outside say it already.
            && (faults.is_empty() || !matches!(self.claim.predicate, Predicate::EveryNumber))
        {
            let (found, expected) = (judgement.verdict.name(), expected.name());
            faults.push(format!("its numbers say “{found}”, its sentence was written for “{expected}”"));
        }
        faults
    }

    /// The state in a word or two, for tables.
    pub fn state(&self) -> &'static str {
        match (&self.found, self.verdict()) {
            (None, _) => "pending",
            (Some(Err(_)), _) | (_, None) => "failed",
            (_, Some(verdict)) => verdict.name(),
        }
    }
}

/// How many claims there are of each state, in words: `11 wrong in the notes, 3 undecided`.
pub fn counted<'a>(states: impl Iterator<Item = &'a str>) -> String {
    let states: Vec<&str> = states.collect();
    let known = Verdict::ALL.map(Verdict::name).into_iter().chain(["failed", "pending"]);
    let counts = known.filter_map(|name| {
        let count = states.iter().filter(|state| **state == name).count();
        let name = if name == "holds" && count != 1 { "hold" } else { name };
        let name =
            if name == "holds under a condition" && count != 1 { "hold under a condition" } else { name };
        (count > 0).then(|| format!("{count} {name}"))
    });
    counts.collect::<Vec<_>>().join(", ")
}

/// Runs these claims, shared among the context's workers; `done` hears of each as it ends. Outcomes come back
/// in the given order.
pub fn run(claims: &[&'static Claim], context: &Context, done: &(dyn Fn(&Outcome) + Sync)) -> Vec<Outcome> {
    context.workers.each(claims, |claim| {
        let begun = Instant::now();
        let found = claim.experiment().map(|experiment| experiment(context));
        let outcome = Outcome::new(claim, found, begun.elapsed().as_secs_f64());
        done(&outcome);
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicate::{Relation, Stated, at_least, is};
    use crate::{Evidence, Number, Run, SEEDS, Workers, claims, outcomes_json, select};

    const fn claim(predicate: Predicate, run: Run) -> Claim {
        Claim { id: "A1", title: "", note: "", statement: "", formula: "", errata: &[], predicate, run }
    }

    /// Numbers for every test of a predicate: those that agree, but for one that contradicts its test, or
    /// straddles it.
    fn numbers(
        stated: &Stated,
        contradicted: Option<&'static str>,
        straddling: Option<&'static str>,
    ) -> Finding {
        let mut finding = Finding::measured("").seeds(SEEDS);
        let condition = stated.condition.map_or(&[][..], |(_, tests)| tests);
        for test in stated.premises.iter().chain(stated.statement).chain(condition) {
            if finding.numbers.iter().any(|number| number.name == test.quantity) {
                continue;
            }
            let (agrees, contradicts) = (test.relation.agreement(), test.relation.contradiction());
            let name = test.quantity;
            let mut number =
                Number::shown(name, if contradicted == Some(name) { contradicts } else { agrees });
            if straddling == Some(name) {
                number.interval = Some((agrees.min(contradicts), agrees.max(contradicts)));
            }
            finding.numbers.push(number);
        }
        finding
    }

    #[test]
    fn every_stated_claim_is_refuted_by_numbers_that_contradict_it() {
        let mut trained = 0;
        for claim in claims() {
            let Predicate::Stated(stated) = &claim.predicate else {
                assert_ne!(claim.evidence(), Evidence::Trained, "{} states nothing", claim.id);
                continue;
            };
            trained += usize::from(claim.evidence() == Evidence::Trained);
            let verdict = |finding: Finding| judge(claim, &finding).unwrap().verdict;
            for test in stated.statement {
                let name = test.quantity;
                let refuted = verdict(numbers(stated, Some(name), None));
                let also = stated.condition.map_or(&[][..], |(_, tests)| tests);
                let expected = match also.is_empty() || also.iter().any(|also| also.quantity == name) {
                    true => Verdict::Wrong,
                    false => Verdict::Conditional,
                };
                assert_eq!(refuted, expected, "{}: {name}", claim.id);
                assert_eq!(
                    verdict(numbers(stated, None, Some(name))),
                    Verdict::Undecided,
                    "{}: {name}",
                    claim.id
                );
            }
            if let Some((_, tests)) = stated.condition {
                // As it stands and under its condition: each test of the condition refutes it.
                for test in tests {
                    let mut finding = numbers(stated, Some(test.quantity), None);
                    let outside =
                        stated.statement.iter().find(|own| tests.iter().all(|t| t.quantity != own.quantity));
                    if let Some(own) = outside {
                        let number = finding.numbers.iter_mut().find(|number| number.name == own.quantity);
                        number.unwrap().value = own.relation.contradiction();
                    }
                    assert_eq!(verdict(finding), Verdict::Wrong, "{}: {}", claim.id, test.quantity);
                }
            }
            for test in stated.premises {
                let finding = numbers(stated, Some(test.quantity), None);
                assert_eq!(verdict(finding), Verdict::Undecided, "{}: {}", claim.id, test.quantity);
            }
            if claim.evidence() == Evidence::Trained {
                let few = numbers(stated, None, None).seeds(SEEDS - 1);
                assert_eq!(verdict(few), Verdict::Undecided, "{}", claim.id);
            }
        }
        assert!(trained > 40);
    }

    #[test]
    fn an_exact_number_outside_refutes_its_claim_and_breaks_its_sentence() {
        static OUTSIDE: Claim = claim(
            Predicate::EveryNumber,
            Run::Exact(|_| {
                Ok(Finding::new(Verdict::Holds, "so").number(Number::equal("weight", 0.5, 0.25, 0.1)))
            }),
        );
        static BROKEN: Claim = claim(
            Predicate::EveryNumber,
            Run::Exact(|_| Err(regard_graph::Error::invalid("here", "this", "that").into())),
        );
        static LATER: Claim = claim(Predicate::EveryNumber, Run::Pending("a thing"));
        static OTHER: Claim = claim(
            Predicate::says(&[is("keys", 3.0, 0.0)]),
            Run::Exact(|_| Ok(Finding::new(Verdict::Wrong, "so").number(Number::shown("keys", 3.0)))),
        );
        static NAMELESS: Claim = claim(
            Predicate::says(&[at_least("heads", 3.0)]),
            Run::Exact(|_| Ok(Finding::measured("so").number(Number::shown("keys", 3.0)))),
        );
        let found = run(&[&OUTSIDE, &BROKEN, &LATER, &OTHER, &NAMELESS], &Context::default(), &|_| ());
        let states: Vec<&str> = found.iter().map(Outcome::state).collect();
        assert_eq!(states, ["wrong in the notes", "failed", "pending", "holds", "failed"]);
        assert_eq!(found.iter().map(Outcome::failed).collect::<Vec<_>>(), [true, true, false, true, true]);
        assert_eq!(found[0].faults(), ["weight: 0.5; expected 0.25 ± 0.1"]);
        assert_eq!(found[1].faults(), ["here: this; that"]);
        assert_eq!(
            found[3].faults(),
            ["its numbers say “holds”, its sentence was written for “wrong in the notes”"]
        );
        assert_eq!(
            found[4].faults(),
            ["the predicate asks for “heads”, and the experiment gave no such number, but keys: 3"]
        );
        assert_eq!(counted(states.into_iter()), "1 holds, 1 wrong in the notes, 2 failed, 1 pending");
    }

    #[test]
    fn an_interval_that_straddles_decides_nothing_and_says_so() {
        static CLAIM: Claim = claim(
            Predicate::says(&[at_least("accuracy gained", 0.0)]),
            Run::Trained(|_| Ok(Finding::measured(""))),
        );
        let finding = |low: f64, high: f64| {
            let mut number = Number::shown("accuracy gained", (low + high) / 2.0);
            number.interval = Some((low, high));
            judge(&CLAIM, &Finding::measured("").seeds(SEEDS).number(number)).unwrap()
        };
        assert_eq!(finding(0.1, 0.3).verdict, Verdict::Holds);
        assert_eq!(finding(-0.3, -0.1).verdict, Verdict::Wrong);
        let undecided = finding(-0.1, 0.3);
        assert_eq!(undecided.verdict, Verdict::Undecided);
        assert_eq!(
            undecided.undecided.unwrap(),
            "the intervals do not tell. accuracy gained is at least 0? 0.1 (−0.1 to 0.3): cannot be told: the interval reaches \
             across"
        );
        assert_eq!(Relation::Is { to: 1.0, within: 0.5 }.in_words(), "is 1 ± 0.5");
    }

    #[test]
    fn neither_threads_nor_neighbours_change_a_number() {
        let numbers = |ids: &[&str], threads: usize| {
            let workers = Workers::new(threads);
            let context = Context { workers: &workers, ..Default::default() };
            let mut value = outcomes_json(&run(&select(ids).unwrap(), &context, &|_| ()), &context);
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
    fn every_exact_claim_is_as_its_sentence_says() {
        let exact: Vec<_> = claims().filter(|claim| claim.evidence() == Evidence::Exact).collect();
        assert!(exact.len() > 40);
        let (workers, mut broken) = (Workers::new(2), vec![]);
        for outcome in run(&exact, &Context { seed: 7, workers: &workers, ..Default::default() }, &|_| ()) {
            if outcome.failed() || outcome.verdict() == Some(Verdict::Undecided) {
                broken.push(format!("{} {}: {:?}", outcome.claim.id, outcome.state(), outcome.faults()));
            }
        }
        assert_eq!(broken, Vec::<String>::new());
    }
}
