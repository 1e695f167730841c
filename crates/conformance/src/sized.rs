//! Models of every family in sizes of one's own choice, for tests and checks that only care how large they
//! are.

use regard::layers::{FeedForwardKind, NormKind};
use regard::ops::RotarySpec;
use regard_models::families::gpt::{GPT2, LLAMA};
use regard_models::{
    Bert, BertConfig, BertHead, Gpt, GptConfig, Mechanisms, Model, Perceiver, PerceiverConfig,
    PerceiverMasking, Positions, T5, T5Config, Transformer, TransformerConfig, Vit, VitConfig, VitHead, bert,
    vit,
};
use std::sync::Arc;

/// What all families have.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// L; of an encoder-decoder, of each half.
    pub layers: usize,
    /// H.
    pub heads: usize,
    /// C; hidden widths are four times as large, or as the family has them.
    pub width: usize,
    /// V; of images, classes.
    pub vocabulary: usize,
    /// The most positions.
    pub context: usize,
    /// Probability with which activations are dropped.
    pub dropout: f32,
}

/// GPT-2's form.
pub fn gpt(size: Size) -> Arc<dyn Model> {
    let Size { layers, heads, width, vocabulary, context, dropout } = size;
    let config = GptConfig { layers, heads, width, vocabulary, context, dropout, ..GptConfig::GPT2 };
    Arc::new(Gpt::new(config).expect("sizes that make sense").in_form(&GPT2))
}

/// Llama's form.
pub fn llama(size: Size) -> Arc<dyn Model> {
    let Size { layers, heads, width, vocabulary, context, dropout } = size;
    let config = GptConfig {
        layers,
        heads,
        width,
        vocabulary,
        context,
        dropout,
        hidden: Some(width * 8 / 3),
        positions: Positions::Rotary(RotarySpec::default()),
        norm: NormKind::Rms,
        feed_forward: FeedForwardKind::GatedSilu,
        attention_bias: false,
        feed_forward_bias: false,
        ..GptConfig::GPT2
    };
    Arc::new(Gpt::new(config).expect("sizes that make sense").in_form(&LLAMA))
}

/// A BERT that guesses masked tokens.
pub fn bert(size: Size) -> Arc<dyn Model> {
    let Size { layers, heads, width, vocabulary, context, dropout } = size;
    let config = BertConfig {
        layers,
        heads,
        width,
        hidden: 4 * width,
        vocabulary,
        context,
        dropout,
        attention_dropout: dropout,
        head: BertHead::Masked,
        ..bert::PRESETS[0].1
    };
    Arc::new(Bert::new(config).expect("sizes that make sense"))
}

/// A ViT on square images with 8 by 8 pixels for a position, the class token not counted.
pub fn vit(size: Size) -> Arc<dyn Model> {
    let Size { layers, heads, width, vocabulary, context, dropout } = size;
    let side = 8 * context.isqrt();
    let config = VitConfig {
        layers,
        heads,
        width,
        hidden: 4 * width,
        image: [side, side],
        patch: [8, 8],
        dropout,
        head: VitHead::Linear(vocabulary),
        ..vit::PRESETS[0].1
    };
    Arc::new(Vit::new(config).expect("sizes that make sense"))
}

/// A T5 as first published.
pub fn t5(size: Size) -> Arc<dyn Model> {
    let Size { layers, heads, width, vocabulary, dropout, .. } = size;
    let config = T5Config {
        encoder_layers: layers,
        decoder_layers: layers,
        heads,
        head_width: width / heads,
        width,
        hidden: 4 * width,
        vocabulary,
        dropout,
        ..T5Config::small()
    };
    Arc::new(T5::new(config).expect("sizes that make sense"))
}

/// The Transformer of 2017, one matrix for both embeddings and the head.
pub fn transformer(size: Size) -> Arc<dyn Model> {
    let Size { layers, heads, width, vocabulary, context, dropout } = size;
    let config = TransformerConfig {
        encoder_layers: layers,
        decoder_layers: layers,
        heads,
        width,
        hidden: 4 * width,
        context,
        dropout,
        ..TransformerConfig::base(vocabulary)
    };
    Arc::new(Transformer::new(config).expect("sizes that make sense"))
}

/// A Perceiver with a latent for every fourth position.
pub fn perceiver(size: Size) -> Arc<dyn Model> {
    let Size { layers, heads, width, vocabulary, context, dropout } = size;
    let (latents, masking) = (context.div_ceil(4), PerceiverMasking::Prefix);
    let mechanisms = Mechanisms::default();
    let config =
        PerceiverConfig { layers, heads, width, latents, context, vocabulary, masking, dropout, mechanisms };
    Arc::new(Perceiver::new(config).expect("sizes that make sense"))
}
