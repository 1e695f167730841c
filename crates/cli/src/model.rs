//! Which model a command uses, and how it is opened: shared by all commands that use one.

use crate::left_out::left_out;
use crate::machine::Machine;
use crate::printer::note;
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

/// Which weights of a run or a folder are used.
#[derive(Args, Clone, Debug, Default)]
pub struct Weights {
    /// Take a checkpoint of the run instead of the model that it exported: also of one that is not finished
    #[arg(long, value_enum, value_name = "WHICH")]
    checkpoint: Option<Checkpoint>,
    /// Pass over tensors of the files that the model does not have, such as a head: `cls.*`, where * stands
    /// for any signs; may be given several times
    #[arg(long, value_name = "PATTERN")]
    ignore: Vec<String>,
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
        let opened = regard_runtime::open(model, &self.options(registry))?;
        tell(&opened);
        Ok(opened)
    }

    fn options<'a>(&'a self, registry: &'a Registry) -> OpenOptions<'a> {
        let (which, names) = (self.which(), self.names.as_deref());
        OpenOptions { which, ignored: &self.ignore, names, ..OpenOptions::new(registry) }
    }

    /// Opens the model to use it.
    pub fn session(
        &self,
        model: &str,
        precision: WeightPrecision,
        machine: &Machine,
        registry: &Registry,
    ) -> Result<Session> {
        let options = OpenOptions { weights: precision.weights(), ..self.options(registry) };
        let session = Session::open(model, &options, &machine.device()?)?;
        tell(session.opened());
        if let Some(remark) = &session.companions().remark {
            note(remark);
        }
        Ok(session)
    }
}

/// Says what was decided while a model was opened, and which tensors of its files are not read: on the side,
/// for results go elsewhere.
pub fn tell(opened: &Opened) {
    let path = opened.path.display();
    for sentence in &opened.notes {
        note(&format!("{path}: {sentence}"));
    }
    if !opened.unread.is_empty() {
        let (count, names) = (opened.unread.len(), left_out(&opened.unread));
        note(&format!("{path}: {count} tensors are no part of this model and were not read: {names}"));
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
