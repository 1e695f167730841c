//! `regard cost`: what a pass or a step of training will cost, part by part, before it runs: multiply-adds, bytes, memory and
//! time. Rates are measured on small programs in the same process; with --measure, the true times stand beside.

use crate::describe::sizes;
use crate::machine::Machine;
use crate::{loaded, losses};
use anyhow::Result;
use clap::Args;
use regard::graph::{Graph, Init, Pass};
use regard::prelude::*;
use regard_hub::forward::{Sizes, record};
use regard_hub::{AnyModel, Opened};
use regard_inspect::price::{self, Cards, Priced, Spent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

/// Options of `regard cost`.
#[derive(Args)]
#[command(after_help = "\
Times are predicted from rates that are measured on small programs of the usual parts, in this process, on this machine as
busy as it is; `bench/cost_check` compares predictions with what is measured. Measuring the rates takes some seconds.

Example:  regard cost crates/conformance/goldens/parity/gpt2/model --tokens 16 --measure")]
pub struct Options {
    /// A folder with config.json and weights, a run, organisation/name from a local Hugging Face cache, or a `.bin` of
    /// llama2.c
    #[arg(value_name = "MODEL")]
    model: String,
    /// Positions of each text; of an encoder-decoder, of source and target [default: 128, or all that the model has]
    #[arg(long, value_name = "N")]
    tokens: Option<usize>,
    /// Texts or images at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    batch: usize,
    /// A step of training instead of a pass: forward, backward, AdamW
    #[arg(long)]
    train: bool,
    /// Run it, and put the true times beside the predicted ones
    #[arg(long)]
    measure: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

/// Runs of which the least time counts.
const RUNS: usize = 5;

/// Work and time of something with a name.
#[derive(Clone, Default)]
struct Part {
    macs: u64,
    bytes: u64,
    predicted: f64,
    measured: f64,
}

/// Prices.
pub fn run(options: &Options) -> Result<()> {
    let cpu = options.machine.cpu()?;
    let opened = loaded::open(&options.model)?;
    let sizes = sizes(options.tokens, options.batch, &opened.model)?;
    let recorded = |sizes: Sizes| -> Result<Graph> {
        if options.train { losses::record(&opened.model, sizes) } else { Ok(record(&opened.model, sizes)?) }
    };
    let memory = planned(recorded(sizes)?, &opened, &cpu)?;
    let cards = Cards::measure(&cpu, options.train)?;
    let graph = recorded(sizes)?;
    let priced = price::predict(&graph, &cards)?;
    let crossovers = price::crossovers(&graph)?;
    let total: f64 = priced.iter().map(|node| node.nanoseconds).sum();
    let measured = if options.measure { Some(measured(graph, &opened, &cpu)?) } else { None };
    let predicted = |sizes: Sizes| -> Result<f64> {
        Ok(price::predict(&recorded(sizes)?, &cards)?.iter().map(|node| node.nanoseconds).sum())
    };
    let parts = grouped(&priced, measured.as_ref(), |node| part_of(&node.row.name, node.row.pass));
    let ops = grouped(&priced, measured.as_ref(), |node| node.row.op.to_string());
    let advice = advice(&parts, total, sizes, &predicted)?;

    let mut out = std::io::stdout().lock();
    if options.json {
        let list = |parts: &[(String, Part)]| {
            parts.iter().map(|(name, part)| part_json(name, part, options.measure)).collect::<Vec<_>>()
        };
        let page = json!({
            "family": opened.model.family(), "batch": sizes.batch, "tokens": sizes.tokens, "targets": sizes.targets,
            "train": options.train,
            "ceilings": { "gflops": cards.ceilings.gflops, "gbytes": cards.ceilings.gbytes },
            "predicted_ms": total / 1e6,
            "measured_ms": measured.as_ref().map(|(spent, _)| spent.total / 1e6),
            "memory": {
                "parameters": memory.stored, "packed": memory.packed, "arena": memory.arena, "threads": memory.threads,
                "inputs_and_outputs": memory.io, "constants": memory.constants, "total": memory.total(),
                "measured": measured.as_ref().and_then(|(_, bytes)| *bytes),
            },
            "parts": list(&parts), "ops": list(&ops),
            "crossovers": crossovers.map(|(own, block)| json!({ "projections": own, "block": block })),
            "advice": advice,
        });
        writeln!(out, "{page}")?;
        return Ok(());
    }
    let what = if options.train { "One step of training" } else { "One pass" };
    writeln!(out, "{}, {}", opened.model.family(), opened.path.display())?;
    writeln!(out, "{what}, {} of {} positions: {} predicted", sizes.batch, sizes.tokens.max(1), time(total))?;
    if let Some((spent, _)) = &measured {
        let off = 100.0 * (total / spent.total - 1.0);
        writeln!(out, "  {} measured, the prediction is off by {off:+.0} %", time(spent.total))?;
    }
    writeln!(
        out,
        "  this machine now: {:.0} GFLOP/s of f32 multiply-adds, {:.1} GB/s read from memory",
        cards.ceilings.gflops, cards.ceilings.gbytes
    )?;
    table(&mut out, "By part", &parts, total, options.measure)?;
    table(&mut out, "By op", &ops, total, options.measure)?;
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    writeln!(
        out,
        "\nMemory, planned\n  parameters and states {:.1} MiB, packed weights {:.1}, arena {:.1}, threads {:.1}, inputs and \
         outputs {:.1}: {:.1} MiB",
        mib(memory.stored),
        mib(memory.packed),
        mib(memory.arena),
        mib(memory.threads),
        mib(memory.io + memory.constants),
        mib(memory.total())
    )?;
    if let Some((_, Some(bytes))) = &measured {
        let off = 100.0 * (memory.total() as f64 / *bytes as f64 - 1.0);
        writeln!(out, "  the process took {:.1} MiB for it, the plan is off by {off:+.1} %", mib(*bytes))?;
    }
    if let Some((own, block)) = crossovers {
        writeln!(
            out,
            "\nCrossover\n  attention costs more multiply-adds than its projections from {own:.0} keys on, and more than all \
             products of its block from {block:.0} on"
        )?;
    }
    writeln!(out, "\nTo spend less")?;
    advice.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    Ok(())
}

/// The plan, without reading a weight: pages of zeros take no memory until they are touched.
fn planned(graph: Graph, opened: &Opened, cpu: &Cpu) -> Result<regard::Memory> {
    let mut store = Store::new(0);
    for declared in opened.model.parameters().declared() {
        store.declare(&declared.name, &declared.shape, Init::Zeros)?;
    }
    Ok(Program::new(graph, &[], &mut store, cpu)?.memory())
}

/// Times of all nodes, and the bytes that the process took where the system says so.
fn measured(graph: Graph, opened: &Opened, cpu: &Cpu) -> Result<(Spent, Option<usize>)> {
    // Threads and an arena of its own: what small programs left in the shared one would not be counted.
    let cpu = Cpu::with(cpu.pool().threads(), cpu.level())?;
    let before = resident();
    let mut store = loaded::store(opened)?;
    let mut program = Program::new(graph, &[], &mut store, &cpu)?;
    feed(&mut program, &opened.model)?;
    let spent = price::spent(&mut program, &mut store, RUNS)?;
    let used = resident().zip(before).map(|(now, before)| now.saturating_sub(before));
    Ok((spent, used))
}

/// Bytes that the process holds beside mapped files.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(value.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()? * 1024)
}

/// Numbers that any model takes.
fn feed(program: &mut Program, model: &AnyModel) -> Result<()> {
    let inputs: Vec<(String, DType, Vec<usize>)> = program
        .graph()
        .inputs()
        .map(|(name, var)| {
            (name.to_string(), program.graph().dtype(var), program.graph().shape(var).bound().to_vec())
        })
        .collect();
    let small = match model {
        AnyModel::Vit(_) => 1,
        _ => model
            .vocabulary()
            .unwrap_or(1)
            .min(model.encoder_decoder().map_or(usize::MAX, |pair| pair.vocabulary())),
    };
    for (name, dtype, dims) in inputs {
        let count: usize = dims.iter().product();
        let classes = name == "labels" && dims.len() == 1;
        match dtype {
            DType::Bool => program.set_bools(&name, &dims, &vec![true; count])?,
            DType::I32 if name == "step" => program.set_i32(&name, &dims, &[1])?,
            DType::I32 if classes => program.set_i32(&name, &dims, &vec![0; count])?,
            DType::I32 => {
                let ids: Vec<i32> = (0..count).map(|i| (i * 7919 % small) as i32).collect();
                program.set_i32(&name, &dims, &ids)?;
            }
            _ => {
                let numbers: Vec<f32> = (0..count).map(|i| 1e-3 + (i % 97) as f32 / 97.0).collect();
                program.set_f32(&name, &dims, &numbers)?;
            }
        }
    }
    Ok(())
}

/// `block.*.attention` for `block.3.attention.linear#2`: all layers together.
fn part_of(name: &str, pass: Pass) -> String {
    let mut parts: Vec<&str> = name.split('.').collect();
    parts.pop();
    let said: Vec<&str> =
        parts.iter().map(|part| if part.parse::<usize>().is_ok() { "*" } else { part }).take(4).collect();
    let said = if said.is_empty() { "outside of parts".to_string() } else { said.join(".") };
    match pass {
        Pass::Forward => said,
        Pass::Recompute => format!("{said} (again)"),
        Pass::Backward => format!("{said} (backward)"),
    }
}

fn grouped(
    priced: &[Priced],
    measured: Option<&(Spent, Option<usize>)>,
    name: impl Fn(&Priced) -> String,
) -> Vec<(String, Part)> {
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    for node in priced {
        let part = parts.entry(name(node)).or_default();
        let work = node.row.cost.math;
        part.macs += work.macs;
        part.bytes += work.read + work.written;
        part.predicted += node.nanoseconds;
        part.measured +=
            measured.and_then(|(spent, _)| spent.nodes.get(&node.row.node)).copied().unwrap_or(0.0);
    }
    let mut parts: Vec<(String, Part)> = parts.into_iter().collect();
    parts.sort_by(|a, b| b.1.predicted.total_cmp(&a.1.predicted));
    parts
}

/// The largest part, and what other sizes would cost.
fn advice(
    parts: &[(String, Part)],
    total: f64,
    sizes: Sizes,
    predicted: &dyn Fn(Sizes) -> Result<f64>,
) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    if let Some((name, part)) = parts.first() {
        let share = part.predicted / total;
        let saved = match name.as_str() {
            name if name.contains("feed_forward") => {
                format!("half of its hidden width would save {:.0} %", 50.0 * share)
            }
            name if name.starts_with("head") && sizes.tokens > 1 => {
                let kept = 1.0 / sizes.tokens as f64;
                format!("scores of the last position alone would save {:.0} %", 100.0 * share * (1.0 - kept))
            }
            _ => format!("half of the layers would save {:.0} % where it is part of them", 50.0 * share),
        };
        lines.push(format!("the bottleneck is {name}, {:.0} % of the time: {saved}", 100.0 * share));
    }
    if sizes.tokens > 1 {
        let half = Sizes { tokens: sizes.tokens / 2, targets: sizes.targets / 2, ..sizes };
        let half = Sizes { targets: if sizes.targets > 0 { half.targets.max(1) } else { 0 }, ..half };
        let ns = predicted(half)?;
        lines.push(format!("half of the positions: {}, {:.0} % less", time(ns), 100.0 * (1.0 - ns / total)));
    }
    let more = Sizes { batch: 4 * sizes.batch, ..sizes };
    let ns = predicted(more)?;
    lines.push(format!(
        "four times the batch: {}, {} for each instead of {}",
        time(ns),
        time(ns / more.batch as f64),
        time(total / sizes.batch as f64)
    ));
    Ok(lines)
}

fn table(
    out: &mut impl Write,
    title: &str,
    parts: &[(String, Part)],
    total: f64,
    measured: bool,
) -> Result<()> {
    let widest = parts.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(title.len());
    write!(
        out,
        "\n{title:<widest$}  {:>13}  {:>10}  {:>12}  {:>6}",
        "multiply-adds", "moved", "predicted", "share"
    )?;
    writeln!(out, "{}", if measured { format!("  {:>12}", "measured") } else { String::new() })?;
    for (name, part) in parts {
        write!(
            out,
            "{name:<widest$}  {:>13}  {:>10}  {:>12}  {:>5.1}%",
            counted(part.macs),
            format!("{}B", counted(part.bytes)),
            time(part.predicted),
            100.0 * part.predicted / total
        )?;
        writeln!(out, "{}", if measured { format!("  {:>12}", time(part.measured)) } else { String::new() })?;
    }
    Ok(())
}

fn part_json(name: &str, part: &Part, measured: bool) -> Value {
    json!({
        "name": name, "multiply_adds": part.macs, "bytes": part.bytes, "predicted_ms": part.predicted / 1e6,
        "measured_ms": measured.then_some(part.measured / 1e6),
    })
}

/// 1.2 G, 34 k.
fn counted(count: u64) -> String {
    let count = count as f64;
    match count {
        x if x >= 1e12 => format!("{:.1} T", x / 1e12),
        x if x >= 1e9 => format!("{:.1} G", x / 1e9),
        x if x >= 1e6 => format!("{:.1} M", x / 1e6),
        x if x >= 1e3 => format!("{:.1} k", x / 1e3),
        x => format!("{x} "),
    }
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        x if x >= 1e9 => format!("{:.2} s", x / 1e9),
        x if x >= 1e6 => format!("{:.2} ms", x / 1e6),
        x => format!("{:.1} µs", x / 1e3),
    }
}
