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
        }
    }

    /// Bytes that the device holds for all programs together: intermediate values and scratch.
    pub fn shared_bytes(&self) -> usize {
        match self {
            Device::Cpu(cpu) => {
                let (values, threads) = cpu.arena_bytes();
                values + threads
            }
        }
    }

    /// Joins nodes that the device computes better together, but for values that are kept. No value changes a
    /// bit.
    pub(crate) fn join(&self, g: &mut Graph, keep: &[Var]) -> Result<()> {
        match self {
            Device::Cpu(_) => Ok(join(g, keep)?),
        }
    }

    /// What each node needs at the largest sizes, if these values are kept.
    pub(crate) fn needs(&self, g: &Graph, keep: &[Var]) -> Result<Vec<Needs>> {
        match self {
            Device::Cpu(cpu) => cpu.needs(g, keep),
        }
    }

    /// Makes a planned graph ready to run, with copies of weights in the store and all memory that it will
    /// ever need.
    pub(crate) fn load(&self, planned: &PlannedGraph, needs: &[Needs], store: &mut Store) -> Result<Loaded> {
        match self {
            Device::Cpu(cpu) => Ok(Loaded::Cpu(CpuProgram::new(cpu, planned, needs, store)?)),
        }
    }
}

/// What a device has made of a program: its half of it.
pub(crate) enum Loaded {
    Cpu(CpuProgram),
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
        }
    }

    /// Host memory for the numbers of an input that begins at this offset of the inputs' block, to be written
    /// before the next run. May wait until the run before has fetched what is there.
    pub fn input<T: Element>(&mut self, offset: usize, count: usize) -> &mut [T] {
        match self {
            Loaded::Cpu(program) => program.input(offset, count),
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
        }
    }

    /// Waits until all runs are done, and says what was wrong with them.
    pub fn wait(&self) -> Result<()> {
        match self {
            // Runs are done when they return.
            Loaded::Cpu(_) => Ok(()),
        }
    }

    /// So many numbers of a kept value or a constant, after all runs.
    pub fn read<T: Element>(&self, place: Place, count: usize) -> Result<Numbers<'_, T>> {
        self.wait()?;
        match self {
            Loaded::Cpu(program) => Ok(program.read(place, count)),
        }
    }
}
