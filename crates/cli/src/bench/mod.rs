//! `regard bench`: the time of one workload at sizes of one's choice, as text or as one JSON line; with
//! `--profile` where the time goes, against what this machine can do.

mod clock;
mod data;
mod decode;
mod forward;
mod models;
mod parts;
mod profile;
mod train;

use crate::machine::Machine;
use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use regard::graph::Precision;
use regard::ops::Weights;
use regard_models::Registry;

/// Options of `regard bench`.
#[derive(Args)]
#[command(
    after_help = "Examples:  regard bench matmul --m 1024 --k 1024 --n 1024 --precision bf16 --json\n           \
                  regard bench train --layers 4 --heads 8 --width 256 --block 128 --vocab 256 --batch 32 --profile"
)]
pub struct Options {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// A matrix product C[M N] = A[M K] · B[K N], both operands fresh at every call.
    Matmul(parts::Matmul),
    /// Attention over one sequence length, forward or forward and backward.
    Attention(parts::Attention),
    /// A training step of a GPT: forward, backward, AdamW.
    Train(train::Train),
    /// One new token of a GPT through its caches.
    Decode(decode::Decode),
    /// A prompt of a GPT into its caches, up to the scores of the first new token.
    Prefill(decode::Prefill),
    /// A forward pass of a GPT, BERT or ViT.
    Forward(forward::Forward),
    /// The batches of a recipe, made without a step.
    Data(data::Data),
}

/// How to run, the same for all workloads.
#[derive(Args, Clone)]
struct How {
    /// Precision of the products
    #[arg(long, value_enum, default_value_t = Digits::F32)]
    precision: Digits,
    /// Timed runs after the warm-up
    #[arg(long, default_value_t = 20, value_name = "N")]
    repeat: usize,
    /// Show the time by op, beside what the machine could do
    #[arg(long)]
    profile: bool,
    /// Print one JSON line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

/// More runs than this are surely a slip of the finger.
const MOST_RUNS: usize = 1_000_000;

impl How {
    /// Refuses integers where nothing is held as such.
    fn check_has_weights(&self, workload: &str) -> Result<()> {
        if self.precision.weights() != Weights::Full {
            let asked = self.precision.to_possible_value();
            let asked = asked.as_ref().map_or("", |value| value.get_name());
            bail!(
                "--precision {asked}: {workload} has no weights that are only read; choose decode, prefill or forward, \
                 or --precision bf16"
            );
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.repeat == 0 || self.repeat > MOST_RUNS {
            bail!("--repeat {}: choose between 1 and {MOST_RUNS} timed runs", self.repeat);
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Digits {
    /// 32-bit floats
    F32,
    /// Operands rounded to bf16, sums in f32
    Bf16,
    /// Weights as 8-bit integers, everything else f32: for decode, prefill and forward
    Int8,
    /// Weights in blocks of 8-bit integers, and activations beside them; for the same
    Q8,
    /// Weights in blocks of 4-bit integers, activations of 8 bits beside them; for the same
    Q4,
}

impl Digits {
    fn precision(self) -> Precision {
        match self {
            Digits::F32 | Digits::Int8 | Digits::Q8 | Digits::Q4 => Precision::F32,
            Digits::Bf16 => Precision::Bf16,
        }
    }

    fn weights(self) -> Weights {
        match self {
            Digits::F32 | Digits::Bf16 => Weights::Full,
            Digits::Int8 => Weights::Int8,
            Digits::Q8 => Weights::Q8,
            Digits::Q4 => Weights::Q4,
        }
    }
}

/// Times a workload.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    match &options.workload {
        Workload::Matmul(sizes) => parts::matmul(sizes),
        Workload::Attention(sizes) => parts::attention(sizes),
        Workload::Train(sizes) => train::run(sizes),
        Workload::Decode(sizes) => decode::decode(sizes),
        Workload::Prefill(sizes) => decode::prefill(sizes),
        Workload::Forward(sizes) => forward::run(sizes),
        Workload::Data(options) => data::run(options, registry),
    }
}
