//! The `regard` command: parse, build the parts, run. One file for each command.

mod bench;
mod demo;
mod embed;
mod generate;
mod loaded;
mod machine;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A Transformer workbench: build, train, run, inspect and check Transformers.
#[derive(Parser)]
#[command(name = "regard", version, after_help = "Start with:  regard demo")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Record a small GPT, show its graph, cost and memory, train it, and check it against the reference.
    Demo(demo::Options),
    /// Turn texts into vectors, or compare them, with a model of the BERT family.
    Embed(embed::Options),
    /// Continue a text with a decoder: GPT-2, minGPT, Llama or a llama2.c file.
    Generate(generate::Options),
    /// Time one workload at sizes of your choice.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Demo(options) => demo::run(&options),
        Command::Embed(options) => embed::run(&options),
        Command::Generate(options) => generate::run(&options),
        Command::Bench(options) => bench::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("regard: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Somebody stopped reading (`regard demo | head`): not a failure of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}
