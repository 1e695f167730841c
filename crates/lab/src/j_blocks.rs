//! Group J: Transformer blocks and the three families of models.

mod classifier;
mod diagrams;
mod parts;
mod trained;
mod translator;

use crate::predicate::{at_least, at_most};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "J1",
        title: "The feed-forward part",
        note: "S0 §1.4d, S2 §1.4d",
        statement: "FFN(x) = ReLU(xW₁ + b₁)W₂ + b₂ with a hidden width of four times the model’s.",
        formula: "512 → 2048 → 512",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(parts::formula),
    },
    Claim {
        id: "J2",
        title: "The same at every position",
        note: "S0 §1.4d, S2 §1.4d",
        statement: "The feed-forward part treats every position alike and by itself.",
        formula: "position p → output p",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(parts::position_wise),
    },
    Claim {
        id: "J3",
        title: "Who mixes what",
        note: "S2 §1.4d",
        statement: "Attention mixes positions, the feed-forward part mixes features.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(parts::who_mixes),
    },
    Claim {
        id: "J4",
        title: "Non-linearity is needed",
        note: "S2 §1.4d",
        statement: "Without the feed-forward part’s non-linearity a model can do less.",
        formula: "",
        errata: &["E21"],
        predicate: Predicate::says(&[
            at_least("accuracy with ReLU less with a linear part", 0.05),
            at_least("accuracy with ReLU less with none", 0.05),
        ]),
        run: Run::Trained(trained::needs_curves),
    },
    Claim {
        id: "J5",
        title: "Own parameters in each layer",
        note: "S0 §1.4d",
        statement: "Feed-forward parameters differ from layer to layer.",
        formula: "",
        errata: &["E22"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(parts::own_parameters),
    },
    Claim {
        id: "J6",
        title: "Three families from one block",
        note: "S0 §1.5b",
        statement: "Encoder-decoder, encoder and decoder are made of the same blocks.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(parts::families),
    },
    Claim {
        id: "J7",
        title: "An encoder classifies",
        note: "S3 §2b(i)",
        statement: "An encoder can be trained to classify texts.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("accuracy less the majority class", 0.0),
            at_least("accuracy less naive Bayes on words without order", 0.0),
        ]),
        run: Run::Trained(classifier::classifies),
    },
    Claim {
        id: "J8",
        title: "A decoder generates",
        note: "S3 §2b(ii)",
        statement: "A decoder generates with a cache that changes nothing.",
        formula: "cached = uncached",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(parts::generates),
    },
    Claim {
        id: "J9",
        title: "An encoder-decoder translates",
        note: "S3 §2b(iii)",
        statement: "An encoder-decoder can be trained to translate.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("exact matches on held-out pairs, beams of 4", 0.5),
            at_least("exact matches: beams of 4 less the dictionary", 0.0),
        ]),
        run: Run::Trained(translator::translates),
    },
    Claim {
        id: "J10",
        title: "Vectors depend on context",
        note: "S2 §1.4b",
        statement: "The same word has different vectors in different contexts.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_most("after block 2: cosine of two contexts", 0.9)])
            .given(&[at_least("embedding: cosine of two contexts", 0.99)]),
        run: Run::Trained(trained::in_context),
    },
    Claim {
        id: "J11",
        title: "Attention replaces recurrence",
        note: "S2 §1.4a,b",
        statement: "Self-attention does what recurrence did.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least("exact matches: Transformer less LSTM pair", -0.05)])
            .given(&[at_least("LSTM pair: exact matches on held-out pairs", 0.05)]),
        run: Run::Trained(translator::replaces_recurrence),
    },
    Claim {
        id: "J12",
        title: "Positions are added to embeddings",
        note: "S0 §1.4a",
        statement: "Sinusoidal positions are added to the embeddings.",
        formula: "x + PE(p)",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(parts::added_positions),
    },
    Claim {
        id: "J13",
        title: "Hidden width and approximation",
        note: "S2 §1.4d",
        statement: "More hidden units fit harder functions.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_most("error with 8 hidden units less with one", 0.0),
            at_most("error with 64 hidden units less with 8", 0.0),
            at_most("64 units: error with ReLU less without", 0.0),
        ]),
        run: Run::Trained(trained::hidden_width),
    },
    Claim {
        id: "J14",
        title: "The diagrams",
        note: "S3, S4 Fig. 1",
        statement: "A Transformer’s blocks stand in the drawn order; a Perceiver projects down to latents and up again.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(diagrams::drawn),
    },
];
