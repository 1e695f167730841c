//! Group M: retrieved or made up?

mod answers;

use crate::{Claim, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "M1",
        title: "Output alone does not tell",
        note: "S4 §3b",
        statement: "An answer does not show whether it was retrieved or invented.",
        formula: "",
        errata: &[],
        run: Run::Trained(answers::output_alone),
    },
    Claim {
        id: "M2",
        title: "Evidence for each answer",
        note: "S4 §3b",
        statement: "Each answer can be shown with the training text that supports it.",
        formula: "",
        errata: &[],
        run: Run::Trained(answers::evidence),
    },
    Claim {
        id: "M3",
        title: "Calibrated confidence",
        note: "S4 §3b",
        statement: "Unsupported answers must not be presented as fact.",
        formula: "",
        errata: &[],
        run: Run::Trained(answers::calibrated),
    },
    Claim {
        id: "M4",
        title: "Strict mode",
        note: "S4 §3b",
        statement: "Where harm is serious, no answer is given without evidence.",
        formula: "",
        errata: &[],
        run: Run::Trained(answers::strict),
    },
    Claim {
        id: "M5",
        title: "Guesses from names",
        note: "S4 §3c",
        statement: "The model guesses from the origin of a name.",
        formula: "",
        errata: &[],
        run: Run::Trained(answers::from_names),
    },
    Claim {
        id: "M6",
        title: "Unseen people are detected",
        note: "S4 §3c",
        statement: "That a person was never seen can be detected.",
        formula: "",
        errata: &[],
        run: Run::Trained(answers::unseen),
    },
];
