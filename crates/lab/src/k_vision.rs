//! Group K: the Vision Transformer.

mod cnn;
mod data_size;
mod trained;
mod vit;

use crate::predicate::{at_least, at_most, is};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "K1",
        title: "Patches are a convolution",
        note: "S0 §1.5a, S2 §1.5a",
        statement: "Cutting into patches and a linear map equal a convolution whose stride is its size.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(vit::patches),
    },
    Claim {
        id: "K2",
        title: "A class token",
        note: "S2 §1.5c",
        statement: "A learned token is put before the patches, with a position of its own.",
        formula: "N + 1 tokens",
        errata: &[],
        predicate: Predicate::says(&[
            is("tokens", 17.0, 0.0),
            is("rows of the position table: N + 1", 1.0, 0.0),
            is("rows of pixels that reach the class token before the blocks", 0.0, 0.0),
            is("rows of pixels that reach it after them, all", 16.0, 0.0),
            at_least("accuracy: class token less mean of patches", -0.1),
        ])
        .given(&[at_least("mean of patches: accuracy on new images, chance is 0.25", 0.5)]),
        run: Run::Trained(trained::pooled),
    },
    Claim {
        id: "K3",
        title: "Learned positions of patches",
        note: "S0 §1.5c, S2 §1.5b",
        statement: "Positions are learned, one vector for each patch.",
        formula: "(N+1) × d",
        errata: &["E39"],
        predicate: Predicate::says(&[
            is("the table is (N + 1) × d", 1.0, 0.0),
            at_least("cosine of neighbours less distant ones, trained less before", 0.0),
        ])
        .given(&[at_least("accuracy of the model, chance is 0.25", 0.5)]),
        run: Run::Trained(trained::positions),
    },
    Claim {
        id: "K4",
        title: "Other resolutions",
        note: "S2 §1.5b",
        statement: "Positions can be interpolated to other grids.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(vit::resolutions),
    },
    Claim {
        id: "K5",
        title: "Shuffled patches",
        note: "S2 §1.5b",
        statement: "Without positions a shuffle of patches cannot be seen.",
        formula: "",
        errata: &["E16"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(vit::shuffle),
    },
    Claim {
        id: "K6",
        title: "The class token aggregates",
        note: "S2 §1.5c",
        statement: "Only the class token’s output is used; it gathers by attention.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least(
                "weight of the class token on the square’s patches over an even spread, last layer",
                1.0,
            ),
            at_least("the same by rollout over both layers", 1.0),
        ])
        .given(&[at_least("accuracy of the model, chance is 0.25", 0.5)]),
        run: Run::Trained(trained::class_token),
    },
    Claim {
        id: "K7",
        title: "Two kinds of head",
        note: "S0 §1.5d, S2 §1.5c",
        statement: "An MLP with one hidden layer, or a single linear layer, reads the class token.",
        formula: "",
        errata: &["E40", "E44"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(vit::heads),
    },
    Claim {
        id: "K8",
        title: "Class probabilities",
        note: "S2 §1.5c",
        statement: "A softmax gives probabilities, of which the largest is the class.",
        formula: "Σ p = 1",
        errata: &[],
        predicate: Predicate::says(&[
            at_most("Σ p against 1, 20 images", 1e-14),
            is("images whose class differs by scores and by probabilities", 0.0, 0.0),
            is("probability of the chosen class less how often it is right", 0.0, 0.1),
        ]),
        run: Run::Trained(trained::probabilities),
    },
    Claim {
        id: "K9",
        title: "Little data, much data",
        note: "S2 §1.5d",
        statement: "A CNN is better on little data, a ViT catches up on much.",
        formula: "",
        errata: &["E41"],
        predicate: Predicate::says(&[
            at_least("the fewest images: accuracy on new images, CNN less ViT", 0.0),
            at_most("the most images: accuracy on new images, CNN less ViT", 0.05),
        ]),
        run: Run::Trained(data_size::little_and_much),
    },
    Claim {
        id: "K10",
        title: "ViTs overfit on small sets",
        note: "S2 §1.5d",
        statement: "On small sets a ViT overfits more than a CNN.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least(
            "the fewest images: accuracy on its own images less on new ones, ViT less CNN",
            0.0,
        )]),
        run: Run::Trained(data_size::overfits),
    },
    Claim {
        id: "K11",
        title: "What a CNN assumes",
        note: "S2 §1.5a,d",
        statement: "Locality and translation equivariance are built into a CNN.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("changed by a shift of 1 pixel, ViT less CNN", 0.0),
            at_least("changed by a shift of 2 pixels, ViT less CNN", 0.0),
        ]),
        run: Run::Trained(data_size::shifted),
    },
    Claim {
        id: "K12",
        title: "Positions keep locality",
        note: "S0 §1.5c",
        statement: "Position embeddings of neighbours are alike.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[at_least("cosine of neighbours less distant ones, trained", 0.0)])
            .given(&[at_least("accuracy of the model, chance is 0.25", 0.5)]),
        run: Run::Trained(trained::positions),
    },
    Claim {
        id: "K13",
        title: "Model size by data size",
        note: "S2 §1.5d",
        statement: "A larger ViT is worse on little data and better on much.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("the fewest images: accuracy on new images, ViT less larger ViT", 0.0),
            at_most("the most images: accuracy on new images, ViT less larger ViT", 0.0),
        ]),
        run: Run::Trained(data_size::model_by_data),
    },
    Claim {
        id: "K14",
        title: "Pretraining closes the gap",
        note: "S2 §1.5d",
        statement: "Pretraining on more data closes the gap to the CNN.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("accuracy: ViT pretrained less from nothing", 0.0),
            at_least("accuracy: ViT pretrained less CNN", -0.02),
        ]),
        run: Run::Trained(data_size::pretraining),
    },
    Claim {
        id: "K15",
        title: "Fields grow, or are global at once",
        note: "S2 §1.5a",
        statement: "Receptive fields of a CNN grow with depth, a ViT’s are global at once.",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(vit::fields),
    },
];
