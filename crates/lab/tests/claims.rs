//! Trained claims: a quick run says that it is indicative, ends with finite numbers, and gives the same ones
//! again.

use regard_lab::{Context, Finding, find};

fn found(id: &str, seed: u64) -> Finding {
    let experiment =
        find(id).and_then(|claim| claim.experiment()).unwrap_or_else(|| panic!("{id} is pending"));
    experiment(&Context { seed, ..Default::default() }).unwrap_or_else(|error| panic!("{id}: {error}"))
}

#[test]
fn trained_claims_say_how_far_they_carry_and_repeat() {
    for id in ["B13", "J13", "K3"] {
        let (first, second) = (found(id, 1), found(id, 1));
        assert!(first.summary.contains("indicative"), "{id}: {}", first.summary);
        assert!(first.numbers.iter().all(|number| number.value.is_finite()), "{id}");
        let bits = |finding: &Finding| finding.numbers.iter().map(|n| n.value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&first), bits(&second), "{id}");
    }
}
