//! `regard chat`: a conversation with a model that has a chat template. Each line is a message; the reply is
//! printed as it is made. Ctrl-C ends a reply and keeps the conversation, Ctrl-D ends it. From a pipe it
//! answers line by line, for scripts.

use crate::machine::Machine;
use crate::model::Weights;
use crate::printer::{Printer, note};
use crate::sampling::SamplingOptions;
use crate::stopping::on_interrupt;
use crate::weight_precision::WeightPrecision;
use anyhow::{Result, bail};
use clap::Args;
use regard::generate::Full;
use regard::models::Registry;
use regard_data::dataset::MOST_OF_A_TEXT;
use regard_runtime::{Chat, End, Fitted, Piece, Prompts, Session, Writing};
use serde_json::json;
use std::io::{BufRead, IsTerminal, Read, Write, stdin, stdout};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of `regard chat`.
#[derive(Args)]
#[command(after_help = "\
Commands:  /reset          forget what was said
           /system TEXT    tell the system something else; nothing without TEXT
Ctrl-C ends a reply, Ctrl-D the conversation. Where the model's positions are full, the oldest exchanges are left out.

Example:  regard chat SmolLM2-135M-Instruct --system \"You answer in one sentence.\" --temperature 0.7")]
pub struct Options {
    /// A folder with a chat template, a run that was trained on conversations, or a name in a local Hugging
    /// Face cache
    model: String,
    /// What the system is told
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// The most new tokens of a reply
    #[arg(long, value_name = "N", default_value_t = 512)]
    max: usize,
    #[command(flatten)]
    sampling: SamplingOptions,
    /// Print one JSON object for each reply instead of text as it is made
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
    if options.max == 0 {
        bail!("--max 0: nothing to do; choose at least 1 new token");
    }
    let writing = Writing {
        most: options.max,
        sampling: options.sampling.sampling(),
        full: Full::End,
        ..Writing::default()
    };
    writing.check()?;
    let mut session =
        options.weights.session(&options.model, options.precision, &options.machine, registry)?;
    // Said before anything is asked.
    session.companions().chat_template()?;
    session.companions().tokenizer()?;
    let interrupted = on_interrupt()?;
    let mut chat = Chat::new(options.system.clone());
    let is_terminal = stdin().is_terminal() && stdout().is_terminal();
    let mut seed = writing.sampling.seed;
    while let Some(line) = next_line(is_terminal)? {
        let line = line.trim();
        if line.is_empty() || command(line, &mut chat) {
            continue;
        }
        chat.ask(line);
        interrupted.store(false, Ordering::SeqCst);
        let mut own = writing.clone();
        own.sampling.seed = seed;
        seed = seed.wrapping_add(1);
        match turn(&mut session, &mut chat, &own, options.json, &interrupted) {
            Ok(()) => {}
            // A message that is too long, or that the template refuses, is no reason to lose the rest.
            Err(error) if error.downcast_ref::<regard_runtime::Error>().is_some() => {
                chat.take_back();
                note(&format!("regard: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// One message and its reply.
fn turn(
    session: &mut Session,
    chat: &mut Chat,
    writing: &Writing,
    json: bool,
    stop: &AtomicBool,
) -> Result<()> {
    let room = session.model().context();
    // Half of the positions at most are kept free for the reply.
    let room = room.map(|room| room.saturating_sub(writing.most.min(room / 2).max(1)));
    let companions = session.companions();
    let Fitted { text, left_out } = chat.prompt(companions.chat_template()?, room, &mut |text| {
        companions.encode_rendered(text).map(|ids| ids.len())
    })?;
    if left_out > 0 {
        note(&format!("regard: the oldest {left_out} messages are left out: the model has no room for them"));
    }
    let (printer, mut failed) = (Printer::new(json), None);
    let prompts = [text];
    let written = session.generate(Prompts::Rendered(&prompts), writing, &mut |Piece { text, .. }| {
        failed = printer.write(text).err();
        if failed.is_some() || stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let written = &written[0];
    let reply = written.text.as_deref().unwrap_or_default().trim();
    chat.reply(reply);
    printer.write("\n")?;
    if json {
        let page = json!({
            "reply": reply, "ended": written.end.to_string(), "tokens": written.ids.len(),
            "prompt_tokens": written.given.len(), "left_out": left_out,
        });
        writeln!(stdout(), "{page}")?;
    } else if written.end == End::Context {
        note("regard: the reply ends here: the model's positions are full");
    }
    Ok(())
}

/// Whether a line was a command, which is then done.
fn command(line: &str, chat: &mut Chat) -> bool {
    let Some(rest) = line.strip_prefix('/') else { return false };
    let (name, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    match name {
        "reset" => {
            chat.reset();
            note("regard: what was said is forgotten");
        }
        "system" => {
            let text = text.trim();
            chat.set_system((!text.is_empty()).then(|| text.to_owned()));
            note(if text.is_empty() {
                "regard: the system is told nothing"
            } else {
                "regard: the system is told so"
            });
        }
        _ => note(&format!("regard: there is no command /{name}; there are /reset and /system TEXT")),
    }
    true
}

/// The next line that somebody writes; none at the end.
fn next_line(is_terminal: bool) -> Result<Option<String>> {
    if is_terminal {
        write!(stdout(), "> ")?;
        stdout().flush()?;
    }
    let mut line = Vec::new();
    let read = stdin().lock().take(MOST_OF_A_TEXT as u64 + 1).read_until(b'\n', &mut line)?;
    if read > MOST_OF_A_TEXT {
        bail!(
            "the message has more than {MOST_OF_A_TEXT} bytes, the most of one text; say it in fewer words"
        );
    }
    if read == 0 {
        if is_terminal {
            writeln!(stdout())?;
        }
        return Ok(None);
    }
    match String::from_utf8(line) {
        Ok(line) => Ok(Some(line)),
        Err(_) => bail!("the message is no UTF-8; write it as such"),
    }
}
