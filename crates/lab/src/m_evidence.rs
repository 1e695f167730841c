//! Group M: retrieved or made up?

mod answers;

use crate::predicate::{at_least, at_most, is};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "M1",
        title: "Output alone does not tell",
        note: "S4 §3b",
        statement: "An answer does not show whether it was retrieved or invented.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[is("area under the curve: letters of the answer for read against unread", 0.5, 0.1), at_most("area under the curve: confidence for read against unread", 0.9)]),
        run: Run::Trained(answers::output_alone),
    },
    Claim {
        id: "M2",
        title: "Evidence for each answer",
        note: "S4 §3b",
        statement: "Each answer can be shown with the training text that supports it.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least("share of supported answers that are right", 0.95), at_most("share of other answers that are right", 0.1)]),
        run: Run::Trained(answers::evidence),
    },
    Claim {
        id: "M3",
        title: "Calibrated confidence",
        note: "S4 §3b",
        statement: "Unsupported answers must not be presented as fact.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least("share of held-out people who are answered", 0.05), at_most("errors beyond the budget, as a share of held-out people", 0.05)]),
        run: Run::Trained(answers::calibrated),
    },
    Claim {
        id: "M4",
        title: "Strict mode",
        note: "S4 §3b",
        statement: "Where harm is serious, no answer is given without evidence.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_most("share of given answers that are wrong", 0.05), at_most("wrong answers as a share of all questions: strict mode less without", 0.0)]),
        run: Run::Trained(answers::strict),
    },
    Claim {
        id: "M5",
        title: "Guesses from names",
        note: "S4 §3c",
        statement: "The model guesses from the origin of a name.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least("crossed names: answers that follow either part less those of another pair", 0.0)]),
        run: Run::Trained(answers::from_names),
    },
    Claim {
        id: "M6",
        title: "Unseen people are detected",
        note: "S4 §3c",
        statement: "That a person was never seen can be detected.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least("area under the curve: entropy, unread above read", 0.9)]).or_if("in part: the model’s entropy tells more often than chance, not reliably", &[at_least("area under the curve: entropy, unread above read", 0.5)]),
        run: Run::Trained(answers::unseen),
    },
];
