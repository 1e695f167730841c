//! Group I: normalisation and residuals.

mod batch_norm;
mod dependence;
mod layer_norm;
mod residual;
mod trained;

use crate::predicate::{at_least, at_most, is};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "I1",
        title: "Layer norm",
        note: "S0 §1.4e, S2 §1.4e",
        statement: "LN(x) = γ ⊙ (x − μ)/√(σ² + ε) + β over the features of each example.",
        formula: "y = γ ⊙ (x − μ)/√(σ² + ε) + β",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(layer_norm::formula),
    },
    Claim {
        id: "I2",
        title: "What a norm depends on",
        note: "S3 §3a",
        statement: "Layer norm mixes the features of an example, batch norm the examples of a feature.",
        formula: "LN: same row; BN in training: same column; BN in evaluation: itself",
        errata: &["E29"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(dependence::norms),
    },
    Claim {
        id: "I3",
        title: "The length of a normed vector",
        note: "S3 §3b",
        statement: "‖y − β1‖ = γ√d.",
        formula: "‖y − β1‖ = |γ|√d · σ/√(σ² + ε)",
        errata: &["E30"],
        predicate: Predicate::says(&[
            is("γ = 1.5, ε → 0: ‖y − β1‖/(γ√d)", 1.0, 1e-13),
            is("γ = −1.5, ε → 0: ‖y − β1‖/(γ√d)", 1.0, 1e-13),
            is("γ = 1, ε = 10⁻⁵, σ² = 10⁻⁶: ‖y − β1‖/(γ√d)", 1.0, 1e-13),
        ])
        .or_if(
            "for one γ > 0 for all features and ε = 0",
            &[is("γ = 1.5, ε → 0: ‖y − β1‖/(γ√d)", 1.0, 1e-13)],
        ),
        run: Run::Exact(layer_norm::length_of),
    },
    Claim {
        id: "I4",
        title: "Mean zero, length √d",
        note: "S3 §3b",
        statement: "Before γ and β the normed vector has zᵀ1 = 0 and ‖z‖ = √d.",
        formula: "zᵀ1 = 0, ‖z‖ = √d (ε = 0)",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(layer_norm::unit),
    },
    Claim {
        id: "I5",
        title: "Two directions are lost",
        note: "derived",
        statement: "The Jacobian of layer norm kills 1 and x − μ, and shrinks the rest by 1/σ.",
        formula: "J·1 = 0, J·(x−μ) = 0",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(residual::lost_directions),
    },
    Claim {
        id: "I6",
        title: "Post-norm and pre-norm",
        note: "S0 §1.4e, S2 §1.4e",
        statement: "The original order norms after each addition; pre-norm norms before each part.",
        formula: "LN(x + F(x))  and  x + F(LN(x))",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(residual::places),
    },
    Claim {
        id: "I7",
        title: "Are residual gradients at least 1?",
        note: "S2 §1.4e",
        statement: "∂(x + F)/∂x = I + ∂F/∂x, so that gradients are at least 1.",
        formula: "F = −x ⇒ I + ∂F/∂x = 0",
        errata: &["E20"],
        predicate: Predicate::says(&[at_least("F = −x: largest singular value of I + ∂F/∂x", 1.0)]),
        run: Run::Exact(residual::at_least_one),
    },
    Claim {
        id: "I8",
        title: "Layer norm forgives init and rate",
        note: "S2 §1.4e",
        statement: "Layer norm makes training less sensitive to initialisation and learning rate.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("share of settings that train: with layer norm less without", 0.0),
            at_most("largest less smallest loss: with layer norm less without", 0.0),
        ]),
        run: Run::Trained(trained::forgiving),
    },
    Claim {
        id: "I9",
        title: "Residuals allow depth",
        note: "S2 §1.4e",
        statement: "Residuals and layer norm allow deep stacks.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_most("deepest stack: loss with residuals and pre-norm less without either", 0.0),
            at_most("deepest stack: loss with residuals and post-norm less without either", 0.0),
        ])
        .or_if(
            "with the norm before each part; after each sum it does not help at this depth",
            &[at_most("deepest stack: loss with residuals and pre-norm less without either", 0.0)],
        ),
        run: Run::Trained(trained::depth),
    },
    Claim {
        id: "I10",
        title: "Batch norm, both modes",
        note: "S3 §3a",
        statement: "Batch norm norms by the batch in training and by running statistics in evaluation.",
        formula: "r ← (1−m)·r + m·batch",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(batch_norm::modes),
    },
];
