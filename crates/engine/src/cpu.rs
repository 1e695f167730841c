//! The CPU engine: threads, a SIMD level and one arena, shared by all programs made with it; and the loop
//! that replays a planned program. The only unsafe code of this crate is here and in the debug mode beside
//! it: it turns the plan's offsets into the addresses that kernels are handed.

use crate::cpu_program::{CpuProgram, Step};
use crate::panels::make_copy;
use crate::program::PlannedGraph;
use crate::{Result, Store};
use regard_device::{Buffer, Level, Pool};
use regard_graph::Sizes;
use regard_graph::plan::Place;
use regard_graph::{Graph, Node, Var};
use regard_ops::{Lent, Packed, Slot};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

mod checked;
use checked::Planned;

/// How many leading operands of an op may have packed copies.
pub(crate) const MOST_PACKED: usize = 4;

/// The CPU as an engine. Cloning gives another handle to the same threads and arena; programs that share a
/// handle do not run at the same time and share one arena.
#[derive(Clone)]
pub struct Cpu {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Pool,
    level: Level,
    arena: Mutex<Arena>,
}

struct Arena {
    values: Buffer,
    threads: Buffer,
}

impl Cpu {
    /// All cores, the fastest SIMD level.
    pub fn new() -> Result<Self> {
        Cpu::with(Pool::default_threads(), Level::best())
    }

    /// A number of threads and a SIMD level of one's own. Neither changes a bit of any result, but that AMX
    /// sums products of bf16 in an order of its own ([`Level::same_bits`]).
    pub fn with(threads: usize, level: Level) -> Result<Self> {
        Cpu::on(Pool::new(threads)?, level)
    }

    /// The same in the debug mode, which is slow and changes no bit: every kernel is rehearsed in memory of
    /// its own, and a store that meets another task's, a byte that nobody stores, a read of what was not
    /// written, or a write outside of results and scratch is an error of the run.
    pub fn checked(threads: usize, level: Level) -> Result<Self> {
        Cpu::on(Pool::with_store_log(threads)?, level)
    }

    fn on(pool: Pool, level: Level) -> Result<Self> {
        let threads = pool.threads();
        // A whole line for each thread: whatever the number of threads, its scratch is aligned.
        let scratch = Buffer::zeroed(for_all_threads(1, threads))?;
        let arena = Mutex::new(Arena { values: Buffer::zeroed(64)?, threads: scratch });
        Ok(Cpu { shared: Arc::new(Shared { pool, level, arena }) })
    }

    /// The threads.
    pub fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// The SIMD level.
    pub fn level(&self) -> Level {
        self.shared.level
    }

    /// Bytes of the shared arena and of the threads' scratch.
    pub fn arena_bytes(&self) -> (usize, usize) {
        let arena = self.lock();
        (arena.values.len(), arena.threads.len())
    }

    /// Makes the arena at least this large, so that replays never allocate.
    pub(crate) fn reserve(&self, values: usize, for_each_thread: usize) -> Result<()> {
        let mut arena = self.lock();
        arena.grow(values)?;
        let threads = for_all_threads(for_each_thread, self.pool().threads());
        if arena.threads.len() < threads {
            arena.threads = Buffer::zeroed(threads)?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Arena> {
        // A kernel that panicked leaves only intermediate values behind, which the next run overwrites.
        self.shared.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replays a program whose inputs are set. Does not allocate unless something is wrong.
    pub(crate) fn replay(
        &self,
        program: &mut CpuProgram,
        planned: &PlannedGraph,
        sizes: &Sizes,
        store: &mut Store,
        spent: &mut [u64],
    ) -> Result<()> {
        let PlannedGraph { graph, plan, entries } = planned;
        let mut arena = self.lock();
        let arena = &mut *arena;
        // As `reserve` left it, unless another program asked for more than there was.
        arena.grow(plan.arena_bytes)?;
        let threads = self.pool().threads();
        let thread_bytes = arena.threads.len() / threads;
        let (arena_at, threads_at) = (arena.values.as_mut_ptr(), arena.threads.as_mut_ptr());
        let (io_at, constants_at) = (program.io.as_mut_ptr(), program.constants.as_mut_ptr());
        for (index, step) in program.steps.iter_mut().enumerate() {
            let began = (!spent.is_empty()).then(Instant::now);
            for &(_, pack) in &step.packs {
                store.refresh_copy(pack, |kind, dims, numbers, out| {
                    make_copy(kind, dims, numbers, out, self.pool(), self.level());
                })?;
            }
            // Operands that the kernel has in another form: they need not even be in memory.
            let rows = step.rows.iter().filter(|&&(_, entry)| store.lent(entry).is_some());
            let otherwise = step.packs.iter().chain(rows).fold(0, |bits, (input, _)| bits | 1u8 << input);
            let mut address = |place: Option<Place>| -> Result<*mut u8> {
                Ok(match place {
                    None => std::ptr::null_mut(),
                    // SAFETY: every place lies inside of its memory (`Plan::check`), and `grow` above made
                    // sure that the arena is large enough; the offsets are therefore in bounds.
                    Some(Place::Arena { offset, .. }) => unsafe { arena_at.add(offset) },
                    // SAFETY: as above; the program's own block has `io_bytes`.
                    Some(Place::Io { offset, .. }) => unsafe { io_at.add(offset) },
                    // SAFETY: as above; the constants' block has `constant_bytes`.
                    Some(Place::Constant { offset, .. }) => unsafe { constants_at.add(offset) },
                    Some(Place::Stored(index)) => store.entry_pointer(entries[index])?,
                })
            };
            let node = &graph.nodes()[step.node];
            for (input, (slot, &var)) in step.inputs.iter_mut().zip(&node.inputs).enumerate() {
                let otherwise = otherwise >> input & 1 == 1;
                slot.at = if otherwise { std::ptr::null_mut() } else { address(plan.places[var.index()])? };
                slot.dims = graph.shape(var).at(sizes)?;
            }
            for ((slot, &var), &used) in step.outputs.iter_mut().zip(&node.outputs).zip(&step.used) {
                slot.at = if used { address(plan.places[var.index()])? } else { std::ptr::null_mut() };
                slot.dims = graph.shape(var).at(sizes)?;
            }
            let scratch = step.scratch.map_or((std::ptr::null_mut(), 0), |slot| {
                // SAFETY: scratch has a place of its own inside of the arena (`Plan::check`).
                (unsafe { arena_at.add(slot.offset) }, slot.bytes)
            });
            // Before the kernel, which may stop half-way: no packed copy outlives what it was made from.
            for &entry in &step.updates {
                store.changed(entry);
            }
            let mut packed: [Option<Packed<'_>>; MOST_PACKED] = [None; MOST_PACKED];
            for &(input, pack) in &step.packs {
                packed[input] = Some(Packed { bytes: store.copy_bytes(pack) });
            }
            let mut lent: [Option<&dyn Lent>; MOST_PACKED] = [None; MOST_PACKED];
            for &(input, entry) in &step.rows {
                lent[input] = store.lent(entry);
            }
            let planned = Planned {
                node,
                kernels: &*step.kernels,
                inputs: &step.inputs,
                outputs: &step.outputs,
                packed: &packed,
                lent: &lent,
                scratch,
                threads: (threads_at, thread_bytes),
                pool: self.pool(),
                level: self.level(),
            };
            // SAFETY: `Plan::check`, which ran when the program was made, says that places are disjoint but
            // where a result may lie over an operand, and then exactly; they are sized for the bounds, which
            // `Sizes` keeps every run under; the arena is locked and the store and the program are borrowed
            // exclusively for the whole replay.
            unsafe {
                match self.pool().store_log() {
                    None => planned.run()?,
                    Some(log) => planned.run_checked(log, step.thread_scratch)?,
                }
            }
            if let Some(began) = began {
                spent[index] += began.elapsed().as_nanos() as u64;
            }
        }
        Ok(())
    }
}

impl Arena {
    /// Makes the block for values at least this large; when that fails it is as large as before.
    fn grow(&mut self, bytes: usize) -> Result<()> {
        let before = self.values.len();
        if before < bytes {
            // The old block goes first: both at once could be too much.
            self.values = Buffer::zeroed(64)?;
            match Buffer::zeroed(bytes) {
                Ok(larger) => self.values = larger,
                Err(refused) => {
                    self.values = Buffer::zeroed(before)?;
                    return Err(refused.into());
                }
            }
        }
        Ok(())
    }
}

/// Bytes of the scratch of all threads, each a whole number of cache lines.
pub(crate) fn for_all_threads(for_each: usize, threads: usize) -> usize {
    for_each.checked_next_multiple_of(64).and_then(|each| each.checked_mul(threads)).unwrap_or(usize::MAX)
}

impl Step {
    /// Slots for the operands of a node and for its results, still without addresses.
    pub(crate) fn empty_slots(graph: &Graph, node: &Node) -> (Vec<Slot>, Vec<Slot>) {
        let slot = |var: Var, overwritten: bool| Slot {
            at: std::ptr::null_mut(),
            dims: graph.shape(var).bound(),
            dtype: graph.dtype(var),
            overwritten,
        };
        let overwritten =
            |input: usize| (0..node.outputs.len()).any(|output| graph.may_overwrite(node, output, input));
        let inputs = node.inputs.iter().enumerate().map(|(input, &var)| slot(var, overwritten(input)));
        (inputs.collect(), node.outputs.iter().map(|&var| slot(var, false)).collect())
    }
}
