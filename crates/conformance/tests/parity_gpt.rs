//! GPT-2, minGPT and Llama against transformers: scores, streams, gradients, padding, cached greedy decoding
//! and ten steps of AdamW, GPT-2 in bf16, too, on the goldens of `goldens/parity`; stories260K where its
//! weights are at hand.

use regard::prelude::*;
use regard_conformance::parity::{Golden, Tensors, close, data, folder, json, skipped};
use regard_conformance::parity_bf16::check_bf16;
use regard_conformance::parity_decoder::Case;
use regard_conformance::place::device;
use regard_generate::{Generator, Request, Settings};
use regard_models::import::{gpt2, llama};
use regard_models::{Gpt, GptConfig};

/// Of the largest logit.
const LOGITS: f64 = 1e-4;
/// Of the largest gradient in the same layer.
const GRADIENTS: f64 = 1e-4;
/// Of the loss and of the largest logit, after ten steps.
const TRAINED: f64 = 1e-3;

const CASES: [&str; 5] = ["gpt2", "mingpt", "llama", "llama_tied", "llama_stretched"];

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
fn padding_on_the_left_is_that_of_transformers() {
    for name in ["gpt2", "llama"] {
        Case::read(name).check_forward("left", LOGITS);
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
fn in_bf16_gpt2_is_as_exact_as_autocast() -> regard::Result<()> {
    let case = Case::read("gpt2");
    let answers = &case.golden.answers;
    let (dims, ids) = answers.integers("train.input_ids");
    let (_, targets) = answers.integers("train.targets");
    let (_, mask) = answers.truths("train.attention_mask");
    let shape = [dims[0], dims[1]];
    let loss = |g: &mut Graph| {
        let (ids, targets) = (g.input("ids", DType::I32, shape)?, g.input("targets", DType::I32, shape)?);
        let scale = g.input("scale", DType::F32, shape![])?;
        case.gpt.loss(g, ids, targets, scale)
    };
    // Rows of padding mean nothing, and are 0 in the golden.
    let logits = |g: &mut Graph| {
        let (ids, nothing) = (g.input("ids", DType::I32, shape)?, g.fill(DType::F32, [1], 0.0)?);
        let mask = g.input("mask", DType::Bool, [dims[0], dims[1], 1])?;
        let logits = case.gpt.logits(g, ids)?;
        g.select(mask, logits, nothing)
    };
    let feed = |program: &mut Program| {
        program.set_i32("ids", &dims, &ids)?;
        if program.graph().inputs().any(|(name, _)| name == "mask") {
            return program.set_bools("mask", &[dims[0], dims[1], 1], &mask).map_err(Into::into);
        }
        program.set_i32("targets", &dims, &targets)?;
        let count = targets.iter().filter(|&&target| target != -100).count();
        program.set_f32("scale", &[], &[1.0 / count as f32]).map_err(Into::into)
    };
    check_bf16("gpt2", &case.table, loss, logits, feed)
}

#[test]
fn greedy_decoding_is_that_of_transformers() {
    for name in CASES {
        Case::read(name).check_greedy("greedy_one", LOGITS);
    }
}

#[test]
fn greedy_decoding_of_a_padded_batch_is_that_of_transformers() {
    for name in ["gpt2", "llama"] {
        Case::read(name).check_greedy("greedy_left", LOGITS);
    }
}

#[test]
fn older_configs_are_read_alike_and_ours_are_read_back() {
    for name in ["llama", "llama_tied", "llama_stretched"] {
        let newer = llama::config_from_json(&Golden::read(name).config).unwrap();
        let older = llama::config_from_json(&json(&folder(name).join("config_older.json"))).unwrap();
        assert_eq!(newer, older, "{name}");
        let written = llama::config_to_json(&newer).unwrap();
        assert_eq!(llama::config_from_json(&written).unwrap(), newer, "{name}: {written}");
    }
    let config = gpt2::config_from_json(&Golden::read("gpt2").config).unwrap();
    let written = gpt2::config_to_json(&config).unwrap();
    assert_eq!(gpt2::config_from_json(&written).unwrap(), config, "{written}");
}

#[test]
fn stories260k_tells_its_story() {
    let at_hand =
        data().map(|data| data.join("weights/stories260K/stories260K.bin")).filter(|file| file.is_file());
    let Some(file) = at_hand else {
        skipped("stories260K.bin is not at hand; set REGARD_DATA to the folder with weights/stories260K");
        return;
    };
    let golden = Tensors::read(&folder("stories260k").join("golden.safetensors"));
    let (_, wanted) = golden.integers("tokens");
    let model = regard_data::llama2c::open(file).unwrap();
    let config = llama::config_from_json(&model.config.hugging_face()).unwrap();
    assert_eq!(
        config,
        GptConfig { attention_dropout: Some(0.0), ..GptConfig::preset("stories260K").unwrap() }
    );
    let gpt = Gpt::new(config).unwrap();
    let (mut store, cpu) = (Store::new(0), device());
    let settings = Settings { chunk: 8, capacity: Some(128), ..Settings::default() };
    let mut generator = Generator::new(&gpt, settings, &mut store, &cpu).unwrap();
    for import in llama::imports(&config) {
        let tensor = model.checkpoint.get(&import.theirs).unwrap();
        let numbers = regard::hub::table::ours(&import, &tensor).unwrap();
        store.set_f32(&import.ours, &numbers).unwrap();
    }
    let prompt = vec![wanted[..1].to_vec()];
    generator.generate(&Request::greedy(&prompt, 1), &mut store).unwrap();
    let scores: Vec<f64> = generator.program().f32("scores").unwrap().iter().map(|&x| f64::from(x)).collect();
    close("stories260K: scores after BOS", &scores, golden.get("first_logits").data(), LOGITS);
    let found = generator.generate(&Request::greedy(&prompt, wanted.len() - 1), &mut store).unwrap();
    assert_eq!(found[0].ids, wanted[1..]);
    let scores: Vec<f64> = generator.program().f32("scores").unwrap().iter().map(|&x| f64::from(x)).collect();
    close("stories260K: the last scores", &scores, golden.get("last_logits").data(), LOGITS);
}
