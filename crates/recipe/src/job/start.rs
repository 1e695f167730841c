//! What a model starts from: a folder, a name in a local cache, or a run. Its settings and its tokenizer come along; the
//! head is replaced where the task or the classes are others; what was loaded, left out and made anew is said.

use super::model::{bert_head, given_keys, word};
use crate::language::{Kind, ModelRecipe, Recipe, TrainRecipe};
use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_engine::Store;
use regard_graph::Init;
use regard_hub::{AnyModel, Opened};
use regard_models::{
    Bert, BertConfig, BertHead, Gpt, GptConfig, Perceiver, PerceiverConfig, T5, T5Config, Transformer,
    TransformerConfig, Vit, VitConfig, VitHead,
};
use std::path::Path;

/// A model that was opened to start from.
#[derive(Debug)]
pub(super) struct Start {
    opened: Opened,
}

/// What became of the tensors of a model that was started from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Where it was found.
    pub from: String,
    /// How many tensors were loaded.
    pub tensors: usize,
    /// Which the files have and the new model has not.
    pub left_out: Vec<String>,
    /// Which begin anew.
    pub made: Vec<String>,
}

impl Start {
    /// Opens what `[from]` names, if it names anything. A run is entered by its exported model.
    pub fn open(recipe: &Recipe) -> Result<Option<Start>> {
        let Some(name) = &recipe.from.model else { return Ok(None) };
        let exported = Path::new(name).join("model");
        let is_run = Path::new(name).join("recipe.toml").is_file();
        let name = if is_run { exported.display().to_string() } else { name.clone() };
        if is_run && !exported.join("config.json").is_file() {
            return Err(Error::invalid(
                format!("{} has no trained model yet", recipe.from.model.as_deref().unwrap_or_default()),
                "let that run come to its end first, or resume it",
            ));
        }
        Ok(Some(Start { opened: regard_hub::open(name)? }))
    }

    /// Its tokenizer, which its embedding was learned with.
    pub fn tokenizer(&self) -> Result<Option<Tokenizer>> {
        match self.opened.model.vocabulary() {
            None => Ok(None),
            Some(vocabulary) => Ok(Some(Tokenizer::beside(&self.opened.path, vocabulary)?)),
        }
    }

    /// The model with the dropout of training, and with another head where the task needs one.
    pub fn model(
        &self,
        kind: Kind,
        asked: &ModelRecipe,
        train: &TrainRecipe,
        classes: usize,
    ) -> Result<AnyModel> {
        let fixed = given_keys(asked)?.into_iter().find(|key| key != "pooling" && key != "context");
        if let Some(key) = fixed {
            return Err(Error::invalid(
                format!("model.{key} is given, and so is from.model, whose weights decide it"),
                format!("leave model.{key} out, or from.model"),
            ));
        }
        let dropout = train.dropout;
        let attention_dropout = train.attention_dropout.unwrap_or(dropout);
        let refused = |model: &AnyModel| {
            Err(Error::invalid(
                format!("the task `{}` with a model of the family {}", word(kind), model.family()),
                "start from a model that was made for such a task",
            ))
        };
        Ok(match (&self.opened.model, kind) {
            (AnyModel::Gpt(gpt, form), Kind::Language) => {
                let attention_dropout = train.attention_dropout;
                AnyModel::Gpt(Gpt::new(GptConfig { dropout, attention_dropout, ..*gpt.config() })?, *form)
            }
            (AnyModel::Perceiver(model), Kind::Language) => {
                AnyModel::Perceiver(Box::new(Perceiver::new(PerceiverConfig { dropout, ..*model.config() })?))
            }
            (AnyModel::Bert(bert), Kind::Classify | Kind::Masked) => {
                let head = match (bert.config().head, asked.pooling) {
                    // The head that it has, if nothing else is asked for.
                    (BertHead::Classes(own), None) if kind == Kind::Classify && own == classes => {
                        BertHead::Classes(own)
                    }
                    _ => bert_head(kind, asked, classes),
                };
                let config = BertConfig { dropout, attention_dropout, head, ..*bert.config() };
                AnyModel::Bert(Bert::new(config)?)
            }
            (AnyModel::Vit(vit), Kind::Images) => {
                let head = VitHead::Linear(classes);
                AnyModel::Vit(Vit::new(VitConfig { dropout, attention_dropout, head, ..*vit.config() })?)
            }
            (AnyModel::T5(t5), Kind::Translate) => {
                AnyModel::T5(T5::new(T5Config { dropout, ..*t5.config() })?)
            }
            (AnyModel::Transformer(model), Kind::Translate) => {
                let config = TransformerConfig { dropout, ..*model.config() };
                AnyModel::Transformer(Transformer::new(config)?)
            }
            (other, _) => return refused(other),
        })
    }

    /// Puts its parameters into a store, as far as the new model has them in the same shape. The others begin as the new
    /// model says, drawn from the store's seed.
    pub fn load(&self, model: &AnyModel, store: &mut Store) -> Result<Loaded> {
        let mut own = Store::new(0);
        self.opened.load_into(&mut own)?;
        let mut loaded = Loaded { from: self.opened.path.display().to_string(), ..Loaded::default() };
        for declared in model.parameters().declared() {
            match own.fact(&declared.name) {
                Ok(fact) if fact.shape == declared.shape => {
                    store.declare(&declared.name, &declared.shape, Init::Zeros)?;
                    store.set_f32(&declared.name, &own.f32(&declared.name)?)?;
                    loaded.tensors += 1;
                }
                _ => loaded.made.push(declared.name.clone()),
            }
        }
        let wanted = |name: &str| {
            model.parameters().declared().any(|one| one.name == name)
                && !loaded.made.iter().any(|made| made == name)
        };
        loaded.left_out = own.names().filter(|name| !wanted(name)).map(str::to_string).collect();
        if loaded.tensors == 0 {
            return Err(Error::invalid(
                format!("nothing of {} fits the new model", loaded.from),
                "start from a model of the same sizes",
            ));
        }
        Ok(loaded)
    }

    /// Whether images of these sizes can be read.
    pub fn takes(&self, image: [usize; 3]) -> Result<()> {
        let AnyModel::Vit(vit) = &self.opened.model else { return Ok(()) };
        let [height, width] = vit.config().image;
        let own = [vit.config().channels, height, width];
        match own == image {
            true => Ok(()),
            false => Err(Error::invalid(
                format!("the images are {image:?} (channels, height, width), the model takes {own:?}"),
                "start from a model of the same sizes",
            )),
        }
    }
}

impl Loaded {
    /// In words, for a line of its own.
    pub fn said(&self) -> String {
        let mut said = format!("{} tensors loaded from {}", self.tensors, self.from);
        if !self.left_out.is_empty() {
            said += &format!("; left out: {}", self.left_out.join(", "));
        }
        if !self.made.is_empty() {
            said += &format!("; new: {}", self.made.join(", "));
        }
        said
    }
}
