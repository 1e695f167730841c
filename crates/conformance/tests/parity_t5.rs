//! T5 v1.0 (ReLU, tied, scaled) and v1.1 (gated, untied) against transformers: logits with and without padding, streams,
//! every gradient, ten steps, greedy decoding with caches.

use regard::prelude::*;
use regard_conformance::encoder_decoder::{Decoder, Model, inputs};
use regard_conformance::parity::{Golden, LOGITS, assert_close};
use regard_models::T5;
use regard_models::import::t5::{config_from_json, imports};

const CASES: [&str; 2] = ["t5", "t5_gated"];

fn model(golden: &Golden) -> T5 {
    let config = config_from_json(&golden.config).unwrap();
    assert_eq!(config, config_from_json(&golden.older_config()).unwrap(), "both spellings of the config");
    assert_eq!(config.tied, !golden.weights.contains_key("lm_head.weight"));
    T5::new(config).unwrap()
}

fn cpu() -> Cpu {
    Cpu::with(2, regard::device::Level::best()).unwrap()
}

fn feed(program: &mut Program, golden: &Golden, set: &str) {
    let [source, target] =
        ["input_ids", "decoder_input_ids"].map(|name| golden.answer(&format!("{set}.{name}")));
    program.set_i32("source", &source.shape, &source.i32()).unwrap();
    program.set_i32("target", &target.shape, &target.i32()).unwrap();
    let mask = match golden.answers.get(&format!("{set}.attention_mask")) {
        Some(mask) => mask.bools(),
        None => vec![true; source.numbers.len()],
    };
    program.set_bools("mask", &source.shape, &mask).unwrap();
}

#[test]
fn logits_and_streams_are_theirs() {
    for case in CASES {
        let golden = Golden::read(case);
        let model = model(&golden);
        let mut g = Graph::inference();
        let [source, mask, target] = inputs(&mut g).unwrap();
        let logits = model.logits(&mut g, source, Some(mask), target).unwrap();
        g.output("logits", logits).unwrap();
        let taps: Vec<String> = ["encoder", "decoder"]
            .iter()
            .flat_map(|stack| (0..2).map(move |block| format!("{stack}.block.{block}.stream")))
            .collect();
        let keep: Vec<&str> = taps.iter().map(String::as_str).collect();
        let mut store = Store::new(0);
        let mut program = Program::new(g, &keep, &mut store, &cpu()).unwrap();
        golden.load(&imports(&model), &mut store);
        for set in ["one", "right"] {
            feed(&mut program, &golden, set);
            program.run(&mut store).unwrap();
            let want = golden.answer(&format!("{set}.logits"));
            assert_close(&format!("{case} {set}"), program.f32("logits").unwrap(), &want.numbers, LOGITS);
            for block in 0..2 {
                let want = golden.answer(&format!("{set}.decoder.{}", block + 1));
                let got = program.f32(&format!("decoder.block.{block}.stream")).unwrap();
                assert_close(&format!("{case} {set} decoder {block}"), got, &want.numbers, LOGITS);
                // Rows of padding hold zeros in the golden and mean nothing.
                let want = golden.answer(&format!("{set}.encoder.{}", block + 1));
                let mut got = program.f32(&format!("encoder.block.{block}.stream")).unwrap().to_vec();
                if let Some(mask) = golden.answers.get(&format!("{set}.attention_mask")) {
                    let width = got.len() / mask.numbers.len();
                    for (row, &kept) in got.chunks_mut(width).zip(&mask.numbers) {
                        row.iter_mut().for_each(|x| *x *= kept as f32);
                    }
                }
                assert_close(&format!("{case} {set} encoder {block}"), &got, &want.numbers, LOGITS);
            }
        }
    }
}

#[test]
fn gradients_and_ten_steps_are_theirs() {
    for case in CASES {
        let golden = Golden::read(case);
        let model = model(&golden);
        let labels = golden.answer("train.labels");
        let count = labels.numbers.iter().filter(|&&label| label >= 0.0).count();
        let loss = |g: &mut Graph| {
            let [source, mask, target] = inputs(g)?;
            let (b, t) = (g.open('B', 3)?, g.open('T', 16)?);
            let labels = g.input("labels", DType::I32, shape![b, t])?;
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
                program.set_i32("labels", &labels.shape, &labels.i32())?;
                program.set_f32("scale", &[], &[1.0 / count as f32])?;
            }
            Ok(())
        };
        golden.check_training(&imports(&model), loss, logits, feed).unwrap();
    }
}

#[test]
fn greedy_tokens_with_caches_are_theirs() {
    for case in CASES {
        let golden = Golden::read(case);
        let model = model(&golden);
        let vocabulary = model.config().vocabulary;
        let mut decoder = Decoder::new(&Model::T5(model.clone()), 3, Store::new(0), &cpu()).unwrap();
        golden.load(&imports(&model), &mut decoder.store);
        let [source, mask] =
            ["input_ids", "attention_mask"].map(|name| golden.answer(&format!("greedy_right.{name}")));
        decoder.begin(&source.i32(), &mask.bools()).unwrap();
        let (tokens, logits) =
            (golden.answer("greedy_right.tokens").i32(), golden.answer("greedy_right.logits"));
        let mut next = vec![0; 3];
        for step in 0..6 {
            let got = decoder.go_on(&next, step).unwrap();
            for row in 0..3 {
                let own = &got[row * vocabulary..][..vocabulary];
                let want = &logits.numbers[(row * 6 + step) * vocabulary..][..vocabulary];
                assert_close(&format!("{case} row {row} step {step}"), own, want, LOGITS);
                let best = (0..vocabulary).max_by(|&a, &b| own[a].total_cmp(&own[b])).unwrap();
                next[row] = best as i32;
                assert_eq!(next[row], tokens[row * 6 + step], "{case} row {row} step {step}");
            }
        }
    }
}
