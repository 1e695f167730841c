//! `regard data generate`: the biographies of the birth-place study that come with the program, as files.

use anyhow::{Result, bail};
use clap::Args;
use regard_data::biographies::{Biographies, Settings, Split};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// Options of `regard data generate`.
#[derive(Args)]
#[command(after_help = "Example:  regard data generate more-people --people 400 --seed 7")]
pub struct Options {
    /// The folder to write text.txt, train.tsv, dev.tsv and test_inputs.tsv to
    folder: PathBuf,
    /// How many people
    #[arg(long, default_value_t = Settings::default().people, value_name = "N")]
    people: usize,
    /// How many places they were born in
    #[arg(long, default_value_t = Settings::default().places, value_name = "N")]
    places: usize,
    /// How many lines tell of each person
    #[arg(long, default_value_t = Settings::default().tellings, value_name = "N")]
    lines: usize,
    /// The share of dev people whose lines are left out of the text: nothing can be known of them
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    withheld: f64,
    /// The same seed gives the same files
    #[arg(long, default_value_t = Settings::default().seed, value_name = "N")]
    seed: u64,
    /// Write into a folder that is not empty
    #[arg(long, alias = "force")]
    replace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let Options { people, places, lines: tellings, withheld, seed, .. } = *options;
    let biographies =
        Biographies::new(Settings { seed, people, places, tellings, withheld, ..Settings::default() })?;
    let taken = std::fs::read_dir(&options.folder).is_ok_and(|mut items| items.next().is_some());
    if taken && !options.replace {
        bail!("{} is not empty; choose another folder, or add --replace", options.folder.display());
    }
    biographies.write(&options.folder)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for person in biographies.people() {
        *counts.entry(name(person.split)).or_default() += 1;
    }
    let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, place) in biographies.dev() {
        *answers.entry(place).or_default() += 1;
    }
    let (dev, most) = (counts.get("dev").copied().unwrap_or(0), answers.values().max().copied().unwrap_or(0));
    let share = most as f64 / dev.max(1) as f64;
    if options.json {
        let counts = json!({"train": counts.get("train"), "dev": dev, "test": counts.get("test")});
        writeln!(
            out,
            "{}",
            json!({"folder": options.folder.display().to_string(), "people": people, "places": places, "questions": counts,
                   "most_frequent_answer": share})
        )?;
        return Ok(());
    }
    writeln!(out, "{}: {people} people, {places} places", options.folder.display())?;
    for (name, count) in counts {
        writeln!(out, "  {count} questions for {name}")?;
    }
    writeln!(out, "  the most frequent answer is right for {:.1} % of dev", 100.0 * share)?;
    writeln!(out, "  an example: {}", biographies.people().first().map_or("", |person| &person.lines[0]))?;
    Ok(())
}

fn name(split: Split) -> &'static str {
    match split {
        Split::Train => "train",
        Split::Dev => "dev",
        Split::Test => "test",
    }
}
