//! Writes a model to a folder of its own: what `import` and `export` have in common.

use crate::left_out::left_out;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use regard::Store;
use regard_hub::{ADAPTER_CONFIG, ADAPTER_WEIGHTS, DType, Opened, SaveOptions, save};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where to write, and what to print.
#[derive(Args)]
pub struct Target {
    /// The folder to write, which must be new or empty
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Write although the folder holds something; files of the same names are replaced
    #[arg(long)]
    pub replace: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// The dtypes that weights can have on the disk.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum WeightDtype {
    F32,
    F16,
    Bf16,
}

impl WeightDtype {
    /// As files have it.
    pub fn dtype(self) -> DType {
        match self {
            WeightDtype::F32 => DType::F32,
            WeightDtype::F16 => DType::F16,
            WeightDtype::Bf16 => DType::BF16,
        }
    }
}

impl Target {
    /// Refuses a folder that holds something, before any work is done.
    pub fn check(&self) -> Result<()> {
        let folder = self.folder.display();
        if self.folder.is_file() {
            bail!("{folder}: is a file; name a folder to write");
        }
        let holds = self.folder.read_dir().is_ok_and(|mut items| items.next().is_some());
        if holds && !self.replace {
            bail!("{folder}: is not empty; name a new folder, or add --replace to write over what is there");
        }
        Ok(())
    }

    /// Writes the files of an adapter as they are, with what lies beside them.
    pub fn copy_adapter(&self, from: &Path) -> Result<()> {
        if same(from, &self.folder) {
            bail!("{}: is where the adapter lies; name another folder", self.folder.display());
        }
        if !from.join(ADAPTER_WEIGHTS).is_file() {
            bail!("{}: the run has not exported its adapter yet; add --merge", from.display());
        }
        std::fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        let (mut files, mut bytes) = (Vec::new(), 0);
        let beside = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];
        for name in [ADAPTER_WEIGHTS, ADAPTER_CONFIG].into_iter().chain(beside) {
            let path = from.join(name);
            if path.is_file() {
                let to = self.folder.join(name);
                bytes += std::fs::copy(&path, &to).with_context(|| path.display().to_string())?;
                files.push(to.display().to_string());
            }
        }
        let mut out = std::io::stdout().lock();
        match self.json {
            true => writeln!(out, "{}", json!({"adapter": true, "files": files, "bytes": bytes}))?,
            false => {
                let folder = self.folder.display();
                writeln!(out, "{folder}: an adapter as PEFT keeps it, {} files, {bytes} bytes", files.len())?;
            }
        }
        Ok(())
    }

    /// Loads the model and writes it.
    pub fn write(&self, opened: &Opened, dtype: DType, shard_bytes: Option<u64>) -> Result<()> {
        if same(&opened.path, &self.folder) {
            bail!("{}: is where the model lies; name another folder", self.folder.display());
        }
        let mut store = Store::new(0);
        let report = opened.load_into(&mut store)?;
        let options = SaveOptions { dtype, shard_bytes, like: Some(opened), ..Default::default() };
        let model = opened.model.in_other_form().unwrap_or_else(|| Arc::clone(&opened.model));
        let saved = save(&*model, &store, &self.folder, &options)?;
        let mut out = std::io::stdout().lock();
        if self.json {
            let files: Vec<String> = saved.files.iter().map(|path| path.display().to_string()).collect();
            let line = json!({
                "family": model.family(), "departs": model.departs(), "parameters": report.numbers, "dtype": dtype.to_string(),
                "files": files, "bytes": saved.bytes, "left_out": report.ignored,
                "checksum": saved.digest.to_string(),
            });
            writeln!(out, "{line}")?;
            return Ok(());
        }
        writeln!(
            out,
            "{}: {}, {} parameters in {dtype}, {} files, {} bytes",
            self.folder.display(),
            model.family(),
            report.numbers,
            saved.files.len(),
            saved.bytes
        )?;
        if let Some(what) = model.departs() {
            writeln!(out, "  in our own form, which transformers does not read: {what}")?;
        }
        let no_parameters: Vec<String> =
            report.ignored.iter().filter(|name| !is_unread(opened, name)).cloned().collect();
        if !no_parameters.is_empty() {
            writeln!(out, "  left out, for they are no parameters: {}", left_out(&no_parameters))?;
        }
        Ok(())
    }
}

fn is_unread(opened: &Opened, name: &str) -> bool {
    opened.unread.iter().any(|unread| unread == name)
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
