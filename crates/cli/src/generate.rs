//! `regard generate`: continues a text, or answers one with an encoder-decoder, printing it as it is made.
//! Ctrl-C ends it after the token in progress. With beams it is printed once the search is over.

use crate::machine::Machine;
use crate::model::Weights;
use crate::printer::{Printer, note};
use crate::sampling::SamplingOptions;
use crate::stopping::on_interrupt;
use crate::weight_precision::WeightPrecision;
use anyhow::{Result, bail};
use clap::Args;
use regard::generate::Beam;
use regard::models::Registry;
use regard_runtime::{Chat, End, Piece, Prompts, Searching, Session, Writing, Written};
use serde_json::json;
use std::io::{Write, stdout};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Options of `regard generate`.
#[derive(Args)]
#[command(
    after_help = "Examples:  regard generate crates/conformance/goldens/parity/gpt2/model --ids 1,2,3 --max 5\n           \
                  regard generate runs/shakespeare --prompt \"ROMEO:\" --temperature 0.8\n           \
                  regard generate SmolLM2-135M-Instruct --chat \"What is the capital of France?\" --greedy\n\n\
                  The second after regard train recipes/shakespeare.toml; a folder or a file of llama2.c goes as well."
)]
pub struct Options {
    /// A run, a folder with config.json, weights and tokenizer.json, the name of one in a local Hugging Face
    /// cache, a .gguf file, or a llama2.c .bin file with its tokenizer beside it
    model: String,
    /// The text to continue; for an encoder-decoder such as T5, the text to answer
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, required_unless_present_any = ["ids", "chat"])]
    prompt: Option<String>,
    /// A message to reply to, by the chat template that lies beside the model; prints the reply alone
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with_all = ["prompt", "ids", "start"])]
    chat: Option<String>,
    /// What the system is told before the message
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// Ids to continue instead of a text, with commas between; prints ids, and needs no tokenizer
    #[arg(long, value_name = "IDS", value_delimiter = ',', conflicts_with_all = ["prompt", "stop"])]
    ids: Vec<i32>,
    /// The most new tokens
    #[arg(long, value_name = "N", default_value_t = 128)]
    max: usize,
    #[command(flatten)]
    sampling: SamplingOptions,
    /// End before this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Search with this many continuations side by side for the likeliest whole, instead of drawing tokens
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=256),
        conflicts_with_all = ["greedy", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed"])]
    beams: Option<u16>,
    /// Scores of a search are divided by the length to this power: 0 does nothing, more favours longer texts
    #[arg(long, value_name = "A", default_value_t = 1.0, allow_negative_numbers = true, requires = "beams")]
    length_penalty: f64,
    /// The token with which an encoder-decoder begins its answer, where config.json does not say
    #[arg(long, value_name = "ID")]
    start: Option<i32>,
    /// Print one JSON object at the end instead of text as it is made
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    weights: Weights,
    #[command(flatten)]
    precision: WeightPrecision,
    #[command(flatten)]
    machine: Machine,
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let writing = options.writing();
    writing.sampling.check()?;
    if options.max == 0 {
        bail!("--max 0: nothing to do; choose at least 1 new token");
    }
    if let Some(at) = options.stop.iter().position(String::is_empty) {
        bail!("--stop number {} is empty, which every text ends with; give it letters", at + 1);
    }
    if options.system.is_some() && options.chat.is_none() {
        bail!("--system is for --chat; a plain prompt has no system that is told something");
    }
    writing.check()?;
    let mut session =
        options.weights.session(&options.model, options.precision, &options.machine, registry)?;
    let answers = session.model().as_encoder_decoder().is_some();
    if options.start.is_some() && !answers {
        bail!("--start is for encoder-decoders; a decoder begins with the prompt");
    }
    let printer = Printer::new(options.json);
    let (texts, ids);
    let prompts = match (&options.prompt, &options.chat) {
        (Some(text), _) => {
            texts = [text.clone()];
            Prompts::Texts(&texts)
        }
        (None, Some(message)) => {
            let mut chat = Chat::new(options.system.clone());
            chat.ask(message);
            texts = [session.companions().chat_template()?.render(&chat.messages(), true)?.text];
            Prompts::Rendered(&texts)
        }
        (None, None) => {
            ids = [options.ids.clone()];
            Prompts::Ids(&ids)
        }
    };
    let interrupted = on_interrupt()?;
    let began = Instant::now();
    // What goes before the first piece: printed once it is sure that there will be one.
    let mut before = options.prompt.as_deref().filter(|_| !answers);
    let mut failed = None;
    let mut written = session.generate(prompts, &writing, &mut |Piece { id, text, .. }| {
        let shown = match id.filter(|_| !options.ids.is_empty()) {
            Some(id) => printer.write(&format!("{id} ")),
            None => printer.write(before.take().unwrap_or_default()).and_then(|()| printer.write(text)),
        };
        failed = shown.err();
        if failed.is_some() || interrupted.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let seconds = began.elapsed().as_secs_f64();
    let written = written.remove(0);
    // The model may have ended before a piece came.
    printer.write(before.unwrap_or_default())?;
    printer.write("\n")?;
    match options.json {
        true => print_json(options, &session, &written, seconds),
        false => {
            say_what_was_full(&session, &written);
            Ok(())
        }
    }
}

fn print_json(options: &Options, session: &Session, written: &Written, seconds: f64) -> Result<()> {
    let Written { given, ids, text, end, reread, beams } = written;
    let mut page = json!({
        "prompt": options.prompt.as_ref().or(options.chat.as_ref()),
        "prompt_ids": given,
        "text": text,
        "ids": ids,
        "ended": end.to_string(),
        "reread": reread,
        "tokens_per_second": (ids.len() as f64 / seconds * 10.0).round() / 10.0,
    });
    if options.beams.is_some() {
        let kept = |beam: &Beam| -> Result<_> {
            let text = text.as_ref().map(|_| session.companions().decode(&beam.ids)).transpose()?;
            let ended = End::from(beam.ended).to_string();
            Ok(json!({"text": text, "ids": beam.ids, "score": beam.score, "ended": ended}))
        };
        page["beams"] = beams.iter().map(kept).collect::<Result<Vec<_>>>()?.into();
    }
    writeln!(stdout(), "{page}")?;
    Ok(())
}

/// Where the model's positions were full, and what was done about it.
fn say_what_was_full(session: &Session, written: &Written) {
    let positions = session.model().reads().ids.and_then(|tokens| tokens.context).unwrap_or_default();
    if written.end == End::Context {
        note(&format!("regard: the model's {positions} positions are full, and a search ends there"));
    } else if let Some(first) = written.reread.first() {
        let more = match written.reread.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} times more,"),
        };
        note(&format!(
            "regard: the text is longer than the model's {positions} positions: after {first} new tokens{more} it went \
             on from the newest {}",
            (positions / 2).max(1)
        ));
    }
}

impl Options {
    fn writing(&self) -> Writing {
        Writing {
            most: self.max,
            sampling: self.sampling.sampling(),
            search: self
                .beams
                .map(|width| Searching { width: width.into(), length_penalty: self.length_penalty }),
            stop: self.stop.clone(),
            start: self.start,
            ..Writing::default()
        }
    }
}
