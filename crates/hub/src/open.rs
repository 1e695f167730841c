//! Finds a model, reads its config and compares its weights with what the config promises: every tensor that
//! is missing, left over or of another shape is told at once, before a number is read.

use crate::lent::LentTensor;
use crate::mapping::{Mapping, NAMES};
use crate::peft::{self, ADAPTER_CONFIG, LowRank};
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
    /// Tensors that are no part of this model and were passed over: other heads, and what [`open_ignoring`]
    /// was told.
    pub unread: Vec<String>,
    /// What was decided while it was opened and a person should know, a sentence each.
    pub notes: Vec<String>,
    folder: Option<Folder>,
    trained: Arc<dyn Model>,
    checkpoint: Arc<Checkpoint>,
    table: Vec<Import>,
    ignored: Vec<String>,
    /// What is added to weights while they are loaded.
    adapters: Vec<LowRank>,
    /// Where they lie.
    adapter_folder: Option<PathBuf>,
}

/// Opens a model: a folder with `config.json` and weights, a file of weights in such a folder, the name of
/// one in a local Hugging Face cache, a `.gguf` file (or a folder with one and no config), or a `.bin` file
/// of llama2.c. Which families can be opened is the registry's. Costs the headers of the files only.
pub fn open(model: impl AsRef<str>, registry: &Registry) -> Result<Opened> {
    open_ignoring(model, registry, &[])
}

/// The same, and tensors that the model does not have are passed over where a pattern names them; `*` stands
/// for any signs. Without that they are refused: a file that holds more than its config says may be another
/// model.
pub fn open_ignoring(model: impl AsRef<str>, registry: &Registry, patterns: &[String]) -> Result<Opened> {
    let model = model.as_ref();
    let path = Path::new(model);
    let ending = path.extension().filter(|_| path.is_file()).and_then(|ending| ending.to_str());
    match ending {
        Some("gguf") => return open_gguf(path, registry, patterns),
        Some("bin") if !is_pickle(path) => {
            let found = llama2c::open(path)?;
            let config = found.config.hugging_face();
            return Opened::new(path.into(), None, config, found.checkpoint, registry, patterns);
        }
        Some("bin" | "pt" | "pth" | "safetensors") => {
            let folder = Folder::around(path)?;
            let (place, config) = (folder.path().into(), folder.config()?);
            return Opened::new(place, Some(folder), config, Checkpoint::open(path)?, registry, patterns);
        }
        _ => {}
    }
    let names = path.join(NAMES);
    if names.is_file() && !path.join("config.json").exists() {
        return open_named(path, &names, registry);
    }
    if let Some(file) = only_gguf(path)? {
        return open_gguf(&file, registry, patterns);
    }
    if path.join(ADAPTER_CONFIG).is_file() {
        return Opened::with_adapter(path, None, |base| open_whole(base, registry, patterns));
    }
    open_whole(model, registry, patterns)
}

/// A model that is no adapter of another.
fn open_whole(model: &str, registry: &Registry, patterns: &[String]) -> Result<Opened> {
    let folder = Folder::find(model)?;
    if folder.path().join(ADAPTER_CONFIG).is_file() {
        return Err(Error::Refused {
            path: folder.path().display().to_string(),
            what: "is an adapter of another model, and was given as the model of one".into(),
            advice: "name a whole model as `base_model_name_or_path`: regard export --merge makes one".into(),
        });
    }
    let config = folder.config()?;
    let checkpoint = Checkpoint::open(folder.path())?;
    Opened::new(folder.path().into(), Some(folder), config, checkpoint, registry, patterns)
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
        unread: Vec::new(),
        checkpoint: Arc::new(checkpoint),
        table,
        ignored,
        adapters: Vec::new(),
        adapter_folder: None,
    })
}

/// The model of a GGUF file, which says everything by itself.
fn open_gguf(path: &Path, registry: &Registry, patterns: &[String]) -> Result<Opened> {
    let found = gguf::Model::open(path)?;
    let mut opened = Opened::new(path.into(), None, found.config, found.checkpoint, registry, patterns)?;
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
        patterns: &[String],
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
        let mut unread = files.unread;
        unread.extend(passed_over(&checkpoint, &table, patterns, &path)?);
        unread.sort();
        unread.dedup();
        ignored.extend(unread.iter().cloned());
        let names: Vec<&str> = ignored.iter().map(String::as_str).collect();
        let report = names::check(&table, &checkpoint, &names)
            .map_err(|error| Error::Weights { path: shown(), error })?;
        let checkpoint = Arc::new(checkpoint);
        let (adapters, adapter_folder) = Default::default();
        Ok(Opened {
            model,
            config,
            path,
            report,
            unread,
            notes,
            folder,
            trained,
            checkpoint,
            table,
            ignored,
            adapters,
            adapter_folder,
        })
    }

    /// The same with adapters, which lie in a folder of their own: what else lies there goes before what lies
    /// beside the model.
    pub(crate) fn adapted(mut self, adapters: Vec<LowRank>, folder: &Path) -> Opened {
        if folder.join("tokenizer.json").is_file() {
            self.path = folder.to_path_buf();
        }
        Opened { adapters, adapter_folder: Some(folder.to_path_buf()), ..self }
    }

    /// Where its adapters lie; none of a model that has none.
    pub fn adapter_folder(&self) -> Option<&Path> {
        self.adapter_folder.as_deref()
    }

    /// How many weights have adapters.
    pub fn adapter_count(&self) -> usize {
        self.adapters.len()
    }

    /// A model whose adapters are in a checkpoint of training; `path` is the folder with what lies beside
    /// them, which names the model that they belong to.
    pub fn of_adapter_checkpoint(
        path: &Path,
        config: Value,
        checkpoint: Checkpoint,
        registry: &Registry,
    ) -> Result<Opened> {
        let has_all = checkpoint.names().any(|name| name.ends_with(".weight") && !name.starts_with("adamw."));
        if !has_all {
            return Opened::with_adapter(path, Some(&checkpoint), |base| open_whole(base, registry, &[]));
        }
        // A part of the model was new: the checkpoint has all of it.
        let settings = peft::Settings::read(path)?;
        let opened = Opened::of_checkpoint(path.into(), config, checkpoint, registry)?;
        let adapters = peft::read_ours(&settings, &opened.checkpoint, &*opened.model)?;
        Ok(Opened { adapters, adapter_folder: Some(path.to_path_buf()), ..opened })
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
        let (folder, checkpoint) = (Folder::open(&path).ok(), Arc::new(checkpoint));
        let (unread, notes) = (Vec::new(), Vec::new());
        let (adapters, adapter_folder) = Default::default();
        Ok(Opened {
            model,
            config,
            path,
            report,
            unread,
            notes,
            folder,
            trained,
            checkpoint,
            table,
            ignored,
            adapters,
            adapter_folder,
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

    /// Lends all parameters to a store, for programs that only read them: no number is read before somebody
    /// asks for it, and none is held twice. Otherwise as [`load_into`](Opened::load_into). The files stay
    /// mapped for as long as the store has them.
    pub fn lend_to(&self, store: &mut Store) -> Result<Report> {
        // What adapters are added to is no longer as it lies in the files.
        if !self.adapters.is_empty() {
            return self.load_into(store);
        }
        let known: HashSet<String> = store.names().map(str::to_owned).collect();
        for line in self.table.iter().filter(|line| known.contains(&line.ours)) {
            // Changes nothing, but says so where the shape is another.
            store.declare(&line.ours, line.shape.as_slice(), Init::Zeros)?;
        }
        for line in &self.table {
            let lent = LentTensor { checkpoint: Arc::clone(&self.checkpoint), line: line.clone() };
            store.lend(&line.ours, line.shape.as_slice(), Arc::new(lent))?;
        }
        Ok(self.report.clone())
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
        for adapter in &self.adapters {
            let mut weight = store.f32(&adapter.weight)?.to_vec();
            adapter.add_to(&mut weight);
            store.set_f32(&adapter.weight, &weight)?;
        }
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
        advice: "save the model in f32, f16 or bf16 first; --weights q8 or q4 quantises while it runs".into(),
    })
}

/// Whether a file begins as `torch.save` writes it: `pytorch_model.bin` has the ending of llama2.c's files.
fn is_pickle(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && (head == *b"PK\x03\x04" || matches!(head, [0x80, 2..=5, ..]))
}
