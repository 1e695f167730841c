//! What commands about evidence share: the text that answers are held against, its index, and what is kept
//! beside a model.

mod asking;
mod examination;
mod examination_page;
mod show;
mod study;

pub use asking::{Asked, Asker, samples_of, sign_names, signs};
pub use examination::Examination;
pub use show::{confidence_figures, judgement_json, line_text, place_json, plain, source, verdict_lines};
pub use study::{examined, withhold};

use crate::printer::note;
use anyhow::{Context, Result, bail};
use clap::Args;
use regard_data::dataset::{Format, Table};
use regard_evidence::{Index, Settings, Stamp};
use regard_runtime::is_run;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The text that a model learned from.
#[derive(Args, Clone, Debug, Default)]
pub struct Corpus {
    /// The text that the model learned from: a file, or a folder of them; may be given several times. It is
    /// indexed at the first use, and the index kept: from then on this can be left out
    #[arg(long, value_name = "PATH")]
    corpus: Vec<PathBuf>,
    /// Where the index is, or is to be kept [default: evidence.index beside the model]
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,
}

/// What the index of a text is called beside a model.
pub const INDEX: &str = "evidence.index";
/// What a calibration is called there.
pub const CALIBRATION: &str = "calibration.json";

/// Where something that belongs to a model is kept: in its run, in its folder, or beside its file.
pub fn beside(model: &str, opened: &Path, name: &str) -> PathBuf {
    let path = Path::new(model);
    if is_run(path) {
        return path.join(name);
    }
    match opened.is_dir() {
        true => opened.join(name),
        false => {
            let file = opened.file_name().map(|own| own.to_string_lossy().into_owned()).unwrap_or_default();
            opened.with_file_name(format!("{file}.{name}"))
        }
    }
}

/// The weights of a model as they are now.
pub fn stamps(opened: &Path) -> Vec<Stamp> {
    let is_weights =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "safetensors" || end == "bin");
    let mut files = match opened.is_dir() {
        true => fs::read_dir(opened).into_iter().flatten().flatten().map(|item| item.path()).collect(),
        false => vec![opened.to_path_buf()],
    };
    files.retain(is_weights);
    files.sort();
    files.iter().filter_map(|file| Stamp::of(file)).collect()
}

impl Corpus {
    /// The index: of the text that was named, made anew where it is not there or of another text; or the one
    /// that is kept. None where there is neither. `usual` is where it lies if nothing else is said.
    pub fn open(&self, usual: Option<&Path>) -> Result<Option<Index>> {
        let files = self.files()?;
        let Some(place) = self.index.as_deref().or(usual) else {
            bail!("--corpus: say where its index is to be kept: --index FILE");
        };
        if files.is_empty() {
            if self.index.is_none() && !place.is_file() {
                return Ok(None);
            }
            let index = Index::open(place)?;
            for stale in index.stale() {
                note(&format!("regard: {stale}; {} is of the text as it was", place.display()));
            }
            return Ok(Some(index));
        }
        if place.is_file() {
            let index = Index::open(place)?;
            if index.is_of(&files) {
                return Ok(Some(index));
            }
            note(&format!("regard: {} is of another text, and is made anew", place.display()));
        }
        build(&files, place, &Settings::default())?;
        Ok(Some(Index::open(place)?))
    }

    /// All files that were named.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for path in &self.corpus {
            let before = files.len();
            let known = fs::metadata(path).with_context(|| format!("--corpus {}", path.display()))?;
            match known.is_dir() {
                true => below(path, &mut files).with_context(|| format!("--corpus {}", path.display()))?,
                false => files.push(path.clone()),
            }
            if files.len() == before {
                bail!("--corpus {}: the folder has no files; put texts there", path.display());
            }
        }
        Ok(files)
    }

    /// Where the index was asked to be.
    pub fn place(&self) -> Option<&Path> {
        self.index.as_deref()
    }
}

/// All files below a folder, by name; hidden ones and links are passed over.
fn below(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let mut items = Vec::new();
    for item in fs::read_dir(folder)? {
        let item = item?;
        if !item.file_name().to_string_lossy().starts_with('.') {
            items.push((item.path(), item.file_type()?));
        }
    }
    items.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, kind) in items {
        if kind.is_dir() {
            below(&path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// Makes an index, and says how long it took if that was long enough to wonder.
pub fn build(files: &[PathBuf], place: &Path, settings: &Settings) -> Result<f64> {
    let own = fs::canonicalize(place).ok();
    if own.is_some() && files.iter().any(|file| fs::canonicalize(file).ok() == own) {
        bail!("--index {}: is one of the files to index; name another", place.display());
    }
    let began = Instant::now();
    let mut last = began;
    Index::build(files, place, settings, &mut |done| {
        if last.elapsed().as_secs() >= 5 {
            last = Instant::now();
            note(&format!("regard: {:.0} % of the text is indexed", 100.0 * done));
        }
    })?;
    Ok(began.elapsed().as_secs_f64())
}

/// Questions with their answers, `question TAB answer` on each line.
pub fn questions(files: &[PathBuf]) -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for path in files {
        let table = Table::open(path, Format::of(path).unwrap_or(Format::Tsv), false)?;
        let (asked, right) = (table.column_at(0)?, table.column_at(1)?);
        for row in 0..table.len() {
            all.push((asked.get(row)?.into_owned(), right.get(row)?.into_owned()));
        }
    }
    Ok(all)
}
