//! Feeds a workload, warms up, runs it so often, prints the times.

use super::How;
use super::profile;
use anyhow::{Context, Result, bail};
use regard::prelude::*;
use serde_json::json;
use std::io::Write;
use std::time::Instant;

/// What is timed.
pub struct Bench<'a> {
    /// What the output calls it.
    pub name: String,
    /// The graph, with all sizes fixed.
    pub graph: Graph,
    /// What its inputs are fed with.
    pub feeds: Feeds,
    /// How many tokens (or images) a run works through; 0 if there are none.
    pub tokens: u64,
    /// Feeds what changes from run to run.
    pub next: Option<&'a Next>,
}

/// Feeds a program for its run of this number.
pub type Next = dyn Fn(&mut Program, usize) -> regard::Result<()>;

/// Numbers for the inputs of a graph.
pub struct Feeds(Vec<(String, Vec<usize>, Numbers)>);

enum Numbers {
    Normal,
    Below(usize),
    Given(Vec<i32>),
    Number(f32),
    Truths(Vec<bool>),
}

impl Feeds {
    /// Nothing yet.
    pub fn new() -> Feeds {
        Feeds(Vec::new())
    }

    /// Normal numbers for a float input.
    pub fn normal(self, name: &str, dims: &[usize]) -> Feeds {
        self.with(name, dims, Numbers::Normal)
    }

    /// Uniform integers below a bound for an integer input.
    pub fn below(self, name: &str, dims: &[usize], bound: usize) -> Feeds {
        self.with(name, dims, Numbers::Below(bound))
    }

    /// These integers.
    pub fn integers(self, name: &str, dims: &[usize], numbers: Vec<i32>) -> Feeds {
        self.with(name, dims, Numbers::Given(numbers))
    }

    /// A single float.
    pub fn number(self, name: &str, number: f32) -> Feeds {
        self.with(name, &[], Numbers::Number(number))
    }

    /// These truths.
    pub fn truths(self, name: &str, dims: &[usize], truths: Vec<bool>) -> Feeds {
        self.with(name, dims, Numbers::Truths(truths))
    }

    fn with(mut self, name: &str, dims: &[usize], numbers: Numbers) -> Feeds {
        self.0.push((name.into(), dims.to_vec(), numbers));
        self
    }

    fn feed(&self, program: &mut Program) -> Result<()> {
        for (name, dims, numbers) in &self.0 {
            let stream = regard::device::Stream::new(1, 0, name);
            let count: usize = dims.iter().product();
            match numbers {
                Numbers::Normal => {
                    let numbers: Vec<f32> =
                        (0..count).map(|i| stream.normal(0, 0, i as u32) as f32).collect();
                    program.set_f32(name, dims, &numbers)?;
                }
                Numbers::Below(bound) => {
                    let draw =
                        |i: usize| ((stream.block(0, 0, i as u32)[0] as u64 * *bound as u64) >> 32) as i32;
                    program.set_i32(name, dims, &(0..count).map(draw).collect::<Vec<_>>())?;
                }
                Numbers::Given(numbers) => program.set_i32(name, dims, numbers)?,
                Numbers::Truths(truths) => program.set_bools(name, dims, truths)?,
                Numbers::Number(number) => program.set_f32(name, dims, &[*number])?,
            }
        }
        Ok(())
    }
}

/// The milliseconds of each run, after two to warm up.
fn clocked(program: &mut Program, store: &mut Store, next: Option<&Next>, how: &How) -> Result<Vec<f64>> {
    let mut enqueue = |program: &mut Program, index: usize| -> Result<Instant> {
        if let Some(next) = next {
            next(program, index)?;
        }
        let began = Instant::now();
        program.run(store)?;
        Ok(began)
    };
    let mut run = |program: &mut Program, index: usize| -> Result<f64> {
        let began = enqueue(program, index)?;
        program.wait()?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    };
    let warm = 2.min(how.repeat);
    (0..warm).try_for_each(|index| run(program, index).map(|_| ()))?;
    if how.profile {
        program.measure();
    }
    if program.device().cpu().is_some() || how.profile {
        return (0..how.repeat).map(|index| run(program, warm + index)).collect();
    }
    // What a card does is a stream: one run is put on it while the one before is still running.
    let began = Instant::now();
    (0..how.repeat).try_for_each(|index| enqueue(program, warm + index).map(|_| ()))?;
    program.wait()?;
    Ok(vec![began.elapsed().as_secs_f64() * 1e3 / how.repeat as f64])
}

/// Times a workload and prints what came out.
pub fn time(bench: Bench<'_>, how: &How) -> Result<()> {
    how.check()?;
    let name = bench.name;
    if let Some((_, dims, _)) = bench.feeds.0.iter().find(|(_, dims, _)| dims.contains(&0)) {
        bail!("{name}: an operand of {dims:?} is empty, nothing would be timed; give every size at least 1");
    }
    let device = how.machine.device()?;
    let mut store = Store::new(0);
    store.hold_weights(how.precision.weights());
    // The plan comes first: it refuses sizes at which even counting would take forever.
    let mut program = Program::new(bench.graph, &[], &mut store, &device)?;
    let outputs: Vec<Var> = program.graph().outputs().map(|(_, var)| var).collect();
    let costs =
        regard::cost::cost(program.graph(), &Default::default(), &Default::default(), Some(&outputs))?;
    let executed =
        device.executed(program.graph(), &Default::default(), &Default::default(), Some(&outputs))?;
    let macs = costs.total().macs;
    bench.feeds.feed(&mut program).with_context(|| name.clone())?;
    let mut times = clocked(&mut program, &mut store, bench.next, how)?;
    times.sort_by(f64::total_cmp);
    let (best, worst, median) = (times[0], times[times.len() - 1], times[times.len() / 2]);
    let gflops = 2.0 * macs as f64 / (median * 1e6);
    let rate = (bench.tokens > 0).then(|| bench.tokens as f64 * 1e3 / median);
    let memory = program.memory().total();
    let threads = device.cpu().map_or(1, |cpu| cpu.pool().threads());
    let level = device.cpu().map_or_else(|| device.name(), |cpu| cpu.level().to_string());
    // Before the ceilings, whose measurement takes memory of its own.
    let peak = regard::device::machine::peak().map(|bytes| bytes as usize);
    let profile = how.profile.then(|| profile::of(&program, &executed, how.repeat, &device)).transpose()?;
    let mut out = std::io::stdout().lock();
    if how.json {
        let mut line = json!({
            "workload": name, "precision": format!("{:?}", how.precision).to_lowercase(), "threads": threads,
            "simd": level, "repeat": how.repeat, "median_ms": median, "best_ms": best,
            "worst_ms": worst, "gflops": gflops, "multiply_adds": macs, "planned_bytes": memory,
        });
        if let Some(rate) = rate {
            line["tokens_per_second"] = rate.into();
        }
        if let Some(peak) = peak {
            line["peak_bytes"] = peak.into();
        }
        if let Some(profile) = &profile {
            line["profile"] = profile.to_json();
        }
        writeln!(out, "{line}")?;
        return Ok(());
    }
    writeln!(out, "{name}, {:?}, {}", how.precision, device.name())?;
    writeln!(out, "  median {median:.3} ms  best {best:.3}  worst {worst:.3}  {gflops:.1} GFLOP/s")?;
    if let Some(rate) = rate {
        writeln!(out, "  {rate:.0} tokens/s")?;
    }
    let mib = |bytes: usize| bytes as f64 / (1 << 20) as f64;
    match peak {
        Some(peak) => writeln!(
            out,
            "  memory: {:.1} MiB planned, {:.1} MiB peak of the process",
            mib(memory),
            mib(peak)
        )?,
        None => writeln!(out, "  memory: {:.1} MiB planned", mib(memory))?,
    }
    if let Some(profile) = &profile {
        write!(out, "{profile}")?;
    }
    Ok(())
}
