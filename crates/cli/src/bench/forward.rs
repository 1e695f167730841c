//! A forward pass of a whole model: a GPT over full rows, BERT over texts of different lengths, a ViT over
//! images.

use super::How;
use super::clock::{Bench, Feeds, time};
use super::models::GptSizes;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use regard::prelude::*;
use regard_models::{Bert, BertConfig, BertText, Vit, VitConfig};

#[derive(Args)]
#[command(mut_arg("layers", |a| a.default_value("12")), mut_arg("heads", |a| a.default_value("12")),
          mut_arg("width", |a| a.default_value("768")), mut_arg("vocab", |a| a.default_value("30522")))]
pub struct Forward {
    /// Which family
    #[arg(long, value_enum, default_value_t = Model::Bert)]
    model: Model,
    #[command(flatten)]
    sizes: GptSizes,
    /// Examples
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// Positions of each text, padding included
    #[arg(long, default_value_t = 128)]
    length: usize,
    /// Texts have random lengths from half of --length to all of it, the rest is padding (bert)
    #[arg(long)]
    padded: bool,
    /// Height and width of images (vit)
    #[arg(long, default_value_t = 224)]
    image: usize,
    /// Height and width of patches (vit)
    #[arg(long, default_value_t = 16)]
    patch: usize,
    #[command(flatten)]
    how: How,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Model {
    /// A decoder
    Gpt,
    /// An encoder of texts
    Bert,
    /// An encoder of images
    Vit,
}

/// The lengths of padded texts, the same for every side of a comparison: from half of the length to all of
/// it.
fn lengths(batch: usize, length: usize) -> Vec<usize> {
    (0..batch).map(|row| length - (row * 7919 + 13) % (length / 2 + 1)).collect()
}

/// Records the pass and times it.
pub fn run(options: &Forward) -> Result<()> {
    let Forward { model, sizes, batch, length, padded, image, patch, how } = options;
    let (batch, length) = (*batch, *length);
    let mut g = Graph::inference();
    g.set_precision(how.precision.precision());
    let dims = [batch, length];
    let (name, feeds, tokens) = match model {
        Model::Gpt => {
            let gpt = sizes.gpt(length, 0.0, true)?;
            let ids = g.input("ids", DType::I32, dims)?;
            let y = gpt.logits(&mut g, ids)?;
            g.output("y", y)?;
            ("gpt", Feeds::new().below("ids", &dims, sizes.vocab), batch * length)
        }
        Model::Bert => {
            let config = BertConfig::preset("bert-base")?.without_dropout();
            let GptSizes { layers, heads, width, vocab: vocabulary } = *sizes;
            let context = length.max(config.context);
            let bert = Bert::new(BertConfig {
                layers,
                heads,
                width,
                hidden: 4 * width,
                vocabulary,
                context,
                ..config
            })?;
            let ids = g.input("ids", DType::I32, dims)?;
            let mut text = BertText { ids, token_types: None, key_mask: None };
            let mut feeds = Feeds::new().below("ids", &dims, sizes.vocab);
            let mut counted = batch * length;
            if *padded {
                let of_rows = lengths(batch, length);
                counted = of_rows.iter().sum();
                text.key_mask = Some(g.input("mask", DType::Bool, dims)?);
                let mask = of_rows.iter().flat_map(|&own| (0..length).map(move |at| at < own)).collect();
                feeds = feeds.truths("mask", &dims, mask);
            }
            let y = bert.hidden(&mut g, &text)?;
            g.output("y", y)?;
            ("bert", feeds, counted)
        }
        Model::Vit => {
            let GptSizes { layers, heads, width, .. } = *sizes;
            if *patch == 0 || *image == 0 {
                bail!("--image {image} --patch {patch}: give every size at least 1");
            }
            let config = VitConfig::preset("vit-base-16")?.without_dropout();
            let config = VitConfig {
                image: [*image; 2],
                patch: [*patch; 2],
                layers,
                heads,
                width,
                hidden: 4 * width,
                ..config
            };
            let vit = Vit::new(config)?;
            let dims = [batch, config.channels, *image, *image];
            let x = g.input("image", DType::F32, dims)?;
            let y = vit.logits(&mut g, x)?;
            g.output("y", y)?;
            ("vit", Feeds::new().normal("image", &dims), batch)
        }
    };
    let size = match model {
        Model::Vit => format!("{batch}x{image}x{image}, patches of {patch}"),
        _ => format!("{batch}x{length}{}", if *padded { ", padded" } else { "" }),
    };
    let name = format!("forward {name}, {}, {size}", sizes.summary());
    time(Bench { name, graph: g, feeds, tokens: tokens as u64, next: None }, how)
}
