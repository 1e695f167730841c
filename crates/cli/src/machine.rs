//! The options that choose the machine, shared by all commands that compute.

use anyhow::{Context, Result, bail};
use clap::Args;
use regard::device::cuda::CudaError;
use regard::device::{Level, Pool};
use regard::{Cpu, Cuda, Device};
use std::str::FromStr;

/// Which part of the machine to use. Threads and SIMD level change no bit of any result, but that AMX sums
/// products of bf16 in an order of its own; a card rounds in another order than the CPU.
#[derive(Args, Clone, Debug)]
pub struct Machine {
    /// Where to compute: cpu, cuda, cuda:N for another card than the first, or auto, which takes a card where
    /// there is one
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: Choice,
    /// On a card, let products of f32 round their operands to tf32, which is several times as fast
    #[arg(long)]
    pub tf32: bool,
    /// Threads to use [default: all cores]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// SIMD level to use: portable, avx2, avx512, avx512bf16 or amx [default: the fastest that this CPU has]
    #[arg(long, alias = "level", value_name = "LEVEL")]
    pub simd: Option<String>,
}

/// What `--device` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first card where there is one, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// A card, counted from 0.
    Cuda(usize),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        match text {
            "auto" => Ok(Choice::Auto),
            "cpu" => Ok(Choice::Cpu),
            "cuda" => Ok(Choice::Cuda(0)),
            _ => {
                let card = text.strip_prefix("cuda:").and_then(|card| card.parse().ok());
                card.map(Choice::Cuda).ok_or_else(|| "choose auto, cpu, cuda or cuda:N".into())
            }
        }
    }
}

impl Choice {
    /// The card that is meant, or none where it is the CPU.
    pub fn card(self) -> Result<Option<Device>> {
        match self {
            Choice::Cpu => Ok(None),
            Choice::Cuda(card) => Ok(Some(Cuda::with(card, false).context("--device cuda")?.into())),
            Choice::Auto => match Cuda::with(0, false) {
                Ok(cuda) => Ok(Some(cuda.into())),
                Err(regard::engine::Error::Cuda(CudaError::NoDriver { .. } | CudaError::NoCard)) => Ok(None),
                Err(error) => {
                    eprintln!("computing on the CPU: {error}");
                    Ok(None)
                }
            },
        }
    }
}

/// More threads than this are surely a slip of the finger.
const MOST_THREADS: usize = 4096;

impl Machine {
    /// The device as chosen. Where a card is there but something that it needs is not, one line says so and
    /// the CPU is taken, unless the card was asked for by name.
    pub fn device(&self) -> Result<Device> {
        // Options of the CPU are checked in any case, and ask for it.
        let cpu = self.cpu()?;
        let for_cpu = self.threads.is_some() || self.simd.is_some();
        match self.device {
            Choice::Cpu => Ok(cpu.into()),
            Choice::Cuda(card) => Ok(Cuda::with(card, self.tf32).context("--device cuda")?.into()),
            Choice::Auto if for_cpu => Ok(cpu.into()),
            Choice::Auto => match Cuda::with(0, self.tf32) {
                Ok(cuda) => Ok(cuda.into()),
                Err(regard::engine::Error::Cuda(CudaError::NoDriver { .. } | CudaError::NoCard)) => {
                    Ok(cpu.into())
                }
                Err(error) => {
                    eprintln!("computing on the CPU: {error}");
                    Ok(cpu.into())
                }
            },
        }
    }

    /// The CPU engine as chosen.
    pub fn cpu(&self) -> Result<Cpu> {
        let threads = self.threads.unwrap_or_else(Pool::default_threads);
        if threads == 0 || threads > MOST_THREADS {
            bail!(
                "--threads {threads}: choose between 1 and {MOST_THREADS}; this machine has {}",
                Pool::default_threads()
            );
        }
        let level = match &self.simd {
            Some(name) => name.parse::<Level>().with_context(|| format!("--simd {name}"))?,
            None => Level::best(),
        };
        Ok(Cpu::with(threads, level)?)
    }
}
