//! Group F: self-attention, positions, and what a layer can be made to do.

mod constructions;
mod convolution;
mod explain;
mod order;
mod relative;
mod trained;

use crate::{Claim, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "F-1",
        title: "Self-attention keeps shapes",
        note: "S0 §1.3a, S2 §1.3a",
        statement: "With Q = K = V = C and projections for each head, the output has the shape of C.",
        formula: "e × n → e × n",
        errata: &[],
        run: Run::Exact(relative::keeps_shape),
    },
    Claim {
        id: "F-2",
        title: "Without positions order is lost",
        note: "S0 §1.3b, S2 §1.3b",
        statement: "Self-attention without positions ignores the order of its inputs.",
        formula: "f(XP) = f(X)P",
        errata: &["E16"],
        run: Run::Exact(order::equivariant),
    },
    Claim {
        id: "F-3",
        title: "Sinusoidal positions",
        note: "S2 §1.3b",
        statement: "Positions are sines and cosines of rising wave length; a shift is a rotation.",
        formula: "PE(p+k) = R_k·PE(p)",
        errata: &["E11"],
        run: Run::Exact(order::sinusoids_turn),
    },
    Claim {
        id: "F-4",
        title: "Relative positions",
        note: "S2 §1.3b",
        statement: "Biases by distance make attention depend on distances alone.",
        formula: "A(i+s, j+s) = A(i, j)",
        errata: &[],
        run: Run::Exact(relative::shift_invariant),
    },
    Claim {
        id: "F-5",
        title: "Relative positions extrapolate",
        note: "S2 §1.3b",
        statement: "Relative positions work at lengths beyond those of training, absolute ones do not.",
        formula: "",
        errata: &[],
        run: Run::Trained(trained::extrapolation),
    },
    Claim {
        id: "F-6",
        title: "Attention as the identity",
        note: "S0 §1.3c, S2 §1.3c",
        statement: "With A = I and W_O·W_V = I the layer is the identity.",
        formula: "a_ii = e^β/(e^β + n − 1)",
        errata: &["E12"],
        run: Run::Exact(constructions::identity),
    },
    Claim {
        id: "F-7",
        title: "Attention as a permutation",
        note: "S2 §1.3c",
        statement: "With A a permutation matrix the layer permutes its inputs.",
        formula: "a₂₁ = 1 ⇒ h₁ = v₂",
        errata: &["E17"],
        run: Run::Exact(constructions::permutation),
    },
    Claim {
        id: "F-8",
        title: "Attention as a convolution",
        note: "S0 §1.3d,e, S2 §1.3d",
        statement: "A banded A makes a convolution: k = 1 pointwise, [⅓ ⅓ ⅓], [¼ ½ ¼].",
        formula: "bias log w_δ, −∞ outside of the band",
        errata: &["E13", "E14"],
        run: Run::Exact(convolution::banded_is_convolution),
    },
    Claim {
        id: "F-9",
        title: "Local windows",
        note: "S2 §1.3d",
        statement: "A window makes attention local, at a cost that grows with n·w.",
        formula: "O(n·w)",
        errata: &[],
        run: Run::Exact(relative::window),
    },
    Claim {
        id: "F-10",
        title: "A convolution can be learned",
        note: "S2 §1.3d",
        statement: "A layer trained on the outputs of a convolution finds the band.",
        formula: "",
        errata: &[],
        run: Run::Trained(trained::learns_band),
    },
    Claim {
        id: "F-11",
        title: "Weights explain something",
        note: "S2 §1.4b",
        statement: "Attention weights give some interpretability.",
        formula: "",
        errata: &[],
        run: Run::Trained(explain::weights_explain),
    },
    Claim {
        id: "F-12",
        title: "Order-free tasks need no positions",
        note: "S0 §1.3b",
        statement: "Tasks on sets need no positions, tasks of order do.",
        formula: "",
        errata: &[],
        run: Run::Trained(trained::order_free),
    },
    Claim {
        id: "F-13",
        title: "Where absolute, where relative",
        note: "S2 §1.3b",
        statement: "Absolute positions win where the place carries meaning, relative ones where relations do.",
        formula: "",
        errata: &[],
        run: Run::Trained(trained::absolute_or_relative),
    },
];
