//! Training steps of every family at small sizes, for tests of how programs are planned: recorded with their
//! gradients and an update, and fed with numbers that any of them takes.

use regard::Result;
use regard::layers::{FeedForwardKind, NormKind};
use regard::ops::{AdamW, CrossEntropyOptions, RANDOM_INPUT, RANDOM_LENGTH, random_numbers};
use regard::prelude::*;
use regard_models::{
    Bert, BertConfig, BertHead, BertText, Gpt, GptConfig, Perceiver, PerceiverConfig, PerceiverMasking,
    Positions, T5, T5Config, Transformer, TransformerConfig, Vit, VitConfig, VitHead,
};

/// A family, with or without dropout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// `gpt`, `bert`, ….
    pub name: &'static str,
    /// Whether its parts are dropped at random.
    pub dropout: bool,
}

/// All of them. `llama` is a GPT with rotary positions, RMS norms, a gated feed-forward part and grouped
/// heads; `transformer` has its norms behind its parts.
pub const FAMILIES: [&str; 7] = ["gpt", "llama", "bert", "vit", "t5", "transformer", "perceiver"];

/// Each family with and without dropout.
pub fn families() -> impl Iterator<Item = Family> {
    FAMILIES.into_iter().flat_map(|name| [false, true].map(|dropout| Family { name, dropout }))
}

const BATCH: usize = 3;
const LENGTH: usize = 17;
const WIDTH: usize = 48;
const VOCABULARY: usize = 61;
const LAYERS: usize = 2;

impl Family {
    /// The loss of a batch, recorded.
    pub fn loss(self, g: &mut Graph) -> Result<Var> {
        let dropout = if self.dropout { 0.1 } else { 0.0 };
        let scale = g.input("scale", DType::F32, shape![])?;
        let text = |g: &mut Graph, name: &str| g.input(name, DType::I32, [BATCH, LENGTH]);
        Ok(match self.name {
            "gpt" => {
                let (ids, targets) = (text(g, "ids")?, text(g, "targets")?);
                Gpt::new(gpt(dropout))?.loss(g, ids, targets, scale)?
            }
            "llama" => {
                let (ids, targets) = (text(g, "ids")?, text(g, "targets")?);
                Gpt::new(llama(dropout))?.loss(g, ids, targets, scale)?
            }
            "bert" => {
                let (ids, targets) = (text(g, "ids")?, text(g, "targets")?);
                let key_mask = Some(g.input("mask", DType::Bool, [BATCH, LENGTH])?);
                let text = BertText { ids, token_types: None, key_mask };
                Bert::new(bert(dropout))?.loss(g, &text, targets, scale)?
            }
            "vit" => {
                let config = vit(dropout)?;
                let image = g.input("image", DType::F32, [BATCH, config.channels, 12, 12])?;
                let targets = g.input("classes", DType::I32, [BATCH])?;
                Vit::new(config)?.loss(g, image, targets, scale)?
            }
            "t5" => {
                let all = [text(g, "ids")?, text(g, "own")?, text(g, "targets")?];
                let mask = Some(g.input("mask", DType::Bool, [BATCH, LENGTH])?);
                T5::new(t5(dropout))?.loss(g, all, mask, scale)?
            }
            "transformer" => {
                let all = [text(g, "ids")?, text(g, "own")?, text(g, "targets")?];
                let mask = Some(g.input("mask", DType::Bool, [BATCH, LENGTH])?);
                let model = Transformer::new(transformer(dropout))?;
                model.loss(g, all, mask, scale, CrossEntropyOptions::default())?
            }
            _ => {
                let (ids, targets) = (text(g, "ids")?, text(g, "targets")?);
                Perceiver::new(perceiver(dropout))?.loss(g, ids, targets, scale)?
            }
        })
    }

    /// The pass, which gives `loss`; with `training`, also its gradients, as outputs `gradient of …`, and an
    /// update of every parameter.
    pub fn record(self, precision: Precision, training: bool) -> Result<Graph> {
        let mut g = if training { Graph::new() } else { Graph::inference() };
        g.set_precision(precision);
        let loss = self.loss(&mut g)?;
        g.output("loss", loss)?;
        if training {
            let rate = g.input("rate", DType::F32, shape![])?;
            let step = g.input("step", DType::I32, shape![])?;
            let parameters = g.parameters();
            let names: Vec<String> = g.stored().iter().map(|stored| stored.name.clone()).collect();
            let gradients = g.gradient(loss, &parameters)?;
            for (name, gradient) in names.iter().zip(&gradients) {
                g.output(&format!("gradient of {name}"), *gradient)?;
            }
            let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
            g.adamw_step(&pairs, &AdamW::default(), rate, step, None)?;
        }
        Ok(g)
    }
}

fn gpt(dropout: f32) -> GptConfig {
    GptConfig {
        layers: LAYERS,
        heads: 4,
        width: WIDTH,
        context: LENGTH,
        vocabulary: VOCABULARY,
        dropout,
        ..GptConfig::SMALL
    }
}

fn llama(dropout: f32) -> GptConfig {
    GptConfig {
        groups: Some(2),
        positions: Positions::Rotary(Default::default()),
        norm: NormKind::Rms,
        feed_forward: FeedForwardKind::GatedSilu,
        attention_bias: false,
        feed_forward_bias: false,
        tied: false,
        ..gpt(dropout)
    }
}

fn bert(dropout: f32) -> BertConfig {
    BertConfig {
        layers: LAYERS,
        heads: 4,
        width: WIDTH,
        hidden: 4 * WIDTH,
        context: LENGTH,
        vocabulary: VOCABULARY,
        token_types: 2,
        activation: FeedForwardKind::Gelu,
        epsilon: 1e-12,
        dropout,
        attention_dropout: dropout,
        std: 0.02,
        head: BertHead::Masked,
        mechanisms: Default::default(),
        variant: Default::default(),
    }
}

fn vit(dropout: f32) -> Result<VitConfig> {
    Ok(VitConfig {
        image: [12, 12],
        patch: [4, 4],
        layers: LAYERS,
        heads: 4,
        width: WIDTH,
        hidden: 4 * WIDTH,
        head: VitHead::Linear(5),
        dropout,
        attention_dropout: dropout,
        ..VitConfig::preset("vit-tiny-16")?
    })
}

fn t5(dropout: f32) -> T5Config {
    T5Config {
        vocabulary: VOCABULARY,
        width: WIDTH,
        heads: 4,
        head_width: WIDTH / 4,
        hidden: 2 * WIDTH,
        encoder_layers: LAYERS,
        decoder_layers: LAYERS,
        dropout,
        ..T5Config::small()
    }
}

fn transformer(dropout: f32) -> TransformerConfig {
    TransformerConfig {
        width: WIDTH,
        heads: 4,
        hidden: 2 * WIDTH,
        encoder_layers: LAYERS,
        decoder_layers: LAYERS,
        context: LENGTH,
        dropout,
        ..TransformerConfig::base(VOCABULARY)
    }
}

fn perceiver(dropout: f32) -> PerceiverConfig {
    PerceiverConfig {
        layers: LAYERS + 1,
        heads: 4,
        width: WIDTH,
        latents: 5,
        context: LENGTH,
        vocabulary: VOCABULARY,
        masking: PerceiverMasking::Open,
        dropout,
        mechanisms: Default::default(),
    }
}

/// Sets every input of a program to numbers that it takes.
pub fn feed(program: &mut Program) -> Result<()> {
    let inputs: Vec<(String, DType, Vec<usize>)> = {
        let g = program.graph();
        g.inputs().map(|(name, var)| (name.into(), g.dtype(var), g.shape(var).bound().to_vec())).collect()
    };
    for (name, dtype, dims) in inputs {
        let count: usize = dims.iter().product();
        match (dtype, name.as_str()) {
            (_, RANDOM_INPUT) => {
                program.set_i32(&name, &[RANDOM_LENGTH], &random_numbers(7, 1, 0))?;
            }
            (DType::Bool, _) => {
                program.set_bools(&name, &dims, &(0..count).map(|i| i % 7 != 6).collect::<Vec<_>>())?
            }
            (DType::I32, "step") => program.set_i32(&name, &dims, &[1])?,
            (DType::I32, "classes") => {
                program.set_i32(&name, &dims, &(0..count as i32).collect::<Vec<_>>())?
            }
            (DType::I32, _) => {
                let id = |i: usize| (i * 7919 % VOCABULARY) as i32;
                program.set_i32(&name, &dims, &(0..count).map(id).collect::<Vec<_>>())?;
            }
            (_, "scale") => program.set_f32(&name, &dims, &[1.0 / (BATCH * LENGTH) as f32])?,
            (_, "rate") => program.set_f32(&name, &dims, &[1e-3])?,
            _ => {
                let numbers: Vec<f32> = (0..count).map(|i| (i % 97) as f32 / 97.0 - 0.4).collect();
                program.set_f32(&name, &dims, &numbers)?;
            }
        }
    }
    Ok(())
}
