//! Group N: properties that all the notes rely on.

mod checks;

use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "N1",
        title: "One convention",
        note: "all",
        statement: "Layout, masks (true = may attend) and β follow one documented convention, with converters from others.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(checks::convention),
    },
    Claim {
        id: "N2",
        title: "Identities are runnable",
        note: "S3 proofs",
        statement: "Every identity is a test with seed, size, tolerance and interval.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(checks::runnable),
    },
    Claim {
        id: "N3",
        title: "Gradients are checked",
        note: "S2, S3",
        statement: "The gradient of every op agrees with finite differences.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(checks::gradients),
    },
    Claim {
        id: "N4",
        title: "Same seed, same bits",
        note: "S1, S4",
        statement: "The same seed gives the same bits on any number of threads.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(checks::same_bits),
    },
    Claim {
        id: "N5",
        title: "A page for each claim",
        note: "S0–S4",
        statement: "Each claim has a page with sentence, verdict, picture and counter-example.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(checks::pages),
    },
];
