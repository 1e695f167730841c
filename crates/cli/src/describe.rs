//! `regard describe`: what a model is, before anything runs: family, settings, parameters by part, the
//! outline of its graph, what can be tapped, what a pass costs and how much memory it takes. Of the weights
//! only those are told that are no numbers.

use crate::finite::NotFinite;
use crate::left_out::left_out;
use crate::machine::Machine;
use crate::model::Weights;
use anyhow::{Result, bail};
use clap::Args;
use regard::cost::Costs;
use regard::graph::Init;
use regard::layers::taps::{Tap, taps};
use regard::{Cpu, Memory, Program, Store};
use regard_hub::Opened;
use regard_hub::forward::record;
use regard_models::{Model, Registry, Sizes};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

/// Options of `regard describe`.
#[derive(Args)]
#[command(after_help = "\
Example:  regard describe crates/conformance/goldens/parity/gpt2/model --tokens 16 --batch 2
Example:  regard describe crates/conformance/goldens/parity/gpt2/model --taps")]
pub struct Options {
    /// A folder with config.json and weights, a run, organisation/name from a local Hugging Face cache, a
    /// .gguf file, or a `.bin` of llama2.c
    #[arg(value_name = "MODEL")]
    model: String,
    /// Positions of each text; of an encoder-decoder, of source and target [default: 128, or all that the
    /// model has]
    #[arg(long, value_name = "N")]
    tokens: Option<usize>,
    /// Texts or images in one pass
    #[arg(long, default_value_t = 1, value_name = "N")]
    batch: usize,
    /// List the values inside that `regard forward --tap` and `regard look --patch` take by name, and nothing
    /// else
    #[arg(long)]
    taps: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    weights: Weights,
    #[command(flatten)]
    machine: Machine,
}

/// Describes.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let cpu = options.machine.cpu()?;
    let opened = options.weights.open(&options.model, registry)?;
    let sizes = sizes(options.tokens, options.batch, &*opened.model)?;
    let graph = record(&*opened.model, sizes)?;
    let taps = taps(&graph);
    if options.taps {
        return list(&taps, options.json);
    }
    let mut store = Store::new(0);
    for declared in opened.model.parameters().all() {
        // Zeros, for only sizes matter here, and a page of zeros takes no memory until it is touched.
        store.declare(&declared.name, &declared.shape, Init::Zeros)?;
    }
    // The plan comes first: it refuses sizes at which even counting would take forever.
    let memory = Program::new(graph, &[], &mut store, &cpu)?.memory();
    // What was recorded, not what planning made of it.
    let graph = &record(&*opened.model, sizes)?;
    let unsound = NotFinite::in_weights(&opened);
    unsound.warn("the model is not sound:");
    let description = Description {
        sizes,
        taps,
        memory,
        outline: regard::describe::outline(graph),
        costs: regard::cost::cost(graph, &Default::default(), &Default::default(), None)?,
        executed: Cpu::executed(graph, &Default::default(), &Default::default(), None)?,
        outputs: graph.outputs().map(|(name, var)| format!("{name} {}", graph.fact(var))).collect(),
        by_part: regard::describe::parameters_by_prefix(graph, 1),
        unsound,
        opened,
    };
    let mut out = std::io::stdout().lock();
    match options.json {
        true => writeln!(out, "{}", description.json())?,
        false => description.print(&mut out)?,
    }
    Ok(())
}

/// What is said of a model.
struct Description {
    opened: Opened,
    unsound: NotFinite,
    sizes: Sizes,
    taps: Vec<Tap>,
    memory: Memory,
    outline: String,
    costs: Costs,
    /// What the CPU does, tiles included.
    executed: Costs,
    outputs: Vec<String>,
    by_part: BTreeMap<String, usize>,
}

impl Description {
    fn json(&self) -> Value {
        let Description { opened, sizes, memory, .. } = self;
        let by_op: serde_json::Map<String, Value> = self
            .costs
            .by_op()
            .into_iter()
            .map(|(op, cost)| {
                (op.to_string(), json!({ "multiply_adds": cost.macs, "other_operations": cost.flops }))
            })
            .collect();
        let total = self.costs.total();
        json!({
            "family": opened.model.family(),
            "path": opened.path.display().to_string(),
            "config": opened.config,
            "parameters": {
                "total": opened.report.numbers, "tensors": opened.report.tensors, "by_part": self.by_part,
            },
            "weights": {
                "bytes": opened.checkpoint().bytes(), "dtypes": dtypes(opened), "left_out": opened.report.ignored,
                "not_finite": self.unsound.sentence(),
            },
            "context": opened.model.context(),
            "outputs": self.outputs,
            "taps": self.taps.iter().map(|tap| &tap.name).collect::<Vec<_>>(),
            "pass": { "batch": sizes.batch, "tokens": read(sizes), "targets": written(sizes) },
            "cost": {
                "multiply_adds": total.macs, "other_operations": total.flops, "bytes_read": total.read,
                "bytes_written": total.written, "by_op": by_op,
            },
            "memory": {
                "parameters": memory.stored, "packed": memory.packed, "arena": memory.arena,
                "inputs_and_outputs": memory.io, "constants": memory.constants, "threads": memory.threads,
                "total": memory.total(),
            },
        })
    }

    fn print(&self, out: &mut impl Write) -> Result<()> {
        let opened = &self.opened;
        writeln!(out, "{}, {}", opened.model.family(), opened.path.display())?;
        writeln!(
            out,
            "  {} parameters in {} tensors; on the disk {}",
            opened.report.numbers,
            opened.report.tensors,
            dtypes(opened).join(", ")
        )?;
        if !opened.report.ignored.is_empty() {
            writeln!(out, "  left out, for they are no parameters: {}", left_out(&opened.report.ignored))?;
        }
        writeln!(out, "\nSettings (config.json)")?;
        if let Some(settings) = opened.config.as_object() {
            for (name, value) in settings {
                writeln!(out, "  {name}: {}", shortened(value))?;
            }
        }
        writeln!(out, "\nParameters by part")?;
        let widest = self.by_part.keys().map(String::len).max().unwrap_or(0);
        for (part, count) in &self.by_part {
            writeln!(out, "  {part:<widest$}  {count:>12}")?;
        }
        self.print_pass(out)
    }

    fn print_pass(&self, out: &mut impl Write) -> Result<()> {
        let memory = &self.memory;
        writeln!(out, "\nOne pass, {}", shown_sizes(&self.sizes, &*self.opened.model))?;
        self.outline.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
        writeln!(out, "  outputs: {}", self.outputs.join(", "))?;
        writeln!(out, "  taps: {}, which `--taps` lists", self.taps.len())?;
        writeln!(out, "\nIts cost, before it runs")?;
        self.costs
            .table_by_op(Some(&self.executed))
            .lines()
            .try_for_each(|line| writeln!(out, "  {line}"))?;
        let mib = |bytes: usize| bytes as f64 / (1 << 20) as f64;
        writeln!(
            out,
            "\nIts memory, before it runs\n  parameters {:.2} MiB, packed weights {:.2}, arena {:.2}, threads {:.2}, \
             inputs and outputs {:.2}: {:.2} MiB",
            mib(memory.stored),
            mib(memory.packed),
            mib(memory.arena),
            mib(memory.threads),
            mib(memory.io + memory.constants),
            mib(memory.total())
        )?;
        Ok(())
    }
}

/// The taps of a pass, one a line.
fn list(taps: &[Tap], json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        let each = taps.iter().map(|tap| {
            let Tap { name, shape, dtype, about, on_request } = tap;
            let dims = shape.bound().to_vec();
            json!({ "name": name, "shape": dims, "dtype": dtype.to_string(), "about": about, "on_request": on_request })
        });
        writeln!(out, "{}", json!({ "taps": each.collect::<Vec<_>>() }))?;
        return Ok(());
    }
    let shapes: Vec<String> = taps.iter().map(|tap| format!("{} {}", tap.dtype, tap.shape)).collect();
    let widest = |texts: &mut dyn Iterator<Item = &str>| texts.map(str::len).max().unwrap_or(0);
    let name = widest(&mut taps.iter().map(|tap| tap.name.as_str()));
    let shape = widest(&mut shapes.iter().map(String::as_str));
    for (tap, dims) in taps.iter().zip(&shapes) {
        writeln!(out, "{:<name$}  {dims:<shape$}  {}", tap.name, tap.about)?;
    }
    Ok(())
}

/// The usual number of positions of a pass.
const TOKENS: usize = 128;

/// The sizes of a pass: as many positions as asked for, if the model has room for them.
pub fn sizes(tokens: Option<usize>, batch: usize, model: &dyn Model) -> Result<Sizes> {
    if batch == 0 {
        bail!("--batch 0: an empty pass has no cost; choose at least 1");
    }
    if model.reads().given().is_none() {
        if tokens.is_some() {
            bail!("--tokens: this is a model of images, whose patches are given by its config; leave it out");
        }
        return Ok(Sizes { batch, ..Default::default() });
    }
    let most = model.context().unwrap_or(usize::MAX);
    let tokens = tokens.unwrap_or(TOKENS.min(most));
    if tokens == 0 || tokens > most {
        bail!("--tokens {tokens}: choose between 1 and {most}, which is all that this model has room for");
    }
    let source = if model.reads().source.is_some() { tokens } else { 0 };
    Ok(Sizes { batch, ids: tokens, source, ..Default::default() })
}

/// Positions of what is read.
pub fn read(sizes: &Sizes) -> usize {
    if sizes.source > 0 { sizes.source } else { sizes.ids }
}

/// Positions of what an encoder-decoder writes.
pub fn written(sizes: &Sizes) -> usize {
    if sizes.source > 0 { sizes.ids } else { 0 }
}

fn shown_sizes(sizes: &Sizes, model: &dyn Model) -> String {
    let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    match model.reads().given() {
        None => many(sizes.batch, "image"),
        Some(_) if sizes.source > 0 => {
            format!("{} of {} positions, targets of as many", many(sizes.batch, "text"), sizes.source)
        }
        Some(_) => format!("{} of {} positions", many(sizes.batch, "text"), sizes.ids),
    }
}

/// `F32: 1234 bytes`, for each dtype that there is.
fn dtypes(opened: &Opened) -> Vec<String> {
    let mut sums: Vec<(String, u64)> = Vec::new();
    for tensor in opened.checkpoint().tensors() {
        let (name, bytes) = (tensor.dtype.to_string(), tensor.bytes.len() as u64);
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += bytes,
            None => sums.push((name, bytes)),
        }
    }
    sums.into_iter().map(|(name, bytes)| format!("{name}: {bytes} bytes")).collect()
}

/// A thousand labels are not worth a thousand lines.
fn shortened(value: &Value) -> String {
    const MOST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}… ({} characters)", &text[..at], text.chars().count()),
        None => text,
    }
}
