//! `regard data learn`: a tokenizer from text files.

use crate::output::Replace;
use anyhow::Result;
use clap::{Args, ValueEnum};
use regard_data::Tokenizer;
use regard_data::dataset::Lines;
use regard_data::tokenizer::{Reserved, Training};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Options of `regard data learn`.
#[derive(Args)]
#[command(after_help = "Example:  regard data learn README.md --kind bpe --vocabulary 400 --out readme.json")]
pub struct Options {
    /// Text files, read line by line
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How texts are cut
    #[arg(long, value_enum, default_value_t = Kind::Bpe)]
    kind: Kind,
    /// How many tokens there shall be; characters have as many as there are
    #[arg(long, default_value_t = 8000, value_name = "N")]
    vocabulary: usize,
    /// Where to write it
    #[arg(long, default_value = "tokenizer.json", value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    replace: Replace,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Byte-level BPE, as GPT-2
    Bpe,
    /// WordPiece, as BERT
    WordPiece,
    /// Unigram, as T5
    Unigram,
    /// One token for each character, with padding and mask
    Characters,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<()> {
    let mut out = std::io::stdout().lock();
    options.replace.check(&[("--out", &options.out)], &options.files)?;
    let files = options.files.iter().map(Lines::open).collect::<regard_data::Result<Vec<Lines>>>()?;
    if !matches!(options.kind, Kind::Characters) {
        files.iter().try_for_each(Lines::check_lengths)?;
    }
    let mut lines = Vec::new();
    for file in &files {
        for line in file.iter() {
            lines.push(line?);
        }
    }
    let tokenizer = match options.kind {
        Kind::Bpe => Tokenizer::train(&Training::bpe(options.vocabulary), &lines)?,
        Kind::WordPiece => Tokenizer::train(&Training::word_piece(options.vocabulary), &lines)?,
        Kind::Unigram => Tokenizer::train(&Training::unigram(options.vocabulary), &lines)?,
        Kind::Characters => Tokenizer::characters(&lines, Reserved::study())?,
    };
    tokenizer.save(&options.out)?;
    let characters: usize = lines.iter().map(|line| line.chars().count()).sum();
    if options.json {
        writeln!(
            out,
            "{}",
            json!({"file": options.out.display().to_string(), "vocabulary": tokenizer.vocabulary(), "lines": lines.len(),
                   "characters": characters})
        )?;
        return Ok(());
    }
    writeln!(
        out,
        "{}: {} tokens, learned from {} lines of {characters} characters",
        options.out.display(),
        tokenizer.vocabulary(),
        lines.len()
    )?;
    Ok(())
}
