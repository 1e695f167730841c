//! What a model is given to be looked at: a text, ids, or an image; checked, and as the engine takes it.

use crate::{forward, model};
use anyhow::{Result, bail};
use regard::data::Tokenizer;
use regard::graph::Graph;
use regard::prelude::*;
use regard_hub::Opened;
use regard_inspect::audit::Turn;
use regard_inspect::executions::{self, Text};
use regard_models::{Model, Pixels, Sizes};
use std::path::Path;

/// What was typed, and by which options: text, ids, pixels.
pub struct Given<'a> {
    pub names: [&'static str; 3],
    pub text: Option<&'a str>,
    pub ids: Option<&'a str>,
    pub pixels: Option<&'a Path>,
    pub target: Option<&'a str>,
    pub targets: Option<&'a str>,
}

/// What a model is given.
pub struct Input {
    /// What is fed.
    pub turn: Turn,
    text: Text,
    /// The tokens of each stream: the text, and what a decoder has written.
    pub labels: [Vec<String>; 2],
    /// Their ids.
    pub ids: [Vec<i32>; 2],
    /// The tokenizer of what comes out.
    pub writer: Option<Tokenizer>,
}

impl Input {
    /// Reads and checks it.
    pub fn new(given: &Given<'_>, opened: &Opened) -> Result<Input> {
        let model = &*opened.model;
        if let Some(Pixels { channels, height, width }) = model.reads().pixels {
            let Some(path) = given.pixels else {
                bail!("this is a model of images; give it {} FILE", given.names[2]);
            };
            let images = forward::images(path)?;
            let expected = [1, channels, height, width];
            if images.shape != expected {
                bail!(
                    "{}: the pixels are {:?}; look at one image, {expected:?}",
                    given.names[2],
                    images.shape
                );
            }
            let numbers = images.pixels.iter().map(|&x| f64::from(x)).collect();
            let Some(array) = Array::new(&expected, numbers) else {
                bail!("{}: not as many as {expected:?}", given.names[2])
            };
            let turn = Turn { inputs: vec![("pixels".into(), array)], batch: 1, streams: Vec::new() };
            let text = Text::default();
            return Ok(Input {
                turn,
                text,
                labels: Default::default(),
                ids: Default::default(),
                writer: None,
            });
        }
        if given.pixels.is_some() {
            let [text, ids, pixels] = given.names;
            bail!("{pixels}: this is {}; give it {text} or {ids}", model.kind());
        }
        let Some(vocabulary) = model.vocabulary() else { bail!("this model has no vocabulary") };
        let companions = model::companions(opened)?;
        let ids = match (given.text, given.ids) {
            (Some(text), _) => companions.encode(text)?,
            (None, Some(ids)) => forward::integers(given.names[1], ids)?,
            (None, None) => {
                bail!("nothing to look at: give {}, or {} \"1 2 3\"", given.names[0], given.names[1])
            }
        };
        checked(given.names[1], &ids, vocabulary, model.context())?;
        // Ids can be looked at without a tokenizer; one that does not fit is said.
        let reader = companions.tokenizer().ok();
        let writer = reader.map(|_| companions.target()).transpose()?;
        let targets = match model.as_encoder_decoder() {
            None if given.target.is_some() || given.targets.is_some() => {
                bail!("--target: only an encoder-decoder has one; this is {}", model.kind())
            }
            None => Vec::new(),
            Some(pair) => {
                let targets = match (given.target, given.targets) {
                    (Some(text), _) => {
                        let mut ids = vec![companions.start(None)?];
                        ids.extend(companions.encode_target(text)?);
                        ids
                    }
                    (None, Some(ids)) => forward::integers("--targets", ids)?,
                    (None, None) => vec![companions.start(None).unwrap_or(0)],
                };
                checked("--targets", &targets, pair.vocabulary(), model.context())?;
                targets
            }
        };
        let labels = [labels(&ids, reader), labels(&targets, writer)];
        let writer = writer.cloned();
        let text = Text { read: ids, written: targets };
        let turn = executions::alone(model, &text)?.stages.remove(0).turns.remove(0);
        let ids = [text.read.clone(), text.written.clone()];
        Ok(Input { turn, text, labels, ids, writer })
    }

    /// Records the pass.
    pub fn record(&self, model: &dyn Model) -> Result<Graph> {
        match model.reads().pixels {
            Some(_) => {
                let sizes = Sizes { batch: 1, ..Default::default() };
                Ok(regard_hub::forward::record(model, sizes)?)
            }
            None => Ok((executions::alone(model, &self.text)?.stages[0].record)()?),
        }
    }
}

fn checked(option: &str, ids: &[i32], vocabulary: usize, context: Option<usize>) -> Result<()> {
    if ids.is_empty() {
        bail!("{option}: no token; give at least one");
    }
    if let Some(id) = ids.iter().find(|&&id| usize::try_from(id).map_or(true, |id| id >= vocabulary)) {
        bail!("{option}: {id} is no token of this model, which knows 0 to {}", vocabulary - 1);
    }
    if let Some(most) = context.filter(|&most| ids.len() > most) {
        bail!("{option}: {} positions, this model has room for {most}; cut the text", ids.len());
    }
    Ok(())
}

/// Tokens as people read them.
fn labels(ids: &[i32], tokenizer: Option<&Tokenizer>) -> Vec<String> {
    let label = |&id: &i32| {
        let known = tokenizer.and_then(|own| own.token_of(u32::try_from(id).ok()?));
        known.map_or(id.to_string(), |token| {
            token.replace(['Ġ', '▁'], " ").replace('Ċ', "⏎").trim().to_string()
        })
    };
    ids.iter().map(label).collect()
}
