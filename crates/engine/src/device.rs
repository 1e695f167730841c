//! The devices that programs run on, and what each provides. This file is the list: a device adds a variant
//! here and files of its own; programs, stores and everything above them stay as they are. Its engine says
//! - which neighbouring nodes it wants joined, before anything else is decided (`join`);
//! - what each node needs beside its operands: scratch, and copies of weights in forms of its own (`needs`);
//! - how a planned graph becomes something that runs (`load`), which takes inputs, runs, and is read
//!   ([`Loaded`]);
//! - how much work it executes, which is more than the mathematics asks for ([`Device::executed`]).
//!
//! Shapes, costs, gradients and plans never depend on it.

use crate::cpu_program::CpuProgram;
use crate::cuda::{Cuda, CudaProgram};
use crate::program::PlannedGraph;
use crate::{Cpu, Numbers, Result, Store};
use regard_device::Element;
use regard_graph::plan::Place;
use regard_graph::{Costs, Graph, Integers, Sizes, Var};
use regard_ops::{Needs, join};

/// A device to run on. Cloning gives another handle to the same one; whatever takes a device takes a [`Cpu`],
/// too ([`AsDevice`]).
#[derive(Clone)]
pub enum Device {
    /// The processor, with memory of the host.
    Cpu(Cpu),
    /// An NVIDIA card, with memory of its own.
    Cuda(Cuda),
}

impl From<Cuda> for Device {
    fn from(cuda: Cuda) -> Device {
        Device::Cuda(cuda)
    }
}

impl From<Cpu> for Device {
    fn from(cpu: Cpu) -> Device {
        Device::Cpu(cpu)
    }
}

/// What stands for a device: a handle to any of them, or to one of a kind.
pub trait AsDevice {
    /// A handle to the device.
    fn as_device(&self) -> Device;
}

impl AsDevice for Device {
    fn as_device(&self) -> Device {
        self.clone()
    }
}

impl AsDevice for Cpu {
    fn as_device(&self) -> Device {
        Device::Cpu(self.clone())
    }
}

impl AsDevice for Cuda {
    fn as_device(&self) -> Device {
        Device::Cuda(self.clone())
    }
}

impl Device {
    /// Counts the work that this device executes at actual sizes. With `keep` only what has to run counts, as
    /// for [`regard_graph::cost()`].
    pub fn executed(
        &self,
        g: &Graph,
        sizes: &Sizes,
        integers: &Integers,
        keep: Option<&[Var]>,
    ) -> Result<Costs> {
        match self {
            Device::Cpu(_) => Cpu::executed(g, sizes, integers, keep),
            // Its kernels do what the mathematics says, but for what attention computes again.
            Device::Cuda(_) => Ok(regard_graph::cost(g, sizes, integers, keep)?),
        }
    }

    /// Bytes that the device holds for all programs together: intermediate values and scratch.
    pub fn shared_bytes(&self) -> usize {
        match self {
            Device::Cpu(cpu) => {
                let (values, threads) = cpu.arena_bytes();
                values + threads
            }
            Device::Cuda(cuda) => {
                let (values, scratch) = cuda.arena_bytes();
                values + scratch
            }
        }
    }

    /// Bytes that the device has left for programs and stores, where it says.
    pub fn memory_available(&self) -> Option<u64> {
        match self {
            Device::Cpu(_) => regard_device::machine::memory_available(),
            Device::Cuda(cuda) => cuda.free_memory().ok().map(|(free, _)| free as u64),
        }
    }

    /// The CPU, if it is one: for what only makes sense there, threads and SIMD levels.
    pub fn cpu(&self) -> Option<&Cpu> {
        match self {
            Device::Cpu(cpu) => Some(cpu),
            Device::Cuda(_) => None,
        }
    }

    /// What it is, in a few words.
    pub fn name(&self) -> String {
        match self {
            Device::Cpu(cpu) => format!("{} threads, {}", cpu.pool().threads(), cpu.level()),
            Device::Cuda(cuda) => cuda.facts().name.clone(),
        }
    }

    /// Whether a row has the same bits however many run beside it. On a card the products are the library's,
    /// whose kernels for few rows and for many sum in orders of their own; what it promises is the same bits
    /// at the same sizes.
    pub fn same_bits_for_any_rows(&self) -> bool {
        matches!(self, Device::Cpu(_))
    }

    /// Whether memory that a program was given is taken only when it is first touched, as systems do with
    /// that of the host: then whoever makes programs has to ask whether it is there. A card refuses what it
    /// does not have at once.
    pub fn takes_memory_late(&self) -> bool {
        matches!(self, Device::Cpu(_))
    }

    /// Joins nodes that the device computes better together, but for values that are kept. No value changes a
    /// bit.
    pub(crate) fn join(&self, g: &mut Graph, keep: &[Var]) -> Result<()> {
        match self {
            Device::Cpu(_) => Ok(join(g, keep)?),
            Device::Cuda(_) => Ok(g.prune(keep)?),
        }
    }

    /// What each node needs at the largest sizes, if these values are kept.
    pub(crate) fn needs(&self, g: &Graph, keep: &[Var]) -> Result<Vec<Needs>> {
        match self {
            Device::Cpu(cpu) => cpu.needs(g, keep),
            // Scratch is a block of its own there, which all steps use in turn.
            Device::Cuda(_) => Ok(vec![Needs::default(); g.nodes().len()]),
        }
    }

    /// Makes a planned graph ready to run, with copies of weights in the store and all memory that it will
    /// ever need.
    pub(crate) fn load(&self, planned: &PlannedGraph, needs: &[Needs], store: &mut Store) -> Result<Loaded> {
        match self {
            Device::Cpu(cpu) => Ok(Loaded::Cpu(CpuProgram::new(cpu, planned, needs, store)?)),
            Device::Cuda(cuda) => Ok(Loaded::Cuda(Box::new(CudaProgram::new(cuda, planned, store)?))),
        }
    }
}

/// What a device has made of a program: its half of it.
pub(crate) enum Loaded {
    Cpu(CpuProgram),
    Cuda(Box<CudaProgram>),
}

/// Memory that a device takes for a program beside what the plan says, in bytes.
pub(crate) struct Taken {
    /// Copies of weights.
    pub packed: usize,
    /// Scratch of all threads.
    pub threads: usize,
}

impl Loaded {
    pub fn taken(&self) -> Taken {
        match self {
            Loaded::Cpu(program) => program.taken(),
            Loaded::Cuda(program) => program.taken(),
        }
    }

    /// Host memory for the numbers of an input that begins at this offset of the inputs' block, to be written
    /// before the next run. May wait until the run before has fetched what is there.
    pub fn input<T: Element>(&mut self, offset: usize, count: usize) -> Result<&mut [T]> {
        match self {
            Loaded::Cpu(program) => Ok(program.input(offset, count)),
            Loaded::Cuda(program) => program.input(offset, count),
        }
    }

    /// Enqueues a run. Adds the nanoseconds of each step to `spent`, unless it is empty; then it is done on
    /// return.
    pub fn run(
        &mut self,
        planned: &PlannedGraph,
        sizes: &Sizes,
        store: &mut Store,
        spent: &mut [u64],
    ) -> Result<()> {
        match self {
            Loaded::Cpu(program) => program.run(planned, sizes, store, spent),
            Loaded::Cuda(program) => program.run(planned, sizes, store, spent),
        }
    }

    /// Waits until all runs are done, and says what was wrong with them.
    pub fn wait(&self) -> Result<()> {
        match self {
            // Runs are done when they return.
            Loaded::Cpu(_) => Ok(()),
            Loaded::Cuda(program) => program.wait(),
        }
    }

    /// So many numbers of a kept value or a constant, after all runs.
    pub fn read<T: Element>(&self, place: Place, count: usize) -> Result<Numbers<'_, T>> {
        self.wait()?;
        match self {
            Loaded::Cpu(program) => Ok(program.read(place, count)),
            Loaded::Cuda(program) => program.read(place, count),
        }
    }
}
