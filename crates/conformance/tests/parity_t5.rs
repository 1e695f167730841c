//! T5 v1.0 (ReLU, tied, scaled), v1.1 (gated, untied), mT5 (gated, tied, never scaled) and umT5 (a table of
//! distances in every block) against transformers: logits with and without padding, streams, every gradient,
//! ten steps, greedy decoding with caches; and the encoder by itself.

use regard::prelude::*;
use regard_conformance::encoder_decoder::{Decoder, Model, inputs};
use regard_conformance::parity::{Golden, close, folder, json, kept};
use regard_conformance::parity_training::check_training;
use regard_conformance::place::device;
use regard_models::import::t5::{config_from_json, encoder_imports, imports};
use regard_models::{T5, T5Config, T5Encoder};

const CASES: [&str; 3] = ["t5", "t5_gated", "mt5"];
/// Those and what is not trained.
const ALL: [&str; 4] = ["t5", "t5_gated", "mt5", "umt5"];

fn model(case: &str, golden: &Golden) -> T5 {
    let config = config_from_json(&golden.config).unwrap();
    let older = folder(case).join("config_older.json");
    if older.is_file() {
        let older = config_from_json(&json(&older)).unwrap();
        // Older files of an mT5 say that nothing is tied, newer ones that all is: their weights decide.
        let older = if config.multilingual { T5Config { tied: config.tied, ..older } } else { older };
        assert_eq!(config, older, "both spellings of the config");
    }
    assert_eq!(config.tied, !golden.weights.has("lm_head.weight"));
    T5::new(config).unwrap()
}

fn cpu() -> Device {
    device()
}

fn feed(program: &mut Program, golden: &Golden, set: &str) {
    let (shape, source) = golden.answers.integers(&format!("{set}.input_ids"));
    program.set_i32("source", &shape, &source).unwrap();
    program.set_bools("mask", &shape, &mask_of(golden, set, source.len())).unwrap();
    let (shape, target) = golden.answers.integers(&format!("{set}.decoder_input_ids"));
    program.set_i32("target", &shape, &target).unwrap();
}

/// Where there are tokens: everywhere, if the golden has no mask.
fn mask_of(golden: &Golden, set: &str, count: usize) -> Vec<bool> {
    let name = format!("{set}.attention_mask");
    if golden.answers.has(&name) { golden.answers.truths(&name).1 } else { vec![true; count] }
}

#[test]
fn logits_and_streams_are_theirs() {
    for case in ALL {
        let golden = Golden::read(case);
        let model = model(case, &golden);
        let mut g = Graph::inference();
        let [source, mask, target] = inputs(&mut g).unwrap();
        let logits = model.logits(&mut g, source, Some(mask), target).unwrap();
        g.output("logits", logits).unwrap();
        let T5Config { encoder_layers, decoder_layers, .. } = *model.config();
        let taps: Vec<String> = [("encoder", encoder_layers), ("decoder", decoder_layers)]
            .into_iter()
            .flat_map(|(stack, layers)| (0..layers).map(move |block| format!("{stack}.block.{block}.stream")))
            .collect();
        let keep: Vec<&str> = taps.iter().map(String::as_str).collect();
        let mut store = Store::new(0);
        let mut program = Program::new(g, &keep, &mut store, &cpu()).unwrap();
        golden.weights.fill(&mut store, &imports(&model));
        for set in ["one", "right"] {
            feed(&mut program, &golden, set);
            program.run(&mut store).unwrap();
            let wanted = |name: &str| golden.answers.get(&format!("{set}.{name}"));
            let logits = program.array("logits").unwrap();
            close(&format!("{case} {set}"), logits.data(), wanted("logits").data(), 1e-4);
            for tap in &keep {
                let (stack, block) = tap.split_once(".block.").unwrap();
                let block: usize = block.trim_end_matches(".stream").parse().unwrap();
                let (got, want) = (program.array(tap).unwrap(), wanted(&format!("{stack}.{}", block + 1)));
                let width = got.dims().last_size();
                let rows = got.data().len() / width;
                // What stands at padded positions of the encoder means nothing.
                let mask = if stack == "encoder" { mask_of(&golden, set, rows) } else { vec![true; rows] };
                let [got, want] = [&got, want].map(|stream| kept(stream.data(), &mask, width));
                close(&format!("{case} {set} {tap}"), &got, &want, 1e-4);
            }
        }
    }
}

#[test]
fn gradients_and_ten_steps_are_theirs() {
    for case in CASES {
        let golden = Golden::read(case);
        let model = model(case, &golden);
        let (shape, labels) = golden.answers.integers("train.labels");
        let count = labels.iter().filter(|&&label| label >= 0).count();
        let loss = |g: &mut Graph| {
            let [source, mask, target] = inputs(g)?;
            let labels = g.input("labels", DType::I32, g.shape(target).clone())?;
            let scale = g.input("scale", DType::F32, shape![])?;
            model.loss(g, [source, target, labels], Some(mask), scale)
        };
        let logits = |g: &mut Graph| {
            let [source, mask, target] = inputs(g)?;
            model.logits(g, source, Some(mask), target)
        };
        let feed = |program: &mut Program| {
            feed(program, &golden, "train");
            if program.graph().find("loss").is_ok() {
                program.set_i32("labels", &shape, &labels)?;
                program.set_f32("scale", &[], &[1.0 / count as f32])?;
            }
            Ok(())
        };
        check_training(&golden, &imports(&model), loss, logits, feed).unwrap();
    }
}

#[test]
fn greedy_tokens_with_caches_are_theirs() {
    for case in ALL {
        let golden = Golden::read(case);
        let model = model(case, &golden);
        let vocabulary = model.config().vocabulary;
        let mut decoder = Decoder::new(&Model::T5(model.clone()), 3, Precision::F32, &cpu()).unwrap();
        golden.weights.fill(&mut decoder.store, &imports(&model));
        let (_, source) = golden.answers.integers("greedy_right.input_ids");
        decoder.begin(&source, &mask_of(&golden, "greedy_right", source.len())).unwrap();
        let (_, tokens) = golden.answers.integers("greedy_right.tokens");
        let logits = golden.answers.get("greedy_right.logits");
        let mut next = vec![0; 3];
        for step in 0..6 {
            let got = decoder.go_on(&next, step).unwrap();
            for row in 0..3 {
                let own = &got[row * vocabulary..][..vocabulary];
                let scores: Vec<f64> = own.iter().map(|&x| f64::from(x)).collect();
                close(&format!("{case} row {row} step {step}"), &scores, logits.row(row * 6 + step), 1e-4);
                let best = (0..vocabulary).max_by(|&a, &b| own[a].total_cmp(&own[b])).unwrap();
                next[row] = best as i32;
                assert_eq!(next[row], tokens[row * 6 + step], "{case} row {row} step {step}");
            }
        }
    }
}

#[test]
fn an_encoder_by_itself_is_theirs() {
    let golden = Golden::read("t5_encoder");
    let config = config_from_json(&golden.config).unwrap();
    let encoder = T5Encoder::new(config).unwrap();
    let mut g = Graph::inference();
    let [source, mask, _] = inputs(&mut g).unwrap();
    let hidden = encoder.hidden(&mut g, source, Some(mask)).unwrap();
    g.output("hidden", hidden).unwrap();
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &cpu()).unwrap();
    golden.weights.fill(&mut store, &encoder_imports(&config));
    for set in ["one", "right"] {
        let (shape, source) = golden.answers.integers(&format!("{set}.input_ids"));
        let mask = mask_of(&golden, set, source.len());
        program.set_i32("source", &shape, &source).unwrap();
        program.set_bools("mask", &shape, &mask).unwrap();
        program.set_i32("target", &[shape[0], 1], &vec![0; shape[0]]).unwrap();
        program.run(&mut store).unwrap();
        let (got, want) =
            (program.array("hidden").unwrap(), golden.answers.get(&format!("{set}.last_hidden_state")));
        let [got, want] = [&got, want].map(|stream| kept(stream.data(), &mask, config.width));
        close(set, &got, &want, 1e-5);
    }
}
