//! An NVIDIA card as an engine: one stream, one arena whose addresses never move, kernels compiled once, and
//! products whose algorithms are chosen once. All programs made with one handle share them and run one after
//! the other.

mod faults;
mod prepared;
mod products;
mod program;

pub(crate) use program::CudaProgram;

use crate::{Error, Result};
use faults::Faults;
use products::Algorithms;
use regard_device::Element;
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{
    Address, Architecture, Card, Compiler, CubinCache, CudaError, Facts, Function, Memory, Module, Region,
    Reservation, Ring, Source, Stream,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of the working memory of products: what cuBLASLt wants on the largest cards.
const WORKSPACE: usize = 32 << 20;
/// What uploads and downloads go through.
const RING_SLOTS: usize = 4;
const RING_BYTES: usize = 8 << 20;

/// A card. Cloning gives another handle to the same stream, arena and kernels; programs that share a handle
/// run one after the other.
#[derive(Clone)]
pub struct Cuda {
    shared: Arc<Shared>,
}

struct Shared {
    id: u64,
    card: Card,
    tf32: bool,
    state: Mutex<State>,
}

/// What programs of a card share.
pub(crate) struct State {
    pub stream: Stream,
    pub faults: Faults,
    pub algorithms: Algorithms,
    arena: Reservation,
    scratch: Reservation,
    workspace: Memory,
    ring: Ring,
    compiler: Compiler,
    architecture: Architecture,
    modules: HashMap<Source, Module>,
    functions: HashMap<(Source, &'static str), Function>,
}

impl Cuda {
    /// A card, counted from 0, with products of true f32.
    pub fn new(card: usize) -> Result<Cuda> {
        Cuda::with(card, false)
    }

    /// A card whose products of f32 may round their operands to tf32 (10 bits of mantissa), which tensor
    /// cores take.
    pub fn with(card: usize, tf32: bool) -> Result<Cuda> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let card = Card::open(card)?;
        let compiler = Compiler::new(Some(card.facts().driver), CubinCache::of_user())?;
        let architecture = compiler.architecture(card.facts().capability)?;
        let stream = Stream::new(&card)?;
        let state = State {
            faults: Faults::new(&stream)?,
            algorithms: Algorithms::new(&card)?,
            // Addresses cost nothing: as many as the card has memory for.
            arena: Reservation::new(&card, card.facts().memory)?,
            scratch: Reservation::new(&card, card.facts().memory)?,
            workspace: Memory::new(&card, WORKSPACE)?,
            ring: Ring::new(&card, RING_SLOTS, RING_BYTES)?,
            stream,
            compiler,
            architecture,
            modules: HashMap::new(),
            functions: HashMap::new(),
        };
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Cuda { shared: Arc::new(Shared { id, card, tf32, state: Mutex::new(state) }) })
    }

    /// What is known of the card.
    pub fn facts(&self) -> &Facts {
        self.shared.card.facts()
    }

    /// Bytes of the card's memory that are free, and all of them.
    pub fn free_memory(&self) -> Result<(usize, usize)> {
        Ok(self.shared.card.free_memory()?)
    }

    /// Whether products of f32 may round their operands to tf32.
    pub fn tf32(&self) -> bool {
        self.shared.tf32
    }

    /// Bytes of the shared arena and of the scratch of kernels and products.
    pub fn arena_bytes(&self) -> (usize, usize) {
        let state = self.lock();
        (state.arena.region().bytes, state.scratch.region().bytes + WORKSPACE)
    }

    /// Which card and stream this handle is of.
    pub(crate) fn id(&self) -> u64 {
        self.shared.id
    }

    pub(crate) fn card(&self) -> &Card {
        &self.shared.card
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // What a panic leaves behind is what the next run overwrites.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all runs are done, and says what was wrong with them.
    pub(crate) fn wait(&self) -> Result<()> {
        self.lock().wait()
    }
}

impl State {
    /// Compiles, on all threads, what is not compiled yet, and loads it.
    pub fn compile<'a>(&mut self, launches: impl Iterator<Item = &'a Launch>) -> Result<()> {
        let mut new: Vec<Source> = Vec::new();
        for launch in launches {
            if !self.modules.contains_key(&launch.source) && !new.contains(&launch.source) {
                new.push(launch.source.clone());
            }
        }
        let threads = std::thread::available_parallelism().map_or(4, usize::from);
        let compiled = self.compiler.compile_all(&new, self.architecture, threads)?;
        for (source, compiled) in new.into_iter().zip(compiled) {
            let module = Module::load(self.stream.card(), &source.name, &compiled.cubin)?;
            self.modules.insert(source, module);
        }
        Ok(())
    }

    /// The kernel of a launch, with leave to take the shared memory that it asks for.
    pub fn function(&mut self, launch: &Launch) -> Result<Function> {
        let key = (launch.source.clone(), launch.kernel);
        if !self.functions.contains_key(&key) {
            self.compile(std::iter::once(launch))?;
            let function = self.modules[&launch.source].function(launch.kernel)?;
            self.functions.insert(key.clone(), function);
        }
        let function = self.functions.get_mut(&key).unwrap_or_else(|| unreachable!("put there above"));
        function.allow_shared(launch.grid.shared)?;
        Ok(function.clone())
    }

    /// The arena, with memory for so many bytes.
    pub fn arena(&mut self, bytes: usize) -> Result<Address> {
        self.arena.grow(bytes)?;
        Ok(self.arena.start())
    }

    /// Where scratch begins. It has memory as far as [`State::reserve_scratch`] has asked.
    pub fn scratch(&self) -> Address {
        self.scratch.start()
    }

    /// Sees to it that scratch has memory for so many bytes.
    pub fn reserve_scratch(&mut self, bytes: usize) -> Result<()> {
        Ok(self.scratch.grow(bytes)?)
    }

    /// Bytes that the arena and scratch would have to grow by.
    pub fn missing(&self, arena: usize, scratch: usize) -> usize {
        arena.saturating_sub(self.arena.region().bytes) + scratch.saturating_sub(self.scratch.region().bytes)
    }

    /// The working memory of products.
    pub fn workspace(&self) -> Region {
        self.workspace.region()
    }

    /// Copies numbers to the card after what is on the stream, without waiting for them to be there.
    ///
    /// # Safety
    /// The region is valid memory of the card.
    pub unsafe fn upload<T: Element>(&mut self, to: Region, numbers: &[T]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.ring.upload(&self.stream, to, numbers) }?;
        Ok(())
    }

    /// Copies numbers from the card after what is on the stream, and waits for them.
    ///
    /// # Safety
    /// The region is valid memory of the card.
    pub unsafe fn download<T: Element>(&mut self, numbers: &mut [T], from: Region) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.ring.download(&self.stream, numbers, from) }?;
        Ok(())
    }

    /// Waits until all runs are done, and says what was wrong with them.
    pub fn wait(&mut self) -> Result<()> {
        self.stream.synchronize()?;
        self.faults.report(&self.stream)
    }
}

/// More memory than the card has free is refused before anything is taken.
pub(crate) fn check_room(card: &Card, bytes: usize) -> Result<()> {
    let (free, total) = card.free_memory()?;
    if bytes > free {
        return Err(Error::Cuda(CudaError::OutOfMemory { bytes, free, total }));
    }
    Ok(())
}
