//! Group F: self-attention, positions, and what a layer can be made to do.

mod constructions;
mod convolution;
mod explain;
mod lengths;
mod order;
mod relative;
mod trained;

use crate::predicate::{at_least, at_most, is};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "F-1",
        title: "Self-attention keeps shapes",
        note: "S0 §1.3a, S2 §1.3a",
        statement: "With Q = K = V = C and projections for each head, the output has the shape of C.",
        formula: "e × n → e × n",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(relative::keeps_shape),
    },
    Claim {
        id: "F-2",
        title: "Without positions order is lost",
        note: "S0 §1.3b, S2 §1.3b",
        statement: "Self-attention without positions ignores the order of its inputs.",
        formula: "f(XP) = f(X)P",
        errata: &["E16"],
        predicate: Predicate::says(&[
            at_most("no positions: f(PX) against P·f(X)", 1e-14),
            at_most("no positions: f(PX) against f(X), the smallest largest difference", 1e-12),
        ])
        .or_if(
            "in that outputs move with their inputs: equivariant, not invariant",
            &[at_most("no positions: f(PX) against P·f(X)", 1e-14)],
        ),
        run: Run::Exact(order::equivariant),
    },
    Claim {
        id: "F-3",
        title: "Sinusoidal positions",
        note: "S2 §1.3b",
        statement: "Positions are sines and cosines of rising wave length; a shift is a rotation.",
        formula: "PE(p+k) = R_k·PE(p)",
        errata: &["E11"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(order::sinusoids_turn),
    },
    Claim {
        id: "F-4",
        title: "Relative positions",
        note: "S2 §1.3b",
        statement: "Biases by distance make attention depend on distances alone.",
        formula: "A(i+s, j+s) = A(i, j)",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(relative::shift_invariant),
    },
    Claim {
        id: "F-5",
        title: "Relative positions extrapolate",
        note: "S2 §1.3b",
        statement: "Relative positions work at lengths beyond those of training, absolute ones do not.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("relative, accuracy at 48: …", 0.9),
            at_most("absolute, accuracy at 48: …", 0.9),
        ])
        .given(&[at_least("relative, accuracy at 12: …", 0.9), at_least("absolute, accuracy at 12: …", 0.9)])
        .or_if(
            "for twice the trained length, not for four times",
            &[at_least("relative, accuracy at 24: …", 0.9), at_most("absolute, accuracy at 48: …", 0.9)],
        ),
        run: Run::Trained(lengths::extrapolation),
    },
    Claim {
        id: "F-6",
        title: "Attention as the identity",
        note: "S0 §1.3c, S2 §1.3c",
        statement: "With A = I and W_O·W_V = I the layer is the identity.",
        formula: "a_ii = e^β/(e^β + n − 1)",
        errata: &["E12"],
        predicate: Predicate::says(&[
            is("diagonal weight at β = 1, n = 4", 1.0, 0.01),
            at_most("layer with W_O·W_V = I, β = 40: output against input", 1e-13),
        ])
        .or_if(
            "with a β of at least ln((n−1)(1−ε)/ε) and orthonormal keys",
            &[at_most("layer with W_O·W_V = I, β = 40: output against input", 1e-13)],
        ),
        run: Run::Exact(constructions::identity),
    },
    Claim {
        id: "F-7",
        title: "Attention as a permutation",
        note: "S2 §1.3c",
        statement: "With A a permutation matrix the layer permutes its inputs.",
        formula: "a₂₁ = 1 ⇒ h₁ = v₂",
        errata: &["E17"],
        predicate: Predicate::says(&[
            at_most("50 permutations: outputs against permuted inputs, β = 40", 1e-14),
            is("weight that key 3 gets in all", 1.0, 1e-12),
        ])
        .or_if(
            "if every key is taken once as well",
            &[at_most("50 permutations: outputs against permuted inputs, β = 40", 1e-14)],
        ),
        run: Run::Exact(constructions::permutation),
    },
    Claim {
        id: "F-8",
        title: "Attention as a convolution",
        note: "S0 §1.3d,e, S2 §1.3d",
        statement: "A banded A makes a convolution: k = 1 pointwise, [⅓ ⅓ ⅓], [¼ ½ ¼].",
        formula: "bias log w_δ, −∞ outside of the band",
        errata: &["E13", "E14"],
        predicate: Predicate::says(&[
            at_most("⅓ ⅓ ⅓: interior against the convolution", 1e-14),
            at_most("¼ ½ ¼: interior against the convolution", 1e-14),
            is("⅓ ⅓ ⅓: first query’s weight on itself", 0.3333333333333333, 1e-09),
        ])
        .or_if(
            "inside: at the border the weights are renormalised",
            &[
                at_most("⅓ ⅓ ⅓: interior against the convolution", 1e-14),
                at_most("¼ ½ ¼: interior against the convolution", 1e-14),
            ],
        ),
        run: Run::Exact(convolution::banded_is_convolution),
    },
    Claim {
        id: "F-9",
        title: "Local windows",
        note: "S2 §1.3d",
        statement: "A window makes attention local, at a cost that grows with n·w.",
        formula: "O(n·w)",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(relative::window),
    },
    Claim {
        id: "F-10",
        title: "A convolution can be learned",
        note: "S2 §1.3d",
        statement: "A layer trained on the outputs of a convolution finds the band.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least("weight on distances −1, 0, 1", 0.9)]),
        run: Run::Trained(trained::learns_band),
    },
    Claim {
        id: "F-11",
        title: "Weights explain something",
        note: "S2 §1.4b",
        statement: "Attention weights give some interpretability.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("Spearman’s ρ of weights and |gradient × input|", 0.0),
            at_least("Spearman’s ρ of weights and ablation", 0.0),
        ])
        .given(&[at_least("accuracy of the model", 0.9)]),
        run: Run::Trained(explain::weights_explain),
    },
    Claim {
        id: "F-12",
        title: "Order-free tasks need no positions",
        note: "S0 §1.3b",
        statement: "Tasks on sets need no positions, tasks of order do.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("majority without positions: accuracy", 0.95),
            at_most("reversal without positions: accuracy", 0.5),
        ])
        .given(&[
            at_least("majority with positions: accuracy", 0.95),
            at_least("reversal with positions: accuracy", 0.95),
        ]),
        run: Run::Trained(trained::order_free),
    },
    Claim {
        id: "F-13",
        title: "Where absolute, where relative",
        note: "S2 §1.3b",
        statement: "Absolute positions win where the place carries meaning, relative ones where relations do.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("a fixed place, at 12: best absolute less best relative", 0.0),
            at_most("a fixed distance, at 24: best absolute less best relative", 0.0),
        ])
        .given(&[
            at_least("a fixed place, at 12: best absolute", 0.9),
            at_least("a fixed distance, at 12: best absolute", 0.9),
            at_least("a fixed distance, at 12: best relative", 0.9),
        ]),
        run: Run::Trained(lengths::absolute_or_relative),
    },
    Claim {
        id: "F-14",
        title: "Sinusoids beyond the trained length",
        note: "S2 §1.5b",
        statement: "Sinusoidal positions generalise to sequences longer than those of training.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("absolute, accuracy at 24: sinusoidal", 0.9),
            at_least("absolute, accuracy at 48: sinusoidal", 0.9),
        ])
        .given(&[at_least("absolute, accuracy at 12: sinusoidal", 0.9)])
        .or_if(
            "for twice the trained length, not for four times",
            &[at_least("absolute, accuracy at 24: sinusoidal", 0.9)],
        ),
        run: Run::Trained(lengths::sinusoids_beyond),
    },
    Claim {
        id: "F-16",
        title: "Local attention and β",
        note: "S2 §1.3d",
        statement: "Local attention needs a moderate β.",
        formula: "too small averages the window, too large copies",
        errata: &[],
        predicate: Predicate::says(&[
            at_most("the β of the kernel: weights against ¼ ½ ¼", 1e-07),
            at_least("a hundredth of it: weights against ¼ ½ ¼", 0.05),
            at_least("a hundred times it: weights against ¼ ½ ¼", 0.05),
        ]),
        run: Run::Exact(convolution::moderate_beta),
    },
];
