//! `regard generate`: continues a text, printing it as it is made. Ctrl-C ends it after the token in progress.

use crate::loaded;
use crate::machine::Machine;
use anyhow::{Context, Result, bail};
use clap::Args;
use regard::data::Tokenizer;
use regard::data::folder::read_json;
use regard::data::tokenizer::Stream;
use regard::generate::{Decoder, Ended, Generator, Request, Sampling, Settings};
use regard::hub::{self, AnyModel, Opened};
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write, stdout};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Options of `regard generate`.
#[derive(Args)]
#[command(
    after_help = "Example:  regard generate path/to/stories260K.bin --prompt \"Once upon a time\" --temperature 0.8"
)]
pub struct Options {
    /// A folder with config.json, weights and tokenizer.json, the name of one in a local Hugging Face cache, or a
    /// llama2.c .bin file with its tokenizer beside it
    model: String,
    /// The text to continue
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, required_unless_present = "ids")]
    prompt: Option<String>,
    /// Ids to continue instead of a text, with commas between; prints ids, and needs no tokenizer
    #[arg(long, value_name = "IDS", value_delimiter = ',', conflicts_with_all = ["prompt", "stop"])]
    ids: Vec<i32>,
    /// The most new tokens
    #[arg(long, value_name = "N", default_value_t = 128)]
    max: usize,
    /// Below 1 keeps to what is likely, above 1 dares more; 0 is --greedy
    #[arg(long, value_name = "T", default_value_t = 1.0, allow_negative_numbers = true)]
    temperature: f64,
    /// Only the K likeliest tokens
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Only the fewest tokens that have this much of the probability together
    #[arg(long, value_name = "P", default_value_t = 0.9, allow_negative_numbers = true)]
    top_p: f64,
    /// Only tokens with at least this part of the likeliest one's probability
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    min_p: f64,
    /// More than 1 makes tokens that were there before less likely
    #[arg(long, value_name = "R", default_value_t = 1.0, allow_negative_numbers = true)]
    repetition_penalty: f64,
    /// The same seed gives the same text
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// End before this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Always the likeliest token
    #[arg(long, conflicts_with = "temperature")]
    greedy: bool,
    /// Print one JSON object at the end instead of text as it is made
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<()> {
    let sampling = options.sampling();
    sampling.check()?;
    if options.max == 0 {
        bail!("--max 0: nothing to do; choose at least 1 new token");
    }
    if let Some(at) = options.stop.iter().position(String::is_empty) {
        bail!("--stop number {} is empty, which every text ends with; give it letters", at + 1);
    }
    let cpu = options.machine.cpu()?;
    let opened = hub::open(&options.model)?;
    let AnyModel::Gpt(gpt, _) = opened.model.clone() else {
        bail!(
            "{} is {} ({}); generate needs a decoder: GPT-2, minGPT or Llama",
            options.model,
            loaded::kind(&opened.model),
            opened.model.family()
        );
    };
    let vocabulary = gpt.config().vocabulary;
    let (tokenizer, prompt) = match &options.prompt {
        None => (None, options.ids.clone()),
        Some(text) => {
            let tokenizer = loaded::tokenizer(&opened, vocabulary)?;
            let ids = loaded::encode(&tokenizer, text, vocabulary)?;
            (Some(tokenizer), ids)
        }
    };
    if prompt.is_empty() {
        bail!(
            "--prompt is empty, and this model has no token that begins a text; give it a word to begin with"
        );
    }
    let context = gpt.context().unwrap_or(usize::MAX);
    if prompt.len() >= context {
        bail!(
            "the prompt has {} tokens, the model has room for {context} and needs one for the answer; shorten it",
            prompt.len()
        );
    }
    let capacity = match gpt.window() {
        Some(_) => None,
        None => Some(prompt.len().saturating_add(options.max).min(context)),
    };
    let stop = stop_ids(&opened, options.prompt.is_some())?;
    let mut store = loaded::store(&opened)?;
    let settings = Settings { capacity, ..Settings::default() };
    let mut generator = Generator::new(&gpt, settings, &mut store, &cpu)?;
    let interrupted = on_interrupt()?;

    let mut printer = Printer::new(options, tokenizer.as_ref(), &prompt)?;
    let prompts = [prompt];
    let request = Request { prompts: &prompts, most: options.max, stop: &stop, sampling, first_example: 0 };
    let mut failed = None;
    let began = Instant::now();
    let generated = generator.stream(&request, &mut store, &mut |token| {
        let more = printer.token(token.id).unwrap_or_else(|error| {
            failed = Some(error);
            false
        });
        if more && !interrupted.load(Ordering::Relaxed) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let seconds = began.elapsed().as_secs_f64();
    let ended = match generated[0].ended {
        _ if printer.stopped => "stop text",
        _ if interrupted.load(Ordering::Relaxed) => "interrupted",
        Ended::Stop(_) => "end of text",
        Ended::Most => "max",
        Ended::Context => "context",
        Ended::Broken => "interrupted",
    };
    printer.finish()?;
    if options.json {
        let ids = &generated[0].ids;
        let page = json!({
            "prompt": options.prompt,
            "prompt_ids": prompts[0],
            "text": tokenizer.as_ref().map(|_| &printer.text),
            "ids": ids,
            "ended": ended,
            "tokens_per_second": (ids.len() as f64 / seconds * 10.0).round() / 10.0,
        });
        writeln!(stdout(), "{page}")?;
    } else if ended == "context" {
        eprintln!("regard: the model's {context} positions are full");
    }
    Ok(())
}

impl Options {
    fn sampling(&self) -> Sampling {
        Sampling {
            temperature: if self.greedy { 0.0 } else { self.temperature },
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
        }
    }
}

/// The tokens that end a text, as generation_config.json or config.json says; llama2.c also ends where one begins. Ids
/// alone have no end.
fn stop_ids(opened: &Opened, text: bool) -> Result<Vec<i32>> {
    if !text {
        return Ok(Vec::new());
    }
    let file = opened.path.join("generation_config.json");
    let own = if file.is_file() { read_json(&file)?["eos_token_id"].clone() } else { Value::Null };
    let value = if own.is_null() { &opened.config["eos_token_id"] } else { &own };
    let number = |value: &Value| value.as_i64().and_then(|id| i32::try_from(id).ok());
    let mut ids: Vec<i32> = match value {
        Value::Array(all) => all.iter().filter_map(number).collect(),
        one => number(one).into_iter().collect(),
    };
    if opened.folder().is_none() {
        ids.extend(number(&opened.config["bos_token_id"]));
    }
    Ok(ids)
}

/// A flag that Ctrl-C raises; pressed a second time, it ends the program at once.
fn on_interrupt() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(flag)
}

/// Prints tokens as they come; holds back what may be the beginning of a stop text.
struct Printer<'a> {
    stream: Option<(&'a Tokenizer, Stream<'a>)>,
    stop: &'a [String],
    quiet: bool,
    terminal: bool,
    /// All new text that is out.
    text: String,
    held: String,
    stopped: bool,
}

impl<'a> Printer<'a> {
    fn new(options: &'a Options, tokenizer: Option<&'a Tokenizer>, prompt: &[i32]) -> Result<Printer<'a>> {
        let terminal = stdout().is_terminal();
        let after: Vec<u32> = prompt.iter().filter_map(|&id| u32::try_from(id).ok()).collect();
        let stream = tokenizer.map(|tokenizer| (tokenizer, tokenizer.stream(&after)));
        let printer = Printer {
            stream,
            stop: &options.stop,
            quiet: options.json,
            terminal,
            text: String::new(),
            held: String::new(),
            stopped: false,
        };
        if let Some(prompt) = &options.prompt {
            printer.write(prompt)?;
        }
        Ok(printer)
    }

    /// Takes a token; false if a stop text is there.
    fn token(&mut self, id: i32) -> Result<bool> {
        match &mut self.stream {
            None => {
                self.write(&format!("{id} "))?;
                Ok(true)
            }
            Some((tokenizer, stream)) => {
                let id = u32::try_from(id)?;
                // A model may draw one of the ids that only round up its size.
                let new = if tokenizer.knows(id) { stream.push(id)? } else { "\u{fffd}".into() };
                self.take(&new, false)
            }
        }
    }

    fn take(&mut self, new: &str, last: bool) -> Result<bool> {
        self.held.push_str(new);
        if let Some(at) = self.stop.iter().filter_map(|stop| self.held.find(stop)).min() {
            self.held.truncate(at);
            self.stopped = true;
        }
        let kept = if last || self.stopped { 0 } else { beginning(&self.held, self.stop) };
        let out = self.held[..self.held.len() - kept].to_owned();
        self.held.drain(..out.len());
        self.write(&out)?;
        self.text.push_str(&out);
        Ok(!self.stopped)
    }

    /// Prints what was held back, and ends the line.
    fn finish(&mut self) -> Result<()> {
        if let Some((_, stream)) = self.stream.as_mut().filter(|_| !self.stopped) {
            let rest = stream.finish()?;
            self.take(&rest, true)?;
        }
        Ok(self.write("\n")?)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        if self.quiet || text.is_empty() {
            return Ok(());
        }
        let mut out = stdout().lock();
        if self.terminal {
            // A model may have learned to paint terminals.
            let plain = |c: char| if c.is_control() && !"\n\t".contains(c) { '\u{fffd}' } else { c };
            write!(out, "{}", text.chars().map(plain).collect::<String>())?;
        } else {
            write!(out, "{text}")?;
        }
        out.flush()
    }
}

/// How many of the last bytes of a text are the beginning of one of these.
fn beginning(text: &str, stops: &[String]) -> usize {
    let longest = |stop: &String| {
        let lengths = (1..stop.len()).rev().filter(|&length| stop.is_char_boundary(length));
        lengths.into_iter().find(|&length| text.ends_with(&stop[..length])).unwrap_or(0)
    };
    stops.iter().map(longest).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_stop_text_is_held_back() {
        let stops = ["###".to_owned(), "é!".to_owned()];
        assert_eq!(beginning("a", &stops), 0);
        assert_eq!(beginning("a#", &stops), 1);
        assert_eq!(beginning("a##", &stops), 2);
        assert_eq!(beginning("café", &stops), 2);
        assert_eq!(beginning("", &stops), 0);
        assert_eq!(beginning("a#", &[]), 0);
    }
}
