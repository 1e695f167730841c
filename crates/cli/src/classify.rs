//! `regard classify`: the classes of texts or images, the likeliest first, with probabilities.

use crate::machine::Machine;
use crate::model::{Weights, lines};
use crate::weight_precision::WeightPrecision;
use anyhow::{Result, bail};
use clap::Args;
use regard::models::{Labels, Registry};
use regard_runtime::TooLong;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Options of `regard classify`.
#[derive(Args)]
#[command(after_help = "Example:  regard classify runs/sentiment --text \"a warm and funny film\"")]
pub struct Options {
    /// The folder of a run, or of a model that classifies
    #[arg(value_name = "RUN_OR_MODEL")]
    model: String,
    /// A text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Vec<String>,
    /// A file with a text on each line
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// A PNG or JPEG file, brought to the size that the model takes; may be given several times
    #[arg(long, value_name = "PATH", conflicts_with_all = ["text", "file"])]
    image: Vec<PathBuf>,
    /// Show only the K likeliest classes
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    top: u16,
    /// Cut texts that are too long for the model instead of refusing them
    #[arg(long)]
    cut: bool,
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
    let mut texts = options.text.clone();
    if let Some(path) = &options.file {
        texts.extend(lines(path)?);
    }
    if texts.is_empty() && options.image.is_empty() {
        bail!(
            "nothing to classify; give --text \"…\", --file with a text on each line, or --image with a picture"
        );
    }
    let mut session =
        options.weights.session(&options.model, options.precision, &options.machine, registry)?;
    let reads = session.model().reads();
    match (reads.pixels, texts.is_empty()) {
        (Some(_), false) => bail!("{} classifies images; give --image", options.model),
        (None, true) if session.model().task().is_some_and(|task| task.labels == Labels::Example) => {
            bail!("{} classifies texts; give --text or --file", options.model)
        }
        _ => {}
    }
    let (given, classified) = match texts.is_empty() {
        true => {
            let given = options.image.iter().map(|path| path.display().to_string()).collect();
            (given, session.classify_images(&options.image)?)
        }
        false => {
            let long = if options.cut { TooLong::Cut } else { TooLong::Refuse };
            let classified = session.classify_texts(&texts, long)?;
            (texts, classified)
        }
    };
    let mut pages: Vec<Value> = Vec::new();
    let mut out = std::io::stdout().lock();
    for (given, classified) in given.iter().zip(&classified) {
        let mut classes = classified.ranked();
        classes.truncate(options.top.into());
        let named = classes.iter().map(|(class, share)| (session.companions().class_name(*class), share));
        if options.json {
            let classes: Vec<Value> =
                named.map(|(name, share)| json!({"label": name, "probability": share})).collect();
            pages.push(json!({ "given": given, "classes": classes }));
            continue;
        }
        let line: Vec<String> = named.map(|(name, share)| format!("{name} {:.1} %", 100.0 * share)).collect();
        let plain: String = given.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(out, "{}\t{plain}", line.join(", "))?;
    }
    if options.json {
        writeln!(out, "{}", json!({ "results": pages }))?;
    }
    Ok(())
}
