//! `regard classify`: the classes of texts or images, the likeliest first, with probabilities.

use crate::held::Held;
use crate::loaded;
use crate::machine::Machine;
use anyhow::{Result, bail};
use clap::Args;
use regard::data::dataset::{ImageForm, read_image};
use regard::data::{Batch, Field};
use regard::graph::Precision;
use regard::models::{Labels, Pixels, Reads, Registry};
use regard_recipe::Bounds;
use regard_recipe::job::{Beside, Classifier, probabilities, text_batch};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Options of `regard classify`.
#[derive(Args)]
#[command(after_help = "Example:  regard classify runs/sentiment --text \"a warm and funny film\"")]
pub struct Options {
    /// The folder of a run, or of a model that classifies
    #[arg(value_name = "RUN_OR_MODEL")]
    model: String,
    /// A text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Vec<String>,
    /// A file with a text on each line
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// A PNG or JPEG file, brought to the size that the model takes; may be given several times
    #[arg(long, value_name = "PATH", conflicts_with_all = ["text", "file"])]
    image: Vec<PathBuf>,
    /// Show only the K likeliest classes
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    top: u16,
    /// Cut texts that are too long for the model instead of refusing them
    #[arg(long)]
    cut: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    held: Held,
    #[command(flatten)]
    machine: Machine,
}

/// The most texts or images at a time.
const BATCH: usize = 32;

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let cpu = options.machine.cpu()?;
    let mut texts = options.text.clone();
    if let Some(path) = &options.file {
        texts.extend(loaded::lines(path)?);
    }
    if texts.is_empty() && options.image.is_empty() {
        bail!(
            "nothing to classify; give --text \"…\", --file with a text on each line, or --image with a picture"
        );
    }
    let opened = loaded::open(&options.model, registry)?;
    let beside = Beside::open(&opened)?;
    let (given, batches): (Vec<String>, Vec<Batch>) = match (opened.model.reads(), texts.is_empty()) {
        _ if opened.model.task().is_some_and(|task| task.labels == Labels::Next)
            || opened.model.task().is_none() =>
        {
            bail!(
                "{} is {} ({}); classify needs a classifier: train one, see recipes/sentiment.toml",
                options.model,
                opened.model.kind(),
                opened.model.family()
            )
        }
        (Reads { ids: Some(tokens), .. }, false) => {
            let room = tokens.context.unwrap_or(usize::MAX);
            let batches = texts.chunks(BATCH).map(|some| text_batch(some, &beside, room, options.cut));
            (texts.clone(), batches.collect::<Result<_, _>>()?)
        }
        (Reads { pixels: Some(Pixels { channels, height, width }), .. }, true) => {
            let form = ImageForm { width, height, grey: channels == 1 };
            let batches = options.image.chunks(BATCH).map(|some| images(some, form, &beside));
            let given = options.image.iter().map(|path| path.display().to_string()).collect();
            (given, batches.collect::<Result<_>>()?)
        }
        (_, true) => bail!("{} classifies texts; give --text or --file", options.model),
        (_, false) => bail!("{} classifies images; give --image", options.model),
    };
    let mut store = loaded::store(&opened)?;
    options.held.tell(&mut store);
    let longest = batches.iter().map(|batch| batch.fields[0].dims[1]).max().unwrap_or(1);
    let bounds = Bounds { batch: BATCH.min(given.len()), length: longest, source: 0 };
    let mut classifier = Classifier::new(&*opened.model, bounds, Precision::F32, &mut store, &cpu)?;
    let mut scores = Vec::new();
    for batch in &batches {
        scores.extend(classifier.scores(batch, &mut store)?);
    }
    let name = |class: usize| match beside.labels.as_ref().and_then(|labels| labels.name(class)) {
        Some(name) => name.to_string(),
        None => class.to_string(),
    };
    let mut pages: Vec<Value> = Vec::new();
    let mut out = std::io::stdout().lock();
    for (given, scores) in given.iter().zip(&scores) {
        let mut classes: Vec<(usize, f64)> = probabilities(scores).into_iter().enumerate().collect();
        classes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        classes.truncate(options.top.into());
        if options.json {
            let classes: Vec<Value> = classes
                .iter()
                .map(|(class, share)| json!({"label": name(*class), "probability": share}))
                .collect();
            pages.push(json!({ "given": given, "classes": classes }));
            continue;
        }
        let line: Vec<String> =
            classes.iter().map(|(class, share)| format!("{} {:.1} %", name(*class), 100.0 * share)).collect();
        let plain: String = given.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(out, "{}\t{plain}", line.join(", "))?;
    }
    if options.json {
        writeln!(out, "{}", json!({ "results": pages }))?;
    }
    Ok(())
}

/// Pictures as the model was trained on them.
fn images(paths: &[PathBuf], form: ImageForm, beside: &Beside) -> Result<Batch> {
    let channels = if form.grey { 1 } else { 3 };
    let plane = form.width * form.height;
    let (mean, std) = beside.pixels.clone().unwrap_or((vec![0.0; channels], vec![1.0; channels]));
    let mut pixels = Vec::with_capacity(paths.len() * channels * plane);
    for path in paths {
        let bytes = read_image(path, form)?;
        for (at, byte) in bytes.into_iter().enumerate() {
            let channel = at / plane.max(1);
            pixels.push((f32::from(byte) / 255.0 - mean[channel]) / std[channel]);
        }
    }
    let dims = [paths.len(), channels, form.height, form.width];
    let examples = paths.len() as u64;
    Ok(Batch { fields: vec![Field::f32("pixels", &dims, pixels)], targets: 0, tokens: examples, examples })
}
