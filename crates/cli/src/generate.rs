//! `regard generate`: continues a text, or answers one with an encoder-decoder, printing it as it is made. Ctrl-C ends it
//! after the token in progress. With beams it is printed once the search is over.

use crate::held::Held;
use crate::machine::Machine;
use crate::printer::Printer;
use crate::stopping::on_interrupt;
use crate::{ends, loaded};
use anyhow::{Result, bail};
use clap::Args;
use regard::data::Tokenizer;
use regard::generate::{Beam, Beams, Decoder, EncoderDecoder, Ended, Generator, Request, Sampling, Settings};
use regard::hub::Opened;
use regard::models::Registry;
use regard::prelude::*;
use serde_json::json;
use std::io::{Write, stdout};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Options of `regard generate`.
#[derive(Args)]
#[command(
    after_help = "Examples:  regard generate crates/conformance/goldens/parity/gpt2/model --ids 1,2,3 --max 5\n           \
                  regard generate runs/shakespeare --prompt \"ROMEO:\" --temperature 0.8\n\n\
                  The second after regard train recipes/shakespeare.toml; a folder or a file of llama2.c goes as well."
)]
pub struct Options {
    /// A folder with config.json, weights and tokenizer.json, the name of one in a local Hugging Face cache, or a
    /// llama2.c .bin file with its tokenizer beside it
    model: String,
    /// The text to continue; for an encoder-decoder such as T5, the text to answer
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
    held: Held,
    #[command(flatten)]
    machine: Machine,
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let sampling = options.sampling();
    sampling.check()?;
    options.search(&[], &[]).check()?;
    if options.max == 0 {
        bail!("--max 0: nothing to do; choose at least 1 new token");
    }
    if let Some(at) = options.stop.iter().position(String::is_empty) {
        bail!("--stop number {} is empty, which every text ends with; give it letters", at + 1);
    }
    let cpu = options.machine.cpu()?;
    let opened = loaded::open(&options.model, registry)?;
    let mut store = Store::new(0);
    options.held.tell(&mut store);
    let job = match (opened.model.as_decoder(), opened.model.as_encoder_decoder()) {
        (Some(decoder), _) => Job::one(decoder, options, &opened, &mut store, &cpu)?,
        (_, Some(pair)) => Job::pair(pair, options, &opened, &mut store, &cpu)?,
        _ => bail!(
            "{} is {} ({}); generate needs a decoder (GPT-2, minGPT, Llama) or an encoder-decoder (T5, Transformer)",
            options.model,
            opened.model.kind(),
            opened.model.family()
        ),
    };
    let Job { mut generator, given, prompt, tokenizer, context } = job;
    // Ids alone have no end.
    let stop = if options.prompt.is_some() { ends::stop(&opened)? } else { Vec::new() };
    let mut printer = Printer::new(tokenizer.as_ref(), &prompt, &options.stop, options.json);
    if let Some(text) = options.prompt.as_ref().filter(|_| opened.model.as_encoder_decoder().is_none()) {
        printer.write(text)?;
    }
    let prompts = [prompt];
    let began = Instant::now();
    let (ids, ended, beams) = match options.beams {
        None => {
            let request =
                Request { prompts: &prompts, most: options.max, stop: &stop, sampling, first_example: 0 };
            let (ids, ended) = streamed(&mut generator, &request, &mut printer, &mut store)?;
            (ids, ended, None)
        }
        Some(_) => {
            let found = generator.search(&options.search(&prompts, &stop), &mut store)?.remove(0);
            let Some(best) = found.first() else {
                bail!("the search found nothing; choose another --beams");
            };
            for &id in &best.ids {
                if !printer.token(id)? {
                    break;
                }
            }
            (best.ids.clone(), named(best.ended), Some(found))
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    let ended = if printer.stopped { "stop text" } else { ended };
    printer.finish()?;
    if options.json {
        let mut page = json!({
            "prompt": options.prompt,
            "prompt_ids": given,
            "text": tokenizer.as_ref().map(|_| &printer.text),
            "ids": ids,
            "ended": ended,
            "tokens_per_second": (ids.len() as f64 / seconds * 10.0).round() / 10.0,
        });
        if let Some(beams) = beams {
            let told = |beam: &Beam| -> Result<_> {
                let text =
                    tokenizer.as_ref().map(|tokenizer| loaded::text(tokenizer, &beam.ids)).transpose()?;
                Ok(json!({"text": text, "ids": beam.ids, "score": beam.score, "ended": named(beam.ended)}))
            };
            page["beams"] = beams.iter().map(told).collect::<Result<Vec<_>>>()?.into();
        }
        writeln!(stdout(), "{page}")?;
    } else if ended == "context" {
        eprintln!("regard: the model's {} positions are full", context.unwrap_or_default());
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

    fn search<'a>(&self, prompts: &'a [Vec<i32>], stop: &'a [i32]) -> Beams<'a> {
        let beams = Beams::new(prompts, self.width(), self.max);
        Beams { length_penalty: self.length_penalty, stop, ..beams }
    }

    fn width(&self) -> usize {
        usize::from(self.beams.unwrap_or(1))
    }
}

/// A model that is ready, and what it goes on from.
struct Job {
    generator: Generator,
    /// The ids that were asked about.
    given: Vec<i32>,
    /// What is continued: the same, or what begins an answer.
    prompt: Vec<i32>,
    /// The one of what is written.
    tokenizer: Option<Tokenizer>,
    context: Option<usize>,
}

impl Job {
    /// A decoder of one stream continues what is given.
    fn one(
        decoder: &dyn Decoder,
        options: &Options,
        opened: &Opened,
        store: &mut Store,
        cpu: &Cpu,
    ) -> Result<Job> {
        if options.start.is_some() {
            bail!("--start is for encoder-decoders; a decoder begins with the prompt");
        }
        let (given, tokenizer) = given(options, opened, decoder.vocabulary())?;
        let context = decoder.context();
        let most = context.unwrap_or(usize::MAX);
        if given.len() >= most {
            bail!(
                "the prompt has {} tokens, the model has room for {most} and needs one for the answer; shorten it",
                given.len()
            );
        }
        let capacity = match decoder.window() {
            Some(_) => None,
            None => Some(given.len().saturating_add(options.max).min(most)),
        };
        opened.load_into(store)?;
        let settings = Settings { capacity, beams: options.width(), ..Settings::default() };
        let generator = Generator::new(decoder, settings, store, cpu)?;
        Ok(Job { generator, prompt: given.clone(), given, tokenizer, context })
    }

    /// An encoder-decoder reads what is given, and begins an answer.
    fn pair(
        model: &dyn EncoderDecoder,
        options: &Options,
        opened: &Opened,
        store: &mut Store,
        cpu: &Cpu,
    ) -> Result<Job> {
        let (given, tokenizer) = given(options, opened, model.source_vocabulary())?;
        let tokenizer =
            tokenizer.map(|own| loaded::target_tokenizer(opened, own, model.vocabulary())).transpose()?;
        let context = model.context();
        if let Some(most) = context.filter(|&most| given.len() > most) {
            bail!("the prompt has {} tokens, the model has room for {most}; shorten it", given.len());
        }
        let prompt = vec![ends::start(opened, options.start)?];
        let capacity = Some(options.max.saturating_add(1).min(context.unwrap_or(usize::MAX)));
        opened.load_into(store)?;
        let source = Some(given.len());
        let settings = Settings { capacity, source, beams: options.width(), ..Settings::default() };
        let mut generator = Generator::with_sources(model, settings, store, cpu)?;
        generator.read(std::slice::from_ref(&given), store)?;
        Ok(Job { generator, given, prompt, tokenizer, context })
    }
}

/// The ids that were given, or those of the text; a text has a tokenizer.
fn given(options: &Options, opened: &Opened, vocabulary: usize) -> Result<(Vec<i32>, Option<Tokenizer>)> {
    let (ids, tokenizer) = match &options.prompt {
        None => (options.ids.clone(), None),
        Some(text) => {
            let tokenizer = loaded::tokenizer(opened, vocabulary)?;
            (loaded::encode(&tokenizer, text, vocabulary)?, Some(tokenizer))
        }
    };
    if ids.is_empty() {
        bail!(
            "--prompt is empty, and this model has no token that begins a text; give it a word to begin with"
        );
    }
    Ok((ids, tokenizer))
}

/// Generates and prints until the end, a stop text or Ctrl-C.
fn streamed(
    generator: &mut Generator,
    request: &Request<'_>,
    printer: &mut Printer<'_>,
    store: &mut Store,
) -> Result<(Vec<i32>, &'static str)> {
    let interrupted = on_interrupt()?;
    let mut failed = None;
    let mut generated = generator.stream(request, store, &mut |token| {
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
    let generated = generated.remove(0);
    let ended = if interrupted.load(Ordering::Relaxed) { Ended::Broken } else { generated.ended };
    Ok((generated.ids, named(ended)))
}

/// Why a text ended.
pub fn named(ended: Ended) -> &'static str {
    match ended {
        Ended::Stop(_) => "end of text",
        Ended::Most => "max",
        Ended::Context => "context",
        Ended::Broken => "interrupted",
    }
}
