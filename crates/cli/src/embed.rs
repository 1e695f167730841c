//! `regard embed`: texts to vectors by an encoder: as the modules of a sentence-transformer's folder make
//! them, or the mean over the tokens at length 1. One text is printed as numbers, several as a table of
//! cosines.

use crate::machine::Machine;
use crate::model::{self, Weights};
use crate::weight_precision::WeightPrecision;
use anyhow::{Result, bail};
use clap::Args;
use regard::models::Registry;
use regard_runtime::{Embedded, Prompt, TooLong};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Options of `regard embed`.
#[derive(Args)]
#[command(
    after_help = "The folder of a sentence-transformer is obeyed: its pooling, dense layers, whether vectors are brought to \
                  length 1, how much of a\ntext is read, and its prompts. Any other encoder gives the mean over the tokens at \
                  length 1.\n\nAfter regard train recipes/sentiment.toml, or with any BERT in place of the run:\n\n\
                  Example:  regard embed runs/sentiment --text \"a warm film\" --text \"a film with warmth\""
)]
pub struct Options {
    /// A run, a folder with config.json, weights and tokenizer.json, or the name of one in a local Hugging
    /// Face cache
    model: String,
    /// A text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Vec<String>,
    /// A file with a text on each line
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Put the prompt of this name of a sentence-transformer's folder before each text [default: the
    /// folder's]
    #[arg(long, value_name = "NAME")]
    prompt_name: Option<String>,
    /// Cut texts that are too long for the model instead of refusing them
    #[arg(long)]
    cut: bool,
    /// Print one JSON object with texts, tokens, vectors and cosines
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
    let texts = model::texts(&options.text, options.file.as_deref(), false)?;
    if texts.is_empty() {
        bail!("nothing to embed; give --text \"…\", once or more often, or --file with a text on each line");
    }
    let mut session =
        options.weights.session(&options.model, options.precision, &options.machine, registry)?;
    let long = if options.cut { TooLong::Cut } else { TooLong::Refuse };
    let prompt = options.prompt_name.as_deref().map_or(Prompt::Default, Prompt::Named);
    let embedded = session.embed_with(&texts, long, prompt)?;
    print(options.json, &texts, &embedded)
}

/// The cosine of the angle between two vectors; 0 if one of them has no length.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
}

fn print(as_json: bool, texts: &[String], embedded: &[Embedded]) -> Result<()> {
    let vectors: Vec<&[f32]> = embedded.iter().map(|one| one.vector.as_slice()).collect();
    let cosines: Vec<Vec<f64>> =
        vectors.iter().map(|a| vectors.iter().map(|b| cosine(a, b)).collect()).collect();
    let mut out = stdout().lock();
    if as_json {
        let tokens: Vec<usize> = embedded.iter().map(|one| one.tokens).collect();
        let page = json!({ "texts": texts, "tokens": tokens, "vectors": vectors, "cosines": cosines });
        writeln!(out, "{page}")?;
    } else if let [vector] = &vectors[..] {
        let numbers: Vec<String> = vector.iter().map(|x| format!("{x:.6}")).collect();
        writeln!(out, "{}", numbers.join(" "))?;
    } else {
        write!(out, "    ")?;
        (1..=texts.len()).try_for_each(|column| write!(out, "{column:>7}"))?;
        writeln!(out)?;
        for (row, (text, cosines)) in texts.iter().zip(&cosines).enumerate() {
            write!(out, "{:>4}", row + 1)?;
            cosines.iter().try_for_each(|cosine| write!(out, "{cosine:>7.3}"))?;
            writeln!(out, "  {}", shortened(text))?;
        }
    }
    Ok(out.flush()?)
}

/// The beginning of a text, for a line of its own.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    let mut short: String = text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > MOST {
        short.push('…');
    }
    short
}
