//! The weights and the tokenizer of a model that was opened: what commands that read text begin with.

use anyhow::{Context, Result, bail};
use regard::data::Tokenizer;
use regard::hub::{self, Opened};
use regard::models::Registry;
use regard::prelude::*;
use std::fs;
use std::path::Path;

/// Opens a model: a folder, a name in a local cache, a file of llama2.c, or the folder of a run, whose model it is then.
pub fn open(model: &str, registry: &Registry) -> Result<Opened> {
    Ok(hub::open(regard_recipe::job::model_of(model)?, registry)?)
}

/// A store with the weights of a model that was opened.
pub fn store(opened: &Opened) -> Result<Store> {
    let mut store = Store::new(0);
    opened.load_into(&mut store)?;
    Ok(store)
}

/// The tokenizer beside a model. A model of 256 tokens without one reads bytes.
pub fn tokenizer(opened: &Opened, vocabulary: usize) -> Result<Tokenizer> {
    match Tokenizer::beside(&opened.path, vocabulary) {
        Err(regard::data::Error::File { what, .. })
            if vocabulary == 256 && what.starts_with("no tokenizer") =>
        {
            Ok(Tokenizer::bytes())
        }
        other => Ok(other?),
    }
}

/// The ids of a text as the engine takes them.
pub fn encode(tokenizer: &Tokenizer, text: &str, vocabulary: usize) -> Result<Vec<i32>> {
    let ids = tokenizer.encode_for(text, vocabulary)?;
    let Ok(ids) = ids.into_iter().map(i32::try_from).collect() else {
        bail!(
            "the tokenizer gives ids that are no 32-bit numbers; use the tokenizer that came with the model"
        );
    };
    Ok(ids)
}

/// The tokenizer of what an encoder-decoder writes: `target_tokenizer.json` where there is one, or that of its source.
pub fn target_tokenizer(opened: &Opened, source: Tokenizer, vocabulary: usize) -> Result<Tokenizer> {
    let own = opened.path.join("target_tokenizer.json");
    let tokenizer = if own.is_file() { Tokenizer::open(own)? } else { source };
    // Models often know a few tokens more than their tokenizers, to round up a size, but never fewer.
    if tokenizer.vocabulary() > vocabulary {
        bail!(
            "the tokenizer of the target knows {} tokens, the model writes {vocabulary}; put the right one beside the \
             model as target_tokenizer.json",
            tokenizer.vocabulary()
        );
    }
    Ok(tokenizer)
}

/// The text of ids that a model wrote. One that only rounds up its size is the sign for what has no sign.
pub fn text(tokenizer: &Tokenizer, ids: &[i32]) -> Result<String> {
    let mut stream = tokenizer.stream(&[]);
    let mut text = String::new();
    for &id in ids {
        let id = u32::try_from(id)?;
        text.push_str(&if tokenizer.knows(id) { stream.push(id)? } else { "\u{fffd}".into() });
    }
    text.push_str(&stream.finish()?);
    Ok(text)
}

/// The lines of a file of text, at least one.
pub fn lines(path: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(path).with_context(|| format!("--file {}", path.display()))?;
    let Ok(all) = String::from_utf8(bytes) else {
        bail!("--file {}: not UTF-8; save it as such", path.display());
    };
    let lines: Vec<String> = all.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        bail!("--file {}: is empty; write a text on each line", path.display());
    }
    Ok(lines)
}
