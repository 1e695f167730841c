//! `regard recipe`: every key that recipes have, a first recipe to begin with, whether one makes sense, and
//! what two differ in.

mod begin;

use crate::runs::differences;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use regard_models::Registry;
use regard_recipe::{Job, Recipe, RecipeKey, recipe_keys};
use regard_train::RunPaths;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `regard recipe`.
#[derive(Args)]
#[command(
    after_help = "Examples:  regard recipe keys train\n           regard recipe new mine.toml --task classify\n           \
                  regard recipe check mine.toml train.lr=3e-4\n           regard recipe diff mine.toml runs/mine"
)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the keys of recipes: what each takes, what it is if nothing is said, what it means.
    Keys(Keys),
    /// Write a recipe to begin with, with all keys in it and what they mean.
    New(begin::New),
    /// Read a recipe and its data, and say what would be trained, without training.
    Check(Check),
    /// Show what two recipes, or the recipes of two runs, differ in.
    Diff(Diff),
}

#[derive(Args)]
struct Keys {
    /// A table, such as train, or a word of a key [default: all]
    word: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Check {
    /// A recipe, a TOML file
    recipe: PathBuf,
    /// What should be otherwise, as in train.lr=1e-3
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

#[derive(Args)]
struct Diff {
    /// A recipe, or a run
    first: PathBuf,
    /// Another
    second: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    match &options.action {
        Action::Keys(keys) => keys.print(registry),
        Action::New(new) => new.write(registry),
        Action::Check(check) => check.print(registry),
        Action::Diff(diff) => diff.print(registry),
    }
}

/// All keys, for `regard help recipe`.
pub fn print_keys(registry: &Registry) -> Result<()> {
    Keys { word: None, json: false }.print(registry)
}

impl Keys {
    fn print(&self, registry: &Registry) -> Result<()> {
        let word = self.word.as_deref().unwrap_or_default().trim_matches(['[', ']']);
        let fits =
            |key: &RecipeKey| key.table == word || format!("{}.{}", key.table, key.name).contains(word);
        let keys: Vec<RecipeKey> = recipe_keys().into_iter().filter(fits).collect();
        if keys.is_empty() {
            bail!("no key of recipes has `{word}` in its name; `regard recipe keys` lists all of them");
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", json!({ "keys": keys.iter().map(page).collect::<Vec<Value>>() }))?;
            return Ok(());
        }
        let mut table = None;
        for key in &keys {
            if table != Some(&key.table) {
                let title =
                    if key.table.is_empty() { "Before all tables" } else { &format!("[{}]", key.table) };
                writeln!(out, "{}{title}", if table.is_some() { "\n" } else { "" })?;
                table = Some(&key.table);
            }
            let otherwise = key.otherwise.as_ref().map_or(String::new(), |value| format!(" [{value}]"));
            writeln!(out, "  {}: {}{otherwise}", key.name, key.takes)?;
            writeln!(out, "      {}", key.meaning)?;
            for (word, meaning) in &key.words {
                writeln!(out, "      \"{word}\": {meaning}")?;
            }
            if key.table == "model" {
                let names: Vec<&str> = registry.families().map(|family| family.name()).collect();
                writeln!(out, "      The other keys are the family's ({}):", names.join(", "))?;
                writeln!(out, "      regard families {}", names.first().unwrap_or(&"gpt"))?;
            }
        }
        Ok(())
    }
}

fn page(key: &RecipeKey) -> Value {
    let words: Vec<Value> =
        key.words.iter().map(|(word, meaning)| json!({ "word": word, "meaning": meaning })).collect();
    json!({ "table": key.table, "name": key.name, "takes": key.takes, "otherwise": key.otherwise,
        "meaning": key.meaning, "words": words })
}

impl Check {
    fn print(&self, registry: &Registry) -> Result<()> {
        let recipe = Recipe::open(&self.recipe, &self.overrides, registry)?;
        let job = Job::new(&recipe, registry)?;
        let mut out = std::io::stdout().lock();
        for line in job.summary() {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "This can be trained:  regard train {}", self.recipe.display())?;
        Ok(())
    }
}

impl Diff {
    fn print(&self, registry: &Registry) -> Result<()> {
        let texts = [whole(&self.first, registry)?, whole(&self.second, registry)?];
        let found = differences(&texts);
        let mut out = std::io::stdout().lock();
        if self.json {
            let all: Vec<Value> = found
                .iter()
                .map(|(key, values)| json!({ "key": key, "first": values[0], "second": values[1] }))
                .collect();
            writeln!(out, "{}", json!({ "differences": all }))?;
            return Ok(());
        }
        if found.is_empty() {
            writeln!(out, "They say the same.")?;
        }
        for (key, values) in found {
            writeln!(out, "{key}: {}", values.join(" | "))?;
        }
        Ok(())
    }
}

/// A recipe with all its keys, those that it does not give, too.
fn whole(path: &Path, registry: &Registry) -> Result<String> {
    let file = if path.is_dir() { RunPaths::new(path).recipe() } else { path.to_path_buf() };
    let text = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    Ok(Recipe::parse(&text, &file.display().to_string(), &[], registry)?.to_toml()?)
}
