//! The model that a GGUF file holds, as transformers would keep it: a config, and its tensors under the names
//! that the families know.

use super::File;
use super::architecture::{ALL, Architecture, Change, Settings};
use crate::checkpoint::{Bytes, Checkpoint, DType, Entry, Source, Tensor};
use crate::error::{listed, shown};
use crate::llama2c::in_halves;
use crate::{Error, Result};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A model out of a GGUF file.
#[derive(Debug)]
pub struct Model {
    /// What its `config.json` would be.
    pub config: Json,
    /// Its weights, under the names of transformers. Quantised tensors are still in their blocks.
    pub checkpoint: Checkpoint,
    /// The template of chats, as a text: nothing of it is run here.
    pub chat_template: Option<String>,
    /// How its numbers are kept, in a sentence, if some are quantised.
    pub note: Option<String>,
}

impl Model {
    /// Opens the model of a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        Model::of(File::open(path)?)
    }

    /// The model of a file.
    pub fn of(file: File) -> Result<Model> {
        let name = file.text("general.architecture")?.unwrap_or("").to_owned();
        let Some(architecture) = ALL.iter().find(|known| known.name == name) else {
            let known: Vec<&str> = ALL.iter().map(|known| known.name).collect();
            let what = format!(
                "holds a model of the architecture `{}`; known are {}",
                shown(&name),
                known.join(", ")
            );
            return Err(Error::file(
                &file.path,
                what,
                "take the folder as Hugging Face keeps it, if that is known",
            ));
        };
        let settings = Settings::new(&file, &name);
        let mut config = (architecture.config)(&settings)?;
        settings.all_read()?;
        special_tokens(&file, &mut config)?;
        let note = note(&file.checkpoint);
        let chat_template = file.text("tokenizer.chat_template")?.map(str::to_owned);
        let checkpoint = renamed(file, architecture, &config)?;
        Ok(Model { config, checkpoint, chat_template, note })
    }
}

/// The tokens that begin, end and pad texts.
fn special_tokens(file: &File, config: &mut Json) -> Result<()> {
    let id = |name: &str| file.size(&format!("tokenizer.ggml.{name}_token_id"));
    for (theirs, ours) in [("bos", "bos_token_id"), ("padding", "pad_token_id")] {
        if let Some(id) = id(theirs)? {
            config[ours] = json!(id);
        }
    }
    // A turn of a chat ends the text as well.
    let mut ends: Vec<usize> = [id("eos")?, id("eot")?].into_iter().flatten().collect();
    ends.dedup();
    match ends.as_slice() {
        [] => {}
        [one] => config["eos_token_id"] = json!(one),
        several => config["eos_token_id"] = json!(several),
    }
    Ok(())
}

/// How many tensors are quantised, and in what.
fn note(checkpoint: &Checkpoint) -> Option<String> {
    let mut kinds: BTreeMap<DType, usize> = BTreeMap::new();
    for tensor in checkpoint.tensors().filter(|tensor| tensor.dtype.is_quantised()) {
        *kinds.entry(tensor.dtype).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} in {kind}")).collect();
    let all = checkpoint.len();
    (!kinds.is_empty())
        .then(|| format!("of {all} tensors {}, which become f32 when they are read", kinds.join(", ")))
}

/// The tensors under the names of transformers.
fn renamed(file: File, architecture: &Architecture, config: &Json) -> Result<Checkpoint> {
    let File { path, checkpoint, .. } = file;
    let unknown: Vec<&str> = checkpoint
        .names()
        .filter(|name| !IGNORED.contains(name) && theirs(architecture, name).is_none())
        .collect();
    if !unknown.is_empty() {
        let what = format!("has tensors that no {} has: {}", architecture.name, listed(&unknown));
        return Err(Error::file(
            &path,
            what,
            "it holds more than is understood; take the folder of Hugging Face",
        ));
    }
    let mut straight = Vec::new();
    let mut changed = Vec::new();
    let mut copies = Vec::new();
    for tensor in checkpoint.tensors() {
        let Some(name) = theirs(architecture, tensor.name) else { continue };
        let begin = copies.len();
        let kept = change(&path, &tensor, (architecture.change)(tensor.name), config, &mut copies)?;
        match kept {
            None => straight.push((tensor.name.to_owned(), name)),
            Some((dtype, shape)) => {
                changed.push((name, Entry { source: 0, dtype, shape, range: begin..copies.len() }));
            }
        }
    }
    let mut parts = checkpoint.into_parts();
    let copied = Source { path, bytes: Bytes::Owned(copies), metadata: BTreeMap::new() };
    let mut straight: BTreeMap<String, String> = straight.into_iter().collect();
    for (_, entries) in &mut parts {
        let own = std::mem::take(entries).into_iter();
        *entries = own.filter_map(|(name, entry)| Some((straight.remove(&name)?, entry))).collect();
    }
    parts.push((copied, changed));
    Checkpoint::assemble(parts)
}

/// What is no parameter: divisors of rotary frequencies, which the config says.
const IGNORED: [&str; 1] = ["rope_freqs.weight"];

/// The name that transformers has for a tensor.
fn theirs(architecture: &Architecture, name: &str) -> Option<String> {
    let (part, kind) = name.rsplit_once('.').filter(|(_, kind)| ["weight", "bias"].contains(kind))?;
    let block = part.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let (pattern, number) = match block {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            (format!("blk.*.{rest}"), number)
        }
        _ => (part.to_owned(), ""),
    };
    let (_, theirs) = architecture.names.iter().find(|(known, _)| *known == pattern)?;
    Some(format!("{}.{kind}", theirs.replacen('*', number, 1)))
}

/// Appends the tensor as transformers has it, if that is not as it is: its new dtype and shape.
fn change(
    path: &Path,
    tensor: &Tensor,
    change: Change,
    config: &Json,
    out: &mut Vec<u8>,
) -> Result<Option<(DType, Vec<usize>)>> {
    let key = match change {
        Change::Same => return Ok(None),
        Change::QueryHalves => "num_attention_heads",
        Change::KeyHalves => "num_key_value_heads",
        Change::Transposed => {
            let &[rows, columns] = tensor.shape else {
                return Err(Error::tensor(
                    path,
                    tensor.name,
                    format!("is {:?}, expected a matrix", tensor.shape),
                    AGAIN,
                ));
            };
            let numbers = tensor.f32s();
            for column in 0..columns {
                (0..rows).for_each(|row| out.extend(numbers[row * columns + column].to_le_bytes()));
            }
            return Ok(Some((DType::F32, vec![columns, rows])));
        }
        Change::OneMore => {
            tensor.f32s().iter().for_each(|x| out.extend((x - 1.0).to_le_bytes()));
            return Ok(Some((DType::F32, tensor.shape.to_vec())));
        }
    };
    let heads = config[key].as_u64().unwrap_or(0) as usize;
    let rows = tensor.shape.first().copied().unwrap_or(0);
    if heads == 0 || rows % (2 * heads) != 0 {
        let what = format!("has {rows} rows for {heads} heads, which are no pairs");
        return Err(Error::tensor(path, tensor.name, what, AGAIN));
    }
    let row = tensor.bytes.len().checked_div(rows).unwrap_or(0);
    if row * rows != tensor.bytes.len() {
        let what = format!("{} {:?} has rows that are no whole blocks", tensor.dtype, tensor.shape);
        return Err(Error::tensor(path, tensor.name, what, AGAIN));
    }
    if row > 0 {
        in_halves(tensor.bytes, row, rows / heads, out);
    }
    Ok(Some((tensor.dtype, tensor.shape.to_vec())))
}

const AGAIN: &str = "copy or download it again";
