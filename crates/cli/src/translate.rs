//! `regard translate`: texts through an encoder-decoder, one line for each, batch by batch. What a line becomes does not
//! depend on the batch that it is in.

use crate::generate::named;
use crate::held::Held;
use crate::machine::Machine;
use crate::{ends, loaded};
use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use regard::generate::{Beam, Beams, EncoderDecoder, Generator, Settings};
use regard_models::Registry;
use serde_json::json;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Options of `regard translate`.
#[derive(Args)]
#[command(after_help = "After regard train recipes/translate.toml, or with any T5 in place of the run:\n\n\
                  Example:  regard translate runs/translate --text \"Ein Hund läuft durch das Gras.\"")]
pub struct Options {
    /// A folder with config.json, weights and tokenizer.json (and target_tokenizer.json, where the target has its own),
    /// or the name of one in a local Hugging Face cache
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
    held: Held,
    #[command(flatten)]
    machine: Machine,
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    if options.max == 0 {
        bail!("--max 0: nothing to do; choose at least 1 new token");
    }
    options.search(&[], &[]).check()?;
    let texts = texts(options)?;
    let cpu = options.machine.cpu()?;
    let opened = loaded::open(&options.model, registry)?;
    let Some(model) = opened.model.as_encoder_decoder() else {
        bail!(
            "{} is {} ({}); translate needs an encoder-decoder: T5 or a Transformer",
            options.model,
            opened.model.kind(),
            opened.model.family()
        );
    };
    let source = loaded::tokenizer(&opened, model.source_vocabulary())?;
    let mut sources = Vec::new();
    for (at, text) in texts.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let ids = loaded::encode(&source, text, model.source_vocabulary())?;
        if let Some(most) = model.context().filter(|&most| ids.len() > most) {
            bail!("text {} has {} tokens, the model has room for {most}; split it", at + 1, ids.len());
        }
        sources.push((at, ids));
    }
    let target = loaded::target_tokenizer(&opened, source, model.vocabulary())?;
    let start = ends::start(&opened, options.start)?;
    let stop = ends::stop(&opened)?;
    let mut store = loaded::store(&opened)?;
    options.held.tell(&mut store);
    let mut generator = match sources.is_empty() {
        true => None,
        false => {
            let settings = options.settings(model, &sources);
            Some(Generator::with_sources(model, settings, &mut store, &cpu)?)
        }
    };

    let bar = progress(texts.len());
    let mut lines = Lines { json: options.json, texts: &texts, pages: Vec::new() };
    for batch in sources.chunks(options.batch.into()) {
        let Some(generator) = &mut generator else { break };
        let (rows, starts): (Vec<Vec<i32>>, Vec<Vec<i32>>) =
            batch.iter().map(|(_, ids)| (ids.clone(), vec![start])).unzip();
        generator.read(&rows, &mut store)?;
        let found = generator.search(&options.search(&starts, &stop), &mut store)?;
        for ((at, _), beams) in batch.iter().zip(&found) {
            let Some(best) = beams.first() else {
                bail!("the search found nothing for text {}; choose another --beams", at + 1);
            };
            lines.put(*at, &loaded::text(&target, &best.ids)?, Some(best), &bar)?;
        }
    }
    lines.finish(&bar)
}

impl Options {
    fn search<'a>(&self, prompts: &'a [Vec<i32>], stop: &'a [i32]) -> Beams<'a> {
        let beams = Beams::new(prompts, self.beams.into(), self.max);
        Beams { length_penalty: self.length_penalty, stop, ..beams }
    }

    fn settings(&self, model: &dyn EncoderDecoder, sources: &[(usize, Vec<i32>)]) -> Settings {
        Settings {
            rows: usize::from(self.batch).min(sources.len()),
            beams: self.beams.into(),
            capacity: Some(self.max.saturating_add(1).min(model.context().unwrap_or(usize::MAX))),
            source: sources.iter().map(|(_, ids)| ids.len()).max(),
            ..Settings::default()
        }
    }
}

/// All texts asked for. Lines of a file may be empty, and stay so.
fn texts(options: &Options) -> Result<Vec<String>> {
    let mut texts = options.text.clone();
    if let Some(at) = texts.iter().position(|text| text.trim().is_empty()) {
        bail!("--text number {} is empty; give it words", at + 1);
    }
    if let Some(path) = &options.file {
        texts.extend(loaded::lines(path)?);
    }
    if texts.is_empty() {
        bail!(
            "nothing to translate; give --text \"…\", once or more often, or --file with a text on each line"
        );
    }
    Ok(texts)
}

/// A bar on the terminal; elsewhere it does not show.
fn progress(count: usize) -> ProgressBar {
    let bar = ProgressBar::new(count as u64);
    if let Ok(style) = ProgressStyle::with_template("{pos}/{len} texts  {wide_bar}  {eta} left") {
        bar.set_style(style);
    }
    bar
}

/// What has been translated, in order; texts that were skipped for being empty come out empty.
struct Lines<'a> {
    json: bool,
    texts: &'a [String],
    pages: Vec<serde_json::Value>,
}

impl Lines<'_> {
    fn put(&mut self, at: usize, text: &str, beam: Option<&Beam>, bar: &ProgressBar) -> Result<()> {
        while self.pages.len() < at {
            self.put(self.pages.len(), "", None, bar)?;
        }
        self.pages.push(json!({
            "source": self.texts[at],
            "text": text,
            "ids": beam.map(|beam| &beam.ids[..]).unwrap_or_default(),
            "score": beam.map(|beam| beam.score),
            "ended": beam.map(|beam| named(beam.ended)),
        }));
        bar.inc(1);
        if !self.json {
            // One line for each text, whatever the model wrote.
            let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            bar.suspend(|| writeln!(stdout(), "{line}"))?;
        }
        Ok(())
    }

    fn finish(mut self, bar: &ProgressBar) -> Result<()> {
        while self.pages.len() < self.texts.len() {
            self.put(self.pages.len(), "", None, bar)?;
        }
        bar.finish_and_clear();
        if self.json {
            writeln!(stdout(), "{}", json!({ "translations": self.pages }))?;
        }
        Ok(())
    }
}
