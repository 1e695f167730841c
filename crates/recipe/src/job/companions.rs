//! What a run makes beside its model: the tokenizer, the names of the classes, the tokens with which a text
//! begins and ends, the scale of pixels. It is learned from the training data alone, written before the first
//! step, and exported with the model.

use crate::job::read::{Material, Raw};
use crate::language::{Recipe, TokenizerKind};
use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_data::dataset::Images;
use regard_data::tokenizer::{Method, Reserved, Training};
use regard_engine::Store;
use regard_hub::{Opened, SaveOptions};
use regard_models::Model;
use regard_runtime::special::{Written, start_of, stop_of};
use regard_runtime::{ChatTemplate, Companions, PixelScale};
use std::path::Path;

/// What a recipe asks for, learned from its training data alone; a tokenizer that comes with a model goes
/// before.
pub(super) fn make(recipe: &Recipe, material: &Material, own: Option<Tokenizer>) -> Result<Companions> {
    if let Raw::Images(images, rows) = &material.train {
        let mut companions = Companions::made(None);
        companions.classes = material.labels.clone();
        companions.pixels = Some(scale(images, rows));
        return Ok(companions);
    }
    let tokenizer = match (own, &material.study) {
        (Some(own), _) => own,
        (None, Some(study)) => study.tokenizer.clone(),
        (None, None) => tokenizer(recipe, material)?,
    };
    let written = match material.train {
        Raw::Pairs(_) => start_and_stop(&tokenizer)?,
        _ => Written::default(),
    };
    let mut companions = Companions::made(Some(tokenizer));
    companions.classes = material.labels.clone();
    companions.written = written;
    Ok(companions)
}

/// The same with a chat template, and with the tokens that end a reply by it. A tokenizer that was made for
/// the run has no special token for that: there it is what stands behind a reply.
pub(super) fn with_chat(companions: Companions, template: ChatTemplate, started: bool) -> Result<Companions> {
    let mut companions = companions.with_chat(template);
    let mut stop = companions.end_of_reply()?;
    if !started && stop.is_empty() {
        let after = companions.chat_template()?.after_reply().unwrap_or_default();
        let first = companions.tokenizer()?.encode_bare(&after)?.first().copied();
        stop.extend(first.and_then(|id| i32::try_from(id).ok()));
    }
    companions.written.stop = stop;
    Ok(companions)
}

/// Writes a model and what lies beside it.
pub(super) fn export(companions: &Companions, model: &dyn Model, store: &Store, folder: &Path) -> Result<()> {
    export_like(companions, model, store, folder, None)
}

/// The same, with what lies beside the model that it came from: of a sentence-transformer, its modules.
pub(super) fn export_like(
    companions: &Companions,
    model: &dyn Model,
    store: &Store,
    folder: &Path,
    like: Option<&Opened>,
) -> Result<()> {
    companions.save(folder)?;
    let settings = companions.settings();
    regard_hub::save(model, store, folder, &SaveOptions { settings: &settings, like, ..Default::default() })?;
    Ok(())
}

/// The tokenizer that `[tokenizer]` asks for.
fn tokenizer(recipe: &Recipe, material: &Material) -> Result<Tokenizer> {
    let asked = &recipe.tokenizer;
    let texts = material.train.texts();
    if asked.lowercase && asked.kind != TokenizerKind::Wordpiece {
        return Err(Error::invalid(
            "tokenizer.lowercase is true, and the kind is not wordpiece",
            "leave it out, or give tokenizer.kind = \"wordpiece\"",
        ));
    }
    let training = match asked.kind {
        TokenizerKind::Bytes => return Ok(Tokenizer::bytes()),
        TokenizerKind::Characters => {
            // Characters that only the withheld part has are known, too: they carry nothing but their
            // existence.
            let held = material.choose.iter().chain(&material.last).flat_map(Raw::texts);
            let reserved = match recipe.task {
                crate::language::Kind::Language => Reserved::default(),
                _ => Reserved { pad: Some('\u{25a1}'), mask: Some('\u{2047}'), unknown: Some('\u{fffd}') },
            };
            return Ok(Tokenizer::characters(texts.into_iter().chain(held), reserved)?);
        }
        TokenizerKind::File => {
            let Some(path) = &asked.path else {
                let advice = "give tokenizer.path, a tokenizer.json";
                return Err(Error::invalid("tokenizer.kind is file, and no file is named", advice));
            };
            return Ok(Tokenizer::open(path)?);
        }
        TokenizerKind::Bpe => Training::bpe(asked.vocabulary),
        TokenizerKind::Wordpiece => {
            let method = Method::WordPiece { lowercase: asked.lowercase };
            Training { method, ..Training::word_piece(asked.vocabulary) }
        }
        TokenizerKind::Unigram => Training::unigram(asked.vocabulary),
    };
    Ok(Tokenizer::train(&training, texts)?)
}

/// The tokens with which a translation begins and ends.
fn start_and_stop(tokenizer: &Tokenizer) -> Result<Written> {
    let id = |id: Option<u32>| id.and_then(|id| i32::try_from(id).ok());
    match (id(start_of(tokenizer)), id(stop_of(tokenizer, true))) {
        (Some(start), Some(stop)) => {
            Ok(Written { start: Some(start), stop: vec![stop], ..Written::default() })
        }
        _ => Err(Error::invalid(
            "the tokenizer has no tokens with which a translation begins and ends",
            "choose tokenizer.kind = \"bpe\", \"wordpiece\" or \"unigram\", which have them",
        )),
    }
}

/// Mean and standard deviation of each channel, over the images to learn from.
fn scale(images: &Images, rows: &[usize]) -> PixelScale {
    let channels = images.channels();
    let plane = images.width() * images.height();
    let count = (rows.len() * plane).max(1) as f64;
    let mut sums = vec![(0.0f64, 0.0f64); channels];
    for &row in rows {
        for (sum, plane) in sums.iter_mut().zip(images.pixels(row).chunks_exact(plane.max(1))) {
            // Whole numbers: the sums are exact, and do not depend on the order.
            let (one, two) = plane.iter().fold((0u64, 0u64), |(one, two), &byte| {
                (one + u64::from(byte), two + u64::from(byte) * u64::from(byte))
            });
            *sum = (sum.0 + one as f64, sum.1 + two as f64);
        }
    }
    let numbers = sums.into_iter().map(|(one, two)| {
        let mean = one / count;
        let variance = (two / count - mean * mean).max(0.0);
        ((mean / 255.0) as f32, (variance.sqrt() / 255.0).max(1e-3) as f32)
    });
    let (mean, std) = numbers.unzip();
    PixelScale::new(mean, std)
}
