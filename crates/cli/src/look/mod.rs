//! `regard look`: who attends to whom in a text, for any model: maps of heads, rows of tokens, heads in
//! numbers; and what changes in the answer when a head or a tap is left out, or is what it was in another
//! text.

mod change;
mod input;
mod page;
mod written;

use crate::forward;
use crate::machine::Machine;
use crate::model::{self, Weights};
use crate::output::{Replace, files_of};
use anyhow::{Context, Result, bail};
use change::Change;
use clap::Args;
use input::{Given, Input};
use regard::graph::Graph;
use regard::layers::taps::taps;
use regard::prelude::*;
use regard_hub::Opened;
use regard_inspect::look::{self, Attention, Map};
use regard_inspect::{
    keep_heads, keep_taps, patch_heads, patch_taps, patched, patched_taps, without_heads, without_taps,
};
use regard_models::Registry;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use written::{head_json, write_heads, write_maps, write_rows};

/// Options of `regard look`.
#[derive(Args)]
#[command(after_help = "\
Without --layer all attentions are looked at. Looking changes no bit of the answer. Of a text of more than 256 tokens some
rows are taken evenly, and those of --rows. With --patch, a head's part of the answer, or any value that
`regard describe --taps` lists, is taken from a run on another text, position by position, and everything behind it is
computed anew; both texts have the same number of tokens.

Example:  regard look crates/conformance/goldens/parity/gpt2/model --ids \"1 2 3 4\" --patch block.0.head.1 --from-ids \"4 3 2 1\"
Example:  regard look crates/conformance/goldens/parity/gpt2/model --ids \"1 2 3 1 2 3\" --layer 1 --head 0 --rows 5 --topk 3 --without block.1.head.0")]
pub struct Options {
    /// A folder with config.json and weights, a run, organisation/name from a local Hugging Face cache, a
    /// .gguf file, or a `.bin` of llama2.c
    #[arg(value_name = "MODEL")]
    model: String,
    /// A text, for a model with a tokenizer beside it
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["ids", "pixels"])]
    text: Option<String>,
    /// The ids of a text, with spaces or commas between them
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    ids: Option<String>,
    /// What the decoder of an encoder-decoder has written, as text [default: nothing but its start]
    #[arg(long, value_name = "TEXT", conflicts_with = "targets")]
    target: Option<String>,
    /// The same as ids, start token first
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    targets: Option<String>,
    /// A safetensors file with an image, for a model of images
    #[arg(long, value_name = "FILE", conflicts_with = "ids")]
    pixels: Option<PathBuf>,
    /// A block by its number, or attentions by name, as in decoder.block.0.cross
    #[arg(long, value_name = "NAME")]
    layer: Option<String>,
    /// One head
    #[arg(long, value_name = "N")]
    head: Option<usize>,
    /// Positions whose rows are shown, with spaces or commas between them
    #[arg(long, value_name = "POSITIONS")]
    rows: Option<String>,
    /// How many keys are shown of each row
    #[arg(long, value_name = "K", default_value_t = 5)]
    topk: usize,
    /// Leave a head or a tap out and show what changes, as in block.2.head.5 or block.2.feed_forward.added;
    /// can be given several times
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Take a head or a tap from the run on another text and show what changes; can be given several times
    #[arg(long, value_name = "NAME")]
    patch: Vec<String>,
    /// The other text, of as many tokens
    #[arg(long, value_name = "TEXT", requires = "patch", conflicts_with_all = ["from_ids", "from_pixels"])]
    from_text: Option<String>,
    /// The other text as ids
    #[arg(
        long,
        value_name = "IDS",
        requires = "patch",
        allow_hyphen_values = true,
        conflicts_with = "from_pixels"
    )]
    from_ids: Option<String>,
    /// The other image, for a model of images
    #[arg(long, value_name = "FILE", requires = "patch")]
    from_pixels: Option<PathBuf>,
    /// Write a page with all maps
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a picture of all maps
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    weights: Weights,
    #[command(flatten)]
    machine: Machine,
}

impl Options {
    /// What is looked at.
    fn given(&self) -> Given<'_> {
        Given {
            names: ["--text", "--ids", "--pixels"],
            text: self.text.as_deref(),
            ids: self.ids.as_deref(),
            pixels: self.pixels.as_deref(),
            target: self.target.as_deref(),
            targets: self.targets.as_deref(),
        }
    }

    /// Refuses files to write that are no good place for it.
    fn check_outputs(&self, opened: &Opened) -> Result<()> {
        let mut inputs = files_of(&opened.path);
        inputs.extend(self.pixels.iter().chain(&self.from_pixels).cloned());
        let outputs = [("--html", &self.html), ("--png", &self.png)];
        let outputs: Vec<(&str, &Path)> =
            outputs.iter().filter_map(|(option, path)| Some((*option, path.as_deref()?))).collect();
        self.replace.check(&outputs, &inputs)
    }

    /// Where heads are taken from, if any are: another text or image, of the same length, with the same
    /// target.
    fn other(&self, input: &Input, opened: &Opened) -> Result<Option<Input>> {
        if self.patch.is_empty() {
            return Ok(None);
        }
        if self.from_text.is_none() && self.from_ids.is_none() && self.from_pixels.is_none() {
            bail!(
                "--patch: what is taken comes from a run on another text; give it by --from-text or --from-ids"
            );
        }
        let given = Given {
            names: ["--from-text", "--from-ids", "--from-pixels"],
            text: self.from_text.as_deref(),
            ids: self.from_ids.as_deref(),
            pixels: self.from_pixels.as_deref(),
            ..self.given()
        };
        let other = Input::new(&given, opened)?;
        let (own, others) = (input.ids[0].len(), other.ids[0].len());
        if own != others {
            let option = given.names[usize::from(given.text.is_none())];
            bail!(
                "{option}: {others} tokens, and the text looked at has {own}; heads are taken position by position, so \
                 give a text of as many tokens"
            );
        }
        Ok(Some(other))
    }
}

/// The most rows of a map.
const MOST_ROWS: usize = 256;

/// What was looked at.
pub struct Seen {
    /// The maps, attention by attention.
    pub maps: Vec<Map>,
    /// The tokens of each stream: the text, and what a decoder has written.
    pub labels: [Vec<String>; 2],
    /// Their ids.
    pub ids: [Vec<i32>; 2],
    /// How many heads stand beside each other.
    pub heads: usize,
}

impl Seen {
    /// The streams of a map: that of its queries, that of its keys.
    pub fn streams(&self, map: &Map) -> (usize, usize) {
        let own = usize::from(map.attention.starts_with("decoder."));
        (own, if map.cross { 0 } else { own })
    }
}

/// Looks.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let device = options.machine.device()?;
    let opened = options.weights.open(&options.model, registry)?;
    if options.topk == 0 {
        bail!("--topk 0: choose at least 1");
    }
    options.check_outputs(&opened)?;
    let input = Input::new(&options.given(), &opened)?;
    let other = options.other(&input, &opened)?;
    let graph = input.record(&*opened.model)?;
    let all = look::attentions(&graph);
    let chosen: Vec<Attention> = match &options.layer {
        Some(layer) => look::find(&all, layer).context("--layer")?.into_iter().cloned().collect(),
        None => all.clone(),
    };
    if let Some((head, most)) =
        options.head.zip(chosen.iter().map(|own| own.heads).min()).filter(|(h, m)| h >= m)
    {
        bail!("--head {head}: the heads are 0 to {}", most - 1);
    }
    let wanted = wanted_rows(options, &chosen)?;
    let out = Parts::new(&options.without, &all, &graph).context("--without")?;
    let taken = Parts::new(&options.patch, &all, &graph).context("--patch")?;
    let mut store = model::store(&opened)?;
    let (maps, before) = seen(graph, &chosen, &wanted, &input, &mut store, &device)?;
    let maps: Vec<Map> =
        maps.into_iter().filter(|map| options.head.is_none_or(|head| map.head == head)).collect();
    let heads =
        if options.head.is_some() { 1 } else { chosen.iter().map(|own| own.heads).max().unwrap_or(1) };
    let seen = Seen { maps, heads, labels: input.labels.clone(), ids: input.ids.clone() };
    let without = match out.is_empty() {
        true => None,
        false => {
            let graph = without_heads(&input.record(&*opened.model)?, &out.heads)?;
            let graph = without_taps(&graph, &out.taps)?;
            let (_, after) = self::seen(graph, &[], &[], &input, &mut store, &device)?;
            Some(Change::new(&before, &after, &input, &*opened.model)?)
        }
    };
    let from_another = match &other {
        None => None,
        Some(other) => {
            let mut graph = other.record(&*opened.model)?;
            keep_heads(&mut graph, &taken.heads)?;
            keep_taps(&mut graph, &taken.taps)?;
            let source = ran(graph, other, &mut store, &device)?;
            let graph = patch_heads(&input.record(&*opened.model)?, &taken.heads)?;
            let mut program = Program::new(patch_taps(&graph, &taken.taps)?, &[], &mut store, &device)?;
            patched(&mut program, &source, &taken.heads)?;
            patched_taps(&mut program, &source, &taken.taps)?;
            fed(&mut program, &input, &mut store)?;
            let after = main_output(&program)?;
            Some(Change::new(&before, &after, &input, &*opened.model)?)
        }
    };
    if let Some(path) = &options.png {
        let maps = seen.maps.iter().map(|map| (map.number(), map.heat(&[], &[])));
        let bytes = regard_picture::png(maps, seen.heads);
        regard_data::whole::write(path, |file| file.write_all(&bytes))?;
    }
    if let Some(path) = &options.html {
        let page = page::page(&seen, opened.model.family(), &opened.path.display().to_string());
        regard_data::whole::write(path, |file| file.write_all(page.as_bytes()))?;
    }
    let mut stdout = std::io::stdout().lock();
    if options.json {
        let page = json!({
            "family": opened.model.family(), "tokens": seen.labels[0], "targets": seen.labels[1],
            "heads": seen.maps.iter().map(|map| head_json(map, &seen, &wanted, options.topk)).collect::<Vec<_>>(),
            "without": without.map(|change| change.json(&options.without)),
            "patch": from_another.map(|change| change.json(&options.patch)),
        });
        writeln!(stdout, "{page}")?;
        return Ok(());
    }
    write_heads(&mut stdout, &seen)?;
    write_maps(&mut stdout, &seen)?;
    write_rows(&mut stdout, &seen, &wanted, options.topk)?;
    if let Some(change) = without {
        change.write(&mut stdout, &format!("Without {}", options.without.join(", ")))?;
    }
    if let (Some(change), Some(other)) = (from_another, &other) {
        let from = other.labels[0].join(" ");
        let from = if from.is_empty() { "the other image".into() } else { format!("\"{from}\"") };
        change.write(&mut stdout, &format!("With {} from {from}", options.patch.join(", ")))?;
    }
    for path in [&options.png, &options.html].into_iter().flatten() {
        writeln!(stdout, "\n{}", path.display())?;
    }
    Ok(())
}

/// What is left out of a run, or put in its place.
struct Parts<'a> {
    heads: Vec<(Attention, usize)>,
    taps: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    fn new(names: &'a [String], all: &[Attention], graph: &Graph) -> Result<Parts<'a>> {
        let known = taps(graph);
        let (mut heads, mut named) = (Vec::new(), Vec::new());
        for name in names {
            match known.iter().any(|tap| tap.name == *name) {
                true => named.push(name.as_str()),
                false if name.contains(".head.") => heads.push(look::find_head(all, name)?),
                false => {
                    let taps = known.iter().map(|tap| tap.name.as_str());
                    return Err(regard::graph::Error::unknown("head or tap", name, taps).into());
                }
            }
        }
        Ok(Parts { heads, taps: named })
    }

    fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.taps.is_empty()
    }
}

fn wanted_rows(options: &Options, chosen: &[Attention]) -> Result<Vec<usize>> {
    let Some(text) = &options.rows else { return Ok(Vec::new()) };
    let most = chosen.iter().map(|own| own.queries).min().unwrap_or(0);
    forward::integers("--rows", text)?
        .into_iter()
        .map(|row| match usize::try_from(row) {
            Ok(row) if row < most => Ok(row),
            _ => bail!("--rows: there is no position {row}; they are 0 to {}", most.saturating_sub(1)),
        })
        .collect()
}

/// Runs the pass, asks the chosen attentions, and reads the output that tells most.
fn seen(
    mut graph: Graph,
    chosen: &[Attention],
    wanted: &[usize],
    input: &Input,
    store: &mut Store,
    device: &Device,
) -> Result<(Vec<Map>, Array)> {
    let asked: Vec<Vec<usize>> =
        chosen.iter().map(|own| look::rows(own.queries, MOST_ROWS, wanted)).collect();
    for (attention, rows) in chosen.iter().zip(&asked) {
        look::ask(&mut graph, attention, rows)?;
    }
    let program = ran(graph, input, store, device)?;
    let mut maps = Vec::new();
    for (attention, rows) in chosen.iter().zip(&asked) {
        maps.extend(look::maps(&program, attention, rows)?);
    }
    let answer = main_output(&program)?;
    Ok((maps, answer))
}

/// The program of a graph, after its run.
fn ran(graph: Graph, input: &Input, store: &mut Store, device: &Device) -> Result<Program> {
    let mut program = Program::new(graph, &[], store, device)?;
    fed(&mut program, input, store)?;
    Ok(program)
}

/// Runs a program on an input.
fn fed(program: &mut Program, input: &Input, store: &mut Store) -> Result<()> {
    for (name, array) in &input.turn.inputs {
        program.set_array(name, array)?;
    }
    Ok(program.run(store)?)
}

/// The output that tells most.
fn main_output(program: &Program) -> Result<Array> {
    let main_output =
        ["logits", "pooled", "hidden"].into_iter().find(|name| program.graph().find(name).is_ok());
    Ok(program.array(main_output.unwrap_or("hidden"))?)
}
