//! GPTs: decoders of one stream. Their files come in many forms, GPT-2's, Llama's, Qwen's and our own among
//! them, which differ in names, layouts and settings alone: a form is a line of data, most of them a table of
//! `import::decoders`.

use super::{CONTEXT, HEADS, HIDDEN, LAYERS, PRESET, STD, TIED, VOCABULARY, WIDTH, with_mechanisms};
use crate::family::{Dropout, Family, Form, Needs, Weights};
use crate::import::decoders::{Dialect, elders, families as decoders};
use crate::import::{self, Files, native};
use crate::keys::{Key, ModelKeys};
use crate::model::{Labels, Outputs, Promises, Task};
use crate::{Decoder, Gpt, GptConfig, Inputs, Mechanisms, Model, Reads, Tokens, View};
use regard_graph::{Error, Graph, Result, Var};
use regard_layers::Parameters;
use regard_ops::CrossEntropyOptions;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Whose names and layouts the files of a GPT have.
pub struct GptForm {
    form: Form,
    spelling: Spelling,
}

/// How a form is read and written.
enum Spelling {
    /// By functions of its own.
    Own {
        from_json: fn(&Value) -> Result<GptConfig>,
        to_json: fn(&GptConfig) -> Result<Value>,
        files: fn(&Gpt, Option<&dyn Weights>) -> Files,
    },
    /// By a table.
    Table(&'static Dialect),
}

impl GptForm {
    const fn table(dialect: &'static Dialect, architectures: &'static [&'static str]) -> GptForm {
        GptForm {
            form: Form { model_type: dialect.model_type, architectures },
            spelling: Spelling::Table(dialect),
        }
    }

    fn config_from_json(&self, config: &Value) -> Result<GptConfig> {
        match self.spelling {
            Spelling::Own { from_json, .. } => from_json(config),
            Spelling::Table(dialect) => dialect.config_from_json(config),
        }
    }

    fn config_to_json(&self, config: &GptConfig) -> Result<Value> {
        match self.spelling {
            Spelling::Own { to_json, .. } => to_json(config),
            Spelling::Table(dialect) => dialect.config_to_json(config),
        }
    }

    fn files(&self, gpt: &Gpt, weights: Option<&dyn Weights>) -> Files {
        match self.spelling {
            Spelling::Own { files, .. } => files(gpt, weights),
            Spelling::Table(dialect) => dialect.files(gpt),
        }
    }
}

impl fmt::Debug for GptForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.form.model_type)
    }
}

/// transformers' GPT-2.
pub static GPT2: GptForm = GptForm {
    form: Form { model_type: "gpt2", architectures: &["GPT2LMHeadModel", "GPT2Model"] },
    spelling: Spelling::Own {
        from_json: import::gpt2::config_from_json,
        to_json: import::gpt2::config_to_json,
        files: |gpt, weights| {
            // Some files hold the bare model, whose names have no prefix; without weights to look at, it is
            // there.
            let bare = weights.is_some_and(|weights| weights.has("wte.weight"));
            gpt2_files(gpt, import::gpt2::imports(gpt.config(), if bare { "" } else { "transformer." }))
        },
    },
};

/// karpathy's minGPT.
pub static MINGPT: GptForm = GptForm {
    form: Form { model_type: "mingpt", architectures: &["GPT"] },
    spelling: Spelling::Own {
        from_json: import::mingpt::config_from_json,
        to_json: import::mingpt::config_to_json,
        files: |gpt, _| gpt2_files(gpt, import::mingpt::imports(gpt.config())),
    },
};

/// transformers' Llama.
pub static LLAMA: GptForm = GptForm::table(&decoders::LLAMA, &["LlamaForCausalLM"]);
/// transformers' Mistral.
pub static MISTRAL: GptForm = GptForm::table(&decoders::MISTRAL, &["MistralForCausalLM"]);
/// transformers' Qwen 2.
pub static QWEN2: GptForm = GptForm::table(&decoders::QWEN2, &["Qwen2ForCausalLM"]);
/// transformers' Qwen 3.
pub static QWEN3: GptForm = GptForm::table(&decoders::QWEN3, &["Qwen3ForCausalLM"]);
/// transformers' Phi-3.
pub static PHI3: GptForm = GptForm::table(&decoders::PHI3, &["Phi3ForCausalLM"]);
/// transformers' Gemma.
pub static GEMMA1: GptForm = GptForm::table(&decoders::GEMMA1, &["GemmaForCausalLM"]);
/// transformers' Gemma 2.
pub static GEMMA2: GptForm = GptForm::table(&decoders::GEMMA2, &["Gemma2ForCausalLM"]);
/// transformers' Gemma 3, its text alone.
pub static GEMMA3: GptForm = GptForm::table(&decoders::GEMMA3, &["Gemma3ForCausalLM"]);
/// transformers' OLMo 2.
pub static OLMO2: GptForm = GptForm::table(&decoders::OLMO2, &["Olmo2ForCausalLM"]);
/// transformers' GPT-NeoX.
pub static GPT_NEOX: GptForm = GptForm::table(&elders::GPT_NEOX, &["GPTNeoXForCausalLM"]);
/// transformers' GPT-J.
pub static GPTJ: GptForm = GptForm::table(&elders::GPTJ, &["GPTJForCausalLM"]);
/// transformers' StableLM.
pub static STABLELM: GptForm = GptForm::table(&elders::STABLELM, &["StableLmForCausalLM"]);
/// transformers' Granite.
pub static GRANITE: GptForm = GptForm::table(&elders::GRANITE, &["GraniteForCausalLM"]);
/// transformers' SmolLM3.
pub static SMOLLM3: GptForm = GptForm::table(&elders::SMOLLM3, &["SmolLM3ForCausalLM"]);

/// Our own.
pub static NATIVE: GptForm = GptForm {
    form: Form { model_type: native::GPT, architectures: &[] },
    spelling: Spelling::Own {
        from_json: native::gpt_from_json,
        to_json: |config| Ok(native::gpt_to_json(config)),
        files: |gpt, _| Files::new(native::imports(gpt.parameters())),
    },
};

static FORMS: [&GptForm; 17] = [
    &GPT2, &MINGPT, &LLAMA, &MISTRAL, &QWEN2, &QWEN3, &PHI3, &GEMMA1, &GEMMA2, &GEMMA3, &OLMO2, &GPT_NEOX,
    &GPTJ, &STABLELM, &GRANITE, &SMOLLM3, &NATIVE,
];

fn gpt2_files(gpt: &Gpt, imports: Vec<import::Import>) -> Files {
    Files {
        ignored: &[
            "transformer.h.*.attn.bias",
            "transformer.h.*.attn.masked_bias",
            "h.*.attn.bias",
            "h.*.attn.masked_bias",
        ],
        copies: match gpt.config().tied {
            true => &[("lm_head.weight", "transformer.wte.weight"), ("lm_head.weight", "wte.weight")],
            false => &[],
        },
        ..Files::new(imports)
    }
}

impl Model for Gpt {
    fn family(&self) -> &str {
        self.form().form.model_type
    }

    fn kind(&self) -> &str {
        "a decoder"
    }

    fn parameters(&self) -> &Parameters {
        Gpt::parameters(self)
    }

    fn reads(&self) -> Reads {
        let GptConfig { vocabulary, context, .. } = *self.config();
        Reads::text(Tokens { placed: true, ..Tokens::causal(vocabulary, Some(context)) })
    }

    fn pass(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs> {
        let hidden = self.hidden(g, inputs.ids()?, view(inputs))?;
        let logits = self.head(g, hidden)?;
        Ok(vec![("logits", logits), ("hidden", hidden)])
    }

    fn task(&self) -> Option<Task> {
        Some(Task { name: "language", labels: Labels::Next, choices: self.config().vocabulary })
    }

    fn loss(
        &self,
        g: &mut Graph,
        inputs: &Inputs,
        labels: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        let x = self.hidden(g, inputs.ids()?, view(inputs))?;
        self.loss_of_with(g, x, labels, scale, options)
    }

    fn promises(&self) -> Promises {
        Promises { anywhere: true, ..Promises::DECODER }
    }

    fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>> {
        let config = GptConfig {
            dropout: dropout.activations,
            attention_dropout: dropout.attention,
            hidden_dropout: dropout.hidden,
            ..*self.config()
        };
        Ok(Arc::new(Gpt::new(config)?.in_form(self.form())))
    }

    fn config_to_json(&self) -> Result<Value> {
        self.form().config_to_json(self.config())
    }

    fn files(&self, weights: Option<&dyn Weights>) -> Files {
        self.form().files(self, weights)
    }

    fn in_other_form(&self) -> Option<Arc<dyn Model>> {
        let form = others(self).find(|form| form.departs(self.config()).is_none())?;
        Some(Arc::new(self.clone().in_form(form)))
    }

    fn departs(&self) -> Option<String> {
        // Of the two that most others come from; where any form has it all, nothing departs.
        let reasons: Option<Vec<String>> = others(self).map(|form| form.departs(self.config())).collect();
        let known = FORMS.iter().filter(|form| [&GPT2.form, &LLAMA.form].contains(&&form.form));
        let reasons = reasons.filter(|reasons| !reasons.is_empty()).map(|_| known)?;
        let reason =
            |form: &&GptForm| Some(format!("{}: {}", form.form.model_type, form.departs(self.config())?));
        let reasons: Vec<String> = reasons.filter_map(reason).collect();
        Some(reasons.join(". "))
    }

    fn as_decoder(&self) -> Option<&dyn Decoder> {
        Some(self)
    }
}

/// The forms of transformers that a GPT in our own could have.
fn others(gpt: &Gpt) -> impl Iterator<Item = &'static GptForm> {
    let is_ours = gpt.family() == native::GPT;
    let theirs = |form: &&&GptForm| ![native::GPT, MINGPT.form.model_type].contains(&form.form.model_type);
    FORMS.iter().filter(theirs).filter(move |_| is_ours).copied()
}

impl GptForm {
    /// What this form has no words for; none if it says all of these settings. Dropout acts in training
    /// alone.
    fn departs(&self, config: &GptConfig) -> Option<String> {
        let plain = |config: &GptConfig| GptConfig {
            groups: Some(config.groups()),
            head_width: Some(config.head_width()),
            hidden: Some(config.hidden()),
            dropout: 0.0,
            attention_dropout: None,
            hidden_dropout: None,
            ..*config
        };
        let config = plain(config);
        let written = match self.config_to_json(&config) {
            Ok(written) => written,
            Err(Error::Invalid { what, .. }) => return Some(what),
            Err(error) => return Some(error.to_string()),
        };
        match self.config_from_json(&written) {
            Ok(read) if plain(&read) == config => None,
            _ => Some(format!("{} does not have all of its settings", self.form.model_type)),
        }
    }
}

fn view(inputs: &Inputs) -> View {
    match (inputs.position, inputs.mask) {
        (Some(position), Some(mask)) => View::Padded { position, mask },
        _ => View::Whole,
    }
}

/// Decoders: GPT-2, minGPT, Llama and what lies between them.
#[derive(Clone, Copy, Debug)]
pub struct Gpts;

impl Family for Gpts {
    fn name(&self) -> &str {
        "gpt"
    }

    fn about(&self) -> &str {
        "a decoder"
    }

    fn forms(&self) -> Vec<Form> {
        FORMS.iter().map(|known| known.form).collect()
    }

    fn open(&self, model_type: &str, config: &Value, _: &dyn Weights) -> Result<Arc<dyn Model>> {
        let form = FORMS.iter().find(|known| known.form.model_type == model_type).ok_or_else(|| {
            Error::unknown("form of a GPT", model_type, FORMS.iter().map(|known| known.form.model_type))
        })?;
        Ok(Arc::new(Gpt::new(form.config_from_json(config)?)?.in_form(form)))
    }

    fn tasks(&self) -> &[&str] {
        &["language"]
    }

    fn keys(&self) -> Vec<Key> {
        let own = [PRESET, LAYERS, HEADS, WIDTH, HIDDEN, CONTEXT, VOCABULARY, TIED, STD];
        with_mechanisms(&own, &[])
    }

    fn presets(&self) -> Vec<&str> {
        GptConfig::PRESETS.iter().map(|(name, _)| *name).collect()
    }

    fn make(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        let preset = match keys.text("preset") {
            Some(name) => GptConfig::preset(name)?,
            None => GptConfig::SMALL,
        };
        let own = Mechanisms::from_keys(keys)?;
        let config = GptConfig {
            layers: keys.size("layers").unwrap_or(preset.layers),
            heads: keys.size("heads").unwrap_or(preset.heads),
            groups: own.groups.or(preset.groups),
            width: keys.size("width").unwrap_or(preset.width),
            head_width: own.head_width.or(preset.head_width),
            hidden: keys.size("hidden").or(preset.hidden),
            context: keys.size("context").unwrap_or(preset.context),
            vocabulary: needs.vocabulary,
            positions: own.positions.unwrap_or(preset.positions),
            window: own.window.or(preset.window),
            scale: own.scale.unwrap_or(preset.scale),
            attention: own.attention.unwrap_or(preset.attention),
            norm: own.norm.unwrap_or(preset.norm),
            place: own.place.unwrap_or(preset.place),
            epsilon: own.epsilon.unwrap_or(preset.epsilon),
            feed_forward: own.activation.unwrap_or(preset.feed_forward),
            attention_bias: own.attention_bias.unwrap_or(preset.attention_bias),
            feed_forward_bias: own.feed_forward_bias.unwrap_or(preset.feed_forward_bias),
            tied: keys.truth("tied").unwrap_or(preset.tied),
            dropout: needs.dropout.activations,
            attention_dropout: needs.dropout.attention,
            hidden_dropout: needs.dropout.hidden,
            std: keys.number("std").unwrap_or(preset.std),
            ..preset
        };
        Ok(Arc::new(Gpt::new(config)?))
    }
}
