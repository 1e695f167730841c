//! The weights and the tokenizer of a model that was opened: what commands that read text begin with.

use anyhow::{Result, bail};
use regard::data::Tokenizer;
use regard::hub::{AnyModel, Opened};
use regard::prelude::*;

/// A store with the weights of a model that was opened.
pub fn store(opened: &Opened) -> Result<Store> {
    let mut store = Store::new(0);
    opened.load_into(&mut store)?;
    Ok(store)
}

/// What a model is called in a sentence.
pub fn kind(model: &AnyModel) -> &'static str {
    match model {
        AnyModel::Gpt(..) | AnyModel::Perceiver(_) => "a decoder",
        AnyModel::Bert(_) => "an encoder of text",
        AnyModel::Vit(_) => "a model of images",
        AnyModel::T5(_) | AnyModel::Transformer(_) => "an encoder-decoder",
    }
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
