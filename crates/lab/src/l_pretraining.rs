//! Group L: pretraining, fine-tuning, evaluation, and the Perceiver.

mod birthplaces;
mod corruption;
pub(crate) mod study;

use crate::predicate::{at_least, at_most, is};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "L1",
        title: "Span corruption",
        note: "S4 §2–3",
        statement: "Texts are cut, a span is masked and moved to the end.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Sampled(corruption::spans),
    },
    Claim {
        id: "L2",
        title: "Pretraining helps",
        note: "S4 §3a",
        statement: "After pretraining more birthplaces are right than without.",
        formula: "",
        errata: &["E46"],
        predicate: Predicate::says(&[
            at_least("share of right answers: pretrained less not", 0.0),
            at_least("pretrained: share of right answers, people it read of", 0.1),
            at_most("no pretraining: share of right answers, the same people", 0.1),
        ]),
        run: Run::Trained(birthplaces::pretraining_helps),
    },
    Claim {
        id: "L3",
        title: "The Perceiver variant",
        note: "S4 §2(g)i",
        statement: "The Perceiver variant answers at least 5 % of the questions.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least("Perceiver: share of right answers", 0.05)]),
        run: Run::Trained(birthplaces::perceiver),
    },
    Claim {
        id: "L4",
        title: "Its cost",
        note: "S4 §2(g)ii",
        statement: "Costs as in H7.",
        formula: "",
        errata: &["E37"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(crate::h_cost::perceiver_cost),
    },
    Claim {
        id: "L5",
        title: "The constant answer",
        note: "S4 §3 (baseline)",
        statement: "Always answering the most frequent place is right in about 5 % of cases; it stands beside every result.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            is("share that is right, all seeds", 0.05, 0.02),
            is("seeds for which the study’s baseline is not what counting gives", 0.0, 0.0),
        ]),
        run: Run::Sampled(corruption::constant_answer),
    },
    Claim {
        id: "L6",
        title: "Knowledge comes from pretraining",
        note: "S4 §3a",
        statement: "The model knows what it read in pretraining.",
        formula: "",
        errata: &["E36"],
        predicate: Predicate::says(&[
            at_least("share of right answers: lines read less left out", 0.1),
            at_most("share of right answers: lines left out less the constant answer", 0.05),
        ]),
        run: Run::Trained(birthplaces::from_reading),
    },
    Claim {
        id: "L7",
        title: "Unseen names",
        note: "S4 §3c",
        statement: "The model answers for names that it never saw.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("unseen names: share answered with a place that exists", 0.9),
            at_most("unseen names: share that is right less the constant answer", 0.05),
        ]),
        run: Run::Trained(birthplaces::unseen_names),
    },
    Claim {
        id: "L8",
        title: "Right and wrong side by side",
        note: "S4 §3b",
        statement: "Right and wrong answers look alike.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least("share of wrong answers that are places", 0.9)]),
        run: Run::Trained(birthplaces::side_by_side),
    },
    Claim {
        id: "L9",
        title: "The held-out questions",
        note: "S4 §2(g)i",
        statement: "Held-out questions are answered and written to a file.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            is("vanilla: questions of …", 0.0, 0.0),
            is("Perceiver: questions of …", 0.0, 0.0),
        ]),
        run: Run::Trained(birthplaces::test_questions),
    },
];
