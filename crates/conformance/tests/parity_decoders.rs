//! The decoders that are tables of settings and names, against transformers: scores and streams, every
//! gradient, ten steps of AdamW, cached greedy decoding, and configs in both spellings, on the goldens of
//! `goldens/parity`.

use regard_conformance::parity::{Golden, folder, json};
use regard_conformance::parity_decoder::Case;
use regard_models::{NoWeights, Registry};

/// Of the largest logit.
const LOGITS: f64 = 1e-5;
/// Of the largest gradient in the same layer.
const GRADIENTS: f64 = 1e-4;
/// Of the loss and of the largest logit, after ten steps.
const TRAINED: f64 = 1e-3;

const CASES: [&str; 18] = [
    "llama_linear",
    "llama_dynamic",
    "llama_yarn",
    "mistral",
    "qwen2",
    "qwen3",
    "phi3",
    "gpt_neox",
    "gpt_neox_in_turn",
    "gptj",
    "gemma",
    "gemma2",
    "gemma3",
    "olmo2",
    "smollm3",
    "granite",
    "stablelm",
    "stablelm_parallel",
];

#[test]
fn scores_and_streams_are_those_of_transformers() {
    for name in CASES {
        let case = Case::read(name);
        for set in ["one", "right"] {
            case.check_forward(set, LOGITS);
        }
    }
}

#[test]
fn every_gradient_is_that_of_pytorch() {
    for (name, left) in CASES.into_iter().flat_map(|name| [(name, false), (name, true)]) {
        Case::read(name).check_gradients(left, GRADIENTS);
    }
}

#[test]
fn ten_steps_of_training_are_those_of_pytorch() {
    for name in CASES {
        Case::read(name).check_ten_steps(TRAINED);
    }
}

#[test]
fn greedy_decoding_is_that_of_transformers() {
    for name in CASES {
        Case::read(name).check_greedy("greedy_one", LOGITS);
    }
}

#[test]
fn older_configs_are_read_alike_and_ours_are_read_back() {
    let registry = Registry::standard();
    for name in CASES {
        let newer = registry.open(&Golden::read(name).config, &NoWeights).unwrap();
        let older = json(&folder(name).join("config_older.json"));
        let older = registry.open(&older, &NoWeights).unwrap();
        assert_eq!(format!("{newer:?}"), format!("{older:?}"), "{name}");
        let written = newer.config_to_json().unwrap();
        let again = registry.open(&written, &NoWeights).unwrap();
        assert_eq!(again.config_to_json().unwrap(), written, "{name}");
    }
}
