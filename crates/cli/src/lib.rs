//! The `regard` command as a function: parse, build the parts, run. One file for each command. A `regard` of
//! one's own, with families of one's own, is a main of a few lines:
//!
//! ```no_run
//! use regard_models::Registry;
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     regard_cli::run(&Registry::standard()) // .with(my_family)
//! }
//! ```

#![forbid(unsafe_code)]

mod arms;
mod ask;
mod audit;
mod bars;
mod bench;
mod calibrate;
mod chat;
mod claims;
mod classify;
mod cost;
mod data;
mod demo;
mod describe;
mod embed;
mod evaluate;
mod evidence;
mod export;
mod families;
mod finite;
mod forward;
mod generate;
mod import;
mod index;
mod left_out;
mod look;
mod machine;
mod model;
mod model_folder;
mod output;
mod printer;
mod prove;
mod recipe;
mod runs;
mod sampling;
mod stopping;
mod study;
mod trace;
mod train;
mod translate;
mod weight_precision;

use clap::{Parser, Subcommand};
use regard::device::machine::Signal;
use regard_models::Registry;
use std::ffi::OsString;
use std::io::Write;
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
    /// Train four small models on invented biographies and ask them questions: two or three minutes.
    Demo(demo::Options),
    /// Show what a model is: family, settings, parameters, outline, cost and memory.
    Describe(describe::Options),
    /// Run a model once and write logits, hidden states and taps to a file.
    Forward(forward::Options),
    /// Turn texts into vectors, or compare them, with a model of the BERT family or the encoder of a T5.
    Embed(embed::Options),
    /// Continue a text with a decoder (GPT-2, minGPT, Llama, a llama2.c file), or answer one with T5, BART or
    /// a Transformer.
    Generate(generate::Options),
    /// Talk with a model that has a chat template, in the terminal or line by line from a pipe.
    Chat(chat::Options),
    /// Turn texts into others, line by line, with an encoder-decoder: Marian, BART, T5 or a Transformer.
    Translate(translate::Options),
    /// Bring a model from elsewhere into a folder as Hugging Face's tools keep it.
    Import(import::Options),
    /// Write a model for others: in another dtype, in files of another size.
    Export(export::Options),
    /// Train a model by a recipe, in a run folder from which it can be resumed.
    Train(train::Options),
    /// Every key of recipes, a recipe to begin with, whether one makes sense, and what two differ in.
    Recipe(recipe::Options),
    /// List the families of models, what they learn, and their keys in recipes.
    Families(families::Options),
    /// Examine a trained model: metrics on the data of its recipe, or on other files.
    Evaluate(evaluate::Options),
    /// Tell the class of texts or images, with probabilities.
    Classify(classify::Options),
    /// Look into data, turn text to tokens, learn a tokenizer, make biographies.
    Data(data::Options),
    /// Run the birth-place study: does a model know what it has read?
    Study(study::Options),
    /// Ask a model, and see what the text that it learned from says to the answer, and how sure it is.
    Ask(ask::Options),
    /// Learn what a model's confidence is worth, so that ask can keep an error budget.
    Calibrate(calibrate::Options),
    /// Index the text that a model learned from.
    Index(index::Options),
    /// Find which parts of a text stand in the training text as they are, and where.
    Trace(trace::Options),
    /// List runs, or compare them and their recipes.
    Runs(runs::Options),
    /// Time one workload at sizes of your choice.
    Bench(bench::Options),
    /// Prove on the recorded graph what a model's family promises: causality, padding, batches, receptive
    /// fields.
    Prove(prove::Options),
    /// Run a model by all the ways to the same answer, and compare: batches, padding, caches, threads, the
    /// f64 reference.
    Audit(audit::Options),
    /// See who attends to whom in a text: maps, heads in numbers, and what changes without a head.
    Look(look::Options),
    /// What a pass or a step of training will cost: multiply-adds, bytes, memory and time, part by part.
    Cost(cost::Options),
    /// Put what course notes say about attention to the test: numbers, verdicts, pages.
    Claims(claims::Options),
}

/// Runs the command line of this process with the families of a registry.
pub fn run(registry: &Registry) -> ExitCode {
    // A file that may not grow any more is an error that says so, not the end of the process.
    Signal::FileTooLarge.ignore();
    run_with(registry, std::env::args_os())
}

/// Runs a command line, the name of the program first, as in `["regard", "describe", "a/model"]`.
pub fn run_with<A: Into<OsString> + Clone>(
    registry: &Registry,
    arguments: impl IntoIterator<Item = A>,
) -> ExitCode {
    let words: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no failures; what cannot be printed is no loss.
            let _ = error.print();
            if words.get(1..) == Some(&["help".into(), "recipe".into()]) {
                let _ = writeln!(std::io::stdout())
                    .map_err(Into::into)
                    .and_then(|()| recipe::print_keys(registry));
            }
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let result = match arguments.command {
        Command::Demo(options) => demo::run(&options, registry),
        Command::Describe(options) => describe::run(&options, registry),
        Command::Forward(options) => forward::run(&options, registry),
        Command::Embed(options) => embed::run(&options, registry),
        Command::Generate(options) => generate::run(&options, registry),
        Command::Chat(options) => chat::run(&options, registry),
        Command::Translate(options) => translate::run(&options, registry),
        Command::Import(options) => import::run(&options, registry),
        Command::Export(options) => export::run(&options, registry),
        Command::Train(options) => train::run(&options, registry),
        Command::Recipe(options) => recipe::run(&options, registry),
        Command::Families(options) => families::run(&options, registry),
        Command::Evaluate(options) => evaluate::run(&options, registry),
        Command::Classify(options) => classify::run(&options, registry),
        Command::Data(options) => data::run(&options, registry),
        Command::Study(options) => study::run(&options, registry),
        Command::Ask(options) => ask::run(&options, registry),
        Command::Calibrate(options) => calibrate::run(&options, registry),
        Command::Index(options) => index::run(&options, registry),
        Command::Trace(options) => trace::run(&options, registry),
        Command::Runs(options) => runs::run(&options, registry),
        Command::Bench(options) => bench::run(&options, registry),
        Command::Prove(options) => prove::run(&options, registry),
        Command::Audit(options) => audit::run(&options, registry),
        Command::Look(options) => look::run(&options, registry),
        Command::Cost(options) => cost::run(&options, registry),
        Command::Claims(options) => claims::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        // What there is to say was said; 130 is what shells expect of a program that was asked to end.
        Err(error) if error.is::<train::Interrupted>() => ExitCode::from(130),
        // What was withheld was told; programs know it by this code.
        Err(error) if error.is::<ask::Withheld>() => ExitCode::from(3),
        Err(error) => {
            printer::note(&format!("regard: {}", error_text(&error)));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, without those that it quotes already.
fn error_text(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        known if known.contains(&cause) => text,
        known => format!("{known}: {cause}"),
    })
}

/// Somebody stopped reading (`regard demo | head`): not a failure of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}
