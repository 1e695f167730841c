//! `regard forward`: one pass through a model; its named outputs and the taps asked for go to a safetensors
//! file.

use crate::finite::NotFinite;
use crate::machine::Machine;
use crate::model::Weights;
use crate::output::{Replace, files_of};
use crate::weight_precision::WeightPrecision;
use anyhow::{Context, Result, bail};
use clap::Args;
use regard_data::{Checkpoint, DType, Data, Save, SaveOptions, save_file};
use regard_hub::forward::Answer;
use regard_hub::{Batch, Images};
use regard_models::Registry;
use regard_runtime::Session;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `regard forward`.
#[derive(Args)]
#[command(after_help = "\
The file holds `logits` if the model has a head, `hidden` (after the last block and norm), `memory` of an encoder-decoder,
`pooled` of a model with a pooler, and every tap. Rows of different lengths are padded on the right; `mask`, of an
encoder-decoder `source_mask`, says which positions are real, and what stands at the others means nothing. `regard describe
--taps` lists the taps.

Weights that no family knows by name are opened by a TOML file, --names FILE or names.toml in their folder. It says what the
model is, in the words of recipes, and what each of our parameters is called in the file:

  family = \"vit\"
  task = \"images\"
  image = [1, 28, 28]                 # channels, height, width; for texts: vocabulary = 5000
  classes = 10
  prefix = \"net.\"                     # in front of every name of the file
  ignore = [\"net.steps\"]              # what may be left over
  [model]
  layers = 2
  heads = 3
  width = 48
  patch = 7
  [names]
  \"block.*.attention_norm.weight\" = \"layers.*.norm1.gain\"
  \"block.*.attention.query.weight\" = { from = \"layers.*.qkv.weight\", part = 0, of = 3 }
  \"block.*.feed_forward.up.weight\" = { from = \"layers.*.mlp.kernel\", transposed = true }
  \"class_token\" = { from = \"cls\", reshaped = true }

A whole one is crates/hub/tests/names/vit.toml. What has no line yet is listed with its shape.

Example:  regard forward crates/conformance/goldens/parity/gpt2/model --ids \"1 2 3\" --ids \"4 5\" --tap block.0.stream --out out.safetensors")]
pub struct Options {
    /// A folder with config.json and weights, a run, organisation/name from a local Hugging Face cache, a
    /// .gguf file, or a `.bin` of llama2.c
    #[arg(value_name = "MODEL")]
    model: String,
    /// One text, for a model with a tokenizer beside it; give it once for each text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["ids", "pixels"])]
    text: Vec<String>,
    /// The ids of one text, with spaces or commas between them; give it once for each text
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    ids: Vec<String>,
    /// The token types of one text, for a BERT; once for each text [default: 0]
    #[arg(long, value_name = "TYPES", allow_hyphen_values = true)]
    types: Vec<String>,
    /// What the decoder of an encoder-decoder is given, start token first; once for each text [default: 0]
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    targets: Vec<String>,
    /// A safetensors file with images [B Ch Hh Ww] as `pixel_values`, or as its only tensor
    #[arg(long, value_name = "FILE", conflicts_with = "ids")]
    pixels: Option<PathBuf>,
    /// The name of a value to keep; can be given several times
    #[arg(long, value_name = "NAME")]
    tap: Vec<String>,
    /// The safetensors file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    replace: Replace,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    weights: Weights,
    #[command(flatten)]
    precision: WeightPrecision,
    #[command(flatten)]
    machine: Machine,
}

/// Runs the model.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let mut inputs = files_of(Path::new(&options.model));
    inputs.extend(options.pixels.clone());
    options.replace.check(&[("--out", &options.out)], &inputs)?;
    let mut session =
        options.weights.session(&options.model, options.precision, &options.machine, registry)?;
    let batch = batch(options, &session)?;
    let taps: Vec<&str> = options.tap.iter().map(String::as_str).collect();
    let answers = session.forward(&batch, &taps)?;
    let unsound = NotFinite::in_answers(&answers);
    unsound.warn("what the model gave is not sound:");
    let masks: Vec<Vec<u8>> = answers.iter().map(truths).collect();
    let saves: Vec<Save> = answers
        .iter()
        .zip(&masks)
        .map(|(Answer { name, shape, numbers }, mask)| {
            let data =
                if name.ends_with("mask") { Data::Bytes(DType::Bool, mask) } else { Data::F32(numbers) };
            Save { name, shape, data }
        })
        .collect();
    save_file(&options.out, &saves, &SaveOptions::default())?;
    let mut out = std::io::stdout().lock();
    if options.json {
        let tensors: serde_json::Map<String, serde_json::Value> =
            answers.iter().map(|answer| (answer.name.clone(), json!(answer.shape))).collect();
        let page = json!({
            "family": session.model().family(), "out": options.out.display().to_string(), "tensors": tensors,
            "not_finite": unsound.sentence(),
        });
        writeln!(out, "{page}")?;
        return Ok(());
    }
    writeln!(out, "{}", options.out.display())?;
    for Answer { name, shape, .. } in &answers {
        writeln!(out, "  {name} {shape:?}")?;
    }
    Ok(())
}

fn batch(options: &Options, session: &Session) -> Result<Batch> {
    if let Some(path) = &options.pixels {
        return Ok(Batch::images(images(path)?));
    }
    let rows = |option: &str, texts: &[String]| -> Result<Vec<Vec<i32>>> {
        texts.iter().map(|text| integers(option, text)).collect()
    };
    if options.ids.is_empty() && options.text.is_empty() {
        bail!(
            "nothing to run: give --text or --ids \"1 2 3\" to a model of text, --pixels FILE to a model of images"
        );
    }
    let ids =
        if options.text.is_empty() { rows("--ids", &options.ids)? } else { encoded(&options.text, session)? };
    let reads = session.model().reads();
    let mut batch = Batch { types: rows("--types", &options.types)?, ..Batch::texts(&reads, ids) };
    if !options.targets.is_empty() {
        if reads.source.is_none() {
            bail!("--targets: only an encoder-decoder has them; leave them out");
        }
        batch.ids = rows("--targets", &options.targets)?;
    }
    Ok(batch)
}

/// Texts as ids, by the tokenizer beside the model.
fn encoded(texts: &[String], session: &Session) -> Result<Vec<Vec<i32>>> {
    if session.model().vocabulary().is_none() {
        bail!("this is {}, and texts were given; give it pixels", session.model().kind());
    }
    texts.iter().map(|text| Ok(session.companions().encode(text)?)).collect()
}

/// Whole numbers with spaces or commas between them.
pub fn integers(option: &str, text: &str) -> Result<Vec<i32>> {
    text.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .map(|word| {
            word.parse()
                .with_context(|| format!("{option}: `{word}` is no id; give whole numbers, as in \"1 2 3\""))
        })
        .collect()
}

pub fn images(path: &Path) -> Result<Images> {
    let file = Checkpoint::open(path)?;
    let tensor = match (file.find("pixel_values"), file.len()) {
        (Some(tensor), _) => Some(tensor),
        (None, 1) => file.tensors().next(),
        _ => None,
    };
    let Some(tensor) = tensor.filter(|tensor| tensor.dtype.is_float()) else {
        let names: Vec<&str> = file.names().take(8).collect();
        bail!(
            "{}: no floats called `pixel_values` here; it holds {}",
            path.display(),
            if names.is_empty() { "nothing".into() } else { names.join(", ") }
        );
    };
    Ok(Images { shape: tensor.shape.to_vec(), pixels: tensor.f32s() })
}

fn truths(answer: &Answer) -> Vec<u8> {
    match answer.name.ends_with("mask") {
        true => answer.numbers.iter().map(|&real| u8::from(real != 0.0)).collect(),
        false => Vec::new(),
    }
}
