//! Group E: multi-head attention.

mod field;
mod layer;
mod trained;

use crate::predicate::{at_least, at_most, is};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "E-1",
        title: "Heads, concatenated and mixed",
        note: "S0 §1.2a, S2 §1.2a, S3 code",
        statement: "Each head projects, attends and is concatenated; an output matrix mixes them.",
        formula: "concat(H₁ … H_h) through W_O",
        errata: &["E10"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(layer::separate_heads),
    },
    Claim {
        id: "E-2",
        title: "Widths of heads",
        note: "S2 §1.2a",
        statement: "Usually d_k = d/h and d_v = t/h; widths that do not divide are refused, free ones allowed.",
        formula: "β = 1/√d_k",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(layer::widths),
    },
    Claim {
        id: "E-3",
        title: "Splitting and joining heads",
        note: "S3 code",
        statement: "Heads are split from one wide projection and joined again.",
        formula: "b t (h d) → (b h) t d",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(layer::split_and_join),
    },
    Claim {
        id: "E-4",
        title: "Heads add up",
        note: "S0 §1.2a",
        statement: "The output is a sum over heads of each head’s own linear map.",
        formula: "Y = Σᵢ W_Oᵢ Hᵢ",
        errata: &["E10"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(layer::additive),
    },
    Claim {
        id: "E-5",
        title: "Heads cost nothing extra",
        note: "S2 §1.4c",
        statement: "Many narrow heads cost about as much as one wide one.",
        formula: "4d² parameters for every h",
        errata: &["E42"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(layer::equal_cost),
    },
    Claim {
        id: "E-6",
        title: "Heads and convolution filters",
        note: "S0 §1.2b, S2 §1.2b",
        statement: "Heads are like filters: parallel, each in its subspace, then mixed; but global instead of local.",
        formula: "k heads at fixed offsets = a convolution of width k",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(field::heads_as_filters),
    },
    Claim {
        id: "E-7",
        title: "Heads specialise",
        note: "S2 §1.4c",
        statement: "Heads take different roles: neighbours, syntax, coreference.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("largest weight of a head on the previous token, trained less before training", 0.0),
            at_least(
                "largest weight of a head on what followed the same token, trained less before training",
                0.0,
            ),
            at_least("longest less shortest mean distance of a head, trained less before training", 0.0),
        ])
        .given(&[at_least("accuracy of the model", 0.9)]),
        run: Run::Trained(trained::specialise),
    },
    Claim {
        id: "E-8",
        title: "Heads are redundant",
        note: "S2 §1.4c",
        statement: "Some heads can be removed at little loss.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_most("rise of the loss without the least needed head", 0.05)])
            .given(&[at_least("accuracy of the model", 0.9)]),
        run: Run::Trained(trained::redundant),
    },
    Claim {
        id: "E-9",
        title: "Heads and gradient flow",
        note: "S2 §1.4c",
        statement: "More heads have better gradient flow.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("eight heads less one: the same over the last block’s", 0.0),
            at_most("eight heads less one: loss after 30 steps", 0.0),
        ]),
        run: Run::Trained(trained::gradient_flow),
    },
    Claim {
        id: "E-10",
        title: "Heads and capacity",
        note: "S2 §1.4c",
        statement: "More heads can do more at equal cost.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("two heads less one: accuracy", 0.0),
            at_least("four heads less one: accuracy", 0.0),
        ]),
        run: Run::Trained(trained::capacity),
    },
    Claim {
        id: "E-11",
        title: "Receptive field of hard heads",
        note: "S3 §2a",
        statement: "With argmax attention the receptive field after n layers of k heads is (k+1)ⁿ.",
        formula: "min(T, (k+1)ⁿ)",
        errata: &["E25"],
        predicate: Predicate::says(&[
            is("k = 2, n = 3, T = 64: by reach, min(T, 27)", 27.0, 0.0),
            is("k = 2, n = 3, T = 64: all heads alike, 2ⁿ", 27.0, 0.0),
            is("k = 3, n = 3, T = 20: by reach, min(T, 64)", 64.0, 0.0),
        ])
        .or_if(
            "where no two ways lead to the same position and the sequence is long enough",
            &[is("k = 2, n = 3, T = 64: by reach, min(T, 27)", 27.0, 0.0)],
        ),
        run: Run::Exact(field::receptive_field),
    },
    Claim {
        id: "E-12",
        title: "Is softmax unimodal?",
        note: "S3 §2a",
        statement: "The softmax is usually unimodal, so that argmax approximates it.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("share of rows with a weight above one half", 0.5),
            at_least("accuracy with argmax less with the softmax", -0.05),
        ])
        .given(&[at_least("accuracy with the softmax", 0.9)]),
        run: Run::Trained(trained::unimodal),
    },
    Claim {
        id: "E-13",
        title: "Cross-attention",
        note: "S2 §1.1, §1.4b",
        statement: "Queries come from one sequence, keys and values from another.",
        formula: "n_t ≠ n_s",
        errata: &["E43"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(layer::cross),
    },
];
