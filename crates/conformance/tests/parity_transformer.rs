//! The Transformer of 2017 against `torch.nn.Transformer` with embeddings and positions around it, in
//! PyTorch's form and in the paper's: outputs with and without padding, streams, every gradient, ten steps.

use regard::ops::CrossEntropyOptions;
use regard::prelude::*;
use regard_conformance::encoder_decoder::inputs;
use regard_conformance::parity::{Golden, close, kept};
use regard_conformance::parity_training::check_training;
use regard_conformance::place::device;
use regard_models::Transformer;
use regard_models::import::transformer::{config_from_json, imports};

const CASES: [&str; 2] = ["transformer", "transformer_shared"];

fn model(golden: &Golden) -> Transformer {
    Transformer::new(config_from_json(&golden.config, 20).unwrap()).unwrap()
}

fn feed(program: &mut Program, golden: &Golden, set: &str) {
    let (shape, source) = golden.answers.integers(&format!("{set}.source"));
    program.set_i32("source", &shape, &source).unwrap();
    program.set_bools("mask", &shape, &mask_of(golden, set, source.len())).unwrap();
    let (shape, target) = golden.answers.integers(&format!("{set}.target"));
    program.set_i32("target", &shape, &target).unwrap();
}

/// Where there are tokens: everywhere, if the golden has no mask.
fn mask_of(golden: &Golden, set: &str, count: usize) -> Vec<bool> {
    let name = format!("{set}.source_mask");
    if golden.answers.has(&name) { golden.answers.truths(&name).1 } else { vec![true; count] }
}

#[test]
fn outputs_and_streams_are_theirs() {
    for case in CASES {
        let golden = Golden::read(case);
        let model = model(&golden);
        let layers = [("encoder", model.config().encoder_layers), ("decoder", model.config().decoder_layers)];
        let mut g = Graph::inference();
        let [source, mask, target] = inputs(&mut g).unwrap();
        let logits = model.logits(&mut g, source, Some(mask), target).unwrap();
        g.output("logits", logits).unwrap();
        let taps: Vec<String> = layers
            .iter()
            .flat_map(|&(stack, layers)| {
                (0..layers).map(move |block| format!("{stack}.block.{block}.stream"))
            })
            .collect();
        let keep: Vec<&str> = taps.iter().map(String::as_str).collect();
        let cpu = device();
        let mut store = Store::new(0);
        let mut program = Program::new(g, &keep, &mut store, &cpu).unwrap();
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
        let model = model(&golden);
        let (shape, labels) = golden.answers.integers("train.targets");
        let count = labels.iter().filter(|&&label| label >= 0).count();
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
                program.set_i32("labels", &shape, &labels)?;
                program.set_f32("scale", &[], &[1.0 / count as f32])?;
            }
            Ok(())
        };
        check_training(&golden, &imports(&model), loss, logits, feed).unwrap();
    }
}
