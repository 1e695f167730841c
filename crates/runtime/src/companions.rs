//! What lies beside a model's weights, and without which they mean nothing: tokenizers, the tokens with which
//! texts begin and end, the names of classes, the scale of pixels. A run makes it once and exports it with
//! the model; everything that opens a folder reads it here. Tokenizers are read when they are first asked
//! for.

use crate::chat::ChatTemplate;
use crate::classify::Problem;
use crate::pixels::PixelScale;
use crate::special::{Written, start_of, stop_of};
use crate::{Error, Result};
use regard_data::dataset::Labels;
use regard_data::tokenizer::Special;
use regard_data::{Tokenizer, whole};
use regard_generate::Rules;
use regard_models::Model;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The tokenizer of what an encoder-decoder writes, where it is not that of its source.
const TARGET: &str = "target_tokenizer.json";

/// What lies beside a model's weights.
#[derive(Clone, Debug, Default)]
pub struct Companions {
    /// The names of classes.
    pub classes: Option<Labels>,
    /// What a person should know about them.
    pub remark: Option<String>,
    /// What the scores of a classifier mean.
    pub problem: Problem,
    /// The scale of pixels, for models of images.
    pub pixels: Option<PixelScale>,
    /// What the files say about the beginning and the end of texts.
    pub written: Written,
    tokenizer: OnceLock<Tokenizer>,
    target: OnceLock<Tokenizer>,
    chat: OnceLock<ChatTemplate>,
    /// Where tokenizers are looked for, and for how many tokens.
    folder: Option<PathBuf>,
    vocabulary: usize,
    target_vocabulary: Option<usize>,
}

impl Companions {
    /// What lies beside a model: in its folder, or beside its file.
    pub fn open(model: &dyn Model, config: &Value, path: &Path) -> Result<Companions> {
        let reads = model.reads();
        let of_texts = |task: &regard_models::Task| task.labels == regard_models::Labels::Example;
        let choices = model.task().filter(of_texts).map(|task| task.choices);
        let (classes, remark) = match (classes(config)?, choices) {
            (Some(named), Some(all)) if named.names().len() != all => {
                let count = named.names().len();
                (None, Some(format!("config.json names {count} of {all} classes, which are shown by number")))
            }
            (named, _) => (named, None),
        };
        Ok(Companions {
            classes,
            remark,
            problem: Problem::of(config, model.task().map(|task| task.choices))?,
            pixels: reads.pixels.map(|pixels| PixelScale::open(path, pixels)).transpose()?,
            written: Written::read(path, config, reads.source.is_some())?,
            folder: reads.given().map(|_| path.to_path_buf()),
            vocabulary: reads.vocabulary().unwrap_or(0),
            target_vocabulary: reads.source.and(reads.ids).map(|tokens| tokens.vocabulary),
            ..Companions::default()
        })
    }

    /// What a run makes: nothing yet but this tokenizer, where it has texts.
    pub fn made(tokenizer: Option<Tokenizer>) -> Companions {
        let tokenizer = tokenizer.map(OnceLock::from).unwrap_or_default();
        Companions { tokenizer, ..Companions::default() }
    }

    /// The same with a chat template.
    pub fn with_chat(self, template: ChatTemplate) -> Companions {
        Companions { chat: OnceLock::from(template), ..self }
    }

    /// How a text to be read becomes numbers. A model of 256 tokens without a tokenizer reads bytes.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        match self.tokenizer.get() {
            Some(tokenizer) => Ok(tokenizer),
            None => {
                let tokenizer = self.open_tokenizer()?;
                Ok(self.tokenizer.get_or_init(|| tokenizer))
            }
        }
    }

    fn open_tokenizer(&self) -> Result<Tokenizer> {
        let Some(folder) = &self.folder else {
            return Err(Error::invalid(
                "there is no tokenizer beside the model",
                "put its tokenizer.json there",
            ));
        };
        match Tokenizer::of_model(folder, self.vocabulary) {
            Err(regard_data::Error::NoTokenizer { .. }) if self.vocabulary == 256 => Ok(Tokenizer::bytes()),
            Err(regard_data::Error::NoTokenizer { .. }) if folder.join("source.spm").is_file() => {
                Err(Error::invalid(
                    format!(
                        "{}: its tokenizer is kept as Marian keeps it, in source.spm, target.spm and vocab.json, which \
                         are not read here",
                        folder.display()
                    ),
                    "put a tokenizer.json of the same tokens there, or give ids: regard generate --ids",
                ))
            }
            other => Ok(other?),
        }
    }

    /// How numbers that were written become a text: for an encoder-decoder, `target_tokenizer.json` where
    /// there is one.
    pub fn target(&self) -> Result<&Tokenizer> {
        if let Some(target) = self.target.get() {
            return Ok(target);
        }
        let own = self.folder.as_ref().map(|folder| folder.join(TARGET)).filter(|file| file.is_file());
        let (Some(most), Some(own)) = (self.target_vocabulary, own) else {
            return self.checked(self.tokenizer()?);
        };
        let target = Tokenizer::open(own)?;
        self.checked_for(&target, most)?;
        Ok(self.target.get_or_init(|| target))
    }

    fn checked<'a>(&self, tokenizer: &'a Tokenizer) -> Result<&'a Tokenizer> {
        self.target_vocabulary.map_or(Ok(()), |most| self.checked_for(tokenizer, most))?;
        Ok(tokenizer)
    }

    /// Models often know a few tokens more than their tokenizers, to round up a size, but never fewer.
    fn checked_for(&self, tokenizer: &Tokenizer, most: usize) -> Result<()> {
        match tokenizer.vocabulary() > most {
            false => Ok(()),
            true => Err(Error::invalid(
                format!(
                    "the tokenizer of the target knows {} tokens, the model writes {most}",
                    tokenizer.vocabulary()
                ),
                "put the right one beside the model as target_tokenizer.json",
            )),
        }
    }

    /// The ids of a text to be read, special tokens included.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>> {
        self.encoded(self.tokenizer()?, text, self.vocabulary)
    }

    /// The ids of a text as an encoder-decoder writes it.
    pub fn encode_target(&self, text: &str) -> Result<Vec<i32>> {
        self.encoded(self.target()?, text, self.target_vocabulary.unwrap_or(self.vocabulary))
    }

    fn encoded(&self, tokenizer: &Tokenizer, text: &str, vocabulary: usize) -> Result<Vec<i32>> {
        let ids = match vocabulary {
            0 => tokenizer.encode(text)?,
            vocabulary => tokenizer.encode_for(text, vocabulary)?,
        };
        ids.into_iter().map(i32::try_from).collect::<Result<_, _>>().map_err(|_| {
            Error::invalid(
                "the tokenizer gives ids that are no 32-bit numbers",
                "use the tokenizer that came with the model",
            )
        })
    }

    /// How conversations become texts: the chat template beside the model.
    pub fn chat_template(&self) -> Result<&ChatTemplate> {
        if let Some(template) = self.chat.get() {
            return Ok(template);
        }
        let folder = self.folder.as_ref().filter(|folder| folder.is_dir());
        let found = folder.map(|folder| ChatTemplate::beside(folder)).transpose()?.flatten();
        let Some(template) = found else {
            let place = folder.map_or_else(|| "the model".into(), |folder| folder.display().to_string());
            return Err(Error::invalid(
                format!("there is no chat template beside {place}: it was not made to be talked to"),
                "put chat_template.jinja or tokenizer_config.json of a model for conversations there, or give a plain \
                 text: regard generate --prompt",
            ));
        };
        Ok(self.chat.get_or_init(|| template))
    }

    /// The ids of a text that holds its special tokens itself, as chat templates write it.
    pub fn encode_rendered(&self, text: &str) -> Result<Vec<i32>> {
        let tokenizer = self.tokenizer()?;
        let ids = tokenizer.encode_bare(text)?;
        let known = |id: u32| {
            i32::try_from(id).ok().filter(|id| self.vocabulary == 0 || (*id as usize) < self.vocabulary)
        };
        let numbers = ids.iter().map(|&id| known(id).ok_or(id)).collect::<Result<_, u32>>();
        numbers.map_err(|id| {
            Error::invalid(
                format!("the tokenizer gives the id {id}, the model knows {} tokens", self.vocabulary),
                "use the tokenizer that came with the model",
            )
        })
    }

    /// The tokens that end a reply: those that end a text, the `eos_token` of the tokenizer's settings, and
    /// the special token with which the chat template closes a reply.
    pub fn end_of_reply(&self) -> Result<Vec<i32>> {
        let (template, tokenizer) = (self.chat_template()?, self.tokenizer()?);
        let mut stop = self.stop();
        let eos = template.token("eos_token").and_then(|text| tokenizer.id(text));
        let after = template.end_of_reply().map(|text| tokenizer.encode_bare(&text)).transpose()?;
        let closing = after.and_then(|ids| ids.first().copied());
        // What is special has no text.
        let closing = closing.filter(|&id| tokenizer.decode(&[id]).is_ok_and(|text| text.is_empty()));
        for id in eos.into_iter().chain(closing).filter_map(|id| i32::try_from(id).ok()) {
            if !stop.contains(&id) {
                stop.push(id);
            }
        }
        Ok(stop)
    }

    /// The text of ids that a model wrote. One that only rounds up its size is the sign for what has no sign.
    pub fn decode(&self, ids: &[i32]) -> Result<String> {
        let mut text = crate::pieces::Pieces::new(Some(self.target()?), &[], &[]);
        for &id in ids {
            text.push(id)?;
        }
        text.finish()?;
        Ok(text.into_text())
    }

    /// The token with which an encoder-decoder begins to write: as given, or by the rule of
    /// [`crate::special`].
    pub fn start(&self, given: Option<i32>) -> Result<i32> {
        if let Some(id) = given.or(self.written.start) {
            return Ok(id);
        }
        let own = self.target().ok().and_then(start_of).and_then(|id| i32::try_from(id).ok());
        own.ok_or_else(|| {
            let shown = self.folder.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default();
            Error::invalid(
                format!("{shown}config.json does not say with which token an answer begins"),
                "add `decoder_start_token_id`, or give --start",
            )
        })
    }

    /// The tokens that end a text, by the rule of [`crate::special`]; there may be none.
    pub fn stop(&self) -> Vec<i32> {
        if !self.written.stop.is_empty() {
            return self.written.stop.clone();
        }
        let pair = self.target_vocabulary.is_some();
        let own = self.target().ok().and_then(|tokenizer| stop_of(tokenizer, pair));
        own.and_then(|id| i32::try_from(id).ok()).into_iter().collect()
    }

    /// What the files of an encoder-decoder say about the texts that it writes, which end with these. A text
    /// that no token ends is not forced to end with one.
    pub fn rules(&self, stop: &[i32]) -> Rules {
        let mut rules = self.written.rules.clone();
        rules.last.retain(|id| stop.contains(id));
        rules
    }

    /// What short rows are filled with: nobody sees it.
    pub fn pad(&self) -> u32 {
        self.tokenizer().ok().and_then(|tokenizer| tokenizer.special(Special::Pad)).unwrap_or(0)
    }

    /// The name of a class; its number, where classes have no names.
    pub fn class_name(&self, class: usize) -> String {
        match self.classes.as_ref().and_then(|classes| classes.name(class)) {
            Some(name) => name.to_string(),
            None => class.to_string(),
        }
    }

    /// The settings of `config.json` that are not the model's own.
    pub fn settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings: Vec<(&str, Value)> = Vec::new();
        if let Some(classes) = &self.classes {
            let pairs = classes.names().iter().enumerate();
            let names: Map<String, Value> =
                pairs.clone().map(|(class, name)| (class.to_string(), json!(name))).collect();
            let numbers: Map<String, Value> =
                pairs.map(|(class, name)| (name.clone(), json!(class))).collect();
            settings.push(("id2label", Value::Object(names)));
            settings.push(("label2id", Value::Object(numbers)));
        }
        settings.extend(self.written.start.map(|id| ("decoder_start_token_id", json!(id))));
        match self.written.stop.as_slice() {
            [] => {}
            [one] => settings.push(("eos_token_id", json!(one))),
            several => settings.push(("eos_token_id", json!(several))),
        }
        let pad = self.tokenizer.get().and_then(|tokenizer| tokenizer.special(Special::Pad));
        settings.extend(pad.map(|id| ("pad_token_id", json!(id))));
        settings
    }

    /// Writes tokenizer, chat template and scale of pixels into a folder.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| regard_data::Error::io("make", folder, error))?;
        if let Some(tokenizer) = self.tokenizer.get() {
            tokenizer.save(folder.join("tokenizer.json"))?;
        }
        if let Some(template) = self.chat.get() {
            let text = template.source().as_bytes();
            whole::write(folder.join("chat_template.jinja"), |file| file.write_all(text))?;
            let tokens: Map<String, Value> =
                template.tokens().map(|(name, text)| (name.to_owned(), json!(text))).collect();
            if !tokens.is_empty() {
                write_json(&folder.join("tokenizer_config.json"), &Value::Object(tokens))?;
            }
        }
        if let Some((name, text)) = self.pixels.as_ref().map(PixelScale::file) {
            write_json(&folder.join(name), &text)?;
        }
        Ok(())
    }

    /// Writes the same and the model's config, before there are weights: with a checkpoint of the run it is
    /// all that opens the model.
    pub fn save_for(&self, model: &dyn Model, folder: &Path) -> Result<()> {
        self.save(folder)?;
        let mut config = model.config_to_json()?;
        for (name, value) in self.settings() {
            config[name] = value;
        }
        write_json(&folder.join("config.json"), &config)
    }
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let text = format!("{value:#}\n");
    Ok(whole::write(path, |file| file.write_all(text.as_bytes()))?)
}

/// The names of classes that a config has, if it names all of them. A single one is no class: it names the
/// value of a regression, or says nothing.
fn classes(config: &Value) -> Result<Option<Labels>> {
    let Some(names) = config["id2label"].as_object() else { return Ok(None) };
    let name = |class: usize| names.get(&class.to_string()).and_then(Value::as_str);
    let names: Option<Vec<&str>> = (0..names.len()).map(name).collect();
    Ok(names.filter(|names| names.len() != 1).map(Labels::in_order).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_single_label_names_no_class() {
        let found = |labels: Value| classes(&json!({ "id2label": labels }));
        assert_eq!(found(json!({ "0": "LABEL_0" })).unwrap(), None);
        assert_eq!(found(json!({ "0": "no", "1": "yes" })).unwrap().unwrap().len(), 2);
        assert!(found(json!({ "0": "no", "1": "no" })).is_err());
    }
}
