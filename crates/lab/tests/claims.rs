//! The claims themselves: every one that has no chance in it holds, on any seed, and shows a picture; trained ones end with finite
//! numbers. What Monte-Carlo claims find is checked by the same bounds where they run.

use regard_lab::{Context, Evidence, Finding, claims, find};

fn found(id: &str, seed: u64) -> Finding {
    let experiment =
        find(id).and_then(|claim| claim.experiment()).unwrap_or_else(|| panic!("{id} is pending"));
    experiment(&Context { seed, ..Default::default() }).unwrap_or_else(|error| panic!("{id}: {error}"))
}

#[test]
fn exact_claims_hold_and_have_pictures() {
    for claim in claims().filter(|claim| claim.evidence() == Evidence::Exact && claim.id >= "E") {
        let finding = found(claim.id, 3);
        let outside: Vec<&str> = finding.failures().map(|number| number.name.as_str()).collect();
        assert!(outside.is_empty(), "{}: {outside:?}", claim.id);
        assert!(!finding.pictures.is_empty(), "{} has no picture", claim.id);
        assert!(!finding.how.is_empty() && !finding.summary.is_empty(), "{}", claim.id);
    }
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
