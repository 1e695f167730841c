//! The CPU's half of a program: its calls, its inputs, results and constants in host memory, and the panels
//! of its weights.

use crate::cpu::{MOST_PACKED, for_all_threads};
use crate::device::Taken;
use crate::panels::copy_bytes;
use crate::program::PlannedGraph;
use crate::store::write_numbers;
use crate::{Cpu, Error, Numbers, Result, Store};
use regard_device::{Buffer, Element};
use regard_graph::plan::{Place, Plan, Slot as PlannedSlot};
use regard_graph::{Alias, Concrete, DType, Dims, Graph, Origin, Sizes, Var, needed};
use regard_ops::{Kernels, Needs, Request, Slot, kernels_of};
use std::sync::Arc;

/// One planned call.
pub(crate) struct Step {
    pub node: usize,
    pub kernels: Arc<dyn Kernels>,
    pub inputs: Vec<Slot>,
    pub outputs: Vec<Slot>,
    pub used: Vec<bool>,
    pub scratch: Option<PlannedSlot>,
    /// Bytes that the kernel asked for each thread.
    pub thread_scratch: usize,
    /// Operands that the kernel has as copies, and which.
    pub packs: Vec<(usize, usize)>,
    /// Operands of which the kernel reads rows, and their entries.
    pub rows: Vec<(usize, usize)>,
    pub updates: Vec<usize>,
}

pub(crate) struct CpuProgram {
    cpu: Cpu,
    pub steps: Vec<Step>,
    pub io: Buffer,
    pub constants: Buffer,
    packed: usize,
    thread_scratch: usize,
}

impl CpuProgram {
    pub fn new(cpu: &Cpu, planned: &PlannedGraph, needs: &[Needs], store: &mut Store) -> Result<CpuProgram> {
        let PlannedGraph { graph, plan, entries } = planned;
        let mut steps = Vec::new();
        let mut thread_scratch = 0;
        let mut packs_used = Vec::new();
        for step in &plan.steps {
            let node = &graph.nodes()[step.node];
            let (mut packs, mut rows) = (Vec::new(), Vec::new());
            for pack in &needs[step.node].packs {
                let stored = graph.value(node.inputs[pack.input]).version_of;
                assert!(pack.input < MOST_PACKED, "{}: operand {} cannot be packed", node.name, pack.input);
                let Some(stored) = stored else { continue };
                let Some(bytes) = copy_bytes(pack.kind, store.entry_dims(entries[stored])) else {
                    rows.push((pack.input, entries[stored]));
                    continue;
                };
                let copy = store.declare_copy(entries[stored], pack.kind, bytes)?;
                packs.push((pack.input, copy));
                packs_used.push(copy);
            }
            let mut updates = Vec::new();
            for &alias in &node.declared.aliases {
                let Alias::Update { input, .. } = alias else { continue };
                updates.extend(graph.value(node.inputs[input]).version_of.map(|stored| entries[stored]));
            }
            thread_scratch = thread_scratch.max(needs[step.node].thread_scratch);
            let (inputs, outputs) = Step::empty_slots(graph, node);
            // A view has its bytes already: no kernel writes it.
            let used = step.used.iter().enumerate();
            let used = used.map(|(output, &used)| used && !node.declared.views(output)).collect();
            steps.push(Step {
                node: step.node,
                kernels: kernels_at(graph, step.node)?.clone(),
                inputs,
                outputs,
                used,
                scratch: step.scratch,
                thread_scratch: needs[step.node].thread_scratch,
                packs,
                rows,
                updates,
            });
        }
        cpu.reserve(plan.arena_bytes, thread_scratch)?;
        let io = Buffer::zeroed(plan.io_bytes.max(64))?;
        let constants = lay_constants(graph, plan)?;
        packs_used.sort_unstable();
        packs_used.dedup();
        let packed = packs_used.iter().map(|&pack| store.copy_bytes(pack).len()).sum();
        Ok(CpuProgram { cpu: cpu.clone(), steps, io, constants, packed, thread_scratch })
    }

    pub fn taken(&self) -> Taken {
        let threads = for_all_threads(self.thread_scratch, self.cpu.pool().threads());
        Taken { packed: self.packed, threads }
    }

    pub fn input<T: Element>(&mut self, offset: usize, count: usize) -> &mut [T] {
        let start = offset / size_of::<T>();
        &mut self.io.as_mut_slice::<T>()[start..start + count]
    }

    pub fn run(
        &mut self,
        planned: &PlannedGraph,
        sizes: &Sizes,
        store: &mut Store,
        spent: &mut [u64],
    ) -> Result<()> {
        self.cpu.clone().replay(self, planned, sizes, store, spent)
    }

    pub fn read<T: Element>(&self, place: Place, count: usize) -> Numbers<'_, T> {
        let (buffer, offset) = match place {
            Place::Io { offset, .. } => (&self.io, offset),
            Place::Constant { offset, .. } => (&self.constants, offset),
            Place::Arena { .. } | Place::Stored(_) => unreachable!("a program reads what it keeps itself"),
        };
        let start = offset / size_of::<T>();
        Numbers::lent(&buffer.as_slice::<T>()[start..start + count])
    }
}

impl Cpu {
    /// What the kernel of each node needs at the largest sizes.
    pub(crate) fn needs(&self, graph: &Graph, keep: &[Var]) -> Result<Vec<Needs>> {
        let needed = needed(graph, keep)?;
        let of = |index| {
            let kernels = kernels_at(graph, index)?;
            Ok(needs_of(graph, index, kernels.as_ref(), &needed.used(graph, index), self))
        };
        (0..graph.nodes().len()).map(of).collect()
    }
}

pub(crate) fn kernels_at(graph: &Graph, node: usize) -> Result<&Arc<dyn Kernels>> {
    let node = &graph.nodes()[node];
    kernels_of(node).ok_or_else(|| Error::NoKernels { node: node.name.clone() })
}

/// What a node's kernel needs at the largest sizes.
fn needs_of(graph: &Graph, index: usize, kernels: &dyn Kernels, used: &[bool], cpu: &Cpu) -> Needs {
    let node = &graph.nodes()[index];
    let inputs: Vec<Dims> = node.inputs.iter().map(|&var| graph.shape(var).bound()).collect();
    let outputs: Vec<Dims> = node.outputs.iter().map(|&var| graph.shape(var).bound()).collect();
    let input_dtypes: Vec<DType> = node.inputs.iter().map(|&var| graph.dtype(var)).collect();
    let output_dtypes: Vec<DType> = node.outputs.iter().map(|&var| graph.dtype(var)).collect();
    let stored: Vec<bool> = node.inputs.iter().map(|&var| graph.value(var).version_of.is_some()).collect();
    let call = Concrete {
        inputs: &inputs,
        outputs: &outputs,
        input_dtypes: &input_dtypes,
        output_dtypes: &output_dtypes,
        integers: &vec![None; inputs.len()],
        used,
    };
    let (threads, level) = (cpu.pool().threads(), cpu.level());
    kernels.needs(&Request { call: &call, stored: &stored, threads, level })
}

/// The constants of a graph as they lie in memory, on whatever device.
pub(crate) fn constant_bytes(graph: &Graph, plan: &Plan) -> Result<Vec<u8>> {
    Ok(lay_constants(graph, plan)?.as_slice::<u8>().to_vec())
}

fn lay_constants(graph: &Graph, plan: &Plan) -> Result<Buffer> {
    let mut buffer = Buffer::zeroed(plan.constant_bytes.max(64))?;
    for (index, value) in graph.values().iter().enumerate() {
        let (Origin::Constant(numbers), Some(Place::Constant { offset, bytes })) =
            (&value.origin, plan.places[index])
        else {
            continue;
        };
        let mut part = Buffer::zeroed(bytes.max(64))?;
        write_numbers(&mut part, value.fact.dtype, numbers.iter().copied());
        let bytes = numbers.len() * value.fact.dtype.bytes();
        buffer.as_mut_slice::<u8>()[offset..offset + bytes].copy_from_slice(&part.as_slice::<u8>()[..bytes]);
    }
    Ok(buffer)
}
