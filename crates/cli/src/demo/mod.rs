//! `regard demo`: one small GPT through every reader of its graph. Records it, prints graph, cost and memory,
//! proves that it is causal, trains it on a generated text until it knows more than letter frequencies, lets
//! it write, and shows that the CPU engine agrees with the f64 reference.

mod agreement;
mod text;
mod training;

use crate::machine::Machine;
use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use regard::prelude::*;
use regard_models::{Gpt, GptConfig};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Instant;
use text::{Characters, sentences, unigram_entropy};
use training::Trainer;

/// Options of `regard demo`.
#[derive(Args)]
#[command(after_help = "Example:  regard demo --steps 200 --seed 7")]
pub struct Options {
    /// Training steps
    #[arg(long, default_value_t = 300, value_name = "N")]
    steps: usize,
    /// Seed of the text, the weights and the batches
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

const SENTENCES: usize = 2500;
const BATCH: usize = 16;
const CONFIG: GptConfig = GptConfig {
    layers: 2,
    heads: 4,
    width: 64,
    context: 64,
    vocabulary: 0,
    dropout: 0.0,
    ..GptConfig::SMALL
};

/// Runs the demo.
pub fn run(options: &Options) -> Result<()> {
    if options.steps == 0 {
        bail!("--steps 0: a model that is never trained has nothing to show; choose at least 1");
    }
    let cpu = options.machine.cpu()?;
    let mut page = Page { json: options.json, facts: serde_json::Map::new() };

    let characters = Characters::of(&sentences(options.seed, SENTENCES));
    let (seen, held_out) = characters.ids.split_at(characters.ids.len() * 9 / 10);
    let entropy = unigram_entropy(seen, held_out, characters.alphabet.len());
    let config = GptConfig { vocabulary: characters.alphabet.len(), ..CONFIG };
    let gpt = Gpt::new(config)?;

    page.title("The text")?;
    page.line(&format!("  {}…", characters.text(&seen[..96])))?;
    page.line(&format!(
        "  {} characters, {} different ones; the last tenth is held out.",
        characters.ids.len(),
        characters.alphabet.len()
    ))?;
    page.line(&format!("  Guessing from letter frequencies alone costs {entropy:.3} nats a character."))?;
    page.fact("unigram_entropy", json!(entropy));

    let mut store = Store::new(options.seed);
    let mut trainer = Trainer::new(gpt.clone(), BATCH, options.seed, &mut store, &cpu)?;
    show_graph(&mut page, &gpt, &trainer)?;
    show_causality(&mut page, &gpt)?;

    page.title("Training")?;
    let began = Instant::now();
    let mut beaten_at = None;
    let bar = progress(options);
    let mut held_out_loss = trainer.evaluate(held_out, &mut store)?;
    page.line(&format!("  step    0  held-out loss {held_out_loss:.3}"))?;
    for step in 1..=options.steps {
        let loss = trainer.step(seen, step, options.steps, &mut store)?;
        bar.set_message(format!("{loss:.3}"));
        bar.inc(1);
        if step % 50 == 0 || step == options.steps {
            held_out_loss = trainer.evaluate(held_out, &mut store)?;
            bar.suspend(|| page.line(&format!("  step {step:>4}  held-out loss {held_out_loss:.3}")))?;
            if held_out_loss < entropy {
                beaten_at.get_or_insert(step);
            }
        }
    }
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    let tokens = (options.steps * BATCH * config.context) as f64;
    page.line(&format!("  {seconds:.1} s, {:.0} characters a second", tokens / seconds))?;
    match beaten_at {
        Some(step) => {
            page.line(&format!("  Better than letter frequencies ({entropy:.3}) by step {step}."))?
        }
        None => {
            page.line(&format!("  Not yet better than letter frequencies ({entropy:.3}): try more --steps."))?
        }
    }
    let written = trainer.write(&characters.ids[..8], 120, &mut store)?;
    page.line(&format!("  It writes: {}", characters.text(&written)))?;
    page.fact("held_out_loss", json!(held_out_loss));
    page.fact("beaten_at_step", json!(beaten_at));
    page.fact("seconds", json!(seconds));

    agreement::show(&mut page, &gpt, &characters, &mut store, &cpu)?;
    page.finish()?;
    if beaten_at.is_none() {
        bail!(
            "the held-out loss {held_out_loss:.3} does not beat the unigram entropy {entropy:.3}; try more --steps"
        );
    }
    Ok(())
}

fn show_graph(page: &mut Page, gpt: &Gpt, trainer: &Trainer) -> Result<()> {
    let config = gpt.config();
    let mut g = Graph::new();
    let b = g.open('B', BATCH)?;
    let t = g.open('T', config.context)?;
    let ids = g.input("ids", DType::I32, shape![b, t])?;
    let logits = gpt.logits(&mut g, ids)?;
    g.output("logits", logits)?;
    page.title("The graph of the forward pass (every other reader reads the same one)")?;
    for line in regard::describe::outline(&g).lines() {
        page.line(&format!("  {line}"))?;
    }
    let parameters = regard::describe::parameter_count(&g, "")?;
    page.line(&format!("  {parameters} parameters"))?;

    let program = trainer.program();
    let sizes = trainer.sizes()?;
    let costs = regard::cost::cost(program.graph(), &sizes, &Default::default(), None)?;
    page.title("The cost of one training step, before it runs")?;
    for line in costs.table_by_op().lines() {
        page.line(&format!("  {line}"))?;
    }
    let memory = program.memory();
    let mib = |bytes: usize| bytes as f64 / (1 << 20) as f64;
    page.title("The memory of a training step, before it runs")?;
    page.line(&format!(
        "  arena {:.2} MiB, parameters and moments {:.2}, packed weights {:.2}, threads {:.2}, inputs and outputs {:.2}: {:.2} MiB",
        mib(memory.arena),
        mib(memory.stored),
        mib(memory.packed),
        mib(memory.threads),
        mib(memory.io + memory.constants),
        mib(memory.total())
    ))?;
    page.fact("parameters", json!(parameters));
    page.fact("multiply_adds_a_step", json!(costs.total().math.macs));
    page.fact("planned_bytes", json!(memory.total()));
    Ok(())
}

/// Proves on the graph, not by trying, that no position sees a later one.
fn show_causality(page: &mut Page, gpt: &Gpt) -> Result<()> {
    let mut g = Graph::inference();
    let length = 16;
    let ids = g.input("ids", DType::I32, [1, length])?;
    let logits = gpt.logits(&mut g, ids)?;
    let query = regard::reach::Query {
        from: vec![ids],
        to: vec![logits],
        grain: regard::reach::Grain::Position,
        ..Default::default()
    };
    let verdict = regard::reach::reach(&g, &query)?.is_causal(ids, 1, logits, 1)?;
    page.title("Which inputs can reach which outputs?")?;
    page.line(&format!("  \"No position sees a later one\": {verdict}."))?;
    page.fact("causal", json!(verdict.holds()));
    Ok(())
}

fn progress(options: &Options) -> ProgressBar {
    if options.json {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("  {bar:40} {pos}/{len} steps, {per_sec}, {eta} left, loss {msg}");
    ProgressBar::new(options.steps as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Where the demo writes: text as it goes, or one JSON object at the end.
pub struct Page {
    json: bool,
    facts: serde_json::Map<String, Value>,
}

impl Page {
    fn title(&mut self, title: &str) -> std::io::Result<()> {
        self.line(&format!("\n{title}"))
    }

    fn line(&mut self, line: &str) -> std::io::Result<()> {
        if self.json { Ok(()) } else { writeln!(std::io::stdout().lock(), "{line}") }
    }

    fn fact(&mut self, name: &str, value: Value) {
        self.facts.insert(name.into(), value);
    }

    fn finish(&mut self) -> std::io::Result<()> {
        if self.json {
            writeln!(std::io::stdout().lock(), "{}", Value::Object(std::mem::take(&mut self.facts)))?;
        }
        Ok(())
    }
}
