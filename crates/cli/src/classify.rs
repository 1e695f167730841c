//! `regard classify`: the classes of texts or images, the likeliest first, with probabilities; of a model
//! that learned values, its values.

use crate::machine::Machine;
use crate::model::{Weights, lines};
use crate::weight_precision::WeightPrecision;
use anyhow::{Result, bail};
use clap::Args;
use regard::models::{Labels, Registry};
use regard_runtime::{Problem, TooLong};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Options of `regard classify`.
#[derive(Args)]
#[command(after_help = "\
A model with `problem_type` regression, or with a single score, gives values instead of classes: how alike two sentences
are, say.

Example:  regard classify runs/sentiment --text \"a warm and funny film\"")]
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
    let is_value = session.companions().problem == Problem::Values;
    for (given, classified) in given.iter().zip(&classified) {
        let name = |class: usize| session.companions().class_name(class);
        let (key, shown): (&str, Vec<(String, f64)>) = match is_value {
            // All of them, in the model's order: no value is likelier than another.
            true => {
                let values = classified.scores.iter().enumerate();
                ("value", values.map(|(at, &value)| (name(at), value.into())).collect())
            }
            false => {
                let classes = classified.ranked().into_iter().take(options.top.into());
                ("probability", classes.map(|(class, share)| (name(class), share)).collect())
            }
        };
        if options.json {
            let classes: Vec<Value> =
                shown.iter().map(|(name, number)| json!({"label": name, key: number})).collect();
            pages.push(json!({ "given": given, "classes": classes }));
            continue;
        }
        let one = |(name, number): &(String, f64)| match is_value {
            true => format!("{name} {number:.5}"),
            false => format!("{name} {:.1} %", 100.0 * number),
        };
        let line: Vec<String> = shown.iter().map(one).collect();
        let plain: String = given.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(out, "{}\t{plain}", line.join(", "))?;
    }
    if options.json {
        writeln!(out, "{}", json!({ "results": pages }))?;
    }
    Ok(())
}
