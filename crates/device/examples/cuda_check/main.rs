//! Checks on a machine with a card what the CUDA room promises, answers what only a card can answer, and
//! prints a table.
//!
//! Run with `cargo run --release -p regard-device --example cuda_check`, and with the names of parts to run
//! these alone: `memory`, `kernels`, `graphs`, `products`, `questions`, `speed`. The exit code is 0 when
//! everything that was checked agrees, 1 when something does not, and 2 when there is no card to ask. What is
//! marked `fact` is found out here and may differ from card to card.

#![allow(unsafe_code)] // every use of an address on the card is

mod graphs;
mod kernels;
mod memory;
mod products;
mod questions;
mod reference;
mod speed;

use regard_device::cuda::{
    Architecture, Card, Compiler, CubinCache, CudaError, Event, Function, Memory, Module, Source, Stream,
    kernels::Launch, libraries,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Instant;

/// What was found, line by line.
#[derive(Default)]
pub struct Report {
    failures: Vec<String>,
    checked: usize,
}

impl Report {
    /// A promise that holds or not.
    pub fn check(&mut self, name: &str, holds: bool, detail: impl AsRef<str>) {
        self.checked += 1;
        let line = format!("{:<58} {}", name, detail.as_ref());
        println!("{} {line}", if holds { "ok  " } else { "FAIL" });
        if !holds {
            self.failures.push(line);
        }
    }

    /// Something found out.
    pub fn fact(&mut self, name: &str, value: impl AsRef<str>) {
        println!("fact {name:<58} {}", value.as_ref());
    }
}

/// What every part works with.
pub struct Room {
    pub(crate) card: Card,
    pub(crate) stream: Stream,
    pub(crate) compiler: Compiler,
    pub(crate) architecture: Architecture,
    functions: RefCell<HashMap<(Source, &'static str), Function>>,
}

impl Room {
    fn open() -> Result<Room, CudaError> {
        let card = Card::open(0)?;
        let compiler = Compiler::new(Some(card.facts().driver), CubinCache::of_user())?;
        libraries::cublaslt()?;
        let architecture = compiler.architecture(card.facts().capability)?;
        let stream = Stream::new(&card)?;
        Ok(Room { card, stream, compiler, architecture, functions: RefCell::default() })
    }

    /// The kernel of a launch, compiled and loaded when it is first asked for.
    pub fn function(&self, launch: &Launch) -> Result<Function, CudaError> {
        let key = (launch.source.clone(), launch.kernel);
        let mut functions = self.functions.borrow_mut();
        if !functions.contains_key(&key) {
            let compiled = self.compiler.compile(&launch.source, self.architecture)?;
            let module = Module::load(&self.card, &launch.source.name, &compiled.cubin)?;
            functions.insert(key.clone(), module.function(launch.kernel)?);
        }
        Ok(functions[&key].clone())
    }

    /// Puts a launch on the stream. Its addresses are those of live memory.
    pub fn launch(&self, launch: &Launch) -> Result<(), CudaError> {
        // SAFETY: the parts of this program pass the memory that the launch was described with, and hold it
        // until they have read the result.
        unsafe { self.function(launch)?.launch(&self.stream, launch.grid, &launch.arguments) }
    }

    /// Memory of so many bytes, filled with ones (NaN as f32 and bf16), so that what is not written is seen.
    pub fn poisoned(&self, bytes: usize) -> Result<Memory, CudaError> {
        let memory = Memory::new(&self.card, bytes)?;
        // SAFETY: all of a block that lives until the wait.
        unsafe { self.stream.fill(memory.region(), 0xff) }?;
        self.stream.synchronize()?;
        Ok(memory)
    }

    /// The median time of what `work` puts on the stream, in milliseconds.
    pub fn time(&self, mut work: impl FnMut() -> Result<(), CudaError>) -> Result<f64, CudaError> {
        const WARM: usize = 3;
        const TIMES: usize = 11;
        let (begin, end) = (Event::timed(&self.card)?, Event::timed(&self.card)?);
        let mut times = Vec::new();
        for i in 0..WARM + TIMES {
            self.stream.record(&begin)?;
            work()?;
            self.stream.record(&end)?;
            end.synchronize()?;
            if i >= WARM {
                times.push(f64::from(end.milliseconds_since(&begin)?));
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[TIMES / 2])
    }
}

type Part = fn(&Room, &mut Report) -> Result<(), CudaError>;

const PARTS: [(&str, Part); 6] = [
    ("memory", memory::check),
    ("kernels", kernels::check),
    ("graphs", graphs::check),
    ("products", products::check),
    ("questions", questions::ask),
    ("speed", speed::measure),
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.iter().any(|name| name == memory::FAULT) {
        return memory::fault();
    }
    if let Some(unknown) = wanted.iter().find(|name| PARTS.iter().all(|part| part.0 != **name)) {
        println!("there is no part `{unknown}`; there are {}", PARTS.map(|part| part.0).join(", "));
        return ExitCode::from(2);
    }
    let room = match Room::open() {
        Ok(room) => room,
        Err(error) => {
            println!("{error}");
            return ExitCode::from(2);
        }
    };
    println!("{}", room.card.facts());
    println!("{:?}", room.card.facts());
    println!("compiler {:?}", libraries::nvrtc());
    println!("products {:?}", libraries::cublaslt());
    let mut report = Report::default();
    for (name, part) in PARTS {
        if !wanted.is_empty() && wanted.iter().all(|one| one != name) {
            continue;
        }
        println!("\n== {name}");
        let began = Instant::now();
        if let Err(error) = part(&room, &mut report) {
            report.check(name, false, error.to_string());
            if error.is_final() {
                break;
            }
        }
        println!("     ({:.1} s)", began.elapsed().as_secs_f64());
    }
    println!("\n{} checks, {} failed", report.checked, report.failures.len());
    report.failures.iter().for_each(|line| println!("FAIL {line}"));
    ExitCode::from(u8::from(!report.failures.is_empty()))
}
