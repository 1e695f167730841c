//! Which model a command uses, and how it is opened: shared by all commands that use one.

use crate::machine::Machine;
use crate::weight_precision::WeightPrecision;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use regard::Store;
use regard::models::Registry;
use regard_data::dataset::MOST_OF_A_TEXT;
use regard_hub::Opened;
use regard_runtime::{Companions, OpenOptions, Session, Which};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Which weights of a run are used.
#[derive(Args, Clone, Debug, Default)]
pub struct Weights {
    /// Take a checkpoint of the run instead of the model that it exported: also of one that is not finished
    #[arg(long, value_enum, value_name = "WHICH")]
    checkpoint: Option<Checkpoint>,
    /// A TOML file that says what the model is and what its tensors are called, for weights that no family
    /// knows by name; names.toml in the model's folder is found by itself
    #[arg(long, value_name = "FILE", conflicts_with = "checkpoint")]
    names: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Checkpoint {
    /// The best so far
    Best,
    /// The newest
    Last,
}

impl Weights {
    fn which(&self) -> Which {
        match self.checkpoint {
            None => Which::Exported,
            Some(Checkpoint::Best) => Which::Best,
            Some(Checkpoint::Last) => Which::Last,
        }
    }

    /// Opens the model without reading its weights.
    pub fn open(&self, model: &str, registry: &Registry) -> Result<Opened> {
        let options =
            OpenOptions { which: self.which(), names: self.names.as_deref(), ..OpenOptions::new(registry) };
        let opened = regard_runtime::open(model, &options)?;
        tell(&opened);
        Ok(opened)
    }

    /// Opens the model to use it.
    pub fn session(
        &self,
        model: &str,
        precision: WeightPrecision,
        machine: &Machine,
        registry: &Registry,
    ) -> Result<Session> {
        let names = self.names.as_deref();
        let options = OpenOptions { registry, which: self.which(), weights: precision.weights(), names };
        let session = Session::open(model, &options, &machine.device()?)?;
        tell(session.opened());
        Ok(session)
    }
}

/// Says what was decided while a model was opened, beside the answer.
pub fn tell(opened: &Opened) {
    for note in &opened.notes {
        eprintln!("{}: {note}", opened.path.display());
    }
}

/// A store with the weights of a model that was opened.
pub fn store(opened: &Opened) -> Result<Store> {
    let mut store = Store::new(0);
    opened.load_into(&mut store)?;
    Ok(store)
}

/// What lies beside a model that was opened.
pub fn companions(opened: &Opened) -> Result<Companions> {
    Ok(Companions::open(&*opened.model, &opened.config, &opened.path)?)
}

/// The lines of a file of text, at least one.
pub fn lines(path: &Path) -> Result<Vec<String>> {
    let shown = path.display();
    let failed = || format!("--file {shown}");
    let mut file = BufReader::new(File::open(path).with_context(failed)?);
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let read =
            (&mut file).take(MOST_OF_A_TEXT as u64 + 1).read_until(b'\n', &mut line).with_context(failed)?;
        if read == 0 {
            break;
        }
        if read > MOST_OF_A_TEXT {
            bail!(
                "--file {shown}:{}: the line has more than {MOST_OF_A_TEXT} bytes, the most of one text; divide it",
                lines.len() + 1
            );
        }
        let end = line.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let Ok(text) = std::str::from_utf8(end.unwrap_or(&line)) else {
            bail!("--file {shown}:{}: not UTF-8; save it as such", lines.len() + 1);
        };
        lines.push(text.to_owned());
    }
    if lines.is_empty() {
        bail!("--file {shown}: is empty; write a text on each line");
    }
    Ok(lines)
}

/// The texts of `--text` and `--file`. Lines of a file may be empty where the command says so.
pub fn texts(given: &[String], file: Option<&Path>, empty_lines: bool) -> Result<Vec<String>> {
    let mut texts = given.to_vec();
    if let Some(at) = texts.iter().position(|text| text.trim().is_empty()) {
        bail!("--text number {} is empty; give it words", at + 1);
    }
    if let Some(path) = file {
        let lines = lines(path)?;
        if let Some(at) = lines.iter().position(|line| line.trim().is_empty()).filter(|_| !empty_lines) {
            bail!("--file {}:{}: the line is empty; remove it", path.display(), at + 1);
        }
        texts.extend(lines);
    }
    Ok(texts)
}
