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
        predicate: Predicate::says(&[
            is("area under the curve: letters of the answer for read against unread", 0.5, 0.2),
            at_most("area under the curve: confidence for read against unread", 0.9),
        ]),
        run: Run::Trained(answers::output_alone),
    },
    Claim {
        id: "M2",
        title: "Evidence for each answer",
        note: "S4 §3b",
        statement: "The training text tells for each answer whether it is supported; what it supports is right.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("share of supported answers that are right", 0.95),
            at_most("share of other answers that are right", 0.1),
        ]),
        run: Run::Trained(answers::evidence),
    },
    Claim {
        id: "M3",
        title: "Calibrated confidence",
        note: "S4 §3b",
        statement: "With a threshold on its confidence a model answers some questions and keeps its errors within a budget.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("share of held-out people who are answered", 0.05),
            at_most("errors beyond the budget, as a share of held-out people", 0.05),
        ]),
        run: Run::Trained(answers::calibrated),
    },
    Claim {
        id: "M4",
        title: "Strict mode",
        note: "S4 §3b",
        statement: "An answer that is given only with evidence is not a wrong one.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_most("share of given answers that are wrong", 0.05),
            at_most("wrong answers as a share of all questions: strict mode less without", 0.0),
        ]),
        run: Run::Trained(answers::strict),
    },
    Claim {
        id: "M5",
        title: "Guesses from names",
        note: "S4 §3c",
        statement: "The model guesses from parts of a name.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least(
            "crossed names: answers that follow either part less those of another pair",
            0.0,
        )]),
        run: Run::Trained(answers::from_names),
    },
    Claim {
        id: "M6",
        title: "Unseen people are detected",
        note: "S4 §3c",
        statement: "That a person was never seen can be detected.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least("area under the curve: entropy, unread above read", 0.9)])
            .or_if(
                "in part: the model’s entropy tells more often than chance, not reliably",
                &[at_least("area under the curve: entropy, unread above read", 0.5)],
            ),
        run: Run::Trained(answers::unseen),
    },
];
