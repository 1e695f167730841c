//! `regard look`: who attends to whom in a text, for any model: maps of heads, rows of tokens, heads in numbers; and what
//! changes in the answer when a head is left out.

use crate::machine::Machine;
use crate::ways::{self, Text};
use crate::{ends, forward, loaded, look_page};
use anyhow::{Context, Result, bail};
use clap::Args;
use regard::data::Tokenizer;
use regard::graph::Graph;
use regard::prelude::*;
use regard_hub::{AnyModel, Batch, Opened};
use regard_inspect::audit::Turn;
use regard_inspect::look::{self, Attention, Map};
use regard_inspect::{picture, without_heads};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Options of `regard look`.
#[derive(Args)]
#[command(after_help = "\
Without --layer all attentions are looked at. Looking changes no bit of the answer. Of a text of more than 256 tokens some
rows are taken evenly, and those of --rows.

Example:  regard look crates/conformance/goldens/parity/gpt2/model --ids \"1 2 3 1 2 3\" --layer 1 --head 0 --rows 5 --topk 3 --without block.1.head.0")]
pub struct Options {
    /// A folder with config.json and weights, a run, organisation/name from a local Hugging Face cache, or a `.bin` of
    /// llama2.c
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
    /// Leave a head out and show what changes, as in block.2.head.5; can be given several times
    #[arg(long, value_name = "HEAD")]
    without: Vec<String>,
    /// Write a page with all maps
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a picture of all maps
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

/// The most rows of a map, and the most tokens of one in characters.
const MOST_ROWS: usize = 256;
const MOST_CHARACTERS: usize = 40;
/// The most maps in characters.
const MOST_MAPS: usize = 4;

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
pub fn run(options: &Options) -> Result<()> {
    let cpu = options.machine.cpu()?;
    let opened = loaded::open(&options.model)?;
    if options.topk == 0 {
        bail!("--topk 0: choose at least 1");
    }
    let input = Input::new(options, &opened)?;
    let graph = input.record(&opened.model)?;
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
    let out = options.without.iter().map(|name| look::find_head(&all, name).context("--without"));
    let out = out.collect::<Result<Vec<_>>>()?;
    let mut store = loaded::store(&opened)?;
    let (maps, before) = seen(graph, &chosen, &wanted, &input, &mut store, &cpu)?;
    let maps: Vec<Map> =
        maps.into_iter().filter(|map| options.head.is_none_or(|head| map.head == head)).collect();
    let heads =
        if options.head.is_some() { 1 } else { chosen.iter().map(|own| own.heads).max().unwrap_or(1) };
    let seen = Seen { maps, heads, labels: input.labels.clone(), ids: input.ids.clone() };
    let change = match out.is_empty() {
        true => None,
        false => {
            let graph = without_heads(&input.record(&opened.model)?, &out)?;
            let (_, after) = self::seen(graph, &[], &[], &input, &mut store, &cpu)?;
            Some(Change::new(&before, &after, &input, &opened.model)?)
        }
    };
    if let Some(path) = &options.png {
        let bytes = picture::png(&seen.maps, seen.heads);
        regard_data::whole::write(path, |file| file.write_all(&bytes))?;
    }
    if let Some(path) = &options.html {
        let page = look_page::page(&seen, opened.model.family(), &opened.path.display().to_string());
        regard_data::whole::write(path, |file| file.write_all(page.as_bytes()))?;
    }
    let mut stdout = std::io::stdout().lock();
    if options.json {
        let page = json!({
            "family": opened.model.family(), "tokens": seen.labels[0], "targets": seen.labels[1],
            "heads": seen.maps.iter().map(|map| head_json(map, &seen, &wanted, options.topk)).collect::<Vec<_>>(),
            "without": change.map(|change| change.json(&options.without)),
        });
        writeln!(stdout, "{page}")?;
        return Ok(());
    }
    write_heads(&mut stdout, &seen)?;
    write_maps(&mut stdout, &seen)?;
    write_rows(&mut stdout, &seen, &wanted, options.topk)?;
    if let Some(change) = change {
        change.write(&mut stdout, &options.without)?;
    }
    for path in [&options.png, &options.html].into_iter().flatten() {
        writeln!(stdout, "\n{}", path.display())?;
    }
    Ok(())
}

/// What a model is given.
struct Input {
    turn: Turn,
    text: Text,
    labels: [Vec<String>; 2],
    ids: [Vec<i32>; 2],
    writer: Option<Tokenizer>,
}

impl Input {
    fn new(options: &Options, opened: &Opened) -> Result<Input> {
        let model = &opened.model;
        if let AnyModel::Vit(vit) = model {
            let Some(path) = &options.pixels else {
                bail!("this is a model of images; give it --pixels FILE");
            };
            let Batch::Images(images) = forward::images(path)? else { bail!("no images") };
            let [height, width] = vit.config().image;
            let expected = [1, vit.config().channels, height, width];
            if images.shape != expected {
                bail!("--pixels: the pixels are {:?}; look at one image, {expected:?}", images.shape);
            }
            let numbers = images.pixels.iter().map(|&x| f64::from(x)).collect();
            let Some(array) = Array::new(&expected, numbers) else {
                bail!("--pixels: not as many as {expected:?}")
            };
            let turn = Turn { inputs: vec![("pixels".into(), array)], batch: 1, streams: Vec::new() };
            let text = Text { ids: Vec::new(), targets: Vec::new() };
            return Ok(Input {
                turn,
                text,
                labels: Default::default(),
                ids: Default::default(),
                writer: None,
            });
        }
        if options.pixels.is_some() {
            bail!("--pixels: this is {}; give it --text or --ids", loaded::kind(model));
        }
        let Some(vocabulary) = model.vocabulary() else { bail!("this model has no vocabulary") };
        let tokenizer = loaded::tokenizer(opened, vocabulary);
        let ids = match (&options.text, &options.ids) {
            (Some(text), _) => {
                let tokenizer = loaded::tokenizer(opened, vocabulary)?;
                loaded::encode(&tokenizer, text, vocabulary)?
            }
            (None, Some(ids)) => forward::integers("--ids", ids)?,
            (None, None) => bail!("nothing to look at: give --text, or --ids \"1 2 3\""),
        };
        checked("--ids", &ids, vocabulary, model.context())?;
        let mut writer = tokenizer.as_ref().ok().cloned();
        let targets = match model.encoder_decoder() {
            None if options.target.is_some() || options.targets.is_some() => {
                bail!("--target: only an encoder-decoder has one; this is {}", loaded::kind(model))
            }
            None => Vec::new(),
            Some(pair) => {
                let own = |source: Tokenizer| loaded::target_tokenizer(opened, source, pair.vocabulary());
                writer = writer.map(own).transpose()?;
                let targets = match (&options.target, &options.targets) {
                    (Some(text), _) => {
                        let Some(writer) = &writer else {
                            return Err(tokenizer.err().unwrap_or_else(|| anyhow::anyhow!("no tokenizer")));
                        };
                        let mut ids = vec![ends::start(opened, None)?];
                        ids.extend(loaded::encode(writer, text, pair.vocabulary())?);
                        ids
                    }
                    (None, Some(ids)) => forward::integers("--targets", ids)?,
                    (None, None) => vec![ends::start(opened, None).unwrap_or(0)],
                };
                checked("--targets", &targets, pair.vocabulary(), model.context())?;
                targets
            }
        };
        let labels = [labels(&ids, tokenizer.as_ref().ok()), labels(&targets, writer.as_ref())];
        let text = Text { ids, targets };
        let turn = ways::alone(model, &text).stages.remove(0).turns.remove(0);
        let ids = [text.ids.clone(), text.targets.clone()];
        Ok(Input { turn, text, labels, ids, writer })
    }

    fn record(&self, model: &AnyModel) -> Result<Graph> {
        match model {
            AnyModel::Vit(_) => {
                let sizes = regard_hub::forward::Sizes { batch: 1, tokens: 0, targets: 0, types: false };
                Ok(regard_hub::forward::record(model, sizes)?)
            }
            _ => Ok((ways::alone(model, &self.text).stages[0].record)()?),
        }
    }
}

fn checked(option: &str, ids: &[i32], vocabulary: usize, context: Option<usize>) -> Result<()> {
    if ids.is_empty() {
        bail!("{option}: no token; give at least one");
    }
    if let Some(id) = ids.iter().find(|&&id| usize::try_from(id).map_or(true, |id| id >= vocabulary)) {
        bail!("{option}: {id} is no token of this model, which knows 0 to {}", vocabulary - 1);
    }
    if let Some(most) = context.filter(|&most| ids.len() > most) {
        bail!("{option}: {} positions, this model has room for {most}; cut the text", ids.len());
    }
    Ok(())
}

/// Tokens as people read them.
fn labels(ids: &[i32], tokenizer: Option<&Tokenizer>) -> Vec<String> {
    let label = |&id: &i32| {
        let known = tokenizer.and_then(|own| own.token_of(u32::try_from(id).ok()?));
        known.map_or(id.to_string(), |token| {
            token.replace(['Ġ', '▁'], " ").replace('Ċ', "⏎").trim().to_string()
        })
    };
    ids.iter().map(label).collect()
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
    cpu: &Cpu,
) -> Result<(Vec<Map>, Array)> {
    let told = ["logits", "pooled", "hidden"].into_iter().find(|name| graph.find(name).is_ok());
    let asked: Vec<Vec<usize>> =
        chosen.iter().map(|own| look::rows(own.queries, MOST_ROWS, wanted)).collect();
    for (attention, rows) in chosen.iter().zip(&asked) {
        look::ask(&mut graph, attention, rows)?;
    }
    let mut program = Program::new(graph, &[], store, cpu)?;
    for (name, array) in &input.turn.inputs {
        program.set_array(name, array)?;
    }
    program.run(store)?;
    let mut maps = Vec::new();
    for (attention, rows) in chosen.iter().zip(&asked) {
        maps.extend(look::maps(&program, attention, rows)?);
    }
    Ok((maps, program.array(told.unwrap_or("hidden"))?))
}

/// What leaving heads out does to an answer.
struct Change {
    /// Kullback–Leibler divergence from the answer before, in nats: mean, and at the last position; of scores only.
    divergence: Option<(f64, f64)>,
    /// The mean loss of the next token, before and after; of decoders only.
    loss: Option<(f64, f64)>,
    /// The cosine of the answers, where they are no scores.
    cosine: f64,
    /// The likeliest tokens at the last position, before and after.
    top: Option<[Vec<(String, f64)>; 2]>,
}

impl Change {
    fn new(before: &Array, after: &Array, input: &Input, model: &AnyModel) -> Result<Change> {
        let width = before.dims().last().copied().unwrap_or(1).max(1);
        let rows = |array: &Array| array.data().chunks(width).map(<[f64]>::to_vec).collect::<Vec<_>>();
        let (a, b) = (rows(before), rows(after));
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let (x, y) = (before.data(), after.data());
        let cosine = dot(x, y) / (dot(x, x) * dot(y, y)).sqrt().max(f64::MIN_POSITIVE);
        let scores = !matches!(model, AnyModel::Bert(bert) if matches!(bert.config().head,
            regard_models::BertHead::None | regard_models::BertHead::Pooler))
            && !matches!(model, AnyModel::Vit(vit) if matches!(vit.config().head, regard_models::VitHead::None));
        if !scores {
            return Ok(Change { divergence: None, loss: None, cosine, top: None });
        }
        let (a, b): (Vec<_>, Vec<_>) =
            (a.iter().map(|row| log_softmax(row)).collect(), b.iter().map(|row| log_softmax(row)).collect());
        let each: Vec<f64> = a
            .iter()
            .zip(&b)
            .map(|(p, q)| p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>().max(0.0))
            .collect();
        let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
        let next = match model {
            AnyModel::Gpt(..) | AnyModel::Perceiver(_) => input.ids[0].get(1..).unwrap_or_default(),
            AnyModel::T5(_) | AnyModel::Transformer(_) => input.ids[1].get(1..).unwrap_or_default(),
            _ => &[],
        };
        let loss = |rows: &[Vec<f64>]| {
            let sum: f64 = next.iter().zip(rows).map(|(&id, row)| -row[id as usize]).sum();
            sum / next.len().max(1) as f64
        };
        let named = |id: usize| {
            let token = input.writer.as_ref().and_then(|own| own.token_of(id as u32));
            token
                .filter(|_| width > 16 || input.writer.is_some())
                .map_or(id.to_string(), |token| token.replace(['Ġ', '▁'], " "))
        };
        let top = |rows: &[Vec<f64>]| {
            let last = rows.last().cloned().unwrap_or_default();
            let mut all: Vec<(usize, f64)> = last.into_iter().enumerate().collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(5);
            all.into_iter().map(|(id, p)| (named(id), p.exp())).collect::<Vec<_>>()
        };
        Ok(Change {
            divergence: Some((mean, each.last().copied().unwrap_or(0.0))),
            loss: (!next.is_empty()).then(|| (loss(&a), loss(&b))),
            cosine,
            top: Some([top(&a), top(&b)]),
        })
    }

    fn json(&self, heads: &[String]) -> Value {
        json!({
            "heads": heads, "cosine": self.cosine,
            "divergence": self.divergence.map(|(mean, last)| json!({ "mean": mean, "last": last })),
            "loss": self.loss.map(|(before, after)| json!({ "before": before, "after": after })),
            "top": self.top.as_ref().map(|[before, after]| json!({ "before": before, "after": after })),
        })
    }

    fn write(&self, out: &mut impl Write, heads: &[String]) -> Result<()> {
        writeln!(out, "\nWithout {}", heads.join(", "))?;
        if let Some((mean, last)) = self.divergence {
            writeln!(out, "  divergence {mean:.4} nats in the mean, {last:.4} at the last position")?;
        }
        if let Some((before, after)) = self.loss {
            writeln!(
                out,
                "  loss of the next token {before:.4} before, {after:.4} after ({:+.4})",
                after - before
            )?;
        }
        match &self.top {
            None => writeln!(out, "  cosine of the answers {:.6}", self.cosine)?,
            Some([before, after]) => {
                writeln!(out, "  likeliest at the last position")?;
                for ((a, p), (b, q)) in before.iter().zip(after) {
                    writeln!(out, "    {:<24} {p:.4}    {:<24} {q:.4}", visible(a), visible(b))?;
                }
            }
        }
        Ok(())
    }
}

fn log_softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = row.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
    row.iter().map(|x| x - most - sum).collect()
}

/// A token in quotes, without what paints terminals.
fn visible(text: &str) -> String {
    format!("\"{}\"", text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>())
}

fn write_heads(out: &mut impl Write, seen: &Seen) -> Result<()> {
    let widest = seen.maps.iter().map(|map| map.attention.len()).max().unwrap_or(0);
    writeln!(out, "{:<widest$}  head  entropy  distance  previous   self  first   copy", "Heads in numbers")?;
    for map in &seen.maps {
        let metrics = map.metrics(&seen.ids[seen.streams(map).0]);
        let shown = |x: Option<f64>| x.map_or("–".into(), |x| format!("{x:.3}"));
        writeln!(
            out,
            "{:<widest$}  {:>4}  {:>7.3}  {:>8}  {:>8}  {:>5}  {:>5.3}  {:>5}",
            map.attention,
            map.head,
            metrics.entropy,
            metrics.distance.map_or("–".into(), |x| format!("{x:.2}")),
            shown(metrics.previous),
            shown(metrics.own),
            metrics.first,
            shown(metrics.copy)
        )?;
    }
    Ok(())
}

fn write_maps(out: &mut impl Write, seen: &Seen) -> Result<()> {
    if seen.maps.len() > MOST_MAPS {
        writeln!(out, "\nChoose --layer and --head to see a map here, --png or --html to see all of them.")?;
        return Ok(());
    }
    for map in &seen.maps {
        if map.keys > MOST_CHARACTERS || map.rows.len() > MOST_CHARACTERS {
            writeln!(
                out,
                "\n{} keys are too many for a map here; write one with --png or --html.",
                map.keys
            )?;
            return Ok(());
        }
        let (own, _) = seen.streams(map);
        let label = |row: usize| seen.labels[own].get(row).cloned().unwrap_or_default();
        let widest = map.rows.iter().map(|&row| label(row).chars().count()).max().unwrap_or(0);
        writeln!(
            out,
            "\n{}, head {}: rows ask, columns are asked; · from 0.01, ░ 0.05, ▒ 0.15, ▓ 0.35, █ 0.65",
            map.attention, map.head
        )?;
        for (line, &row) in map.characters().iter().zip(&map.rows) {
            writeln!(out, "  {row:>3} {:<widest$} |{line}|", label(row))?;
        }
    }
    Ok(())
}

fn write_rows(out: &mut impl Write, seen: &Seen, wanted: &[usize], count: usize) -> Result<()> {
    for &row in wanted {
        writeln!(out, "\nPosition {row}")?;
        for map in &seen.maps {
            let Some(at) = map.rows.iter().position(|&own| own == row) else { continue };
            let (_, keys) = seen.streams(map);
            let told: Vec<String> = map
                .top(at, count)
                .into_iter()
                .map(|(key, weight)| {
                    let label = seen.labels[keys].get(key).map_or(String::new(), |label| visible(label));
                    format!("{weight:.3} {label}@{key}")
                })
                .collect();
            writeln!(out, "  {} head {}: {}", map.attention, map.head, told.join(", "))?;
        }
    }
    Ok(())
}

fn head_json(map: &Map, seen: &Seen, wanted: &[usize], count: usize) -> Value {
    let metrics = map.metrics(&seen.ids[seen.streams(map).0]);
    let small = map.rows.len() <= MOST_CHARACTERS && map.keys <= MOST_CHARACTERS;
    let rows: Vec<&[f32]> = (0..map.rows.len()).filter(|_| small).map(|at| map.row(at)).collect();
    let top: Vec<Value> = wanted
        .iter()
        .filter_map(|row| map.rows.iter().position(|own| own == row).map(|at| (row, at)))
        .map(|(row, at)| json!({ "row": row, "top": map.top(at, count) }))
        .collect();
    json!({
        "attention": map.attention, "head": map.head, "cross": map.cross, "keys": map.keys, "rows": map.rows,
        "entropy": metrics.entropy, "first": metrics.first, "distance": metrics.distance, "self": metrics.own,
        "previous": metrics.previous, "copy": metrics.copy, "weights": rows, "top": top,
    })
}
