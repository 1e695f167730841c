//! `regard ask`: questions to a model that learned to answer, from the study or a run.

use crate::machine::Machine;
use crate::model::{Weights, lines};
use crate::weight_precision::WeightPrecision;
use anyhow::{Result, bail};
use clap::Args;
use regard::models::Registry;
use regard::prelude::*;
use regard_runtime::{OpenOptions, Session};
use serde_json::json;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Options of `regard ask`.
#[derive(Args)]
#[command(after_help = "Example:  regard ask runs/demo/pretrained \"Where was Lebin Kodre born?\"")]
pub struct Options {
    /// The folder of a model that learned to answer, or of its run
    model: String,
    /// The questions
    #[arg(required_unless_present = "file")]
    questions: Vec<String>,
    /// A file with a question on each line
    #[arg(long, value_name = "FILE", conflicts_with = "questions")]
    file: Option<PathBuf>,
    /// The most tokens of an answer
    #[arg(long, default_value_t = 32, value_name = "N")]
    max: usize,
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
    if options.max == 0 {
        bail!("--max 0: an answer has at least 1 token");
    }
    let questions = match &options.file {
        None => options.questions.clone(),
        Some(file) => lines(file)?,
    };
    let mut session =
        options.weights.session(&options.model, options.precision, &options.machine, registry)?;
    let answers = session.ask(&questions, options.max, &mut |_, _| ControlFlow::Continue(()))?;
    let mut out = std::io::stdout().lock();
    if options.json {
        let pairs = questions
            .iter()
            .zip(&answers)
            .map(|(question, answer)| json!({"question": question, "answer": answer}));
        writeln!(out, "{}", json!({"answers": pairs.collect::<Vec<_>>()}))?;
        return Ok(());
    }
    for (question, answer) in questions.iter().zip(&answers) {
        match questions.len() {
            1 => writeln!(out, "{answer}")?,
            _ => writeln!(out, "{question} {answer}")?,
        }
    }
    Ok(())
}

/// What a model says to some questions.
pub fn answers(
    model: &Path,
    questions: &[String],
    most: usize,
    device: &Device,
    registry: &Registry,
) -> Result<Vec<String>> {
    let mut session = Session::open(&model.to_string_lossy(), &OpenOptions::new(registry), device)?;
    Ok(session.ask(questions, most, &mut |_, _| ControlFlow::Continue(()))?)
}
