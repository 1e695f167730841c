//! The reach reader on random programs: never a false "cannot", and exact where nothing degenerates.

use regard::check::{Case, Exactness};
use regard_conformance::programs::Recipe;

#[test]
fn nothing_changes_that_cannot() {
    for seed in 0..60 {
        let recipe = Recipe::small(seed);
        let case = Case::new(move |g| recipe.record(g)).seed(seed);
        case.reach(Exactness::Safe).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
