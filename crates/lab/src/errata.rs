//! Where the notes are wrong or incomplete: what they say, and what is true. The numbers come from the
//! claims.

/// One erratum.
#[derive(Clone, Copy, Debug)]
pub struct Erratum {
    /// `E1`.
    pub id: &'static str,
    /// Where the notes say it.
    pub note: &'static str,
    /// What they say, in our words.
    pub claim: &'static str,
    /// What is true.
    pub truth: &'static str,
}

const fn erratum(id: &'static str, note: &'static str, claim: &'static str, truth: &'static str) -> Erratum {
    Erratum { id, note, claim, truth }
}

/// All of them, in order.
pub const ERRATA: &[Erratum] = &[
    erratum(
        "E1",
        "S0 §1.1e",
        "noise of mean zero on a key leaves H unchanged",
        "every draw changes H, by (a′ − a)(vᵢ − v̄₋ᵢ); only its mean vanishes, and only to first order",
    ),
    erratum(
        "E2",
        "S2 §1.1e,f",
        "the expected change of H is zero",
        "a bias of second order remains: ½β²σ²‖q‖²·a(1−a)(1−2a)·(vᵢ − v̄₋ᵢ); it is zero only at a = ½",
    ),
    erratum(
        "E3",
        "S2 §1.1e",
        "moving one key affects one row of the attention matrix",
        "every weight of each column moves, for the column still sums to 1",
    ),
    erratum(
        "E4",
        "S2 §1.1e",
        "the effect is proportional to a",
        "it is proportional to a(1−a), and vanishes at a = 1 too",
    ),
    erratum(
        "E5",
        "S2 §1.1g",
        "a longer key raises its weight for all queries",
        "only where kᵀq > 0; where it is negative the weight falls to 0, where it is 0 nothing changes",
    ),
    erratum(
        "E6",
        "S0 §1.1f",
        "a first-order expression for the change of H",
        "β is missing and the shapes do not fit; a closed form exists and needs no approximation",
    ),
    erratum(
        "E7",
        "S2 §1.1c,d",
        "large β is a large temperature",
        "β is the inverse temperature: large β is cold, small β is hot",
    ),
    erratum(
        "E8",
        "S2 §1.1d",
        "dropout on the weights spreads attention",
        "the expected weights are unchanged by it",
    ),
    erratum(
        "E9",
        "S0 §1.1c, S2 §1.1c",
        "β → ∞ gives a one-hot vector",
        "only if the largest score is unique; tied keys share the weight equally",
    ),
    erratum(
        "E10",
        "S0 §1.1e,f, §1.2, §1.3",
        "H = softmax(KᵀQ)V; W_Q of size d × d/h times Q; a weighted sum of heads",
        "in the notes' own layout H = V·A; W_Q must be transposed; heads are concatenated and mapped linearly",
    ),
    erratum("E11", "S0 §1.3b", "a “potential encoder”", "a positional encoding"),
    erratum(
        "E12",
        "S0 §1.3c",
        "KᵀQ = I makes attention the identity",
        "that is before the softmax: the diagonal weight is only e^β/(e^β+n−1); β ≳ ln(n/ε), n ≤ d and W_O·W_V = I are needed",
    ),
    erratum(
        "E13",
        "S0 §1.3d",
        "diagonal weights are a 1-D convolution",
        "diagonal weights that sum to 1 are the identity, a convolution of size 1; a softmax without a mask has no exact zeros",
    ),
    erratum(
        "E14",
        "S0 §1.3e",
        "a band of 1/3 everywhere",
        "at the border such columns sum to 2/3, which no softmax gives: they become ½, ½ (or ⅔, ⅓ for ¼, ½, ¼); one head has one number for each tap",
    ),
    erratum(
        "E15",
        "S2 §1.3e",
        "the causal matrix is lower triangular",
        "in the notes' own key × query layout it is upper triangular; lower in query × key",
    ),
    erratum(
        "E16",
        "S2 §1.3b, §1.5b",
        "self-attention is permutation-invariant",
        "it is equivariant: permuted inputs give permuted outputs",
    ),
    erratum(
        "E17",
        "S2 §1.3c",
        "a permutation has exactly one 1 in each row",
        "rows and columns both; one-hot columns alone are a gather that may repeat and drop inputs",
    ),
    erratum(
        "E18",
        "S2 §1.4a",
        "parallel in training and inference",
        "generation goes token by token: each needs the last",
    ),
    erratum(
        "E19",
        "S0 §1.4b",
        "self-attention decreases the work of a layer",
        "only if the sequence is shorter than the width",
    ),
    erratum(
        "E20",
        "S2 §1.4e",
        "residual gradients are at least 1",
        "I + ∂F can be singular (F = −x); in post-norm the norm's Jacobian removes two directions at each layer",
    ),
    erratum(
        "E21",
        "S2 §1.4d",
        "attention is primarily linear; the feed-forward part is a bottleneck",
        "linear in V only, for fixed weights; the feed-forward part is an inverted bottleneck",
    ),
    erratum(
        "E22",
        "S0 §1.4d",
        "different parameters for the feed-forward parts",
        "shared by all positions, different in each layer",
    ),
    erratum(
        "E23",
        "S3 §1a",
        "without 1/√d the gradient vanishes as d grows",
        "in probability only, and not monotonically: at d = 16 the unscaled Jacobian is larger than the scaled one; collapse begins near d ≈ 64 to 256",
    ),
    erratum(
        "E24",
        "S0, S2, S3",
        "gradients vanish for large scores",
        "β·J vanishes for β → 0 as well; it peaks in between",
    ),
    erratum(
        "E25",
        "S3 §2a",
        "a receptive field of (k+1)ⁿ",
        "an upper bound: min(T, (k+1)ⁿ), less where heads coincide, look at themselves or are causal; soft attention sees all after one layer",
    ),
    erratum(
        "E26",
        "S3 §2b",
        "right padding is usual and needs no mask in a decoder",
        "true in training, if the loss skips pads; batched generation pads on the left and needs a mask and shifted positions",
    ),
    erratum(
        "E27",
        "S3 §2c",
        "costs by line number",
        "the numbers do not match the listing (q: 5–6, k: 7–8, v: 9–10), part of which is missing",
    ),
    erratum(
        "E28",
        "S3 §2d",
        "no point at which the costs cross",
        "multiply-adds cross at n = 2d for attention alone, at n = 6d with a feed-forward part of 4d",
    ),
    erratum(
        "E29",
        "S3 §3a",
        "layer norm is elementwise; batch norm mixes examples",
        "layer norm works per example; batch norm mixes examples in training only; for d = 1 layer norm is constant, for d = 2 it gives ±γ",
    ),
    erratum(
        "E30",
        "S3 §3b",
        "‖y − β‖ = γ√d",
        "|γ|, one γ for all features, ε = 0 and σ > 0; otherwise times σ/√(σ²+ε)",
    ),
    erratum(
        "E31",
        "S1 §d",
        "both heads ask q = t(μₐ+μ_b)",
        "the two heads are then the same head: no variance is removed",
    ),
    erratum(
        "E32",
        "S1 §d",
        "errors of two heads average out",
        "each head saturates, so that the length of its key no longer matters",
    ),
    erratum(
        "E33",
        "S1, S4 §c-i",
        "t ≫ 0 is enough",
        "t√(2α) ≪ 1 is needed too; for finite noise there is a best t",
    ),
    erratum("E34", "S1, S4 §b-i", "M is illegible in one set, missing in the other", "M = AAᵀ"),
    erratum("E35", "S4 §a-iii, a-iv", "c ≈ vᵢ, the “key value”", "c ≈ vⱼ, the value vector"),
    erratum(
        "E36",
        "S4 §3a",
        "it had seen the right answer more often",
        "no name of the dev set occurs in fine-tuning; the fact is in the pretraining text",
    ),
    erratum("E37", "S4 §2(g)ii, §1(c)", "answers are missing", "Θ(Lℓ²) against Θ((L−2)m² + 2ℓm)"),
    erratum(
        "E38",
        "S0 §1.1c, S2 §1.1c",
        "two different layers for hard attention",
        "an identity layer after a choice, or argmax / Gumbel / straight-through: both are offered",
    ),
    erratum(
        "E39",
        "S0 §1.5c, S2 §1.5b",
        "position embeddings of images are 1-D; are 2-D",
        "they are indexed in 1-D; structure in 2-D is learned",
    ),
    erratum(
        "E40",
        "S0 §1.5d, S2 §1.5c",
        "the head is an MLP; is linear",
        "an MLP in pretraining, linear in fine-tuning: both are offered",
    ),
    erratum(
        "E41",
        "S2 §1.5d",
        "ImageNet-1k is small",
        "the claims are about hundreds of millions of images: here only the trend can be tested",
    ),
    erratum(
        "E42",
        "S2 §1.2b, §1.4c",
        "more heads have more capacity; at similar cost",
        "the number of parameters is the same for every number of heads",
    ),
    erratum(
        "E43",
        "S2 §1.4b",
        "queries of the decoder over keys of the encoder are self-attention",
        "that is cross-attention: queries and keys come from different sequences",
    ),
    erratum(
        "E44",
        "S0 §1.5d",
        "the head is attached to the output of multi-head attention",
        "it reads the class token after the last block and the last norm",
    ),
    erratum(
        "E45",
        "S4",
        "footnotes are missing",
        "what they must have said is reconstructed here and marked so",
    ),
    erratum(
        "E46",
        "S4 §2",
        "a learning rate of 6e-3 with a warm-up shorter than one batch",
        "in runs of another program at the course's size it diverged in bf16 and was unstable in tf32; lower rates with a longer \
         warm-up trained (quoted, not computed here)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims;

    #[test]
    fn they_are_numbered_and_each_belongs_to_a_claim() {
        for (index, erratum) in ERRATA.iter().enumerate() {
            assert_eq!(erratum.id, format!("E{}", index + 1));
            assert!(claims().any(|claim| claim.errata.contains(&erratum.id)), "{} has no claim", erratum.id);
        }
        let known = |id: &str| ERRATA.iter().any(|erratum| erratum.id == id);
        assert!(claims().all(|claim| claim.errata.iter().all(|id| known(id))));
    }
}
