//! `regard data batches`: the batches of a recipe as training sees them, written to a safetensors file, so
//! that another program can train on exactly the same, or a person can see what a model is really given.

use crate::output::Replace;
use anyhow::{Result, bail};
use clap::Args;
use regard_data::{DType, Data, Save, SaveOptions, Values, save_file};
use regard_models::Registry;
use regard_recipe::{Job, Recipe};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Options of `regard data batches`.
#[derive(Args)]
#[command(after_help = "\
The file holds the fields of each batch under its number: `0.ids`, `0.targets`, `1.ids` and so on. Targets of -100 do not
count. After the last batch of an epoch the next epoch begins.

Example:  regard data batches recipes/shakespeare.toml data.train=README.md --count 3 --out batches.safetensors")]
pub struct Options {
    /// A recipe, a TOML file
    recipe: PathBuf,
    /// What should be otherwise, as for `regard train`
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Which stage of the recipe, by its name [default: the first]
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// How many batches
    #[arg(long, default_value_t = 1, value_name = "N")]
    count: usize,
    /// The safetensors file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    replace: Replace,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Every file that is read.
fn inputs(options: &Options, recipe: &Recipe) -> Vec<PathBuf> {
    let mut all = vec![options.recipe.clone()];
    for stage in recipe.stages() {
        let data = stage.data;
        all.extend([data.train, data.train_target, data.evaluate, data.evaluate_target].concat());
    }
    all
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    if options.count == 0 {
        bail!("--count 0: nothing to write; choose at least 1");
    }
    let recipe = Recipe::open(&options.recipe, &options.overrides, registry)?;
    options.replace.check(&[("--out", &options.out)], &inputs(options, &recipe))?;
    let job = Job::new(&recipe, registry)?;
    let source = job.batches(options.stage.as_deref())?;
    let mut batches = Vec::with_capacity(options.count.min(1 << 16));
    let mut epoch = 0;
    while batches.len() < options.count {
        let left = options.count - batches.len();
        for index in 0..source.batches(epoch).min(left) {
            batches.push(source.batch(epoch, index)?);
        }
        epoch += 1;
    }
    let mut tensors: Vec<(String, &[usize], DType, Vec<u8>)> = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        for field in &batch.fields {
            let (dtype, bytes) = match &field.values {
                Values::F32(all) => (DType::F32, all.iter().flat_map(|x| x.to_le_bytes()).collect()),
                Values::I32(all) => (DType::I32, all.iter().flat_map(|x| x.to_le_bytes()).collect()),
                Values::Bool(all) => (DType::Bool, all.iter().map(|&x| u8::from(x)).collect()),
            };
            tensors.push((format!("{number}.{}", field.name), &field.dims, dtype, bytes));
        }
    }
    let saves: Vec<Save> = tensors
        .iter()
        .map(|(name, shape, dtype, bytes)| Save { name, shape, data: Data::Bytes(*dtype, bytes) })
        .collect();
    save_file(&options.out, &saves, &SaveOptions::default())?;
    let sum = |of: fn(&regard_data::Batch) -> u64| batches.iter().map(of).sum::<u64>();
    let (examples, targets, tokens) = (sum(|b| b.examples), sum(|b| b.targets), sum(|b| b.tokens));
    let mut out = std::io::stdout().lock();
    if options.json {
        let page = json!({"out": options.out.display().to_string(), "batches": batches.len(), "of_an_epoch": source.batches(0),
                          "examples": examples, "targets": targets, "tokens": tokens});
        writeln!(out, "{page}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{}: {} batches, {examples} examples, {targets} targets, {tokens} tokens with padding; an epoch has {} batches",
        options.out.display(),
        batches.len(),
        source.batches(0)
    )?;
    Ok(())
}
