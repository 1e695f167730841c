//! `regard embed`: texts to vectors of length 1, the mean over the tokens of an encoder, as sentence-transformers make
//! them. One text is printed as numbers, several as a table of cosines.

use crate::held::Held;
use crate::loaded;
use crate::machine::Machine;
use anyhow::{Result, bail};
use clap::Args;
use regard::hub;
use regard::models::{Model, Registry, Sizes};
use regard::prelude::*;
use serde_json::json;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

/// Options of `regard embed`.
#[derive(Args)]
#[command(
    after_help = "After regard train recipes/sentiment.toml, or with any BERT in place of the run:\n\n\
                  Example:  regard embed runs/sentiment --text \"a warm film\" --text \"a film with warmth\""
)]
pub struct Options {
    /// A folder with config.json, weights and tokenizer.json, or the name of one in a local Hugging Face cache
    model: String,
    /// A text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Vec<String>,
    /// A file with a text on each line
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Cut texts that are too long for the model instead of refusing them
    #[arg(long)]
    cut: bool,
    /// Print one JSON object with texts, tokens, vectors and cosines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    held: Held,
    #[command(flatten)]
    machine: Machine,
}

/// The most texts at a time.
const BATCH: usize = 16;

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let texts = texts(options)?;
    let cpu = options.machine.cpu()?;
    let opened = loaded::open(&options.model, registry)?;
    let model = &*opened.model;
    let (Some(_), Some(tokens)) = (model.as_sentence_encoder(), model.reads().ids) else {
        bail!(
            "{} is {} ({}); embed needs an encoder of text, such as a model of the BERT family",
            options.model,
            opened.model.kind(),
            opened.model.family()
        );
    };
    let pooling = opened.path.join("1_Pooling/config.json");
    if pooling.is_file() && regard::data::folder::read_json(&pooling)?["pooling_mode_mean_tokens"] == false {
        bail!("{}: the model was not trained for the mean over tokens, which embed takes", pooling.display());
    }
    let tokenizer = loaded::tokenizer(&opened, tokens.vocabulary)?;
    let most = tokens.context.unwrap_or(usize::MAX);
    let mut rows = Vec::new();
    for text in &texts {
        let mut ids = loaded::encode(&tokenizer, text, tokens.vocabulary)?;
        if ids.len() > most {
            if !options.cut {
                bail!(
                    "a text of {} tokens, the model takes {most}; shorten it, or say --cut: {}",
                    ids.len(),
                    shortened(text)
                );
            }
            // What ends a text stays at its end.
            let end = ids[ids.len() - 1];
            ids.truncate(most);
            ids[most - 1] = end;
        }
        if ids.is_empty() {
            bail!("the tokenizer gives no token for a text; is it the model's own? {}", shortened(text));
        }
        rows.push(ids);
    }
    let mut store = loaded::store(&opened)?;
    options.held.tell(&mut store);
    let vectors = vectors(model, &rows, &mut store, &cpu)?;
    print(options.json, &texts, &rows, &vectors)
}

/// All texts asked for, none of them empty.
fn texts(options: &Options) -> Result<Vec<String>> {
    let mut texts = options.text.clone();
    if let Some(at) = texts.iter().position(|text| text.trim().is_empty()) {
        bail!("--text number {} is empty; give it words", at + 1);
    }
    if let Some(path) = &options.file {
        texts.extend(lines(path)?);
    }
    if texts.is_empty() {
        bail!("nothing to embed; give --text \"…\", once or more often, or --file with a text on each line");
    }
    Ok(texts)
}

fn lines(path: &Path) -> Result<Vec<String>> {
    let lines = loaded::lines(path)?;
    if let Some(at) = lines.iter().position(|line| line.trim().is_empty()) {
        bail!("--file {}:{}: the line is empty; remove it", path.display(), at + 1);
    }
    Ok(lines)
}

/// The vector of each row of ids. Neither batch nor padding changes a bit of any.
fn vectors(model: &dyn Model, rows: &[Vec<i32>], store: &mut Store, cpu: &Cpu) -> Result<Vec<Vec<f32>>> {
    let Some(encoder) = model.as_sentence_encoder() else { bail!("this model makes no vectors of texts") };
    let longest = rows.iter().map(Vec::len).max().unwrap_or(1);
    let mut g = Graph::inference();
    let sizes = Sizes { batch: BATCH.min(rows.len()), ids: longest, ..Default::default() };
    let inputs = model.reads().declare_open(&mut g, sizes)?;
    let sentence = encoder.sentence(&mut g, &inputs)?; // B T -> B C
    g.output("sentence", sentence)?;
    let mut program = Program::new(g, &[], store, cpu)?;
    let mut vectors = Vec::new();
    for batch in rows.chunks(BATCH) {
        let texts = hub::Batch::texts(&model.reads(), batch.to_vec());
        let (_, fields) = hub::forward::fields(&model.reads(), &texts)?;
        hub::forward::feed(&mut program, &fields)?;
        program.run(store)?;
        let all = program.f32("sentence")?;
        vectors.extend(all.chunks(encoder.width()).take(batch.len()).map(<[f32]>::to_vec));
    }
    Ok(vectors)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn print(as_json: bool, texts: &[String], rows: &[Vec<i32>], vectors: &[Vec<f32>]) -> Result<()> {
    let cosines: Vec<Vec<f64>> =
        vectors.iter().map(|a| vectors.iter().map(|b| cosine(a, b)).collect()).collect();
    let mut out = stdout().lock();
    if as_json {
        let tokens: Vec<usize> = rows.iter().map(Vec::len).collect();
        let page = json!({ "texts": texts, "tokens": tokens, "vectors": vectors, "cosines": cosines });
        writeln!(out, "{page}")?;
    } else if let [vector] = vectors {
        let numbers: Vec<String> = vector.iter().map(|x| format!("{x:.6}")).collect();
        writeln!(out, "{}", numbers.join(" "))?;
    } else {
        write!(out, "    ")?;
        (1..=texts.len()).try_for_each(|column| write!(out, "{column:>7}"))?;
        writeln!(out)?;
        for (row, (text, cosines)) in texts.iter().zip(&cosines).enumerate() {
            write!(out, "{:>4}", row + 1)?;
            cosines.iter().try_for_each(|cosine| write!(out, "{cosine:>7.3}"))?;
            writeln!(out, "  {}", shortened(text))?;
        }
    }
    Ok(out.flush()?)
}

/// The beginning of a text, for a line of its own.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    let mut short: String = text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > MOST {
        short.push('…');
    }
    short
}
