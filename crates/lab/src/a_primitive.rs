//! Group A: the attention primitive: shapes, weights, layouts, hard and soft, dropout, rows without keys.

mod dropout;
mod hard;
mod masked;
mod shapes;
mod weights;

use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "A1",
        title: "Shapes of attention",
        note: "S0 §1.1a, S2 §1.1a",
        statement: "The weights A = softargmax_β(KᵀQ) are m × n and the result H = V·A is t × n; m may differ from n, and t from d.",
        formula: "H = V · softmax(β KᵀQ)",
        errata: &["E10"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(shapes::shapes),
    },
    Claim {
        id: "A2",
        title: "Each query’s weights sum to 1",
        note: "S2 §1.1a",
        statement: "The softargmax is taken for each query by itself.",
        formula: "Σᵢ aᵢⱼ = 1 for every query j",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(weights::sums),
    },
    Claim {
        id: "A3",
        title: "Two layouts, one kernel",
        note: "S2 §1.4b, S3 code",
        statement: "Features in columns (V·softmax(KᵀQ)) and positions in rows (softmax(QKᵀ)V) are the same numbers, transposed.",
        formula: "(V·softmax_col(KᵀQ))ᵀ = softmax_row(QᵀK)·Vᵀ",
        errata: &["E10"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(shapes::layouts),
    },
    Claim {
        id: "A4",
        title: "Weights are a distribution",
        note: "S1 §a-i, S4 §1a-i",
        statement: "The weights are a categorical distribution over the keys: none negative, together 1.",
        formula: "aᵢ ≥ 0, Σ aᵢ = 1",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(weights::distribution),
    },
    Claim {
        id: "A5",
        title: "A single query",
        note: "S4 eq. 1–2",
        statement: "For one query c = Σ αᵢvᵢ with α = softmax(Kq), without a scale.",
        formula: "c = Σᵢ αᵢ vᵢ, β = 1",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(shapes::single_query),
    },
    Claim {
        id: "A6",
        title: "Results lie among the values",
        note: "S2 §1.1a",
        statement: "The result of attention is in the convex hull of the values.",
        formula: "minᵢ vᵢ ≤ h ≤ maxᵢ vᵢ, coordinate by coordinate",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(weights::hull),
    },
    Claim {
        id: "A7",
        title: "Hard attention, three ways",
        note: "S2 §1.1c",
        statement: "Hard attention takes the best key alone; Gumbel noise and the straight-through estimator make it trainable.",
        formula: "P(choose i) = softmax(s)ᵢ for argmaxᵢ (sᵢ + Gumbel)",
        errata: &["E38"],
        predicate: Predicate::EveryNumber,
        run: Run::Sampled(hard::three_forms),
    },
    Claim {
        id: "A8",
        title: "Dropout on the weights",
        note: "S2 §1.1d",
        statement: "Weights may be dropped after the softmax, in training only.",
        formula: "E[dropped A] = A",
        errata: &["E8"],
        predicate: Predicate::EveryNumber,
        run: Run::Sampled(dropout::unbiased),
    },
    Claim {
        id: "A9",
        title: "Attention as a linear layer",
        note: "S0 §1.1c,d",
        statement: "With fixed weights attention is a linear layer: the identity for hard weights, equal weights 1/m for flat ones.",
        formula: "H = V·A with A fixed",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(hard::as_linear),
    },
    Claim {
        id: "A10",
        title: "A query without any key",
        note: "S3 §2b (implied)",
        statement: "A row whose keys are all masked gives zeros, weights zero and gradients zero, is counted, and disturbs no other row.",
        formula: "h = 0, a = 0, ∂ = 0; lse = −∞",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(masked::empty_rows),
    },
];
