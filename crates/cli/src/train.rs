//! `regard train`: from a recipe to a trained model in a run folder. Ctrl-C, SIGTERM and SIGHUP end it after
//! the step at hand, save, and say how to go on; a second one ends it at once, and costs what came after the
//! last checkpoint.

use crate::bars::Bars;
use crate::machine::Machine;
use crate::stopping::on_interrupt;
use anyhow::{Result, bail};
use clap::Args;
use regard_models::Registry;
use regard_recipe::job::{JobOutcome, JobResult};
use regard_recipe::language::{DataKind, FormRecipe, Kind};
use regard_recipe::{Job, Recipe};
use regard_train::{End, History, RunFolder, RunPaths};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Options of `regard train`.
#[derive(Args)]
#[command(
    after_help = "Example:  regard train recipes/shakespeare.toml data.train=README.md train.steps=200\n\
    \nOf one stage:  regard train recipes/birth_places.toml stage.pretrain.train.epochs=2\n\
    \nAfter an interruption:  regard train --resume runs/shakespeare"
)]
pub struct Options {
    /// A recipe, a TOML file; with --resume, it is that of the run
    #[arg(value_name = "RECIPE", required_unless_present = "resume")]
    recipe: Option<PathBuf>,
    /// What should be otherwise, as in train.lr=1e-3, data.train=my.txt or, in one stage,
    /// stage.pretrain.train.epochs=2
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// The run folder to make [default: runs/ and the name of the recipe]
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Go on with the run in this folder, from its last checkpoint
    #[arg(long, value_name = "RUN")]
    resume: Option<PathBuf>,
    /// Print one JSON object at the end instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

/// The run was interrupted, and said so.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let device = options.machine.device()?;
    let began = Instant::now();
    let before = options.resume.as_deref().map_or(0, steps_so_far);
    let mut bars = Bars::new(options.json);
    // Made before the folder: a recipe that cannot run leaves nothing behind.
    let (job, folder) = match &options.resume {
        None => {
            let Some(path) = &options.recipe else { bail!("give a recipe, or --resume RUN") };
            let recipe = Recipe::open(path, &options.overrides, registry)?;
            let out = options.out.clone().unwrap_or_else(|| Path::new("runs").join(&recipe.name));
            refuse_run(&out)?;
            let job = Job::new(&recipe, registry)?;
            (job, RunFolder::create(&out, &recipe.to_toml()?)?)
        }
        Some(run) => {
            // With --resume the first word is an override, too.
            let first = options.recipe.iter().map(|path| path.display().to_string());
            let overrides: Vec<String> = first.chain(options.overrides.iter().cloned()).collect();
            let folder = RunFolder::resume(run)?;
            let place = RunPaths::new(run).recipe().display().to_string();
            let recipe = Recipe::parse(folder.recipe(), &place, &overrides, registry)?;
            (Job::new(&recipe, registry)?, folder)
        }
    };
    job.summary().iter().for_each(|line| bars.print_line(line));
    let stop = on_interrupt()?;
    let outcome = match job.train(&folder, &device, &mut bars, Some(&stop)) {
        Ok(outcome) => outcome,
        Err(error) => {
            folder.give_up();
            return Err(error.into());
        }
    };
    bars.clear();
    let seconds = began.elapsed().as_secs_f64();
    print(options.json, &job, &folder, &outcome, before, seconds)
}

/// How many steps a run has taken.
fn steps_so_far(run: &Path) -> u64 {
    let history = History::read(&RunPaths::new(run).metrics()).ok();
    history.and_then(|history| Some(history.steps.last()?.step)).unwrap_or(0)
}

/// Refuses a folder that has a run before the data is read.
fn refuse_run(out: &Path) -> Result<()> {
    if RunPaths::new(out).recipe().exists() {
        let shown = out.display();
        bail!(
            "{shown} has a run already; go on with it by `regard train --resume {shown}`, or name another folder with \
             --out"
        );
    }
    Ok(())
}

fn print(
    as_json: bool,
    job: &Job,
    folder: &RunFolder,
    outcome: &JobOutcome,
    before: u64,
    seconds: f64,
) -> Result<()> {
    let path = folder.path().display();
    let mut out = std::io::stdout().lock();
    if as_json {
        let end = match outcome.end {
            End::Complete => "complete",
            End::EarlyStop => "stopped early",
            End::Interrupted => "interrupted",
        };
        let page = json!({
            "run": folder.path().display().to_string(), "end": end, "steps": outcome.state.step, "tokens": outcome.state.tokens,
            "seconds": seconds, "loss": outcome.history.steps.last().map(|step| step.loss),
            "model": outcome.result.as_ref().map(|result| result.model.display().to_string()),
            "result": outcome.result.as_ref().map(JobResult::json),
        });
        writeln!(out, "{page}")?;
    }
    let Some(result) = &outcome.result else {
        if !as_json {
            writeln!(out, "interrupted after step {}, and saved; go on with:", outcome.state.step)?;
            writeln!(out, "  regard train --resume {path}")?;
        }
        return Err(Interrupted.into());
    };
    if as_json {
        return Ok(());
    }
    let steps = outcome.state.step;
    let why = if outcome.end == End::EarlyStop { ", for it did not get better any more" } else { "" };
    match steps.saturating_sub(before) {
        0 if before > 0 => writeln!(out, "nothing was left to train: the run has its {steps} steps{why}")?,
        more if before > 0 => {
            writeln!(out, "trained {more} more steps in {seconds:.0} s, {steps} in all{why}")?
        }
        _ => writeln!(out, "trained {steps} steps in {seconds:.0} s{why}")?,
    }
    if !result.metrics.is_empty() {
        writeln!(out, "the weights of step {}, examined with {}:", result.step, result.examined)?;
    }
    for (name, value) in &result.metrics {
        writeln!(out, "  {name:<12} {}", number(name, *value))?;
    }
    for baseline in &result.baselines {
        let value = number(&baseline.metric, baseline.value);
        writeln!(out, "  beside it: {} {value} by {}", baseline.metric, baseline.name)?;
    }
    if let Some(signature) = &result.signature {
        writeln!(out, "  ({signature})")?;
    }
    if let Some(confusion) = result.confusion.as_ref().filter(|table| table.lines().count() <= 12) {
        confusion.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    if let Some(predictions) = &result.predictions {
        writeln!(out, "predictions: {}", predictions.display())?;
    }
    writeln!(out, "report: {}", report(job, folder).display())?;
    writeln!(out, "try:    {}", next(job, &path.to_string()))?;
    Ok(())
}

/// Metrics as people write them: shares in percent, the rest as numbers.
pub fn number(metric: &str, value: f64) -> String {
    match metric {
        "accuracy" | "f1" | "exact" => format!("{:.2} %", 100.0 * value),
        "bleu" | "chrf" => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Where the report of the last stage lies.
fn report(job: &Job, folder: &RunFolder) -> PathBuf {
    match job.recipe().stage.last() {
        None => folder.report(),
        Some(stage) => RunPaths::new(folder.path().join(&stage.name)).report(),
    }
}

/// Whether what was learned last is to answer questions.
fn answers(job: &Job) -> bool {
    let last = job.recipe().stages().pop();
    last.is_some_and(|last| last.data.kind == DataKind::Biographies && last.data.form != FormRecipe::Spans)
}

/// What a person would do next.
fn next(job: &Job, run: &str) -> String {
    match job.recipe().task {
        Kind::Language if answers(job) => format!("regard ask {run} \"…\""),
        Kind::Language => format!("regard generate {run} --prompt \"…\""),
        Kind::Classify => format!("regard classify {run} --text \"…\""),
        Kind::Masked => format!("regard evaluate {run}"),
        Kind::Translate => format!("regard translate {run} --text \"…\""),
        Kind::Images => format!("regard classify {run} --image my.png"),
        Kind::Contrast => format!("regard embed {run} --text \"…\" --text \"…\""),
    }
}
