//! BART, mBART and Marian against transformers: logits with and without padding, streams, greedy decoding
//! with caches; for BART every gradient and ten steps.

use regard::prelude::*;
use regard_conformance::encoder_decoder::{Decoder, Model, inputs};
use regard_conformance::parity::{Golden, close, kept};
use regard_conformance::parity_training::check_training;
use regard_conformance::place::device;
use regard_models::Transformer;
use regard_models::import::Import;
use regard_models::import::bart::{config_from_json, imports};

const CASES: [&str; 4] = ["bart", "mbart", "marian", "marian_separate"];

fn model(golden: &Golden) -> (Transformer, Vec<Import>) {
    let config = config_from_json(&golden.config).unwrap();
    let model = Transformer::new(config).unwrap();
    let table = imports(&model, config.descent.unwrap().kin, None);
    (model, table)
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
    for case in CASES {
        let golden = Golden::read(case);
        let (model, table) = model(&golden);
        let mut g = Graph::inference();
        let [source, mask, target] = inputs(&mut g).unwrap();
        let logits = model.logits(&mut g, source, Some(mask), target).unwrap();
        g.output("logits", logits).unwrap();
        let taps: Vec<String> =
            [("encoder", model.config().encoder_layers), ("decoder", model.config().decoder_layers)]
                .iter()
                .flat_map(|(stack, layers)| {
                    (0..*layers).map(move |block| format!("{stack}.block.{block}.stream"))
                })
                .collect();
        let keep: Vec<&str> = taps.iter().map(String::as_str).collect();
        let mut store = Store::new(0);
        let mut program = Program::new(g, &keep, &mut store, &device()).unwrap();
        golden.weights.fill(&mut store, &table);
        for set in ["one", "right"] {
            feed(&mut program, &golden, set);
            program.run(&mut store).unwrap();
            let wanted = |name: &str| golden.answers.get(&format!("{set}.{name}"));
            let logits = program.array("logits").unwrap();
            close(&format!("{case} {set}"), logits.data(), wanted("logits").data(), 1e-5);
            for tap in &keep {
                let (stack, block) = tap.split_once(".block.").unwrap();
                let block: usize = block.trim_end_matches(".stream").parse().unwrap();
                let (got, want) = (program.array(tap).unwrap(), wanted(&format!("{stack}.{}", block + 1)));
                let width = got.dims().last_size();
                let rows = got.data().len() / width;
                // What stands at padded positions of the encoder means nothing.
                let mask = if stack == "encoder" { mask_of(&golden, set, rows) } else { vec![true; rows] };
                let [got, want] = [&got, want].map(|stream| kept(stream.data(), &mask, width));
                close(&format!("{case} {set} {tap}"), &got, &want, 1e-5);
            }
        }
    }
}

#[test]
fn gradients_and_ten_steps_are_theirs() {
    let golden = Golden::read("bart");
    let (model, table) = model(&golden);
    let (shape, labels) = golden.answers.integers("train.labels");
    let count = labels.iter().filter(|&&label| label >= 0).count();
    let loss = |g: &mut Graph| {
        let [source, mask, target] = inputs(g)?;
        let labels = g.input("labels", DType::I32, g.shape(target).clone())?;
        let scale = g.input("scale", DType::F32, shape![])?;
        model.loss(g, [source, target, labels], Some(mask), scale, Default::default())
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
    check_training(&golden, &table, loss, logits, feed).unwrap();
}

#[test]
fn greedy_tokens_with_caches_are_theirs() {
    for case in CASES {
        let golden = Golden::read(case);
        let (model, table) = model(&golden);
        let vocabulary = model.config().vocabulary;
        let mut decoder = Decoder::new(&Model::Transformer(model), 3, Precision::F32, &device()).unwrap();
        golden.weights.fill(&mut decoder.store, &table);
        let (_, source) = golden.answers.integers("greedy_right.input_ids");
        decoder.begin(&source, &mask_of(&golden, "greedy_right", source.len())).unwrap();
        let (_, tokens) = golden.answers.integers("greedy_right.tokens");
        let logits = golden.answers.get("greedy_right.logits");
        let start = golden.config["decoder_start_token_id"].as_i64().unwrap() as i32;
        let mut next = vec![start; 3];
        for step in 0..6 {
            let got = decoder.go_on(&next, step).unwrap();
            for row in 0..3 {
                let own = &got[row * vocabulary..][..vocabulary];
                let scores: Vec<f64> = own.iter().map(|&x| f64::from(x)).collect();
                close(&format!("{case} row {row} step {step}"), &scores, logits.row(row * 6 + step), 1e-5);
                let best = (0..vocabulary).max_by(|&a, &b| own[a].total_cmp(&own[b])).unwrap();
                next[row] = best as i32;
                assert_eq!(next[row], tokens[row * 6 + step], "{case} row {row} step {step}");
            }
        }
    }
}
