//! `regard trace`: which parts of a text, given or generated, stand in the training text as they are, and
//! where; how many of its runs of words are new.

use crate::evidence::{self, Corpus, INDEX, line_text, place_json, plain, source};
use crate::machine::Machine;
use crate::model::Weights;
use crate::output::Replace;
use crate::weight_precision::WeightPrecision;
use anyhow::{Context, Result, bail};
use clap::Args;
use regard::models::Registry;
use regard_data::whole;
use regard_evidence::{Index, Rule, Span, Trace, trace};
use regard_picture::{Section, Table, document, escaped, grouped};
use regard_runtime::{Prompts, Writing};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Options of `regard trace`.
#[derive(Args)]
#[command(
    after_help = "Examples:  regard trace --text \"a Transformer workbench in Rust\" --corpus README.md --index readme.index\n           \
                        regard trace runs/shakespeare --prompt \"ROMEO:\"\n\n\
                        The second after regard train recipes/shakespeare.toml and regard index runs/shakespeare."
)]
pub struct Options {
    /// The model that learned from the text, beside which its index is kept; it writes where a --prompt is
    /// given
    model: Option<String>,
    /// The text to trace
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with_all = ["prompt", "file"])]
    text: Option<String>,
    /// A file with the text to trace
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
    /// What the model goes on from; what it writes is traced
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, requires = "model")]
    prompt: Option<String>,
    /// The most new tokens
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    max: u32,
    /// The fewest words of a span
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    words: u16,
    /// The most places that are shown of a span
    #[arg(long, value_name = "N", default_value_t = 3)]
    places: u16,
    #[command(flatten)]
    corpus: Corpus,
    /// Write a page with the spans marked
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
    /// Print one JSON object
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
    if let Some(path) = &options.html {
        options.replace.check(&[("--html", path)], &options.corpus.files()?)?;
    }
    let usual = match &options.model {
        Some(model) => Some(evidence::beside(model, &options.weights.open(model, registry)?.path, INDEX)),
        None => None,
    };
    let Some(index) = options.corpus.open(usual.as_deref())? else {
        bail!("there is no index beside the model: name the text that it learned from: --corpus FILE");
    };
    let text = text(options, registry)?;
    let rule = Rule { words: options.words.into(), places: options.places.into(), ..Rule::default() };
    let traced = trace(&index, &text, rule)?;
    if let Some(path) = &options.html {
        let page = page(&index, &text, &traced);
        whole::write(path, |file| file.write_all(page.as_bytes()))?;
    }
    let mut out = std::io::stdout().lock();
    match options.json {
        true => writeln!(out, "{}", trace_json(&index, &text, &traced))?,
        false => write!(out, "{}", shown(&index, &text, &traced, out.is_terminal()))?,
    }
    Ok(())
}

/// The text to trace: given, from a file, or written by the model.
fn text(options: &Options, registry: &Registry) -> Result<String> {
    if let Some(text) = &options.text {
        return Ok(text.clone());
    }
    if let Some(file) = &options.file {
        return read(file);
    }
    let (Some(model), Some(prompt)) = (&options.model, &options.prompt) else {
        bail!("give what to trace: --text, --file, or a model and a --prompt");
    };
    let mut session = options.weights.session(model, options.precision, &options.machine, registry)?;
    let writing = Writing { most: options.max as usize, ..Writing::default() };
    let prompts = [prompt.clone()];
    let written = session.generate(Prompts::Texts(&prompts), &writing, &mut |_| ControlFlow::Continue(()))?;
    Ok(written.into_iter().next().and_then(|written| written.text).unwrap_or_default())
}

/// A file of text.
fn read(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("--file {}", file.display()))?;
    String::from_utf8(bytes)
        .with_context(|| format!("--file {}: is no UTF-8; save it as such", file.display()))
}

/// The text in pieces: each with the number of the span that it is of, if it is of one. Where spans overlap,
/// the earlier one has the words of both.
fn pieces(text: &str, spans: &[Span]) -> Vec<(String, Option<usize>)> {
    let (mut all, mut done) = (Vec::new(), 0);
    for (number, span) in spans.iter().enumerate() {
        let rest = &text[span.at.start.max(done)..span.at.end.max(done)];
        let start = span.at.start.max(done) + (rest.len() - rest.trim_start().len());
        if span.at.end <= start {
            continue;
        }
        all.push((text[done..start].to_string(), None));
        all.push((text[start..span.at.end].to_string(), Some(number + 1)));
        done = span.at.end;
    }
    all.push((text[done..].to_string(), None));
    all.retain(|(piece, _)| !piece.is_empty());
    all
}

/// What people read in a terminal, or elsewhere without colours.
fn shown(index: &Index, text: &str, traced: &Trace, colours: bool) -> String {
    let (opens, closes) = if colours { ("\x1b[30;43m", "\x1b[0m") } else { ("[", "]") };
    let mut out = String::new();
    for (piece, number) in pieces(text, &traced.spans) {
        let piece: String = piece.lines().map(plain).collect::<Vec<_>>().join("\n");
        let _ = match number {
            None => write!(out, "{piece}"),
            Some(number) => write!(out, "{opens}{piece}{closes}({number})"),
        };
    }
    out += "\n\n";
    for (number, span) in traced.spans.iter().enumerate() {
        let places: Vec<String> = span.places.iter().map(|place| source(index, place)).collect();
        let more = span.count - places.len() as u64;
        let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
        let _ = writeln!(out, "({})  {} words, at {}{more}", number + 1, span.words, places.join(", "));
        if let Some(place) = span.places.first() {
            let line = index.line(place);
            let from = (place.offset - line.place.offset) as usize;
            let shown = match line.text.get(from..from + span.at.len()) {
                Some(_) => line_text(&line, Some((from, from + span.at.len())), (opens, closes)),
                None => line_text(&line, None, (opens, closes)),
            };
            let _ = writeln!(out, "      {shown}");
        }
    }
    let covered = 100.0 * traced.covered(text);
    let _ = writeln!(
        out,
        "{} spans have {covered:.0} % of {} words; they stand in the text of {} files as they are.",
        traced.spans.len(),
        traced.words,
        index.files().len()
    );
    let new: Vec<String> = traced
        .novelty
        .iter()
        .map(|novelty| format!("{}: {:.0} %", novelty.words, 100.0 * novelty.share()))
        .collect();
    let _ = writeln!(out, "New runs of n words:  {}", new.join("  "));
    out
}

/// What programs read.
fn trace_json(index: &Index, text: &str, traced: &Trace) -> Value {
    let span = |span: &Span| {
        let places: Vec<Value> = span
            .places
            .iter()
            .map(|place| {
                let mut page = place_json(index, place);
                page["text"] = json!(index.line(place).text);
                page
            })
            .collect();
        json!({"from": span.at.start, "to": span.at.end, "text": &text[span.at.clone()], "words": span.words,
               "count": span.count, "places": places})
    };
    let novelty: Vec<Value> = traced
        .novelty
        .iter()
        .map(|one| json!({"words": one.words, "all": one.all, "new": one.new, "share": one.share()}))
        .collect();
    json!({"text": text, "words": traced.words, "covered": traced.covered(text), "index": index.path().display().to_string(),
           "spans": traced.spans.iter().map(span).collect::<Vec<_>>(), "novelty": novelty})
}

/// The same as a page.
fn page(index: &Index, text: &str, traced: &Trace) -> String {
    let mut marked = String::from("<p style=\"white-space:pre-wrap\">");
    for (piece, number) in pieces(text, &traced.spans) {
        marked += &match number {
            None => escaped(&piece),
            Some(number) => {
                format!("<mark>{}</mark><sup><a href=\"#span-{number}\">{number}</a></sup>", escaped(&piece))
            }
        };
    }
    marked += "</p>";
    let mut sources = String::new();
    for (number, span) in traced.spans.iter().enumerate() {
        let mut table = Table::new(["place", "byte", "line"]);
        for place in &span.places {
            let line = index.line(place);
            table = table.row([source(index, place), grouped(place.offset), plain(&line.text)]);
        }
        sources += &format!(
            "<h3 id=\"span-{0}\">{0}. “{1}”: {2} words, {3} places</h3>{4}",
            number + 1,
            escaped(&text[span.at.clone()]),
            span.words,
            grouped(span.count),
            table.html(escaped)
        );
    }
    let mut novelty = Table::new(["words of a run", "runs", "new", "share"]);
    for one in &traced.novelty {
        let share = format!("{:.1} %", 100.0 * one.share());
        novelty = novelty.row([one.words.to_string(), one.all.to_string(), one.new.to_string(), share]);
    }
    let parts = [
        Section { title: "The text".into(), html: marked },
        Section { title: "Where it stands".into(), html: sources },
        Section { title: "What is new".into(), html: novelty.html(escaped) },
    ];
    let lead = format!(
        "{} of {} words lie in spans that stand in the indexed text as they are.",
        (traced.covered(text) * traced.words as f64).round(),
        traced.words
    );
    document("Where a text comes from", &lead, &parts)
}
