//! `regard cost`: what a pass or a step of training will cost, part by part, before it runs: multiply-adds,
//! bytes, memory and time. Rates are measured on small programs in the same process; with --measure, the true
//! times stand beside.

mod advice;
mod parts;

use crate::describe::{read, sizes, written};
use crate::machine::Machine;
use crate::model::{self, Weights};
use advice::advice;
use anyhow::Result;
use clap::Args;
use parts::{Part, grouped, part_json, part_of, table, time};
use regard::Memory;
use regard::device::machine::resident_anonymous;
use regard::graph::Graph;
use regard::prelude::*;
use regard_hub::Opened;
use regard_hub::forward::record_in_precision;
use regard_hub::step;
use regard_inspect::price::{self, Calibration, Cards, Clocked, ROUNDS};
use regard_models::{Registry, Sizes};
use serde_json::{Value, json};
use std::io::Write;

/// Options of `regard cost`.
#[derive(Args)]
#[command(after_help = "\
Times are predicted from rates that are measured on small programs of the usual parts, in this process, in rounds of which the
best counts: what a run takes that nobody disturbs. `bench/cost_check` compares predictions with what is measured. Measuring
the rates takes five to ten seconds. What is measured of the model itself, with --measure, between those rounds, is the time of
whole runs: their median, the least and the most. Times of parts are sums of the least times of their nodes.

Example:  regard cost crates/conformance/goldens/parity/gpt2/model --tokens 16 --measure")]
pub struct Options {
    /// A folder with config.json and weights, a run, organisation/name from a local Hugging Face cache, a
    /// .gguf file, or a `.bin` of llama2.c
    #[arg(value_name = "MODEL")]
    model: String,
    /// Positions of each text; of an encoder-decoder, of source and target [default: 128, or all that the
    /// model has]
    #[arg(long, value_name = "N")]
    tokens: Option<usize>,
    /// Texts or images at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    batch: usize,
    /// A step of training instead of a pass: forward, backward, AdamW
    #[arg(long)]
    train: bool,
    /// Products and attention of bf16 numbers, sums of f32
    #[arg(long)]
    bf16: bool,
    /// Run it, and put the true times beside the predicted ones
    #[arg(long)]
    measure: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    weights: Weights,
    #[command(flatten)]
    machine: Machine,
}

/// In each round the model is run for so many nanoseconds, but no fewer and no more times than these.
const PATIENCE: f64 = 2.5e8;
const TIMES: (usize, usize) = (2, 15);

/// A process takes memory in pieces, and may have some left from before: so many bytes can be told apart.
const SEEN: usize = 16 << 20;

/// Prices.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let cpu = options.machine.cpu()?;
    let opened = options.weights.open(&options.model, registry)?;
    let sizes = sizes(options.tokens, options.batch, &*opened.model)?;
    let precision = if options.bf16 { Precision::Bf16 } else { Precision::F32 };
    let recorded = |sizes: Sizes| -> Result<Graph> {
        match options.train {
            true => Ok(step::record(&*opened.model, sizes, precision)?),
            false => Ok(record_in_precision(&*opened.model, sizes, precision)?),
        }
    };
    let memory = price::memory(recorded(sizes)?, &cpu)?;
    let graph = recorded(sizes)?;
    let mut model = match options.measure {
        true => Some(Measured::new(recorded(sizes)?, &opened, &cpu)?),
        false => None,
    };
    let mut calibration = Calibration::new(&cpu, options.train, precision);
    let clocked = rounds(&mut calibration, model.as_mut())?;
    let taken = model.and_then(|model| model.bytes);
    let cards = calibration.cards()?;
    let prediction = price::predict(&graph, &cards)?;
    let parts = grouped(&prediction.nodes, clocked.as_ref(), |node| part_of(&node.row.name, node.row.pass));
    let ops = grouped(&prediction.nodes, clocked.as_ref(), |node| node.row.op.to_string());
    let advice =
        advice(&prediction, &parts, sizes, &|sizes| Ok(price::predict(&recorded(sizes)?, &cards)?.total))?;
    let crossovers = price::crossovers(&graph)?;
    let total = prediction.total;
    let costs = Costs { options, opened: &opened, sizes, memory, taken, clocked, cards, total, parts, ops };
    let mut out = std::io::stdout().lock();
    match options.json {
        true => writeln!(out, "{}", costs.json(crossovers, &advice))?,
        false => costs.print(&mut out, crossovers, &advice)?,
    }
    Ok(())
}

/// Rates and the model in turns, so that both meet the machine in the same moods.
fn rounds(calibration: &mut Calibration, mut model: Option<&mut Measured>) -> Result<Option<Clocked>> {
    let mut clocked: Option<Clocked> = None;
    for _ in 0..ROUNDS {
        calibration.round()?;
        if let Some(model) = &mut model {
            let now = model.clock()?;
            clocked = Some(match clocked.take() {
                Some(before) => Clocked::and(before, now),
                None => now,
            });
        }
    }
    Ok(clocked)
}

/// What was found of a model.
struct Costs<'a> {
    options: &'a Options,
    opened: &'a Opened,
    sizes: Sizes,
    /// Planned, and what the process took.
    memory: Memory,
    taken: Option<usize>,
    clocked: Option<Clocked>,
    cards: Cards,
    /// Nanoseconds of the whole run, as predicted.
    total: f64,
    parts: Vec<(String, Part)>,
    ops: Vec<(String, Part)>,
}

impl Costs<'_> {
    fn json(&self, crossovers: Option<(f64, f64)>, advice: &[String]) -> Value {
        let Costs { options, sizes, memory, cards, .. } = self;
        let (clocked, ceilings) = (self.clocked.as_ref(), cards.ceilings());
        let list = |parts: &[(String, Part)]| {
            parts.iter().map(|(name, part)| part_json(name, part, options.measure)).collect::<Vec<_>>()
        };
        let reading: Vec<_> = cards.reading().iter().map(|(bytes, speed)| json!([bytes, speed])).collect();
        json!({
            "family": self.opened.model.family(),
            "batch": sizes.batch, "tokens": read(sizes), "targets": written(sizes),
            "train": options.train, "bf16": options.bf16,
            "ceilings": { "gflops": ceilings.gflops, "gbytes": ceilings.gbytes, "reading": reading },
            "predicted_ms": self.total / 1e6,
            "measured_ms": clocked.map(|clocked| clocked.median() / 1e6),
            "runs_ms": clocked.map(|clocked| clocked.runs.iter().map(|run| run / 1e6).collect::<Vec<_>>()),
            "memory": {
                "parameters": memory.stored, "packed": memory.packed, "arena": memory.arena,
                "threads": memory.threads, "inputs_and_outputs": memory.io, "constants": memory.constants,
                "total": memory.total(), "measured": self.taken,
            },
            "parts": list(&self.parts), "ops": list(&self.ops),
            "crossovers": crossovers.map(|(own, block)| json!({ "projections": own, "block": block })),
            "advice": advice,
        })
    }

    fn print(&self, out: &mut impl Write, crossovers: Option<(f64, f64)>, advice: &[String]) -> Result<()> {
        let (options, opened, sizes, total) = (self.options, self.opened, &self.sizes, self.total);
        let what = if options.train { "One step of training" } else { "One pass" };
        writeln!(out, "{}, {}", opened.model.family(), opened.path.display())?;
        let positions = read(sizes).max(1);
        writeln!(out, "{what}, {} of {positions} positions: {} predicted", sizes.batch, time(total))?;
        if let Some(clocked) = &self.clocked {
            let off = |measured: f64| 100.0 * (total / measured - 1.0);
            writeln!(
                out,
                "  {} measured, the median of {} runs from {} to {}; the prediction is off by {:+.0} %, from the \
                 least run by {:+.0} %",
                time(clocked.median()),
                clocked.runs.len(),
                time(clocked.least()),
                time(clocked.most()),
                off(clocked.median()),
                off(clocked.least())
            )?;
        }
        let ceilings = self.cards.ceilings();
        writeln!(
            out,
            "  this machine now: {:.0} GFLOP/s of f32 multiply-adds, {:.1} GB/s read from memory",
            ceilings.gflops, ceilings.gbytes
        )?;
        table(out, "By part", &self.parts, options.measure)?;
        table(out, "By op", &self.ops, options.measure)?;
        self.print_memory(out)?;
        if let Some((own, block)) = crossovers {
            writeln!(
                out,
                "\nCrossover\n  attention costs more multiply-adds than its projections from {own:.0} keys on, and \
                 more than all products of its block from {block:.0} on"
            )?;
        }
        writeln!(out, "\nTo spend half")?;
        advice.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        Ok(())
    }

    fn print_memory(&self, out: &mut impl Write) -> Result<()> {
        let memory = &self.memory;
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        writeln!(
            out,
            "\nMemory, planned\n  parameters and states {:.1} MiB, packed weights {:.1}, arena {:.1}, threads {:.1}, \
             inputs and outputs {:.1}: {:.1} MiB",
            mib(memory.stored),
            mib(memory.packed),
            mib(memory.arena),
            mib(memory.threads),
            mib(memory.io + memory.constants),
            mib(memory.total())
        )?;
        match self.taken {
            Some(bytes) if memory.total() >= SEEN => {
                let off = 100.0 * (memory.total() as f64 / bytes as f64 - 1.0);
                writeln!(
                    out,
                    "  the process took {:.1} MiB for it, the plan is off by {off:+.1} %",
                    mib(bytes)
                )?;
            }
            _ if self.options.measure => writeln!(out, "  too little to be seen in what the process takes")?,
            _ => {}
        }
        Ok(())
    }
}

/// A model that is run for its true times.
struct Measured {
    program: Program,
    store: Store,
    threads: usize,
    /// Bytes that the process took for it, where the system says so.
    bytes: Option<usize>,
}

impl Measured {
    /// Makes it, and runs it once, so that all of its memory has been touched.
    fn new(graph: Graph, opened: &Opened, cpu: &Cpu) -> Result<Measured> {
        // Threads and an arena of its own: what others have left in the shared one would not be counted.
        let cpu = Cpu::with(cpu.pool().threads(), cpu.level())?;
        let before = resident_anonymous();
        let mut store = model::store(opened)?;
        let mut program = Program::new(graph, &[], &mut store, &cpu)?;
        step::feed(&mut program, &*opened.model)?;
        program.run(&mut store)?;
        let bytes = resident_anonymous().zip(before).map(|(now, before)| now.saturating_sub(before) as usize);
        Ok(Measured { program, store, threads: cpu.pool().threads(), bytes })
    }

    /// One round.
    fn clock(&mut self) -> Result<Clocked> {
        Ok(price::clock(&mut self.program, &mut self.store, self.threads, PATIENCE, TIMES)?)
    }
}
