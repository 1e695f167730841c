//! Finds a model, reads its config and compares its weights with what the config promises: every tensor that
//! is missing, left over or of another shape is told at once, before a number is read.

use crate::table;
use crate::{Error, Result};
use regard_data::{Checkpoint, Folder, Import, Report, llama2c, names};
use regard_engine::Store;
use regard_graph::Init;
use regard_models::{Model, NoWeights, Registry, Weights, import};
use serde_json::Value;
use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model whose weights were found and fit, but are not read yet.
#[derive(Debug)]
pub struct Opened {
    /// The model, without dropout: as it answers. [`Opened::for_training`] gives it with dropout.
    pub model: Arc<dyn Model>,
    /// Its `config.json`; of a llama2.c file, what it would be.
    pub config: Value,
    /// Where it was found: a folder or a file.
    pub path: PathBuf,
    /// How many of our tensors there are, how many numbers they hold, and what the files hold besides.
    pub report: Report,
    /// Tensors that are no part of this model and were passed over: other heads, and what [`open_ignoring`]
    /// was told.
    pub unread: Vec<String>,
    folder: Option<Folder>,
    trained: Arc<dyn Model>,
    checkpoint: Checkpoint,
    table: Vec<Import>,
    ignored: Vec<String>,
}

/// Opens a model: a folder with `config.json` and weights, the name of one in a local Hugging Face cache, or
/// a `.bin` file of llama2.c. Which families can be opened is the registry's. Costs the headers of the files
/// only.
pub fn open(model: impl AsRef<str>, registry: &Registry) -> Result<Opened> {
    open_ignoring(model, registry, &[])
}

/// The same, and tensors that the model does not have are passed over where a pattern names them; `*` stands
/// for any signs. Without that they are refused: a file that holds more than its config says may be another
/// model.
pub fn open_ignoring(model: impl AsRef<str>, registry: &Registry, patterns: &[String]) -> Result<Opened> {
    let model = model.as_ref();
    let path = Path::new(model);
    if path.is_file() && path.extension().is_some_and(|ending| ending == "bin") {
        refuse_pickle(path)?;
        let found = llama2c::open(path)?;
        let config = found.config.hugging_face();
        return Opened::new(path.into(), None, config, found.checkpoint, registry, patterns);
    }
    let folder = Folder::find(model)?;
    let config = folder.config()?;
    let checkpoint = Checkpoint::open(folder.path())?;
    Opened::new(folder.path().into(), Some(folder), config, checkpoint, registry, patterns)
}

impl Opened {
    fn new(
        path: PathBuf,
        folder: Option<Folder>,
        config: Value,
        checkpoint: Checkpoint,
        registry: &Registry,
        patterns: &[String],
    ) -> Result<Opened> {
        let shown = || path.display().to_string();
        refuse_quantised(&config, &path)?;
        let weights = CheckpointWeights(&checkpoint);
        let trained =
            registry.open(&config, &weights).map_err(|error| Error::Config { path: shown(), error })?;
        let model = trained.without_dropout()?;
        let files = model.files(Some(&weights));
        let table = table::imports(&*model, &files.imports)?;
        let mut ignored: Vec<String> = files.ignored.iter().map(|name| name.to_string()).collect();
        for (copy, original) in files.copies {
            let (Some(twin), Some(own)) = (checkpoint.find(copy), checkpoint.find(original)) else {
                continue;
            };
            if table.iter().any(|line| line.theirs == *copy) {
                continue;
            }
            if (twin.dtype, twin.shape, twin.bytes) != (own.dtype, own.shape, own.bytes) {
                return Err(Error::Refused {
                    path: shown(),
                    what: format!(
                        "`{copy}` should be the same as `{original}`, to which it is tied, and is not"
                    ),
                    advice: "set `tie_word_embeddings` to false in config.json, or save the model again"
                        .into(),
                });
            }
            ignored.push(copy.to_string());
        }
        let mut unread = files.unread;
        unread.extend(passed_over(&checkpoint, &table, patterns, &path)?);
        unread.sort();
        unread.dedup();
        ignored.extend(unread.iter().cloned());
        let names: Vec<&str> = ignored.iter().map(String::as_str).collect();
        let report = names::check(&table, &checkpoint, &names)
            .map_err(|error| Error::Weights { path: shown(), error })?;
        Ok(Opened { model, config, path, report, unread, folder, trained, checkpoint, table, ignored })
    }

    /// A model whose weights are a checkpoint of training: under our own names, among moments and what else a
    /// run keeps. `path` is the folder with what lies beside them.
    pub fn of_checkpoint(
        path: PathBuf,
        config: Value,
        checkpoint: Checkpoint,
        registry: &Registry,
    ) -> Result<Opened> {
        let shown = || path.display().to_string();
        let trained =
            registry.open(&config, &NoWeights).map_err(|error| Error::Config { path: shown(), error })?;
        let model = trained.without_dropout()?;
        let table = table::imports(&*model, &import::native::imports(model.parameters()))?;
        let known: HashSet<&str> = table.iter().map(|line| line.theirs.as_str()).collect();
        let ignored: Vec<String> =
            checkpoint.names().filter(|name| !known.contains(name)).map(str::to_owned).collect();
        let names: Vec<&str> = ignored.iter().map(String::as_str).collect();
        let report = names::check(&table, &checkpoint, &names)
            .map_err(|error| Error::Weights { path: shown(), error })?;
        let folder = Folder::open(&path).ok();
        let unread = Vec::new();
        Ok(Opened { model, config, path, report, unread, folder, trained, checkpoint, table, ignored })
    }

    /// The model with the dropout of its config.
    pub fn for_training(&self) -> &Arc<dyn Model> {
        &self.trained
    }

    /// The folder, if it is one: for what else lies in it, such as a tokenizer.
    pub fn folder(&self) -> Option<&Folder> {
        self.folder.as_ref()
    }

    /// The tensors as they lie in the files.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Declares all parameters in a store and fills them. Nothing is filled if one of them stands there in
    /// another shape. Programs made with the same store then find them.
    pub fn load_into(&self, store: &mut Store) -> Result<Report> {
        for declared in self.model.parameters().all() {
            // Zeros, for they are written over.
            store.declare(&declared.name, &declared.shape, Init::Zeros)?;
        }
        let ignored: Vec<&str> = self.ignored.iter().map(String::as_str).collect();
        let report = names::apply(&self.table, &self.checkpoint, &ignored, |line, numbers| {
            store.set_f32(&line.ours, numbers).map_err(Into::into)
        })?;
        Ok(report)
    }
}

/// The tensors that patterns name. One that names none, or one that the model reads, is a slip of the pen.
fn passed_over(
    checkpoint: &Checkpoint,
    table: &[Import],
    patterns: &[String],
    path: &Path,
) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for pattern in patterns {
        let named: Vec<&str> = checkpoint.names().filter(|name| is_like(name, pattern)).collect();
        let read = named.iter().find(|name| table.iter().any(|line| line.theirs == **name));
        let (what, advice) = match (read, named.is_empty()) {
            (Some(read), _) => (
                format!(
                    "`{pattern}` is to be passed over, and `{read}`, which it names, is read by the model"
                ),
                "name only what the model does not have",
            ),
            (None, true) => (
                format!("`{pattern}` is to be passed over, and no tensor has such a name"),
                "leave it out, or see which there are: the message without it lists them",
            ),
            (None, false) => {
                all.extend(named.into_iter().map(str::to_owned));
                continue;
            }
        };
        return Err(Error::Refused { path: path.display().to_string(), what, advice: advice.into() });
    }
    Ok(all)
}

/// Whether a name is like a pattern, in which `*` stands for any signs.
fn is_like(name: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let Some(last) = parts.pop() else { return true };
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

/// What a checkpoint tells a family before it is read.
struct CheckpointWeights<'a>(&'a Checkpoint);

impl Weights for CheckpointWeights<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.find(name).is_some()
    }

    fn same(&self, one: &str, other: &str) -> Option<bool> {
        let (one, other) = (self.0.find(one)?, self.0.find(other)?);
        Some(one.bytes == other.bytes && one.dtype == other.dtype)
    }

    fn count(&self) -> Option<usize> {
        Some(self.0.len())
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.0.find(name).map(|tensor| tensor.shape.to_vec())
    }
}

/// A config that says how its weights were quantised: the files hold something else than parameters.
fn refuse_quantised(config: &Value, path: &Path) -> Result<()> {
    let how = &config["quantization_config"];
    if how.is_null() {
        return Ok(());
    }
    let method = how["quant_method"].as_str().map_or(String::new(), |method| format!(" by `{method}`"));
    Err(Error::Refused {
        path: path.display().to_string(),
        what: format!("its weights were quantised{method}: config.json has a `quantization_config`"),
        advice: "save the model in f32, f16 or bf16 first; --weights int8 quantises while it runs".into(),
    })
}

/// `pytorch_model.bin` has the ending of llama2.c's files, and is something else.
fn refuse_pickle(path: &Path) -> Result<()> {
    let mut head = [0; 2];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut head));
    if read.is_ok() && (head == *b"PK" || head == [0x80, 0x02]) {
        return Err(Error::Refused {
            path: path.display().to_string(),
            what: "is a pickle of PyTorch, which can run code when it is read".into(),
            advice: "save the model as safetensors (`model.save_pretrained`) and name its folder".into(),
        });
    }
    Ok(())
}
