//! Group G: masks and streaming.

mod causal;
mod models;
mod padding;
mod recogniser;
mod stream;

use crate::predicate::{at_least, is};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "G1",
        title: "The causal mask is exact",
        note: "S2 §1.3e",
        statement: "Scores of later keys are −∞ before the softmax, so that their weights are exactly 0.",
        formula: "a(later key) = 0; the first query sees itself alone",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(causal::exact),
    },
    Claim {
        id: "G2",
        title: "Lower or upper triangular?",
        note: "S2 §1.3e",
        statement: "The causal attention matrix is lower triangular.",
        formula: "A[key, query] = 0 for key > query",
        errata: &["E15"],
        predicate: Predicate::says(&[is("key × query: weights above the diagonal that are not 0", 0.0, 0.0)]),
        run: Run::Exact(causal::triangle),
    },
    Claim {
        id: "G3",
        title: "Padding in an encoder",
        note: "S3 §2b(i)",
        statement: "An encoder needs a mask of padded keys in its self-attention.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(models::encoder),
    },
    Claim {
        id: "G4",
        title: "Padding in a decoder",
        note: "S3 §2b(ii)",
        statement: "With right padding a decoder needs no mask but the causal one.",
        formula: "",
        errata: &["E26"],
        predicate: Predicate::says(&[
            is("real positions that change with the padding’s content", 0.0, 0.0),
            is("mean loss with padding counted less that of the text", 0.0, 1e-06),
        ])
        .or_if(
            "if the padding stands on the right and the loss skips it",
            &[
                is("real positions that change with the padding’s content", 0.0, 0.0),
                is("loss that skips padding less the loss of the text alone", 0.0, 1e-06),
            ],
        ),
        run: Run::Exact(models::decoder),
    },
    Claim {
        id: "G5",
        title: "Padding in an encoder-decoder",
        note: "S3 §2b(iii)",
        statement: "Padding masks stand in the encoder and in cross-attention; the decoder’s own attention is causal only.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(models::encoder_decoder),
    },
    Claim {
        id: "G6",
        title: "Left padding",
        note: "S3 §2b",
        statement: "Batched generation pads on the left and needs a mask and shifted positions.",
        formula: "",
        errata: &["E26"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(models::left_padding),
    },
    Claim {
        id: "G7",
        title: "Padding and causality together",
        note: "S3 code",
        statement: "A mask of keys holds for all heads and is combined with the causal one.",
        formula: "allowed = causal ∧ key mask",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(padding::combined),
    },
    Claim {
        id: "G8",
        title: "Streaming equals offline",
        note: "S2 §1.3e",
        statement: "A causal recogniser can write while the sound arrives.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(models::streaming),
    },
    Claim {
        id: "G9",
        title: "Real time",
        note: "S2 §1.3e",
        statement: "It keeps up with real time in bounded memory.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(stream::real_time),
    },
    Claim {
        id: "G10",
        title: "The price of no future",
        note: "S2 §1.3e",
        statement: "Denying the future costs accuracy.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least(
            "share of frames that are wrong: no future less the whole utterance",
            0.0,
        )]),
        run: Run::Trained(stream::price_of_no_future),
    },
    Claim {
        id: "G11",
        title: "No future frame reaches an output",
        note: "S2 §1.3e",
        statement: "That no later frame can change an output can be proved on the model itself.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(models::no_future),
    },
];
