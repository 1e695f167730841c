//! How fast a model of one's own writes: asked line by line on stdin, so that a script can take turns with
//! another program. `bench/decode_llamacpp` does.
//!
//!     cargo run --release -p regard-runtime --example decode_speed -- MODEL f32|bf16|q8|q4|int8 THREADS
//!
//! A line is `prefill TOKENS` or `decode ROWS TOKENS`; the answer is a number of tokens in a second. A decode
//! begins behind a prompt of 16 tokens, which is not timed. With a TEXT behind THREADS it writes two tokens
//! after it and ends: for whole processes.

use regard_device::Level;
use regard_engine::{Cpu, Store};
use regard_generate::{Generator, Request, Sampling, Settings};
use regard_models::Registry;
use regard_ops::Weights;
use regard_runtime::{OpenOptions, Piece, Prompts, Session, Writing, open};
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::ops::ControlFlow;
use std::time::Instant;

/// Tokens before a decode.
const PROMPT: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, kind, threads, text @ ..] = arguments.as_slice() else {
        return Err("give MODEL f32|bf16|q8|q4|int8 THREADS, and perhaps a TEXT".into());
    };
    let weights = match kind.as_str() {
        "f32" => Weights::Full,
        "bf16" => Weights::Bf16,
        "q8" => Weights::Q8,
        "q4" => Weights::Q4,
        "int8" => Weights::Int8,
        _ => return Err(format!("weights `{kind}` are not known; choose f32, bf16, q8, q4 or int8").into()),
    };
    let cpu = Cpu::with(threads.parse()?, Level::best())?;
    let registry = Registry::standard();
    if !text.is_empty() {
        let options = OpenOptions { weights, ..OpenOptions::new(&registry) };
        let writing = Writing { most: 2, sampling: Sampling::greedy(), ..Writing::default() };
        let mut on = |piece: Piece<'_>| {
            print!("{}", piece.text);
            ControlFlow::Continue(())
        };
        Session::open(model, &options, &cpu)?.generate(Prompts::Texts(text), &writing, &mut on)?;
        println!();
        return Ok(());
    }
    let opened = open(model, &OpenOptions::new(&registry))?;
    for line in stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let (rows, prompt, most) = match words.as_slice() {
            ["prefill", tokens] => (1, tokens.parse()?, 1),
            ["decode", rows, tokens] => (rows.parse()?, PROMPT, tokens.parse::<usize>()? + 1),
            _ => return Err(format!("`{line}`: give prefill TOKENS or decode ROWS TOKENS").into()),
        };
        // A store for each question, of which the weights cost little: caches have the sizes of the question.
        let mut store = Store::new(0);
        store.hold_weights(weights);
        opened.lend_to(&mut store)?;
        let Some(decoder) = opened.model.as_decoder() else { return Err("it is no decoder".into()) };
        let settings = Settings { rows, chunk: prompt, capacity: Some(prompt + most), ..Settings::default() };
        let mut generator = Generator::new(decoder, settings, &mut store, &cpu)?;
        let prompts: Vec<Vec<i32>> = (0..rows)
            .map(|row| (0..prompt).map(|i| ((i * 37 + row * 101) % 997 + 3) as i32).collect())
            .collect();
        // Once without the clock: copies of weights are made, memory is touched.
        let warm = Request { most: 2, ..Request::greedy(&prompts, 2) };
        generator.generate(&warm, &mut store)?;
        let mut times = vec![Instant::now()];
        generator.stream(&Request::greedy(&prompts, most), &mut store, &mut |_| {
            times.push(Instant::now());
            ControlFlow::Continue(())
        })?;
        let seconds = |from: Instant| times[times.len() - 1].duration_since(from).as_secs_f64();
        let speed = match words[0] {
            "prefill" => prompt as f64 / seconds(times[0]),
            _ => (rows * (most - 1)) as f64 / seconds(times[rows]),
        };
        writeln!(stdout(), "{speed:.2}")?;
        stdout().flush()?;
    }
    Ok(())
}
