//! What it costs to hold weights in fewer bits: the perplexity of a text, and how far greedy texts go
//! together with those of f32. Prints a JSON line for each kind; `bench/weight_quality` makes a table of
//! them.
//!
//!     cargo run --release -p regard-runtime --example weight_quality -- MODEL TEXT_FILE [WINDOWS] [THREADS]

use regard_device::Level;
use regard_engine::{Cpu, Store};
use regard_generate::{Generator, Request, Settings};
use regard_hub::{Opened, forward};
use regard_models::Registry;
use regard_ops::Weights;
use regard_runtime::{Companions, OpenOptions, open};
use std::error::Error;

/// Tokens of a window; each is read by itself, and its first token is not asked for.
const WINDOW: usize = 256;
/// Prompts of the greedy texts, their tokens, and how many new ones.
const PROMPTS: usize = 16;
const PROMPT: usize = 24;
const NEW: usize = 48;

const KINDS: [(&str, Weights); 5] = [
    ("f32", Weights::Full),
    ("bf16", Weights::Bf16),
    ("int8", Weights::Int8),
    ("q8", Weights::Q8),
    ("q4", Weights::Q4),
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, file, more @ ..] = arguments.as_slice() else {
        return Err("give MODEL TEXT_FILE [WINDOWS] [THREADS]".into());
    };
    let number = |at: usize, usual: usize| more.get(at).map_or(Ok(usual), |text| text.parse::<usize>());
    let (windows, threads) = (number(0, 32)?, number(1, 2)?);
    let registry = Registry::standard();
    let opened = open(model, &OpenOptions::new(&registry))?;
    let companions = Companions::open(&*opened.model, &opened.config, &opened.path)?;
    let ids = companions.encode(&std::fs::read_to_string(file)?)?;
    if ids.len() < (windows + 1) * WINDOW {
        return Err(
            format!("{file} has {} tokens; give {} at least", ids.len(), (windows + 1) * WINDOW).into()
        );
    }
    let cpu = Cpu::with(threads, Level::best())?;
    let mut exact: Option<(Vec<i32>, Vec<Vec<i32>>)> = None;
    for (name, weights) in KINDS {
        let mut store = Store::new(0);
        store.hold_weights(weights);
        opened.lend_to(&mut store)?;
        let (loss, likeliest) = read(&opened, &ids[..windows * WINDOW], &mut store, &cpu)?;
        let texts = write(&opened, &ids, &mut store, &cpu)?;
        let (first, first_texts) = exact.get_or_insert_with(|| (likeliest.clone(), texts.clone()));
        let same = likeliest.iter().zip(first.iter()).filter(|(a, b)| a == b).count() as f64;
        let together = |(a, b): (&Vec<i32>, &Vec<i32>)| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let shared: usize = texts.iter().zip(first_texts.iter()).map(together).sum();
        let line = serde_json::json!({
            "weights": name,
            "tokens": likeliest.len(),
            "perplexity": loss.exp(),
            "same_likeliest": same / likeliest.len() as f64,
            "greedy_together": shared as f64 / (PROMPTS * NEW) as f64,
        });
        println!("{line}");
    }
    Ok(())
}

/// The mean loss of all tokens but the first of each window, and the likeliest token in the place of each.
fn read(
    opened: &Opened,
    ids: &[i32],
    store: &mut Store,
    cpu: &Cpu,
) -> Result<(f64, Vec<i32>), Box<dyn Error>> {
    let (mut loss, mut likeliest) = (0.0, Vec::new());
    for window in ids.chunks_exact(WINDOW) {
        let batch = forward::Batch::texts(&opened.model.reads(), vec![window.to_vec()]);
        let answers = forward::forward(&*opened.model, store, cpu, &batch, &[])?;
        let scores = answers.iter().find(|answer| answer.name == "logits").ok_or("it has no logits")?;
        let vocabulary = scores.numbers.len() / WINDOW;
        for (scores, &next) in scores.numbers.chunks_exact(vocabulary).zip(&window[1..]) {
            let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = scores.iter().map(|&score| f64::from(score - most).exp()).sum();
            loss += sum.ln() - f64::from(scores[next as usize] - most);
            likeliest.push(scores.iter().position(|&score| score == most).unwrap_or(0) as i32);
        }
    }
    Ok((loss / likeliest.len() as f64, likeliest))
}

/// Greedy texts behind prompts out of the text.
fn write(
    opened: &Opened,
    ids: &[i32],
    store: &mut Store,
    cpu: &Cpu,
) -> Result<Vec<Vec<i32>>, Box<dyn Error>> {
    let apart = ids.len() / PROMPTS;
    let prompts: Vec<Vec<i32>> = (0..PROMPTS).map(|i| ids[i * apart..i * apart + PROMPT].to_vec()).collect();
    let decoder = opened.model.as_decoder().ok_or("it is no decoder")?;
    let settings = Settings { rows: PROMPTS, capacity: Some(PROMPT + NEW), ..Settings::default() };
    let mut generator = Generator::new(decoder, settings, store, cpu)?;
    let generated = generator.generate(&Request::greedy(&prompts, NEW), store)?;
    Ok(generated.into_iter().map(|text| text.ids).collect())
}
