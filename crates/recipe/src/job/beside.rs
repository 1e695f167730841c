//! What lies beside a model's weights, and without which they mean nothing: the tokenizer, the names of the classes, the
//! tokens with which a text begins and ends, the scale of pixels. It is made once for a run, exported with the model, and
//! read again by whatever opens the folder.

use crate::job::read::{Material, Raw};
use crate::language::{Recipe, TokenizerKind};
use crate::{Error, Result};
use regard_data::dataset::{Images, Labels};
use regard_data::folder::read_json;
use regard_data::tokenizer::{Method, Reserved, Special, Training};
use regard_data::{Tokenizer, whole};
use regard_engine::Store;
use regard_hub::{Opened, SaveOptions};
use regard_models::Model;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// What lies beside a model's weights.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// How text becomes numbers; none for images.
    pub tokenizer: Option<Tokenizer>,
    /// The names of classes.
    pub labels: Option<Labels>,
    /// The token with which an encoder-decoder begins to write.
    pub start: Option<u32>,
    /// The token with which it ends.
    pub end: Option<u32>,
    /// Mean and standard deviation of each channel of images, of numbers from 0 to 1.
    pub pixels: Option<(Vec<f32>, Vec<f32>)>,
}

/// The file that says how pixels are scaled, as transformers names it.
const PIXELS: &str = "preprocessor_config.json";

impl Beside {
    /// What a recipe asks for, learned from its training data alone; a tokenizer that comes with a model goes before.
    pub(crate) fn make(recipe: &Recipe, material: &Material, own: Option<Tokenizer>) -> Result<Beside> {
        let mut beside = Beside { labels: material.labels.clone(), ..Beside::default() };
        if let Raw::Images(images, rows) = &material.train {
            beside.pixels = Some(scale(images, rows));
            return Ok(beside);
        }
        let tokenizer = match (own, &material.study) {
            (Some(own), _) => own,
            (None, Some(study)) => study.tokenizer.clone(),
            (None, None) => tokenizer(recipe, material)?,
        };
        if let Raw::Pairs(_) = material.train {
            (beside.start, beside.end) = ends(&tokenizer)?;
        }
        beside.tokenizer = Some(tokenizer);
        Ok(beside)
    }

    /// What lies beside a model that was opened.
    pub fn open(opened: &Opened) -> Result<Beside> {
        let mut beside = Beside::default();
        let folder = &opened.path;
        if let Some(pixels) = opened.model.reads().pixels {
            let path = folder.join(PIXELS);
            let said = if path.is_file() { read_json(&path)? } else { Value::Null };
            let numbers = |name: &str, otherwise: f32| -> Vec<f32> {
                let given = said[name].as_array().map(|all| all.iter().filter_map(Value::as_f64).collect());
                let given: Vec<f64> = given.unwrap_or_default();
                match given.len() == pixels.channels {
                    true => given.into_iter().map(|x| x as f32).collect(),
                    false => vec![otherwise; pixels.channels],
                }
            };
            beside.pixels = Some((numbers("image_mean", 0.5), numbers("image_std", 0.5)));
        } else {
            let vocabulary = opened.model.vocabulary().unwrap_or(0);
            beside.tokenizer = Some(Tokenizer::beside(folder, vocabulary)?);
        }
        let id = |name: &str| opened.config[name].as_u64().and_then(|id| u32::try_from(id).ok());
        (beside.start, beside.end) = (id("decoder_start_token_id"), id("eos_token_id"));
        if let Some(names) = opened.config["id2label"].as_object() {
            let name = |class: usize| names.get(&class.to_string()).and_then(Value::as_str);
            let names: Option<Vec<&str>> = (0..names.len()).map(name).collect();
            beside.labels = names.map(Labels::in_order).transpose()?;
        }
        Ok(beside)
    }

    /// The tokenizer, for those that cannot do without.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| {
            Error::invalid("there is no tokenizer beside the model", "put its tokenizer.json there")
        })
    }

    /// What short rows are filled with: nobody sees it.
    pub(crate) fn pad(&self) -> u32 {
        self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.special(Special::Pad)).unwrap_or(0)
    }

    /// Writes what is known before the first step, so that what cannot be written is said then, not hours later.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| regard_data::Error::io("make", folder, error))?;
        if let Some(tokenizer) = &self.tokenizer {
            tokenizer.save(folder.join("tokenizer.json"))?;
        }
        if let Some((mean, std)) = &self.pixels {
            let text = json!({ "do_rescale": true, "rescale_factor": 1.0 / 255.0, "do_normalize": true,
                "image_mean": mean, "image_std": std });
            let text = format!("{text:#}\n");
            whole::write(folder.join(PIXELS), |file| file.write_all(text.as_bytes()))?;
        }
        Ok(())
    }

    /// Writes a model and what lies beside it.
    pub(crate) fn export(&self, model: &dyn Model, store: &Store, folder: &Path) -> Result<()> {
        let mut settings: Vec<(&str, Value)> = Vec::new();
        if let Some(labels) = &self.labels {
            let pairs = labels.names().iter().enumerate();
            let names: serde_json::Map<String, Value> =
                pairs.clone().map(|(class, name)| (class.to_string(), json!(name))).collect();
            let classes: serde_json::Map<String, Value> =
                pairs.map(|(class, name)| (name.clone(), json!(class))).collect();
            settings.push(("id2label", Value::Object(names)));
            settings.push(("label2id", Value::Object(classes)));
        }
        settings.extend(self.start.map(|id| ("decoder_start_token_id", json!(id))));
        settings.extend(self.end.map(|id| ("eos_token_id", json!(id))));
        let pad = self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.special(Special::Pad));
        settings.extend(pad.map(|id| ("pad_token_id", json!(id))));
        self.save(folder)?;
        regard_hub::save(model, store, folder, &SaveOptions { settings: &settings, ..Default::default() })?;
        Ok(())
    }
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
            // Characters that only the withheld part has are known, too: they carry nothing but their existence.
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
fn ends(tokenizer: &Tokenizer) -> Result<(Option<u32>, Option<u32>)> {
    let first = |parts: &[Special]| parts.iter().find_map(|part| tokenizer.special(*part));
    let start = first(&[Special::Begin, Special::Class, Special::Pad]);
    let end = first(&[Special::End, Special::Separator]);
    if start.is_none() || end.is_none() {
        return Err(Error::invalid(
            "the tokenizer has no tokens with which a translation begins and ends",
            "choose tokenizer.kind = \"bpe\", \"wordpiece\" or \"unigram\", which have them",
        ));
    }
    Ok((start, end))
}

/// Mean and standard deviation of each channel, over the images to learn from.
fn scale(images: &Images, rows: &[usize]) -> (Vec<f32>, Vec<f32>) {
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
    numbers.unzip()
}
