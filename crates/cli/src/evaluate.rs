//! `regard evaluate`: a trained model examined once more, with the data of its recipe or with other files,
//! and every answer to a file if asked.

use crate::finite::NotFinite;
use crate::machine::Machine;
use crate::model::Weights;
use crate::output::{Replace, files_of};
use crate::train;
use crate::weight_precision::WeightPrecision;
use anyhow::{Result, bail};
use clap::Args;
use regard_models::Registry;
use regard_recipe::Recipe;
use regard_recipe::job::{Asked, Findings, tested};
use regard_runtime::is_run;
use regard_train::RunPaths;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `regard evaluate`.
#[derive(Args)]
#[command(after_help = "Example:  regard evaluate runs/sentiment --predictions answers.tsv\n\
    \nFiles: text for a language model, `sentence TAB class` for a classifier of text, sources (and --target) for a\n\
    translator, a folder of MNIST or files of CIFAR-10 for a classifier of images.")]
pub struct Options {
    /// The folder of a run, or of a model
    #[arg(value_name = "RUN_OR_MODEL")]
    model: String,
    /// Files to examine with instead of those of the recipe
    #[arg(long, value_name = "PATH", num_args = 1..)]
    data: Vec<PathBuf>,
    /// The translations of --data, line by line
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "data")]
    target: Vec<PathBuf>,
    /// How many translations are tried side by side [default: as the recipe says, or 4]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=256))]
    beams: Option<u16>,
    /// Examples at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    batch: Option<u16>,
    /// The most tokens of a translation or an answer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max: Option<u16>,
    /// Write every example with what is right and what the model said, separated by tabs
    #[arg(long, value_name = "PATH")]
    predictions: Option<PathBuf>,
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
    let recipe = match is_run(Path::new(&options.model)) {
        true => Some(Recipe::open(RunPaths::new(&options.model).recipe(), &[], registry)?),
        false => None,
    };
    if let Some(path) = &options.predictions {
        options.replace.check(&[("--predictions", path)], &inputs(options, recipe.as_ref()))?;
    }
    let mut session =
        options.weights.session(&options.model, options.precision, &options.machine, registry)?;
    let asked = Asked {
        data: options.data.clone(),
        target: options.target.clone(),
        batch: options.batch.map(usize::from),
        most: options.max.map(usize::from),
    };
    let mut exam = tested(session.opened(), recipe.as_ref(), &asked, &options.machine.device()?)?;
    let beams = options.beams.map_or(recipe.map_or(4, |recipe| recipe.evaluate.beams.max(1)), usize::from);
    let unsound = NotFinite::in_weights(session.opened());
    unsound.warn("the model is not sound:");
    let findings = exam.examine(beams, session.store()?)?;
    let path = &session.opened().path;
    if let Some(path) = &options.predictions {
        write_predictions(path, &findings)?;
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        let metrics: serde_json::Map<String, serde_json::Value> =
            findings.metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let confusion = findings.confusion.as_ref().map(|table| table.json());
        let page = json!({
            "model": path.display().to_string(), "examined": exam.summary(), "cut": exam.cut(), "metrics": metrics,
            "not_finite": unsound.sentence(), "confusion": confusion, "signature": findings.signature, "predictions": options.predictions.as_ref().map(|path| path.display().to_string()),
        });
        writeln!(out, "{page}")?;
        return Ok(());
    }
    writeln!(out, "{}, examined with {}:", path.display(), exam.summary())?;
    for (name, value) in &findings.metrics {
        writeln!(out, "  {name:<12} {}", train::number(name, *value))?;
    }
    if let Some(signature) = &findings.signature {
        writeln!(out, "  ({signature})")?;
    }
    if let Some(confusion) = &findings.confusion {
        confusion.to_string().lines().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    if exam.cut() > 0 {
        writeln!(out, "{} examples are longer than the model has room for, and were cut", exam.cut())?;
    }
    if let Some(path) = &options.predictions {
        writeln!(out, "answers: {}", path.display())?;
    }
    Ok(())
}

/// Every file that an examination may read.
fn inputs(options: &Options, recipe: Option<&Recipe>) -> Vec<PathBuf> {
    let mut all = files_of(Path::new(&options.model));
    all.extend(options.data.iter().chain(&options.target).cloned());
    for stage in recipe.map(Recipe::stages).unwrap_or_default() {
        let data = stage.data;
        all.extend([data.train, data.train_target, data.evaluate, data.evaluate_target].concat());
    }
    all
}

/// One line for each example, written whole or not at all.
fn write_predictions(path: &Path, findings: &Findings) -> Result<()> {
    if findings.predictions.is_empty() {
        bail!("--predictions: running text has no examples to write down; leave it out");
    }
    let plain = |text: &str| text.replace(['\t', '\n', '\r'], " ");
    let mut text = String::from("given\tright\tsaid\tprobability\n");
    for one in &findings.predictions {
        let probability = one.probability.map_or(String::new(), |share| format!("{share:.6}"));
        text += &format!(
            "{}\t{}\t{}\t{probability}\n",
            plain(&one.given),
            plain(&one.right),
            plain(&one.predicted)
        );
    }
    Ok(regard::data::whole::write(path, |file| file.write_all(text.as_bytes()))?)
}
