//! `regard runs`: the run folders under a folder, and how two or more of them compare.

use anyhow::{Result, bail};
use clap::Args;
use regard_models::Registry;
use regard_recipe::Recipe;
use regard_runtime::is_run;
use regard_train::{History, RunPaths};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `regard runs`.
#[derive(Args)]
#[command(after_help = "Examples:  regard runs\n           regard runs runs/first runs/second")]
pub struct Options {
    /// A folder in which runs lie, or the runs themselves, to compare them and what their recipes differ in
    #[arg(default_value = "runs")]
    folders: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A run as its folder tells of it.
struct Seen {
    path: PathBuf,
    recipe: String,
    history: History,
    running: bool,
}

impl Seen {
    fn open(path: &Path) -> Result<Seen> {
        let run = RunPaths::new(path);
        let recipe = fs::read_to_string(run.recipe()).unwrap_or_default();
        let history = History::read(&run.metrics())?;
        Ok(Seen { path: path.into(), recipe, history, running: run.is_locked() })
    }

    fn best(&self) -> Option<&regard_train::EvaluationRecord> {
        self.history.evaluations.iter().rev().find(|record| record.best).or(self.history.evaluations.last())
    }

    fn to_json(&self) -> Value {
        let last = self.history.steps.last();
        json!({
            "run": self.path.display().to_string(), "running": self.running, "steps": last.map(|step| step.step),
            "loss": last.map(|step| step.loss), "tokens": last.map(|step| step.tokens),
            "tokens_per_second": last.map(|step| step.tokens_per_second),
            "best": self.best().map(|best| {
                let metrics: serde_json::Map<String, Value> =
                    best.metrics.iter().map(|(name, number)| (name.clone(), json!(number))).collect();
                json!({"step": best.step, "metrics": metrics})
            }),
        })
    }
}

/// A run, or those of its stages that have begun, in their order: each is a run of its own.
fn parts(run: &Path, registry: &Registry) -> Vec<PathBuf> {
    let text = fs::read_to_string(RunPaths::new(run).recipe()).unwrap_or_default();
    let stages =
        Recipe::parse(&text, "recipe.toml", &[], registry).map(|recipe| recipe.stage).unwrap_or_default();
    let begun: Vec<PathBuf> =
        stages.iter().map(|stage| run.join(&stage.name)).filter(|path| is_run(path)).collect();
    if begun.is_empty() { vec![run.into()] } else { begun }
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut paths = Vec::new();
    for folder in &options.folders {
        if is_run(folder) {
            paths.extend(parts(folder, registry));
        } else if folder.is_dir() {
            let mut within: Vec<PathBuf> =
                fs::read_dir(folder)?.flatten().map(|item| item.path()).filter(|path| is_run(path)).collect();
            within.sort();
            if within.is_empty() {
                bail!("{} holds no runs; `regard train` makes one", folder.display());
            }
            paths.extend(within.iter().flat_map(|run| parts(run, registry)));
        } else {
            bail!(
                "{} is no folder; `regard train` makes one; give a run, or a folder in which runs lie",
                folder.display()
            );
        }
    }
    let runs = paths.iter().map(|path| Seen::open(path)).collect::<Result<Vec<Seen>>>()?;
    let recipes: Vec<String> = runs.iter().map(|run| run.recipe.clone()).collect();
    let differences = if runs.len() > 1 { differences(&recipes) } else { Vec::new() };
    if options.json {
        let differences: Vec<Value> =
            differences.iter().map(|(key, values)| json!({"key": key, "values": values})).collect();
        let runs: Vec<Value> = runs.iter().map(Seen::to_json).collect();
        writeln!(out, "{}", json!({"runs": runs, "differences": differences}))?;
        return Ok(());
    }
    let width = runs.iter().map(|run| run.path.display().to_string().len()).max().unwrap_or(3).max(3);
    writeln!(out, "{:width$} {:>8} {:>9} {:>9}  best", "run", "steps", "loss", "tokens/s")?;
    for run in &runs {
        let last = run.history.steps.last();
        let number =
            |value: Option<f64>, digits: usize| value.map_or("-".into(), |x| format!("{x:.digits$}"));
        let best = run.best().map_or("no evaluation yet".into(), |best| {
            let metrics: Vec<String> =
                best.metrics.iter().map(|(name, number)| format!("{name} {number:.4}")).collect();
            format!("step {}: {}", best.step, metrics.join(", "))
        });
        writeln!(
            out,
            "{:width$} {:>8} {:>9} {:>9}  {best}{}",
            run.path.display().to_string(),
            last.map_or("-".into(), |step| step.step.to_string()),
            number(last.map(|step| step.loss), 4),
            number(last.map(|step| step.tokens_per_second), 0),
            if run.running { " (running)" } else { "" },
        )?;
    }
    if !differences.is_empty() {
        writeln!(out, "\nwhat their recipes differ in:")?;
        for (key, values) in differences {
            writeln!(out, "  {key}: {}", values.join(" | "))?;
        }
    }
    Ok(())
}

/// The keys whose values are not the same in all recipes, with the value of each.
pub fn differences(recipes: &[String]) -> Vec<(String, Vec<String>)> {
    let tables: Vec<Vec<(String, String)>> = recipes.iter().map(|recipe| flat(recipe)).collect();
    let mut keys: Vec<&String> = tables.iter().flatten().map(|(key, _)| key).collect();
    keys.sort();
    keys.dedup();
    let value = |table: &Vec<(String, String)>, key: &str| {
        table.iter().find(|(own, _)| own == key).map_or("-".into(), |(_, value)| value.clone())
    };
    let rows =
        keys.into_iter().map(|key| (key.clone(), tables.iter().map(|table| value(table, key)).collect()));
    rows.filter(|(_, values): &(String, Vec<String>)| values.iter().any(|value| value != &values[0]))
        .collect()
}

/// A recipe as dotted keys and values.
fn flat(recipe: &str) -> Vec<(String, String)> {
    fn walk(prefix: &str, value: &toml::Value, out: &mut Vec<(String, String)>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    walk(&name, value, out);
                }
            }
            toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
                for (index, item) in items.iter().enumerate() {
                    walk(&format!("{prefix}.{index}"), item, out);
                }
            }
            other => out.push((prefix.into(), other.to_string())),
        }
    }
    let mut out = Vec::new();
    if let Ok(table) = recipe.parse::<toml::Table>() {
        walk("", &toml::Value::Table(table), &mut out);
    }
    out
}
