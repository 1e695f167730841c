//! Group D: copying a value, averaging two, subspaces, and what noisy keys do to it.

mod average;
mod copy;
mod heads;
mod noisy;
mod subspaces;
mod trained;

use crate::predicate::{at_least, at_most, is};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "D1",
        title: "A margin makes a copy",
        note: "S1 §a-ii, S4 §a-ii",
        statement: "If one key’s score is far above all others, its weight is nearly 1.",
        formula: "αⱼ ≥ 1/(1 + (n−1)e^(−margin))",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(copy::margin),
    },
    Claim {
        id: "D2",
        title: "Then the value is copied",
        note: "S1 §a-iii,iv, S4 §a-iii,iv",
        statement: "Then c ≈ vⱼ.",
        formula: "‖c − vⱼ‖ ≤ (1−αⱼ)·diam(V)",
        errata: &["E35"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(copy::value),
    },
    Claim {
        id: "D3",
        title: "Weights are usually diffuse",
        note: "S4 §a-ii",
        statement: "Without such a margin the weights are diffuse.",
        formula: "entropy of softmax(Kq/√d) for random q and k",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("random weights: mean entropy as a share of ln n", 0.8),
            at_least("trained heads: mean entropy as a share of ln of the keys", 0.8),
        ])
        .or_if(
            "for random queries and keys: trained heads are sharper",
            &[at_least("random weights: mean entropy as a share of ln n", 0.8)],
        ),
        run: Run::Trained(trained::diffuse),
    },
    Claim {
        id: "D4",
        title: "A projection separates a sum",
        note: "S1 §b-i, S4 §b-i",
        statement: "For orthonormal bases A ⊥ B the matrix M = AAᵀ gives M(vₐ + v_b) = vₐ.",
        formula: "M = AAᵀ: MA = A, MB = 0, M² = M = Mᵀ",
        errata: &["E34"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(subspaces::projection_separates),
    },
    Claim {
        id: "D5",
        title: "Both survive the average",
        note: "S4 §b-i",
        statement: "An average of vₐ and v_b keeps the information of both.",
        formula: "vₐ = 2Mc, v_b = 2M′c if A ⊥ B; error ≤ cos θ otherwise",
        errata: &[],
        predicate: Predicate::says(&[
            at_most("orthogonal: relative error of 2Mc", 1e-14),
            at_most("at an angle of 60°: relative error of 2Mc", 0.01),
        ])
        .or_if("if the subspaces are orthogonal", &[at_most("orthogonal: relative error of 2Mc", 1e-14)]),
        run: Run::Exact(subspaces::decoding),
    },
    Claim {
        id: "D6",
        title: "A query for two keys",
        note: "S1 §b-ii, S4 §b-ii",
        statement: "For orthonormal keys q = β(kₐ + k_b) gives each half of the weight.",
        formula: "αₐ = α_b = e^β/(2e^β + n − 2)",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(average::two),
    },
    Claim {
        id: "D7",
        title: "A query for any subset",
        note: "S4 §c",
        statement: "The same works for any subset of keys.",
        formula: "q = βΣ_{i∈S} kᵢ: αᵢ = e^β/(|S|e^β + n − |S|)",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(average::subset),
    },
    Claim {
        id: "D8",
        title: "Noisy keys, small noise",
        note: "S1 §c-i, S4 §c-i",
        statement: "With keys of small noise αI the query t(μₐ + μ_b), t ≫ 0, still averages.",
        formula: "ln n ≪ t ≪ 1/√(2α)",
        errata: &["E33"],
        predicate: Predicate::says(&[
            at_most("α = 0.0001: least error", 0.05),
            at_most("α = 0.05: error at t = 20 over the least, lower end", 1.1),
        ])
        .or_if("while t stays small against 1/√(2α)", &[at_most("α = 0.0001: least error", 0.05)]),
        run: Run::Sampled(noisy::best_length),
    },
    Claim {
        id: "D9",
        title: "Noise in a key’s length",
        note: "S1 §c-ii, S4 §c-ii",
        statement: "If the length of kₐ is uncertain, c swings between vₐ and v_b.",
        formula: "weight on vₐ = σ(tε), ε ~ N(0, ½)",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Sampled(noisy::swings),
    },
    Claim {
        id: "D10",
        title: "Two heads, one key each",
        note: "S4 §d-i",
        statement: "Two heads with q₁ = tμₐ, q₂ = tμ_b, averaged, give ½(vₐ + v_b).",
        formula: "c = ½(c₁ + c₂)",
        errata: &["E45"],
        predicate: Predicate::EveryNumber,
        run: Run::Sampled(heads::split),
    },
    Claim {
        id: "D11",
        title: "Two heads with the same query",
        note: "S1 §d-i",
        statement: "q₁ = q₂ = t(μₐ + μ_b) works as well.",
        formula: "c₁ = c₂ ⇒ Var[c] as of one head",
        errata: &["E31"],
        predicate: Predicate::says(&[
            at_most("std with equal queries, t = 10", 0.2),
            at_most("std with equal queries, t = 20", 0.2),
        ]),
        run: Run::Sampled(heads::same_query),
    },
    Claim {
        id: "D12",
        title: "Two heads cut the variance",
        note: "S4 §d-ii, S1 §d",
        statement: "Several heads reduce the variance of c when lengths are uncertain.",
        formula: "std of the weight on vₐ: two heads against one",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Sampled(heads::variance),
    },
    Claim {
        id: "D13",
        title: "Why they cut it",
        note: "S1 §d",
        statement: "Independent errors of the heads average out.",
        formula: "∂α/∂|k| → 0 where the head saturates",
        errata: &["E32"],
        predicate: Predicate::says(&[is(
            "spread of the split heads over that of two independent swinging heads averaged",
            1.0,
            0.2,
        )]),
        run: Run::Sampled(heads::reason),
    },
    Claim {
        id: "D14",
        title: "Draws with a negative score",
        note: "S4 §d-ii",
        statement: "Draws with kₐᵀq < 0 are to be ignored.",
        formula: "P(ε < −1) = Φ(−√2) = 7.9 %",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Sampled(heads::negative),
    },
    Claim {
        id: "D15",
        title: "Does the nearest key win?",
        note: "S4 §a-ii, a-iv, S1 §a-ii, a-iv",
        statement: "A value is copied if its key is the closest to the query, aligned with it or almost identical to it.",
        formula: "k = 10q: kᵀq = 10‖q‖² > ‖q‖²",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("share of scenes in which k = q beats k = 10q", 0.99),
            at_least("share of scenes in which the nearest key wins", 0.99),
            at_least("keys of length 1: share of scenes in which the nearest key wins", 0.99),
        ])
        .or_if(
            "among keys of equal length",
            &[at_least("keys of length 1: share of scenes in which the nearest key wins", 0.99)],
        ),
        run: Run::Exact(copy::closest),
    },
];
