//! Group J: Transformer blocks and the three families of models.

mod classifier;
mod parts;
mod trained;
mod translator;

use crate::{Claim, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "J1",
        title: "The feed-forward part",
        note: "S0 §1.4d, S2 §1.4d",
        statement: "FFN(x) = ReLU(xW₁ + b₁)W₂ + b₂ with a hidden width of four times the model’s.",
        formula: "512 → 2048 → 512",
        errata: &[],
        run: Run::Exact(parts::formula),
    },
    Claim {
        id: "J2",
        title: "The same at every position",
        note: "S0 §1.4d, S2 §1.4d",
        statement: "The feed-forward part treats every position alike and by itself.",
        formula: "position p → output p",
        errata: &[],
        run: Run::Exact(parts::position_wise),
    },
    Claim {
        id: "J3",
        title: "Who mixes what",
        note: "S2 §1.4d",
        statement: "Attention mixes positions, the feed-forward part mixes features.",
        formula: "",
        errata: &[],
        run: Run::Exact(parts::who_mixes),
    },
    Claim {
        id: "J4",
        title: "Non-linearity is needed",
        note: "S2 §1.4d",
        statement: "Without the feed-forward part’s non-linearity a model can do less.",
        formula: "",
        errata: &["E21"],
        run: Run::Trained(trained::needs_curves),
    },
    Claim {
        id: "J5",
        title: "Own parameters in each layer",
        note: "S0 §1.4d",
        statement: "Feed-forward parameters differ from layer to layer.",
        formula: "",
        errata: &["E22"],
        run: Run::Exact(parts::own_parameters),
    },
    Claim {
        id: "J6",
        title: "Three families from one block",
        note: "S0 §1.5b",
        statement: "Encoder-decoder, encoder and decoder are made of the same blocks.",
        formula: "",
        errata: &[],
        run: Run::Exact(parts::families),
    },
    Claim {
        id: "J7",
        title: "An encoder classifies",
        note: "S3 §2b(i)",
        statement: "An encoder can be trained to classify texts.",
        formula: "",
        errata: &[],
        run: Run::Trained(classifier::classifies),
    },
    Claim {
        id: "J8",
        title: "A decoder generates",
        note: "S3 §2b(ii)",
        statement: "A decoder generates with a cache that changes nothing.",
        formula: "cached = uncached",
        errata: &[],
        run: Run::Exact(parts::generates),
    },
    Claim {
        id: "J9",
        title: "An encoder-decoder translates",
        note: "S3 §2b(iii)",
        statement: "An encoder-decoder can be trained to translate.",
        formula: "",
        errata: &[],
        run: Run::Trained(translator::translates),
    },
    Claim {
        id: "J10",
        title: "Vectors depend on context",
        note: "S2 §1.4b",
        statement: "The same word has different vectors in different contexts.",
        formula: "",
        errata: &[],
        run: Run::Trained(trained::in_context),
    },
    Claim {
        id: "J11",
        title: "Attention replaces recurrence",
        note: "S2 §1.4a,b",
        statement: "Self-attention does what recurrence did.",
        formula: "",
        errata: &[],
        run: Run::Trained(translator::replaces_recurrence),
    },
    Claim {
        id: "J12",
        title: "Positions are added to embeddings",
        note: "S0 §1.4a",
        statement: "Sinusoidal positions are added to the embeddings.",
        formula: "x + PE(p)",
        errata: &[],
        run: Run::Exact(parts::added_positions),
    },
    Claim {
        id: "J13",
        title: "Hidden width and approximation",
        note: "S2 §1.4d",
        statement: "More hidden units fit harder functions.",
        formula: "",
        errata: &[],
        run: Run::Trained(trained::hidden_width),
    },
];
