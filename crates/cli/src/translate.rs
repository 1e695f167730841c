//! `regard translate`: texts through an encoder-decoder, one line for each, batch by batch. What a line
//! becomes does not depend on the batch that it is in.

use crate::machine::Machine;
use crate::model::{self, Weights};
use crate::weight_precision::WeightPrecision;
use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use regard::models::Registry;
use regard_runtime::{End, Translating, Translation};
use serde_json::json;
use std::io::{Write, stdout};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Options of `regard translate`.
#[derive(Args)]
#[command(
    after_help = "After regard train recipes/translate.toml, or with any Marian, BART or T5 in place of the run:\n\n\
                  Example:  regard translate runs/translate --text \"Ein Hund läuft durch das Gras.\""
)]
pub struct Options {
    /// A run, a folder with config.json, weights and tokenizer.json (and target_tokenizer.json, where the
    /// target has its own), or the name of one in a local Hugging Face cache
    model: String,
    /// A text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Vec<String>,
    /// A file with a text on each line
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// The most new tokens for each text
    #[arg(long, value_name = "N", default_value_t = 128)]
    max: usize,
    /// How many translations are tried side by side; 1 takes the likeliest token each time
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    beams: u16,
    /// Scores are divided by the length to this power: 0 does nothing, more favours longer texts
    #[arg(long, value_name = "A", default_value_t = 1.0, allow_negative_numbers = true)]
    length_penalty: f64,
    /// How many texts at a time: more is faster, and takes more memory
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    /// The token with which a translation begins, where config.json does not say
    #[arg(long, value_name = "ID")]
    start: Option<i32>,
    /// Print one JSON object at the end instead of a line for each text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    weights: Weights,
    #[command(flatten)]
    precision: WeightPrecision,
    #[command(flatten)]
    machine: Machine,
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    if options.max == 0 {
        bail!("--max 0: nothing to do; choose at least 1 new token");
    }
    let how = Translating {
        batch: options.batch.into(),
        beams: options.beams.into(),
        most: options.max,
        length_penalty: options.length_penalty,
        ..Translating::default()
    };
    how.check()?;
    // Lines of a file may be empty, and stay so.
    let texts = model::texts(&options.text, options.file.as_deref(), true)?;
    if texts.is_empty() {
        bail!(
            "nothing to translate; give --text \"…\", once or more often, or --file with a text on each line"
        );
    }
    let mut session =
        options.weights.session(&options.model, options.precision, &options.machine, registry)?;
    let bar = progress(texts.len());
    let mut lines = Lines::new(options.json, &texts);
    let mut failed = None;
    let translations = session.translate(&texts, how, options.start, &mut |at, translation| {
        bar.inc(1);
        failed = lines.put(at, &translation.text, &bar).err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    let translations = translations?;
    lines.finish(&bar)?;
    bar.finish_and_clear();
    if options.json {
        let pages: Vec<serde_json::Value> =
            texts.iter().zip(&translations).map(|(text, translation)| page(text, translation)).collect();
        writeln!(stdout(), "{}", json!({ "translations": pages }))?;
    }
    Ok(())
}

fn page(source: &str, translation: &Translation) -> serde_json::Value {
    let beam = translation.beam.as_ref();
    json!({
        "source": source,
        "text": translation.text,
        "ids": beam.map(|beam| &beam.ids[..]).unwrap_or_default(),
        "score": beam.map(|beam| beam.score),
        "ended": beam.map(|beam| End::from(beam.ended).to_string()),
    })
}

/// A bar on the terminal; elsewhere it does not show.
fn progress(count: usize) -> ProgressBar {
    let bar = ProgressBar::new(count as u64);
    if let Ok(style) = ProgressStyle::with_template("{pos}/{len} texts  {wide_bar}  {eta} left") {
        bar.set_style(style);
    }
    bar
}

/// Translations as lines, in the order of the texts, whatever the order in which they come; texts without
/// words come out empty.
struct Lines {
    quiet: bool,
    /// What is known of each, and not printed yet.
    known: Vec<Option<String>>,
    printed: usize,
}

impl Lines {
    fn new(quiet: bool, texts: &[String]) -> Lines {
        let known = texts.iter().map(|text| text.trim().is_empty().then(String::new)).collect();
        Lines { quiet, known, printed: 0 }
    }

    fn put(&mut self, at: usize, text: &str, bar: &ProgressBar) -> std::io::Result<()> {
        // One line for each text, whatever the model wrote.
        self.known[at] = Some(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect());
        self.finish(bar)
    }

    /// Prints all that is known up to the first that is not.
    fn finish(&mut self, bar: &ProgressBar) -> std::io::Result<()> {
        while let Some(line) = self.known.get_mut(self.printed).and_then(Option::take) {
            self.printed += 1;
            if !self.quiet {
                bar.suspend(|| writeln!(stdout(), "{line}"))?;
            }
        }
        Ok(())
    }
}
