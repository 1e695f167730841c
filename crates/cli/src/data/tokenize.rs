//! `regard data tokenize`: the tokens of a text, and whether they give it back.

use crate::model::{self, Weights};
use anyhow::{Result, bail};
use clap::Args;
use regard_data::Tokenizer;
use regard_models::Registry;
use regard_runtime::is_run;
use regard_train::RunPaths;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Options of `regard data tokenize`.
#[derive(Args)]
#[command(after_help = "Example:  regard data tokenize bytes --text \"Once upon a time\"")]
pub struct Options {
    /// A tokenizer.json, a folder, run or model that has one, or the word `bytes`
    tokenizer: String,
    /// The text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: String,
    /// Without the special tokens around it
    #[arg(long)]
    bare: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let tokenizer = open(&options.tokenizer, registry)?;
    let ids = match options.bare {
        true => tokenizer.encode_bare(&options.text)?,
        false => tokenizer.encode(&options.text)?,
    };
    let tokens: Vec<String> = ids.iter().map(|&id| tokenizer.token_of(id).unwrap_or_default()).collect();
    let back = tokenizer.decode(&ids)?;
    if options.json {
        writeln!(
            out,
            "{}",
            json!({"ids": ids, "tokens": tokens, "decoded": back, "vocabulary": tokenizer.vocabulary()})
        )?;
        return Ok(());
    }
    writeln!(out, "{} tokens of {} known ones", ids.len(), tokenizer.vocabulary())?;
    for (id, token) in ids.iter().zip(&tokens) {
        writeln!(out, "{id:>8}  {token:?}")?;
    }
    match back == options.text {
        true => writeln!(out, "they give the text back exactly")?,
        false => writeln!(out, "they give back: {back:?}")?,
    }
    Ok(())
}

fn open(name: &str, registry: &Registry) -> Result<Tokenizer> {
    let path = PathBuf::from(name);
    if name == "bytes" && !path.exists() {
        return Ok(Tokenizer::bytes());
    }
    if path.is_file() && path.extension().is_some_and(|kind| kind == "json") {
        return Ok(Tokenizer::open(path)?);
    }
    // A run has its tokenizer from the first step on, before there is a model.
    let own = RunPaths::new(&path).model().join("tokenizer.json");
    if is_run(&path) && own.is_file() {
        return Ok(Tokenizer::open(own)?);
    }
    if path.is_dir() && path.join("tokenizer.json").is_file() {
        return Ok(Tokenizer::open(path.join("tokenizer.json"))?);
    }
    let opened = Weights::default().open(name, registry)?;
    if opened.model.vocabulary().is_none() {
        bail!("{name} is a model of images: it has no tokens");
    }
    Ok(model::companions(&opened)?.tokenizer()?.clone())
}
