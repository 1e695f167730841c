//! `regard bench data`: how fast the batches of a recipe are made, without a step: what a card must not wait
//! for.

use crate::machine::Machine;
use anyhow::{Result, bail};
use clap::Args;
use regard_data::loader::{Loader, LoaderSettings};
use regard_models::Registry;
use regard_recipe::{Job, Recipe};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of `regard bench data`.
#[derive(Args)]
pub struct Data {
    /// A recipe, a TOML file
    recipe: PathBuf,
    /// What should be otherwise, as for `regard train`
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Which stage of the recipe, by its name [default: the first]
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// How long batches are made
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    seconds: f64,
    /// Threads that make them [default: as many as training takes on the device]
    #[arg(long, value_name = "N")]
    makers: Option<usize>,
    #[command(flatten)]
    machine: Machine,
    /// Print one JSON line
    #[arg(long)]
    json: bool,
}

/// Makes batches for a while and says how many there were.
pub fn run(options: &Data, registry: &Registry) -> Result<()> {
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        bail!("--seconds {}: choose a time above 0 and up to an hour", options.seconds);
    }
    let threads = match options.makers {
        Some(makers) => makers,
        None => regard_train::loader_threads(&options.machine.device()?),
    };
    if !(1..=1024).contains(&threads) {
        bail!("--makers {threads}: choose between 1 and 1024 threads");
    }
    let recipe = Recipe::open(&options.recipe, &options.overrides, registry)?;
    let job = Job::new(&recipe, registry)?;
    let source = job.batches(options.stage.as_deref())?.clone();
    let settings = LoaderSettings { threads, ahead: 2 * threads, ..Default::default() };
    let mut loader = Loader::new(source, settings)?;
    // The first batch waits for threads to begin.
    let mut next = || loader.next().map(|(_, batch)| batch).transpose();
    next()?;
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(options.seconds));
    let (mut batches, mut tokens, mut targets) = (0u64, 0u64, 0u64);
    while began.elapsed() < limit {
        let Some(batch) = next()? else { break };
        batches += 1;
        tokens += batch.tokens;
        targets += batch.targets;
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = |count: u64| count as f64 / seconds;
    let mut out = std::io::stdout().lock();
    if options.json {
        let page = json!({"workload": "data", "threads": threads, "seconds": seconds, "batches": batches, "tokens": tokens,
                          "targets": targets, "batches_per_second": rate(batches), "tokens_per_second": rate(tokens)});
        writeln!(out, "{page}")?;
    } else {
        writeln!(
            out,
            "{batches} batches in {seconds:.2} s on {threads} threads: {:.0} batches/s, {:.0} tokens/s, padding included; {:.0} \
             of them count",
            rate(batches),
            rate(tokens),
            rate(targets)
        )?;
    }
    Ok(())
}
