//! Finds a model, reads its config and compares its weights with what the config promises: every tensor that
//! is missing, left over or of another shape is told at once, before a number is read.

use crate::mapping::{Mapping, NAMES};
use crate::table;
use crate::{Error, Result};
use regard_data::{Checkpoint, Folder, Import, Report, gguf, llama2c, names};
use regard_engine::Store;
use regard_graph::Init;
use regard_models::{Model, NoWeights, Registry, Weights, import, recognise};
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
    /// What was decided while it was opened and a person should know, a sentence each.
    pub notes: Vec<String>,
    folder: Option<Folder>,
    trained: Arc<dyn Model>,
    checkpoint: Checkpoint,
    table: Vec<Import>,
    ignored: Vec<String>,
}

/// Opens a model: a folder with `config.json` and weights, a file of weights in such a folder, the name of
/// one in a local Hugging Face cache, a `.gguf` file (or a folder with one and no config), or a `.bin` file
/// of llama2.c. Which families can be opened is the registry's. Costs the headers of the files only.
pub fn open(model: impl AsRef<str>, registry: &Registry) -> Result<Opened> {
    let model = model.as_ref();
    let path = Path::new(model);
    let ending = path.extension().filter(|_| path.is_file()).and_then(|ending| ending.to_str());
    match ending {
        Some("gguf") => return open_gguf(path, registry),
        Some("bin") if !is_pickle(path) => {
            let found = llama2c::open(path)?;
            return Opened::new(path.into(), None, found.config.hugging_face(), found.checkpoint, registry);
        }
        Some("bin" | "pt" | "pth" | "safetensors") => {
            let folder = Folder::around(path)?;
            let checkpoint = Checkpoint::open(path)?;
            return Opened::new(
                folder.path().into(),
                Some(folder.clone()),
                folder.config()?,
                checkpoint,
                registry,
            );
        }
        _ => {}
    }
    let names = path.join(NAMES);
    if names.is_file() && !path.join("config.json").exists() {
        return open_named(path, &names, registry);
    }
    if let Some(file) = only_gguf(path)? {
        return open_gguf(&file, registry);
    }
    let folder = Folder::find(model)?;
    let config = folder.config()?;
    let checkpoint = Checkpoint::open(folder.path())?;
    Opened::new(folder.path().into(), Some(folder), config, checkpoint, registry)
}

/// Opens weights whose names nobody knows, by a file that says them: see [`Mapping`]. `model` is the file of
/// weights, or a folder with one.
pub fn open_named(model: impl AsRef<Path>, names: impl AsRef<Path>, registry: &Registry) -> Result<Opened> {
    let (path, names) = (model.as_ref(), names.as_ref());
    let mapping = Mapping::read(names)?;
    let checkpoint = Checkpoint::open(path)?;
    let model = mapping.model(names, registry)?;
    let table = table::imports(&*model, &mapping.imports(names, &*model)?)?;
    let ignored = mapping.ignored().to_vec();
    let known: Vec<&str> = ignored.iter().map(String::as_str).collect();
    let report = regard_data::names::check(&table, &checkpoint, &known)
        .map_err(|error| Error::Weights { path: path.display().to_string(), error })?;
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    Ok(Opened {
        config: model.config_to_json()?,
        path: folder.into(),
        report,
        notes: vec![format!("its tensors have the names of {}", names.display())],
        // What lies there was not written for a model of ours, but its tokenizer is its tokenizer.
        folder: Folder::open(folder).ok(),
        trained: model.clone(),
        model,
        checkpoint,
        table,
        ignored,
    })
}

/// The model of a GGUF file, which says everything by itself.
fn open_gguf(path: &Path, registry: &Registry) -> Result<Opened> {
    let found = gguf::Model::open(path)?;
    let mut opened = Opened::new(path.into(), None, found.config, found.checkpoint, registry)?;
    opened.notes.extend(found.note);
    Ok(opened)
}

/// The GGUF file of a folder that holds no `config.json`; of several, none is chosen.
fn only_gguf(folder: &Path) -> Result<Option<PathBuf>> {
    if !folder.is_dir() || folder.join("config.json").exists() {
        return Ok(None);
    }
    let items = std::fs::read_dir(folder).map_err(|error| regard_data::Error::io("list", folder, error))?;
    let mut found: Vec<PathBuf> = items.flatten().map(|item| item.path()).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "gguf"));
    found.sort();
    match found.len() {
        0 | 1 => Ok(found.pop()),
        several => Err(Error::Refused {
            path: folder.display().to_string(),
            what: format!("holds {several} GGUF files"),
            advice: format!("name the one to use, as in {}", found[0].display()),
        }),
    }
}

impl Opened {
    fn new(
        path: PathBuf,
        folder: Option<Folder>,
        mut config: Value,
        checkpoint: Checkpoint,
        registry: &Registry,
    ) -> Result<Opened> {
        let shown = || path.display().to_string();
        refuse_quantised(&config, &path)?;
        let notes: Vec<String> =
            recognise(&mut config, &CheckpointWeights(&checkpoint)).into_iter().collect();
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
        let names: Vec<&str> = ignored.iter().map(String::as_str).collect();
        let report = names::check(&table, &checkpoint, &names)
            .map_err(|error| Error::Weights { path: shown(), error })?;
        Ok(Opened { model, config, path, report, notes, folder, trained, checkpoint, table, ignored })
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
        Ok(Opened {
            model,
            config,
            path,
            report,
            notes: Vec::new(),
            folder,
            trained,
            checkpoint,
            table,
            ignored,
        })
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

/// Whether a file begins as `torch.save` writes it: `pytorch_model.bin` has the ending of llama2.c's files.
fn is_pickle(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && (head == *b"PK\x03\x04" || matches!(head, [0x80, 2..=5, ..]))
}
