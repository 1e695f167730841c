//! Finds the files of a checkpoint and opens them: one file, or shards under an index that says which tensor
//! lies where. Names in an index are file names beside it, never paths.

use super::{Bytes, Checkpoint, Entry, Source, header};
use crate::error::{listed, shown, shown_path};
use crate::pickle::{self, Parts};
use crate::{Error, Result};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

pub(super) const SINGLE: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";
const PICKLE: &str = "pytorch_model.bin";
const PICKLE_INDEX: &str = "pytorch_model.bin.index.json";

/// The longest JSON file that is read, for the reason that bounds a header.
pub(crate) const JSON_LIMIT: u64 = header::MAX_HEADER;

/// Opens a folder, a file or an index.
pub(super) fn open(path: &Path) -> Result<Checkpoint> {
    let known = fs::metadata(path).map_err(|e| Error::io("open", path, e))?;
    if !known.is_dir() {
        return open_file(path.to_path_buf());
    }
    // Somebody may be saving to this folder: between index and shards it can change under our eyes. Then the
    // error is not the folder's, and a second look finds the new checkpoint.
    let mut looks = 0;
    loop {
        let before = state(path);
        let result = choose(path).and_then(open_file);
        looks += 1;
        if result.is_ok() || looks == MOST_LOOKS || before == state(path) {
            return result;
        }
    }
}

/// A folder that still changes after so many looks is an error.
const MOST_LOOKS: usize = 10;

/// What tells one state of a folder from another: saving changes names, or at least the time.
fn state(folder: &Path) -> Option<(SystemTime, BTreeSet<OsString>)> {
    let time = fs::metadata(folder).and_then(|known| known.modified()).ok()?;
    let names = fs::read_dir(folder).ok()?.flatten().map(|item| item.file_name()).collect();
    Some((time, names))
}

fn open_file(path: PathBuf) -> Result<Checkpoint> {
    let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    if name.ends_with(".json") {
        return sharded(&path);
    }
    if FOREIGN.iter().any(|end| name.ends_with(end)) {
        return Err(Error::file(&path, "is no safetensors file", CONVERT));
    }
    Checkpoint::assemble(load(path)?)
}

/// Weights in formats that are not read.
const FOREIGN: [&str; 5] = [".ckpt", ".h5", ".msgpack", ".onnx", ".npz"];

const CONVERT: &str = "read are safetensors, GGUF and what `torch.save` writes of a state_dict: convert it, in Python, \
                       with `safetensors.torch.save_file(model.state_dict(), \"model.safetensors\")`";

/// One file, by what it begins with: its tensors stay where they are.
fn load(path: PathBuf) -> Result<Parts> {
    let bytes = Bytes::map(&path)?;
    if bytes.as_slice().starts_with(crate::gguf::MAGIC) {
        drop(bytes);
        return Ok(crate::gguf::File::open(path)?.checkpoint.into_parts());
    }
    let named = PICKLES.iter().any(|end| path.to_string_lossy().to_lowercase().ends_with(end));
    match named || pickle::is_pickle(bytes.as_slice()) {
        true => pickle::parts(path, bytes),
        false => Ok(vec![source(path, bytes)?]),
    }
}

/// How files of `torch.save` are called.
const PICKLES: [&str; 3] = [".bin", ".pt", ".pth"];

/// What lies beside the weights of a run of transformers, and is none.
const NO_WEIGHTS: [&str; 4] = ["training_args.bin", "optimizer.", "scheduler.", "rng_state"];

/// One file: its header is read, its tensors stay where they are.
pub(super) fn source(path: PathBuf, bytes: Bytes) -> Result<(Source, Vec<(String, Entry)>)> {
    let header = header::parse(&path, bytes.as_slice())?;
    Ok((Source { path, bytes, metadata: header.metadata }, header.tensors))
}

/// The file of a folder that holds its weights: safetensors before pickles, the usual names before others.
fn choose(folder: &Path) -> Result<PathBuf> {
    let mut names = Vec::new();
    for item in fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))? {
        let name = item.map_err(|e| Error::io("list", folder, e))?.file_name();
        names.extend(name.to_str().filter(|name| !name.starts_with('.')).map(str::to_owned));
    }
    names.sort();
    let ending = |name: &str, ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    let safe = |name: &str| ending(name, &[".safetensors"]);
    let pickled = |name: &str| {
        let beside = name.starts_with("tok") || NO_WEIGHTS.iter().any(|part| name.starts_with(part));
        ending(name, &PICKLES) && !beside
    };
    for (usual, file) in
        [([SINGLE, INDEX], &safe as &dyn Fn(&str) -> bool), ([PICKLE, PICKLE_INDEX], &pickled)]
    {
        if let Some(name) = usual.iter().find(|name| folder.join(name).is_file()) {
            return Ok(folder.join(name));
        }
        // `model.safetensors.index.fp16.json` is how a variant's index is called; it speaks for its shards.
        let indices = names.iter().filter(|name| {
            name.split_once(".index.").is_some_and(|(of, rest)| file(of) && rest.ends_with("json"))
        });
        let indices: Vec<&String> = indices.collect();
        let files: Vec<&String> = names.iter().filter(|name| file(name)).collect();
        match (indices.as_slice(), files.as_slice()) {
            ([only], _) | ([], [only]) => return Ok(folder.join(only)),
            ([], []) => {}
            (indices, files) => {
                let mut found: Vec<&String> = [indices, files].concat();
                found.sort();
                let what = format!("holds several files of weights: {}", listed(&found));
                return Err(Error::file(folder, what, "name the one to read"));
            }
        }
    }
    let foreign: Vec<&String> = names.iter().filter(|name| ending(name, &FOREIGN)).collect();
    let looked = format!("looked for {SINGLE}, {INDEX}, any single *.safetensors, and {PICKLE}");
    match foreign.is_empty() {
        true => Err(Error::file(
            folder,
            format!("no weights here: {looked}"),
            "name the folder or the file that holds them; on a model's page they stand under \"Files\", beside \
             config.json",
        )),
        false => Err(Error::file(
            folder,
            format!("no weights here that are read: {looked}, and found {}", listed(&foreign)),
            CONVERT,
        )),
    }
}

/// An index and its shards. Every tensor that the index names must be in the shard that it names; all that
/// are not are listed at once.
fn sharded(path: &Path) -> Result<Checkpoint> {
    let index = read_index(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let shards: BTreeSet<&str> = index.values().map(String::as_str).collect();
    for shard in &shards {
        check_shard_name(path, shard)?;
    }
    let missing: Vec<&&str> = shards.iter().filter(|shard| !folder.join(shard).exists()).collect();
    if !missing.is_empty() {
        let what = format!(
            "names {} of {} shards that are not there: {}",
            missing.len(),
            shards.len(),
            listed(&missing)
        );
        return Err(Error::file(path, what, format!("copy or download them to {}", shown_path(folder))));
    }
    let mut loaded: Vec<Parts> = Vec::with_capacity(shards.len());
    for shard in &shards {
        loaded.push(load(folder.join(shard))?);
    }
    let names = |parts: &Parts| -> BTreeSet<String> {
        parts.iter().flat_map(|(_, entries)| entries.iter().map(|(name, _)| name.clone())).collect()
    };
    let inside: Vec<BTreeSet<String>> = loaded.iter().map(names).collect();
    let by_shard: BTreeMap<&str, &BTreeSet<String>> = shards.iter().copied().zip(&inside).collect();
    let absent: Vec<String> = index
        .iter()
        .filter(|(name, shard)| !by_shard[shard.as_str()].contains(name.as_str()))
        .map(|(name, shard)| format!("{name} in {shard}"))
        .collect();
    if !absent.is_empty() {
        let what =
            format!("names {} tensors that are not in their shards: {}", absent.len(), listed(&absent));
        return Err(Error::file(
            path,
            what,
            "index and shards are of different checkpoints: copy all of them again",
        ));
    }
    Checkpoint::assemble(loaded.into_iter().flatten().collect())
}

/// The `weight_map` of an index: which tensor lies in which file.
pub(super) fn read_index(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = read_small(path, JSON_LIMIT)?;
    let index: Index = serde_json::from_slice(&text).map_err(|e| {
        Error::json(path, &e, "an index is an object with `weight_map`: which tensor lies in which file")
    })?;
    Ok(index.weight_map.0)
}

/// True for a plain name of a file beside the index.
pub(super) fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    // A backslash separates folders elsewhere, and a checkpoint travels.
    plain && !name.contains(['/', '\\', '\0'])
}

fn check_shard_name(path: &Path, shard: &str) -> Result<()> {
    let pickled = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".bin.index."));
    let ending = if pickled { ".bin" } else { ".safetensors" };
    if is_plain(shard) && shard.ends_with(ending) {
        return Ok(());
    }
    let what = format!("names the shard `{}`, which is not a plain name ending in {ending}", shown(shard));
    Err(Error::file(path, what, "shards lie beside their index; do not trust this file"))
}

/// A file that should be small, read whole; one over the limit is refused before a byte of it is read.
pub(crate) fn read_small(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let known = fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
    if !known.is_file() {
        return Err(Error::file(path, "is not a regular file", "name a file"));
    }
    if known.len() > limit {
        let what = format!("has {} bytes, over the limit of {limit} for such a file", known.len());
        return Err(Error::file(path, what, "it cannot be what its name says"));
    }
    let mut bytes = Vec::new();
    // The file may have grown since it was asked for its size.
    fs::File::open(path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(|e| Error::io("read", path, e))?;
    Ok(bytes)
}

#[derive(Deserialize)]
struct Index {
    weight_map: WeightMap,
}

struct WeightMap(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object from tensors to files")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<WeightMap, A::Error> {
        let mut all = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if all.contains_key(&name) {
                map.next_value::<IgnoredAny>()?;
                return Err(A::Error::custom(format!("tensor `{name}` occurs twice")));
            }
            all.insert(name, map.next_value()?);
        }
        Ok(WeightMap(all))
    }
}
