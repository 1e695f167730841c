//! The Transformer of 2017 against `torch.nn.Transformer` with embeddings and positions around it, in PyTorch's form and
//! in the paper's: outputs with and without padding, streams, every gradient, ten steps.

use regard::ops::CrossEntropyOptions;
use regard::prelude::*;
use regard_conformance::encoder_decoder::inputs;
use regard_conformance::parity::{Golden, LOGITS, assert_close};
use regard_models::Transformer;
use regard_models::import::transformer::{config_from_json, imports};

const CASES: [&str; 2] = ["transformer", "transformer_shared"];

fn model(golden: &Golden) -> Transformer {
    Transformer::new(config_from_json(&golden.config, 20).unwrap()).unwrap()
}

fn feed(program: &mut Program, golden: &Golden, set: &str) {
    let [source, target] = ["source", "target"].map(|name| golden.answer(&format!("{set}.{name}")));
    program.set_i32("source", &source.shape, &source.i32()).unwrap();
    program.set_i32("target", &target.shape, &target.i32()).unwrap();
    let mask = match golden.answers.get(&format!("{set}.source_mask")) {
        Some(mask) => mask.bools(),
        None => vec![true; source.numbers.len()],
    };
    program.set_bools("mask", &source.shape, &mask).unwrap();
}

#[test]
fn outputs_and_streams_are_theirs() {
    for case in CASES {
        let golden = Golden::read(case);
        let model = model(&golden);
        let layers = model.config().decoder_layers;
        let mut g = Graph::inference();
        let [source, mask, target] = inputs(&mut g).unwrap();
        let logits = model.logits(&mut g, source, Some(mask), target).unwrap();
        g.output("logits", logits).unwrap();
        let taps: Vec<String> = (0..layers).map(|block| format!("decoder.block.{block}.stream")).collect();
        let keep: Vec<&str> = taps.iter().map(String::as_str).collect();
        let cpu = Cpu::with(2, regard::device::Level::best()).unwrap();
        let mut store = Store::new(0);
        let mut program = Program::new(g, &keep, &mut store, &cpu).unwrap();
        golden.load(&imports(&model), &mut store);
        for set in ["one", "right"] {
            feed(&mut program, &golden, set);
            program.run(&mut store).unwrap();
            let want = golden.answer(&format!("{set}.logits"));
            assert_close(&format!("{case} {set}"), program.f32("logits").unwrap(), &want.numbers, LOGITS);
            for (block, tap) in keep.iter().enumerate() {
                let want = golden.answer(&format!("{set}.decoder.{}", block + 1));
                assert_close(
                    &format!("{case} {set} {tap}"),
                    program.f32(tap).unwrap(),
                    &want.numbers,
                    LOGITS,
                );
            }
        }
    }
}

#[test]
fn gradients_and_ten_steps_are_theirs() {
    for case in CASES {
        let golden = Golden::read(case);
        let model = model(&golden);
        let labels = golden.answer("train.targets");
        let count = labels.numbers.iter().filter(|&&label| label >= 0.0).count();
        let loss = |g: &mut Graph| {
            let [source, mask, target] = inputs(g)?;
            let labels = g.input("labels", DType::I32, g.shape(target).clone())?;
            let scale = g.input("scale", DType::F32, shape![])?;
            model.loss(g, [source, target, labels], Some(mask), scale, CrossEntropyOptions::default())
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
