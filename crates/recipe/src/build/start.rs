//! `[from]`: a model that is there already. Its settings and its tokenizer come along; a head that does not fit the task is
//! swapped for a new one, and what was loaded and what was not is told.

use super::model::bert_head;
use crate::language::Recipe;
use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_engine::Store;
use regard_graph::Init;
use regard_hub::{AnyModel, Opened};
use regard_models::{
    Bert, BertConfig, Gpt, GptConfig, Perceiver, PerceiverConfig, T5, T5Config, Transformer,
    TransformerConfig, Vit, VitConfig, VitHead,
};
use std::path::Path;

/// A model to start from.
pub(crate) struct Start {
    opened: Opened,
    /// Its tokenizer, if it has one.
    pub tokenizer: Option<Tokenizer>,
}

/// What became of the parameters of a new model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Parameters that have the numbers of the model to start from.
    pub loaded: Vec<String>,
    /// Parameters that begin anew: the new head.
    pub fresh: Vec<String>,
    /// Parameters of the old model that are not used: the old head.
    pub unused: Vec<String>,
}

impl Loaded {
    /// In a sentence.
    pub fn sentence(&self) -> String {
        let listed = |names: &[String]| match names {
            [] => "none".to_string(),
            names if names.len() <= 6 => names.join(", "),
            names => format!("{}, … ({} in all)", names[..5].join(", "), names.len()),
        };
        format!(
            "{} tensors loaded; begun anew: {}; not used: {}",
            self.loaded.len(),
            listed(&self.fresh),
            listed(&self.unused)
        )
    }
}

impl Start {
    /// Opens what `from.model` names; the folder of a run stands for its exported model.
    pub fn open(name: &str) -> Result<Start> {
        let exported = Path::new(name).join("model");
        let run = Path::new(name).join("recipe.toml").is_file() && exported.join("config.json").is_file();
        let name = if run { exported.display().to_string() } else { name.to_string() };
        let opened = regard_hub::open(&name)?;
        let vocabulary = opened.model.vocabulary();
        let tokenizer = match vocabulary {
            Some(vocabulary) if opened.path.is_dir() => Tokenizer::beside(&opened.path, vocabulary).ok(),
            _ => None,
        };
        Ok(Start { opened, tokenizer })
    }

    /// The most tokens of a text.
    pub fn context(&self) -> Option<usize> {
        self.opened.model.context()
    }

    /// The model with the head and the dropout of the recipe.
    pub fn model(&self, recipe: &Recipe, classes: usize) -> Result<AnyModel> {
        let dropout = recipe.train.dropout;
        let attention = recipe.train.attention_dropout.unwrap_or(dropout);
        let fits = |yes: bool| match yes {
            true => Ok(()),
            false => Err(Error::invalid(
                format!(
                    "{} is a {}, which does not learn the task {:?}",
                    self.opened.path.display(),
                    self.opened.model.family(),
                    recipe.task
                ),
                "start from another model, or choose another task",
            )),
        };
        use crate::language::Kind;
        Ok(match self.opened.for_training() {
            AnyModel::Gpt(gpt, form) => {
                fits(recipe.task == Kind::Language)?;
                let config = GptConfig { dropout, attention_dropout: Some(attention), ..*gpt.config() };
                AnyModel::Gpt(Gpt::new(config)?, *form)
            }
            AnyModel::Perceiver(model) => {
                fits(recipe.task == Kind::Language)?;
                AnyModel::Perceiver(Box::new(Perceiver::new(PerceiverConfig { dropout, ..*model.config() })?))
            }
            AnyModel::Bert(bert) => {
                fits(matches!(recipe.task, Kind::Classify | Kind::Masked))?;
                let head = bert_head(recipe, classes);
                let config = BertConfig { dropout, attention_dropout: attention, head, ..*bert.config() };
                AnyModel::Bert(Bert::new(config)?)
            }
            AnyModel::T5(t5) => {
                fits(recipe.task == Kind::Translate)?;
                AnyModel::T5(T5::new(T5Config { dropout, ..*t5.config() })?)
            }
            AnyModel::Transformer(model) => {
                fits(recipe.task == Kind::Translate)?;
                AnyModel::Transformer(Transformer::new(TransformerConfig { dropout, ..*model.config() })?)
            }
            AnyModel::Vit(vit) => {
                fits(recipe.task == Kind::Images)?;
                let head = VitHead::Linear(classes);
                let config = VitConfig { dropout, attention_dropout: attention, head, ..*vit.config() };
                AnyModel::Vit(Vit::new(config)?)
            }
        })
    }

    /// Declares the parameters of a model in a store; those that the opened one has in the same shape get its numbers.
    pub fn load(&self, model: &AnyModel, store: &mut Store) -> Result<Loaded> {
        let mut old = Store::new(0);
        self.opened.load_into(&mut old)?;
        let mut report = Loaded::default();
        for declared in model.parameters().declared() {
            let same = old.fact(&declared.name).is_ok_and(|fact| fact.shape == declared.shape);
            store.declare(
                &declared.name,
                &declared.shape,
                if same { Init::Zeros } else { declared.init.clone() },
            )?;
            if same {
                store.set_f32(&declared.name, old.f32(&declared.name)?)?;
                report.loaded.push(declared.name.clone());
            } else {
                report.fresh.push(declared.name.clone());
            }
        }
        let used = |name: &str| report.loaded.iter().any(|known| known == name);
        report.unused = old.names().filter(|name| !used(name)).map(str::to_string).collect();
        Ok(report)
    }
}
