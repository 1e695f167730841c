//! Group B: the scale β, temperature, and what they do to gradients.

mod jacobian;
mod limits;
mod saturation;
mod trained;
mod variance;

use crate::predicate::{at_least, at_most, is};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "B1",
        title: "The usual scale",
        note: "S0 §1.1b, S2 §1.1b, S3 §1a",
        statement: "β is 1/√d of one head, not of the whole model.",
        formula: "β = 1/√d_head",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(variance::default_scale),
    },
    Claim {
        id: "B2",
        title: "Scores have variance d",
        note: "S3 §1a",
        statement: "For independent entries of mean 0 and variance 1 a score qᵀk has mean 0 and variance d.",
        formula: "E[qᵀk] = 0, Var[qᵀk] = d",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Sampled(variance::raw),
    },
    Claim {
        id: "B3",
        title: "Scaled scores have variance 1",
        note: "S2 §1.1b",
        statement: "Divided by √d they have variance 1.",
        formula: "Var[qᵀk/√d] = 1",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Sampled(variance::scaled),
    },
    Claim {
        id: "B4",
        title: "β → ∞ is hard attention",
        note: "S0 §1.1c, S2 §1.1b,c",
        statement: "As β grows the weights become one-hot on the best key and h its value.",
        formula: "a → 1 on argmax s; 1/k each on k tied keys",
        errata: &["E9"],
        predicate: Predicate::says(&[
            at_most("distance to hard attention at β = 1000", 1e-12),
            is("weight of each of two tied keys at β = 1000", 1.0, 0.01),
        ])
        .or_if("if the largest score is unique", &[at_most("distance to hard attention at β = 1000", 1e-12)]),
        run: Run::Exact(limits::cold),
    },
    Claim {
        id: "B5",
        title: "β → 0 is the mean",
        note: "S0 §1.1d, S2 §1.1b,d",
        statement: "As β falls all weights become 1/m and h the mean of the values.",
        formula: "a → 1/m, h → mean(v)",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(limits::hot),
    },
    Claim {
        id: "B6",
        title: "Larger β is sharper",
        note: "S2 §1.1b",
        statement: "Large β gives sharper weights, small β smoother ones.",
        formula: "dH/dβ = −β·Var_a[s] ≤ 0",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(limits::entropy_falls),
    },
    Claim {
        id: "B7",
        title: "β is an inverse temperature",
        note: "S2 §1.1c,d",
        statement: "A very large temperature is a very large β.",
        formula: "T = 1/β",
        errata: &["E7"],
        predicate: Predicate::says(&[is("largest weight at T = 100 (β = 0.01)", 1.0, 0.1)]),
        run: Run::Exact(limits::temperature),
    },
    Claim {
        id: "B8",
        title: "The Jacobian of softmax",
        note: "S3 §1a",
        statement: "∂a/∂s = diag(a) − aaᵀ.",
        formula: "J = diag(a) − aaᵀ",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(jacobian::closed_form),
    },
    Claim {
        id: "B9",
        title: "Its Frobenius norm",
        note: "S3 §1a",
        statement: "‖J‖² = Σaᵢ²(1−aᵢ)² + 2Σᵢ<ⱼ aᵢ²aⱼ².",
        formula: "‖J‖_F² = Σ aᵢ²(1−aᵢ)² + 2 Σᵢ<ⱼ aᵢ²aⱼ²",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(jacobian::norm),
    },
    Claim {
        id: "B10",
        title: "Sharp weights, small Jacobian",
        note: "S3 §1a",
        statement: "If the largest weight is above 1 − ε, ‖J‖_F is below nε.",
        formula: "a_max > 1−ε ⇒ ‖J‖_F < nε",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(jacobian::bound),
    },
    Claim {
        id: "B11",
        title: "Without 1/√d the Jacobian vanishes",
        note: "S3 §1a",
        statement: "Without the scale the largest weight tends to 1 and the Jacobian to 0 as d grows.",
        formula: "median ‖J(softmax(qᵀk))‖_F over d, n = 32",
        errata: &["E23"],
        predicate: Predicate::says(&[
            at_most("d = 4096: unscaled median over scaled", 0.001),
            at_least("d = 4096: median of the largest weight, unscaled", 0.99),
            at_most("d = 16: unscaled median over scaled", 1.0),
        ])
        .or_if(
            "for large d: at d = 16 the Jacobian is larger without the scale",
            &[
                at_most("d = 4096: unscaled median over scaled", 0.001),
                at_least("d = 4096: median of the largest weight, unscaled", 0.99),
            ],
        ),
        run: Run::Sampled(saturation::by_width),
    },
    Claim {
        id: "B12",
        title: "Vanishing gradients at both ends",
        note: "S0 §1.1b",
        statement: "Extreme distributions make gradients vanish.",
        formula: "∂a/∂(raw score) = β·J",
        errata: &["E24"],
        predicate: Predicate::says(&[
            at_most("median norm at β = 1000, share of the peak", 0.01),
            at_least("median norm at β = 0.001, share of the peak", 0.5),
        ])
        .or_if(
            "for sharp weights: gradients vanish for uniform ones as well",
            &[at_most("median norm at β = 1000, share of the peak", 0.01)],
        ),
        run: Run::Exact(saturation::by_beta),
    },
    Claim {
        id: "B13",
        title: "Training without the scale",
        note: "S3 §1a",
        statement: "Without 1/√d a model trains worse: small gradients of W_Q and W_K.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("without the scale less with it: mean loss of the run", 0.0),
            at_most(
                "without the scale less with it: gradient norm of W_Q, mean of the first five steps",
                0.0,
            ),
            at_most(
                "without the scale less with it: gradient norm of W_K, mean of the first five steps",
                0.0,
            ),
        ])
        .or_if(
            "as to the loss: the gradients of W_Q and W_K are not smaller at the beginning",
            &[at_least("without the scale less with it: mean loss of the run", 0.0)],
        ),
        run: Run::Trained(trained::with_and_without),
    },
];
