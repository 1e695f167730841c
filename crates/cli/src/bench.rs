//! `regard bench`: the time of one workload at sizes of one's choice, as text or as one JSON line.

use crate::machine::Machine;
use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use regard::graph::Shape;
use regard::ops::{Attention, MatmulOptions};
use regard::prelude::*;
use serde_json::json;
use std::io::Write;
use std::time::Instant;

/// Options of `regard bench`.
#[derive(Args)]
#[command(after_help = "Example:  regard bench matmul --m 1024 --k 1024 --n 1024 --precision bf16 --json")]
pub struct Options {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// A matrix product C[M N] = A[M K] · B[K N], both operands fresh at every call.
    Matmul(Matmul),
    /// Attention over one sequence length, forward or forward and backward.
    Attention(AttentionSizes),
}

#[derive(Args)]
struct Matmul {
    /// Rows of A.
    #[arg(long, default_value_t = 1024)]
    m: usize,
    /// Columns of A, rows of B.
    #[arg(long, default_value_t = 1024)]
    k: usize,
    /// Columns of B.
    #[arg(long, default_value_t = 1024)]
    n: usize,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
struct AttentionSizes {
    /// Examples.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Heads.
    #[arg(long, default_value_t = 8)]
    heads: usize,
    /// Width of each head.
    #[arg(long, default_value_t = 64)]
    width: usize,
    /// Positions.
    #[arg(long, default_value_t = 512)]
    length: usize,
    /// Each position sees only itself and what came before.
    #[arg(long)]
    causal: bool,
    /// Also compute the gradients of queries, keys and values.
    #[arg(long)]
    backward: bool,
    #[command(flatten)]
    how: How,
}

#[derive(Args, Clone)]
struct How {
    /// Precision of the products
    #[arg(long, value_enum, default_value_t = Digits::F32)]
    precision: Digits,
    /// Timed runs after the warm-up
    #[arg(long, default_value_t = 20, value_name = "N")]
    repeat: usize,
    /// Print one JSON line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Digits {
    /// 32-bit floats
    F32,
    /// Operands rounded to bf16, sums in f32
    Bf16,
}

impl Digits {
    fn precision(self) -> Precision {
        match self {
            Digits::F32 => Precision::F32,
            Digits::Bf16 => Precision::Bf16,
        }
    }
}

/// Times a workload.
pub fn run(options: &Options) -> Result<()> {
    match &options.workload {
        Workload::Matmul(sizes) => matmul(sizes),
        Workload::Attention(sizes) => attention(sizes),
    }
}

fn matmul(sizes: &Matmul) -> Result<()> {
    let Matmul { m, k, n, how } = sizes;
    let (a_dims, b_dims) = ([*m, *k], [*k, *n]);
    let mut g = Graph::inference();
    g.set_precision(how.precision.precision());
    let dtype = how.precision.precision().activation();
    let a = g.input("a", dtype, a_dims)?;
    let b = g.input("b", dtype, b_dims)?;
    let c = g.matmul(a, b, MatmulOptions::default())?;
    g.output("c", c)?;
    time(&format!("matmul {m}x{k}x{n}"), g, &[("a", &a_dims), ("b", &b_dims)], how)
}

fn attention(sizes: &AttentionSizes) -> Result<()> {
    let AttentionSizes { batch, heads, width, length, causal, backward, how } = sizes;
    let mut g = Graph::new();
    g.set_precision(how.precision.precision());
    let shape = [*batch, *length, *heads, *width];
    let dtype = how.precision.precision().activation();
    let mut operands = Vec::new();
    for name in ["query", "key", "value"] {
        // The gradient begins at f32 inputs; a bf16 program casts them, as a model's products would.
        operands.push(if *backward {
            let x = g.input_with_gradient(name, shape)?;
            g.cast(x, dtype)?
        } else {
            g.input(name, dtype, shape)?
        });
    }
    let spec = if *causal { Attention::causal() } else { Attention::default() };
    let y = g.attention(operands[0], operands[1], operands[2], &spec)?.y;
    let mut fed: Vec<(&str, &[usize])> = vec![("query", &shape), ("key", &shape), ("value", &shape)];
    if *backward {
        let cotangent = g.input("cotangent", dtype, Shape::from(shape))?;
        fed.push(("cotangent", &shape));
        let product = g.mul(y, cotangent)?;
        let loss = g.sum_all(product)?;
        for (name, grad) in ["dq", "dk", "dv"].iter().zip(g.gradient(loss, &operands)?) {
            g.output(name, grad)?;
        }
    }
    g.output("y", y)?;
    let kind = if *causal { "causal" } else { "full" };
    let part = if *backward { "forward+backward" } else { "forward" };
    time(&format!("attention {part} {batch}x{length}x{heads}x{width} {kind}"), g, &fed, how)
}

/// More runs than this are surely a slip of the finger.
const MOST_RUNS: usize = 1_000_000;

/// Feeds normal numbers, warms up, runs `repeat` times, prints the times.
fn time(name: &str, g: Graph, inputs: &[(&str, &[usize])], how: &How) -> Result<()> {
    if how.repeat == 0 || how.repeat > MOST_RUNS {
        bail!("--repeat {}: choose between 1 and {MOST_RUNS} timed runs", how.repeat);
    }
    if let Some((_, dims)) = inputs.iter().find(|(_, dims)| dims.contains(&0)) {
        bail!("{name}: an operand of {dims:?} is empty, nothing would be timed; give every size at least 1");
    }
    let cpu = how.machine.cpu()?;
    let mut store = Store::new(0);
    // The plan comes first: it refuses sizes at which even counting would take forever.
    let mut program = Program::new(g, &[], &mut store, &cpu)?;
    let costs = regard::cost::cost(program.graph(), &Default::default(), &Default::default(), None)?;
    let macs = costs.total().math.macs;
    for (name, dims) in inputs {
        let stream = regard::device::Stream::new(1, 0, name);
        let count: usize = dims.iter().product();
        let numbers: Vec<f32> = (0..count).map(|i| stream.normal(0, 0, i as u32) as f32).collect();
        program.set_f32(name, dims, &numbers)?;
    }
    for _ in 0..2.min(how.repeat) {
        program.run(&mut store)?;
    }
    let mut times = Vec::with_capacity(how.repeat);
    for _ in 0..how.repeat {
        let began = Instant::now();
        program.run(&mut store)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (best, worst, median) = (times[0], times[times.len() - 1], times[times.len() / 2]);
    let gflops = 2.0 * macs as f64 / (median * 1e6);
    let memory = program.memory().total();
    let (threads, level) = (cpu.pool().threads(), cpu.level());
    let mut out = std::io::stdout().lock();
    if how.json {
        let line = json!({
            "workload": name, "precision": format!("{:?}", how.precision).to_lowercase(), "threads": threads,
            "simd": level.to_string(), "repeat": how.repeat, "median_ms": median, "best_ms": best,
            "worst_ms": worst, "gflops": gflops, "multiply_adds": macs, "planned_bytes": memory,
        });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "{name}, {:?}, {threads} threads, {level}", how.precision)?;
        writeln!(out, "  median {median:.3} ms  best {best:.3}  worst {worst:.3}  {gflops:.1} GFLOP/s")?;
    }
    Ok(())
}
