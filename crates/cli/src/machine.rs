//! The options that choose the machine, shared by all commands that compute.

use anyhow::{Context, Result, bail};
use clap::Args;
use regard::Cpu;
use regard::device::{Level, Pool};

/// Which part of the machine to use. Neither option changes a bit of any result, but that AMX sums products
/// of bf16 in an order of its own.
#[derive(Args, Clone, Debug)]
pub struct Machine {
    /// Threads to use [default: all cores]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// SIMD level to use: portable, avx2, avx512, avx512bf16 or amx [default: the fastest that this CPU has]
    #[arg(long, alias = "level", value_name = "LEVEL")]
    pub simd: Option<String>,
}

/// More threads than this are surely a slip of the finger.
const MOST_THREADS: usize = 4096;

impl Machine {
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
