//! `regard index`: an index of a text, so that answers and copied spans can be traced back to it.

use crate::evidence::{self, Corpus, INDEX};
use crate::model::Weights;
use anyhow::{Result, bail};
use clap::Args;
use regard::models::Registry;
use regard_evidence::{Index, Settings};
use regard_picture::{bytes, grouped};
use regard_recipe::Recipe;
use regard_recipe::language::DataKind;
use regard_runtime::is_run;
use regard_train::RunPaths;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `regard index`.
#[derive(Args)]
#[command(after_help = "Examples:  regard index --corpus README.md --index readme.index\n           \
                        regard index runs/shakespeare\n           \
                        regard index runs/shakespeare --check\n\n\
                        The last two after regard train recipes/shakespeare.toml. ask and trace index a --corpus by themselves;\n\
                        this is for a large one, and to check one. The index has five bytes for each of the text; making it takes\n\
                        five times --shard of memory for each thread.")]
pub struct Options {
    /// A run or a model, beside which the index is kept; of a run, the text of its recipe is indexed where no
    /// other is named
    model: Option<String>,
    #[command(flatten)]
    corpus: Corpus,
    /// Read an index that is there, and compare it with its digests and with its files
    #[arg(long)]
    check: bool,
    /// Mebibytes of text that are sorted together
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    shard: u16,
    /// Shards that are sorted at the same time [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let usual = match &options.model {
        Some(model) => Some(evidence::beside(model, &Weights::default().open(model, registry)?.path, INDEX)),
        None => None,
    };
    let Some(place) = options.corpus.place().or(usual.as_deref()) else {
        bail!("say where the index is to be kept: name a model, or --index FILE");
    };
    if options.check {
        return check(place, options.json);
    }
    let mut files = options.corpus.files()?;
    if files.is_empty() {
        files = of_recipe(options.model.as_deref(), registry)?;
    }
    if place.is_file() {
        // Whatever else lies there is not ours to replace.
        Index::open(place)?;
    }
    let usual = Settings::default();
    let threads = options.threads.map_or(usual.threads, usize::from);
    let seconds =
        evidence::build(&files, place, &Settings { shard: usize::from(options.shard) << 20, threads })?;
    let index = Index::open(place)?;
    let size = fs::metadata(place)?.len();
    let mut out = std::io::stdout().lock();
    if options.json {
        let page = json!({"index": place.display().to_string(), "files": index.files().len(), "bytes": index.bytes(),
                          "index_bytes": size, "seconds": seconds});
        return Ok(writeln!(out, "{page}")?);
    }
    writeln!(
        out,
        "{}: {} of {} files in {seconds:.1} s ({:.1} MB/s), {} on disk",
        place.display(),
        bytes(index.bytes()),
        grouped(index.files().len() as u64),
        index.bytes() as f64 / 1e6 / seconds.max(1e-9),
        bytes(size)
    )?;
    Ok(())
}

/// Reads all of an index, and looks at its files.
fn check(place: &Path, as_json: bool) -> Result<()> {
    let index = Index::open(place)?;
    index.verify()?;
    let stale: Vec<String> = index.stale().iter().map(ToString::to_string).collect();
    let mut out = std::io::stdout().lock();
    if as_json {
        let files: Vec<&str> = index.files().iter().map(|file| file.path.as_str()).collect();
        let page =
            json!({"index": place.display().to_string(), "sound": true, "stale": stale, "files": files});
        writeln!(out, "{page}")?;
    } else {
        writeln!(out, "{}: sound, {} files", place.display(), index.files().len())?;
        stale.iter().try_for_each(|stale| writeln!(out, "{stale}"))?;
    }
    match stale.len() {
        0 => Ok(()),
        count => bail!("{count} files are not as they were indexed; build it again: regard index"),
    }
}

/// The text of a run's recipe.
fn of_recipe(model: Option<&str>, registry: &Registry) -> Result<Vec<PathBuf>> {
    let Some(model) = model.filter(|model| is_run(Path::new(model))) else {
        bail!("name the text: --corpus FILE");
    };
    let recipe = Recipe::open(RunPaths::new(model).recipe(), &[], registry)?;
    let mut files: Vec<PathBuf> = Vec::new();
    for stage in recipe.stages() {
        let text = match stage.data.kind {
            DataKind::Text => stage.data.train,
            _ => stage.data.text.into_iter().collect(),
        };
        files.extend(text);
    }
    files.sort();
    files.dedup();
    if files.is_empty() {
        bail!("the recipe of {model} names no text; name it: --corpus FILE");
    }
    Ok(files)
}
