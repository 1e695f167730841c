//! `regard data`: look into files before training on them, turn text to tokens, learn a tokenizer, write the
//! batches of a recipe, and make the embedded biographies.

mod batches;
mod generate;
mod inspect;
mod learn;
mod tokenize;

use anyhow::Result;
use clap::{Args, Subcommand};
use regard_models::Registry;

/// Options of `regard data`.
#[derive(Args)]
#[command(after_help = "Examples:  regard data generate people --people 400\n           \
                        regard data inspect people/train.tsv\n           \
                        regard data learn people/text.txt --kind bpe --vocabulary 400 --out tokenizer.json\n           \
                        regard data tokenize tokenizer.json --text \"Where was she born?\"")]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say what is in a file or folder: rows, columns, lengths, characters, labels, images.
    Inspect(inspect::Options),
    /// Show the tokens of a text.
    Tokenize(tokenize::Options),
    /// Learn a tokenizer from text files.
    Learn(learn::Options),
    /// Write the batches of a recipe, as training sees them, to a file.
    Batches(batches::Options),
    /// Write biographies of invented people, with questions about them.
    Generate(generate::Options),
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    match &options.command {
        Command::Inspect(options) => inspect::run(options),
        Command::Tokenize(options) => tokenize::run(options, registry),
        Command::Learn(options) => learn::run(options),
        Command::Batches(options) => batches::run(options, registry),
        Command::Generate(options) => generate::run(options),
    }
}
