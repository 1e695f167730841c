//! Group L: pretraining, fine-tuning, evaluation, and the Perceiver.

mod birthplaces;
mod corruption;
pub(crate) mod study;

use crate::{Claim, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "L1",
        title: "Span corruption",
        note: "S4 §2–3",
        statement: "Texts are cut, a span is masked and moved to the end.",
        formula: "",
        errata: &[],
        run: Run::Sampled(corruption::spans),
    },
    Claim {
        id: "L2",
        title: "Pretraining helps",
        note: "S4 §3a",
        statement: "After pretraining more birthplaces are right than without.",
        formula: "",
        errata: &[],
        run: Run::Trained(birthplaces::pretraining_helps),
    },
    Claim {
        id: "L3",
        title: "The Perceiver variant",
        note: "S4 §2(g)i",
        statement: "A Perceiver with fewer latents is nearly as good and faster.",
        formula: "",
        errata: &[],
        run: Run::Trained(birthplaces::perceiver),
    },
    Claim {
        id: "L4",
        title: "Its cost",
        note: "S4 §2(g)ii",
        statement: "Costs as in H7.",
        formula: "",
        errata: &["E37"],
        run: Run::Exact(crate::h_cost::perceiver_cost),
    },
    Claim {
        id: "L5",
        title: "The constant answer",
        note: "S4 §3 (baseline)",
        statement: "Answering London always is right in 5 % of cases.",
        formula: "",
        errata: &[],
        run: Run::Exact(corruption::constant_answer),
    },
    Claim {
        id: "L6",
        title: "Knowledge comes from pretraining",
        note: "S4 §3a",
        statement: "The model knows what it read in pretraining.",
        formula: "",
        errata: &["E36"],
        run: Run::Trained(birthplaces::from_reading),
    },
    Claim {
        id: "L7",
        title: "Unseen names",
        note: "S4 §3c",
        statement: "The model answers for names that it never saw.",
        formula: "",
        errata: &[],
        run: Run::Trained(birthplaces::unseen_names),
    },
    Claim {
        id: "L8",
        title: "Right and wrong side by side",
        note: "S4 §3b",
        statement: "Right and wrong answers look alike.",
        formula: "",
        errata: &[],
        run: Run::Trained(birthplaces::side_by_side),
    },
    Claim {
        id: "L9",
        title: "The held-out questions",
        note: "S4 §2(g)i",
        statement: "Held-out questions are answered and written to a file.",
        formula: "",
        errata: &[],
        run: Run::Trained(birthplaces::test_questions),
    },
];
