//! `regard audit`: runs a model by all the ways to the same answer and compares: a batch and a single text,
//! padding, caches, threads, the f64 reference, looked at and not. Where bits are promised, bits are
//! compared; the first node that differs is named.

use crate::finite::NotFinite;
use crate::forward;
use crate::machine::Machine;
use crate::model::{self, Weights};
use anyhow::{Result, bail};
use clap::Args;
use regard::graph::Graph;
use regard::ops::{AttentionOp, WeightsRequest};
use regard::prelude::*;
use regard_hub::Opened;
use regard_inspect::audit::{Agreement, Comparison, Execution, compare, compare_looked, compare_reference};
use regard_inspect::chances;
use regard_inspect::executions::{self, PADDING, ROUNDING, Text};
use regard_models::{Pixels, Registry, Sizes};
use serde_json::{Value, json};
use std::io::Write;

/// Options of `regard audit`.
#[derive(Args)]
#[command(after_help = "\
A model that answers otherwise in a batch than alone, padded than not, or through its caches than without, is wrong
somewhere. Ends with status 0 if all that is promised holds and with 1 if not, so that it can stand in a test.

Example:  regard audit crates/conformance/goldens/parity/gpt2/model --ids \"1 2 3 4 5 6\"")]
pub struct Options {
    /// A folder with config.json and weights, a run, organisation/name from a local Hugging Face cache, a
    /// .gguf file, or a `.bin` of llama2.c
    #[arg(value_name = "MODEL")]
    model: String,
    /// A text, for a model with a tokenizer beside it [default: made-up ids]
    #[arg(long, value_name = "TEXT", conflicts_with = "ids")]
    text: Option<String>,
    /// The ids of a text, with spaces or commas between them
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    ids: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    weights: Weights,
    #[command(flatten)]
    machine: Machine,
}

/// Tokens of a text that nobody gave, and the most that are compared.
const TOKENS: usize = 13;
const MOST_TOKENS: usize = 256;
/// What the reference may take: a few seconds.
const MOST_MACS: u64 = 3_000_000_000;

struct Row {
    title: String,
    verdict: Verdict,
    sentence: String,
    comparison: Option<Comparison>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    Broken,
    Skipped,
}

/// Audits.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let device = options.machine.device()?;
    let opened = options.weights.open(&options.model, registry)?;
    let model = &*opened.model;
    let (alone, others) = match model.reads().pixels {
        Some(sizes) => {
            if options.text.is_some() || options.ids.is_some() {
                bail!("--text, --ids: this is a model of images; leave them out, pixels are made up");
            }
            let Pixels { channels, height, width } = sizes;
            let pixels: Vec<f32> = (0..channels * height * width)
                .map(|i| ((i * 37 + i / 7) % 101) as f32 / 50.0 - 1.0)
                .collect();
            let (alone, batch) = executions::images(model, sizes, &pixels);
            (alone, vec![("in a batch", Ok((batch, Agreement::Bits)))])
        }
        None => {
            let (text, neighbour) = texts(options, &opened)?;
            (executions::alone(model, &text)?, executions::others(model, &text, &neighbour)?)
        }
    };
    let mut store = model::store(&opened)?;
    let mut rows = vec![
        finite("finite weights", &NotFinite::in_weights(&opened)),
        finite("finite values", &values(&alone, &mut store, &device)?),
    ];
    for (title, other) in others {
        rows.push(match other {
            Err(why) => skipped(title, why),
            Ok((execution, how)) => {
                let how = if device.same_bits_for_any_rows() { how } else { Agreement::Within(ROUNDING) };
                judged(title, how, compare(&alone, &device, &execution, &device, &mut store, how)?)
            }
        });
    }
    let (title, other) = elsewhere(&device)?;
    let compared = compare(&alone, &device, &alone, &other, &mut store, Agreement::Bits)?;
    rows.push(judged(&title, Agreement::Bits, compared));
    let looked = compare_looked(&alone, look, &mut store, &device)?;
    rows.push(judged("looked at and not", Agreement::Bits, looked));
    rows.push(reference(&alone, &mut store, &device)?);
    rows.push(chance(&alone, &opened)?);

    let broken = rows.iter().filter(|row| row.verdict == Verdict::Broken).count();
    let checked = rows.iter().filter(|row| row.verdict != Verdict::Skipped).count();
    let mut out = std::io::stdout().lock();
    if options.json {
        let page = json!({
            "family": model.family(), "kind": model.kind(), "holds": broken == 0,
            "checks": rows.iter().map(row_json).collect::<Vec<_>>(),
        });
        writeln!(out, "{page}")?;
    } else {
        writeln!(out, "{}, {}, {}\n", model.family(), model.kind(), opened.path.display())?;
        let widest = rows.iter().map(|row| row.title.len()).max().unwrap_or(0);
        for Row { title, verdict, sentence, .. } in &rows {
            let verdict = match verdict {
                Verdict::Holds => "holds",
                Verdict::Broken => "BROKEN",
                Verdict::Skipped => "skipped",
            };
            writeln!(out, "  {title:<widest$}  {verdict:<7}  {sentence}")?;
        }
    }
    out.flush()?;
    if broken > 0 {
        bail!("{broken} of {checked} checks {}", if broken == 1 { "is broken" } else { "are broken" });
    }
    Ok(())
}

/// The text in question and one beside it.
fn texts(options: &Options, opened: &Opened) -> Result<(Text, Text)> {
    let model = &*opened.model;
    let Some(vocabulary) = model.vocabulary() else { bail!("this model has no vocabulary; give it pixels") };
    let made = |count: usize, seed: usize, vocabulary: usize| -> Vec<i32> {
        (0..count).map(|i| ((i * i * 5 + (3 + seed) * i + 11 * seed + 1) % vocabulary) as i32).collect()
    };
    // Room for padding beside the text.
    let most = model.context().map_or(MOST_TOKENS, |most| most.saturating_sub(PADDING).min(MOST_TOKENS));
    if most < 2 {
        bail!(
            "this model has room for {} positions; padding beside a text needs {}",
            most + PADDING,
            PADDING + 2
        );
    }
    let mut ids = match (&options.text, &options.ids) {
        (Some(text), _) => model::companions(opened)?.encode(text)?,
        (None, Some(ids)) => forward::integers("--ids", ids)?,
        (None, None) => made(TOKENS.min(most), 0, vocabulary),
    };
    if ids.len() < 2 {
        bail!("the text has {} tokens; give it at least 2, for caches are about what came before", ids.len());
    }
    if let Some(id) = ids.iter().find(|&&id| usize::try_from(id).map_or(true, |id| id >= vocabulary)) {
        bail!("--ids: {id} is no token of this model, which knows 0 to {}", vocabulary - 1);
    }
    ids.truncate(most);
    let written = |seed: usize| match model.reads().source.and(model.reads().ids) {
        Some(own) => made(ids.len(), seed, own.vocabulary),
        None => Vec::new(),
    };
    let neighbour = Text { read: made((2 * ids.len() / 3).max(1), 1, vocabulary), written: written(1) };
    let text = Text { written: written(2), read: ids };
    Ok((text, neighbour))
}

/// Asks every attention for its weights.
fn look(g: &mut Graph) -> regard_inspect::Result<()> {
    let attentions: Vec<usize> =
        g.nodes().iter().enumerate().filter(|(_, node)| node.is::<AttentionOp>()).map(|(at, _)| at).collect();
    for node in attentions {
        let name = format!("look.{}", g.nodes()[node].name);
        let found = g.weights_of(node, WeightsRequest::ColumnSums)?;
        g.output(&name, found.values)?;
    }
    Ok(())
}

fn judged(title: &str, how: Agreement, comparison: Comparison) -> Row {
    let Comparison { same, difference, numbers, first } = &comparison;
    let sentence = match (same, how) {
        (true, Agreement::Bits) => format!("the same bits in {numbers} numbers"),
        (true, Agreement::Within(most)) => {
            format!("within {difference:.1e} of the largest of {numbers} numbers; {most:.0e} is rounding")
        }
        (false, _) => format!(
            "differs by {difference:.1e} of the largest number, first in `{}`",
            first.as_deref().unwrap_or("an output")
        ),
    };
    let verdict = if *same { Verdict::Holds } else { Verdict::Broken };
    Row { title: title.into(), verdict, sentence, comparison: Some(comparison) }
}

fn skipped(title: &str, why: String) -> Row {
    Row { title: title.into(), verdict: Verdict::Skipped, sentence: why, comparison: None }
}

/// The same device otherwise, where nothing may change: other threads of the CPU, a card once more.
fn elsewhere(device: &Device) -> Result<(String, Device)> {
    match device.cpu() {
        Some(cpu) => {
            let threads = if cpu.pool().threads() == 1 { 2 } else { 1 };
            let title = format!("on {} and on {threads} threads", cpu.pool().threads());
            Ok((title, Cpu::with(threads, cpu.level())?.into()))
        }
        None => Ok(("on the card, twice".into(), device.clone())),
    }
}

fn reference(alone: &Execution, store: &mut Store, device: &Device) -> Result<Row> {
    let title = "against the f64 reference";
    let graph = (alone.stages[0].record)()?;
    let costs = regard::cost::cost(&graph, &Default::default(), &Default::default(), None)?;
    let macs = costs.total().macs;
    if macs > MOST_MACS {
        let sentence = format!(
            "{:.1e} multiply-adds are too many for naive loops; give a shorter text (at most {:.0e})",
            macs as f64, MOST_MACS as f64
        );
        return Ok(skipped(title, sentence));
    }
    let how = Agreement::Within(ROUNDING);
    Ok(judged(title, how, compare_reference(alone, store, device, how)?))
}

/// Whether there are numbers that are none: all ways agree on those, too.
fn finite(title: &str, found: &NotFinite) -> Row {
    let (verdict, sentence) = match found.sentence() {
        None => (Verdict::Holds, "every number is finite".into()),
        Some(sentence) => (Verdict::Broken, sentence),
    };
    Row { title: title.into(), verdict, sentence, comparison: None }
}

/// What a pass gives on its way, block by block, and in the end.
fn values(alone: &Execution, store: &mut Store, device: &Device) -> Result<NotFinite> {
    let mut found = NotFinite::default();
    for stage in &alone.stages {
        let graph = (stage.record)()?;
        let taps: Vec<String> = regard::layers::taps::taps(&graph)
            .into_iter()
            .filter(|tap| !tap.on_request)
            .map(|tap| tap.name)
            .collect();
        let kept: Vec<&str> = taps.iter().map(String::as_str).collect();
        let mut program = Program::new(graph, &kept, store, device)?;
        let outputs: Vec<String> = program.graph().outputs().map(|(name, _)| name.to_string()).collect();
        for turn in &stage.turns {
            turn.inputs.iter().try_for_each(|(name, array)| program.set_array(name, array))?;
            program.run(store)?;
            for name in taps.iter().chain(&outputs) {
                let array = program.array(name)?;
                let numbers: Vec<f32> = array.data().iter().map(|&x| x as f32).collect();
                found.add(name, &array.dims(), &numbers);
            }
        }
    }
    Ok(found)
}

/// An answer has no chance in it.
fn chance(alone: &Execution, opened: &Opened) -> Result<Row> {
    let title = "evaluation without chance";
    let found = chances(&(alone.stages[0].record)()?);
    Ok(match found.first() {
        Some(first) => Row {
            title: title.into(),
            verdict: Verdict::Broken,
            sentence: format!("`{}` {}, and {} more do such things", first.node, first.what, found.len() - 1),
            comparison: None,
        },
        None => {
            let trained = opened.for_training();
            let sizes = Sizes { batch: 1, ids: 2, source: 2, ..Default::default() };
            let drops = chances(&regard_hub::forward::record(&**trained, sizes)?).len();
            Row {
                title: title.into(),
                verdict: Verdict::Holds,
                sentence: format!("no random op in the graph; in training there are {drops}"),
                comparison: None,
            }
        }
    })
}

fn row_json(row: &Row) -> Value {
    let verdict = match row.verdict {
        Verdict::Holds => "holds",
        Verdict::Broken => "broken",
        Verdict::Skipped => "skipped",
    };
    json!({
        "title": row.title, "verdict": verdict, "sentence": row.sentence,
        "difference": row.comparison.as_ref().map(|found| found.difference),
        "numbers": row.comparison.as_ref().map(|found| found.numbers),
        "first": row.comparison.as_ref().and_then(|found| found.first.clone()),
    })
}
