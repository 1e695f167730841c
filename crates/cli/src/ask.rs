//! `regard ask`: questions to a model that learned to answer, from the study or a run.

use crate::loaded;
use crate::machine::Machine;
use anyhow::{Result, bail};
use clap::Args;
use regard::graph::Precision;
use regard::prelude::*;
use regard_models::Registry;
use regard_recipe::ask::Answerer;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `regard ask`.
#[derive(Args)]
#[command(after_help = "Example:  regard ask runs/demo/pretrained \"Where was Lebin Kodre born?\"")]
pub struct Options {
    /// The folder of a model that learned to answer, or of its run
    model: PathBuf,
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
    machine: Machine,
}

/// Questions that are answered at a time.
const ROWS: usize = 32;

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    if options.max == 0 {
        bail!("--max 0: an answer has at least 1 token");
    }
    let questions = match &options.file {
        None => options.questions.clone(),
        Some(file) => loaded::lines(file)?,
    };
    let cpu = options.machine.cpu()?;
    let answers = answers(&options.model, &questions, options.max, &cpu, registry)?;
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
    cpu: &Cpu,
    registry: &Registry,
) -> Result<Vec<String>> {
    let opened = loaded::open(&model.to_string_lossy(), registry)?;
    let mut store = loaded::store(&opened)?;
    let tokenizer = loaded::tokenizer(&opened, opened.model.vocabulary().unwrap_or(0))?;
    let rows = ROWS.min(questions.len().max(1));
    let mut answerer =
        Answerer::new(&*opened.model, &tokenizer, rows, most, Precision::F32, &mut store, cpu)?;
    Ok(answerer.answer(questions, &mut store)?)
}
