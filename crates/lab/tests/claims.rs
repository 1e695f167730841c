//! Sampled claims are as their sentences say, with few draws and one seed; trained ones decide nothing in one
//! run, end with finite numbers, and give the same ones again whoever shares the work.

use regard_lab::{Claim, Context, Evidence, Finding, Outcome, Verdict, Workers, claims, find, judge, run};

fn found(id: &str, seed: u64, threads: usize) -> (&'static Claim, Finding) {
    let claim = find(id).unwrap_or_else(|| panic!("no claim {id}"));
    let experiment = claim.experiment().unwrap_or_else(|| panic!("{id} is pending"));
    let workers = Workers::new(threads);
    let context = Context { seed, workers: &workers, ..Default::default() };
    (claim, experiment(&context).unwrap_or_else(|error| panic!("{id}: {error}")))
}

#[test]
fn trained_claims_decide_nothing_in_one_run_and_repeat() {
    for id in ["B13", "H4", "J13", "K3"] {
        let ((claim, first), (_, second)) = (found(id, 1, 1), found(id, 1, 3));
        let judgement = judge(claim, &first).unwrap_or_else(|fault| panic!("{id}: {fault}"));
        assert_eq!(judgement.verdict, Verdict::Undecided, "{id}");
        let why = judgement.undecided.unwrap_or_default();
        assert_eq!(why, "one run decides nothing: `--full` trains over 8 seeds", "{id}");
        assert!(first.numbers.iter().all(|number| number.value.is_finite()), "{id}");
        let bits = |finding: &Finding| finding.numbers.iter().map(|n| n.value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&first), bits(&second), "{id}");
    }
}

#[test]
fn sampled_claims_are_as_their_sentences_say() {
    let sampled: Vec<&'static Claim> =
        claims().filter(|claim| claim.evidence() == Evidence::Sampled).collect();
    assert!(sampled.len() > 15);
    let workers = Workers::new(2);
    let context = Context { seed: 3, workers: &workers, ..Default::default() };
    for outcome in run(&sampled, &context, &|_| ()) {
        assert!(!outcome.failed(), "{}: {:?}", outcome.claim.id, Outcome::faults(&outcome));
        assert_ne!(outcome.verdict(), Some(Verdict::Undecided), "{}", outcome.claim.id);
    }
}
