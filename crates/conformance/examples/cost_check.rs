//! Predicted time against measured time, over ten models none of whose sizes was used to measure the rates; and planned memory
//! against what the process holds. Run by `bench/cost_check`; ends with status 1 if the median error is above a quarter.
//! `--train` takes steps of training instead of passes.

use regard::prelude::*;
use regard_inspect::price::{Cards, predict, spent};
use regard_models::{Bert, BertConfig, BertHead, BertText, Gpt, GptConfig, bert};
use std::process::ExitCode;

/// The most that the median may be off.
const MOST: f64 = 0.25;

/// Layers, heads, width, vocabulary, batch, tokens.
type Size = [usize; 6];

const DECODERS: [Size; 7] = [
    [2, 4, 64, 256, 1, 32],
    [4, 4, 160, 500, 2, 64],
    [6, 6, 216, 1200, 1, 128],
    [4, 8, 288, 2500, 1, 300],
    [8, 8, 384, 4000, 1, 96],
    [6, 8, 640, 8000, 1, 1],
    [2, 4, 144, 700, 1, 700],
];
const ENCODERS: [Size; 3] = [[3, 4, 112, 900, 4, 40], [6, 12, 384, 8000, 1, 48], [4, 6, 420, 3000, 2, 110]];

fn decoder(size: Size) -> Gpt {
    let [layers, heads, width, vocabulary, _, tokens] = size;
    let config =
        GptConfig { layers, heads, width, vocabulary, context: tokens, dropout: 0.0, ..GptConfig::GPT2 };
    Gpt::new(config).expect("sizes that make sense")
}

fn encoder(size: Size) -> Bert {
    let [layers, heads, width, vocabulary, _, tokens] = size;
    let config = BertConfig {
        layers,
        heads,
        width,
        hidden: 4 * width,
        vocabulary,
        context: tokens,
        dropout: 0.0,
        attention_dropout: 0.0,
        head: BertHead::Masked,
        ..bert::PRESETS[0].1
    };
    Bert::new(config).expect("sizes that make sense")
}

fn main() -> ExitCode {
    let training = std::env::args().any(|argument| argument == "--train");
    let cpu = Cpu::new().expect("a CPU");
    let cards = Cards::measure(&cpu, training).expect("rates");
    let mut errors = Vec::new();
    println!("{:44} {:>12} {:>12} {:>8}", "model", "predicted ms", "measured ms", "off");
    let all = DECODERS.iter().map(|&size| (size, false)).chain(ENCODERS.iter().map(|&size| (size, true)));
    for (size, encodes) in all {
        let [layers, heads, width, vocabulary, batch, tokens] = size;
        let graph = recorded(size, encodes, training).expect("a graph");
        let predicted: f64 =
            predict(&graph, &cards).expect("a price").iter().map(|node| node.nanoseconds).sum();
        let mut store = Store::new(2);
        let mut program = Program::new(graph, &[], &mut store, &cpu).expect("a program");
        feed(&mut program, [batch, tokens], vocabulary).expect("inputs");
        let measured = spent(&mut program, &mut store, 9).expect("a run").total;
        let off = predicted / measured - 1.0;
        errors.push(off.abs());
        let name = format!(
            "{} {layers} layers, {heads} heads, {width} wide, {batch}x{tokens}",
            if encodes { "encoder" } else { "decoder" }
        );
        println!("{name:44} {:>12.3} {:>12.3} {:>+7.1}%", predicted / 1e6, measured / 1e6, 100.0 * off);
    }
    errors.sort_by(f64::total_cmp);
    let median = (errors[4] + errors[5]) / 2.0;
    println!("median error {:.1} %, of {:.0} % allowed", 100.0 * median, 100.0 * MOST);
    if median <= MOST { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn recorded(size: Size, encodes: bool, training: bool) -> regard::graph::Result<Graph> {
    let [_, _, _, _, batch, tokens] = size;
    let mut g = if training { Graph::new() } else { Graph::inference() };
    let ids = g.input("ids", DType::I32, [batch, tokens])?;
    if !training {
        let logits = match encodes {
            true => encoder(size).logits(&mut g, &BertText { ids, token_types: None, key_mask: None })?,
            false => decoder(size).logits(&mut g, ids)?,
        };
        g.output("logits", logits)?;
        return Ok(g);
    }
    let targets = g.input("targets", DType::I32, [batch, tokens])?;
    let scale = g.input("scale", DType::F32, shape![])?;
    let rate = g.input("rate", DType::F32, shape![])?;
    let step = g.input("step", DType::I32, shape![])?;
    let loss = match encodes {
        true => {
            let text = BertText { ids, token_types: None, key_mask: None };
            encoder(size).loss(&mut g, &text, targets, scale)?
        }
        false => decoder(size).loss(&mut g, ids, targets, scale)?,
    };
    g.output("loss", loss)?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &regard::ops::AdamW::default(), rate, step, None)?;
    Ok(g)
}

fn feed(program: &mut Program, dims: [usize; 2], vocabulary: usize) -> regard::Result<()> {
    let ids: Vec<i32> = (0..dims[0] * dims[1]).map(|i| (i * 31 % vocabulary) as i32).collect();
    let names: Vec<String> = program.graph().inputs().map(|(name, _)| name.to_string()).collect();
    for name in names {
        match name.as_str() {
            "scale" => program.set_f32(&name, &[], &[1.0 / ids.len() as f32])?,
            "rate" => program.set_f32(&name, &[], &[1e-4])?,
            "step" => program.set_i32(&name, &[], &[1])?,
            _ => program.set_i32(&name, &dims, &ids)?,
        }
    }
    Ok(())
}
