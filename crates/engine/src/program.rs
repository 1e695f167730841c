//! A program: a recorded graph, planned once for the CPU, to be replayed with no allocation and no dispatch
//! cost. Set its inputs, run it with its store, read its outputs.

use crate::cpu::{MOST_PACKED, for_all_threads};
use crate::feed::{bind_letters, check_dims, check_numbers, not_fed};
use crate::store::{read_numbers, write_numbers};
use crate::{Cpu, Error, Result, Store};
use half::bf16;
use regard_device::{Buffer, Element};
use regard_graph::plan::{Place, Plan, Request, Slot as PlannedSlot, plan};
use regard_graph::{Alias, Concrete, DType, Dims, Graph, Origin, Sizes, Var, check_size, needed};
use regard_ops::{Array, Kernels, Needs, Request as KernelRequest, Slot, join, kernels_of, with_weights};
use std::sync::Arc;

/// One planned call.
pub(crate) struct Step {
    pub node: usize,
    pub kernels: Arc<dyn Kernels>,
    pub inputs: Vec<Slot>,
    pub outputs: Vec<Slot>,
    pub used: Vec<bool>,
    pub scratch: Option<PlannedSlot>,
    pub packs: Vec<(usize, usize)>,
    pub updates: Vec<usize>,
}

struct InputSlot {
    name: String,
    var: Var,
    fed: Option<Dims>,
}

/// Where a program's memory goes, in bytes, known before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Intermediate values and scratch; shared with the other programs of the same [`Cpu`].
    pub arena: usize,
    /// Inputs, outputs and kept taps.
    pub io: usize,
    /// Constants.
    pub constants: usize,
    /// Parameters and states of this program.
    pub stored: usize,
    /// Packed copies of weights.
    pub packed: usize,
    /// Scratch of all threads.
    pub threads: usize,
}

impl Memory {
    /// All of it.
    pub fn total(&self) -> usize {
        self.arena + self.io + self.constants + self.stored + self.packed + self.threads
    }
}

/// A graph that is ready to run.
pub struct Program {
    pub(crate) graph: Graph,
    pub(crate) plan: Plan,
    pub(crate) steps: Vec<Step>,
    pub(crate) entries: Vec<usize>,
    pub(crate) io: Buffer,
    pub(crate) constants: Buffer,
    pub(crate) sizes: Sizes,
    cpu: Cpu,
    store_id: u64,
    inputs: Vec<InputSlot>,
    memory: Memory,
    has_run: bool,
    /// Nanoseconds of each step so far; empty unless asked for.
    pub(crate) spent: Vec<u64>,
}

impl Program {
    /// Plans a graph. Its outputs are kept, and so are the taps asked for: looking at a value changes no bit
    /// of any other. Parameters and states that the store does not have yet are made as declared. Weights are held as
    /// the store says ([`Store::hold_weights`]), and what nobody looks at in between is joined ([`join`]).
    pub fn new(graph: Graph, keep: &[&str], store: &mut Store, cpu: &Cpu) -> Result<Self> {
        let mut graph = with_weights(graph, store.weights())?;
        let mut kept: Vec<Var> = graph.outputs().map(|(_, var)| var).collect();
        for name in keep {
            kept.push(graph.find(name)?);
        }
        join(&mut graph, &kept)?;
        // Before any kernel is asked what it needs: it multiplies sizes.
        (0..graph.values().len()).try_for_each(|index| check_size(&graph, "plan", graph.var(index), None))?;
        let mut needs = Vec::new();
        let mut kernels = Vec::new();
        let needed = needed(&graph, &kept)?;
        for (index, node) in graph.nodes().iter().enumerate() {
            let own = kernels_of(node).ok_or_else(|| Error::NoKernels { node: node.name.clone() })?;
            needs.push(needs_of(&graph, index, own.as_ref(), &needed.used(&graph, index), cpu));
            kernels.push(own.clone());
        }
        let plan = plan(&graph, &Request { keep: kept, scratch: &|node| needs[node].scratch })?;

        let entries =
            graph.stored().iter().map(|stored| store.declare_stored(stored)).collect::<Result<Vec<_>>>()?;
        let mut steps = Vec::new();
        let mut thread_scratch = 0;
        let mut packs_used = Vec::new();
        for planned in &plan.steps {
            let node = &graph.nodes()[planned.node];
            let mut packs = Vec::new();
            for pack in &needs[planned.node].packs {
                let stored = graph.value(node.inputs[pack.input]).version_of;
                assert!(pack.input < MOST_PACKED, "{}: operand {} cannot be packed", node.name, pack.input);
                let Some(stored) = stored else { continue };
                let copy = store.declare_pack(entries[stored], pack.layout)?;
                packs.push((pack.input, copy));
                packs_used.push(copy);
            }
            let mut updates = Vec::new();
            for alias in node.op.aliases() {
                let Alias::Update { input, .. } = alias else { continue };
                updates.extend(graph.value(node.inputs[input]).version_of.map(|stored| entries[stored]));
            }
            thread_scratch = thread_scratch.max(needs[planned.node].thread_scratch);
            steps.push(Step {
                node: planned.node,
                kernels: kernels[planned.node].clone(),
                inputs: Step::empty_slots(&graph, &node.inputs),
                outputs: Step::empty_slots(&graph, &node.outputs),
                used: planned.used.clone(),
                scratch: planned.scratch,
                packs,
                updates,
            });
        }
        cpu.reserve(plan.arena_bytes, thread_scratch)?;
        let io = Buffer::zeroed(plan.io_bytes.max(64))?;
        let constants = lay_constants(&graph, &plan)?;
        packs_used.sort_unstable();
        packs_used.dedup();
        let memory = Memory {
            arena: plan.arena_bytes,
            io: plan.io_bytes,
            constants: plan.constant_bytes,
            stored: graph.stored().iter().map(|stored| stored.fact.bytes()).sum(),
            packed: packs_used.iter().map(|&pack| store.pack_bytes(pack).len()).sum(),
            threads: for_all_threads(thread_scratch, cpu.pool().threads()),
        };
        let inputs =
            graph.inputs().map(|(name, var)| InputSlot { name: name.into(), var, fed: None }).collect();
        let (cpu, store_id, sizes) = (cpu.clone(), store.id(), Sizes::none());
        Ok(Program {
            graph,
            plan,
            steps,
            entries,
            io,
            constants,
            sizes,
            cpu,
            store_id,
            inputs,
            memory,
            has_run: false,
            spent: Vec::new(),
        })
    }

    /// The graph that it runs.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Where its values live.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How much memory it takes.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Begins to measure the time of every node, from nothing. It costs two looks at the clock for each.
    pub fn measure(&mut self) {
        self.spent = vec![0; self.steps.len()];
    }

    /// Measures no more, until [`Program::measure`] is called again; what was measured is forgotten.
    pub fn stop_measuring(&mut self) {
        self.spent.clear();
    }

    /// The nodes that run, by their index in [`Graph::nodes`], and the nanoseconds that each took in all runs since
    /// [`Program::measure`]: none before.
    pub fn spent(&self) -> impl Iterator<Item = (usize, u64)> {
        self.steps.iter().zip(&self.spent).map(|(step, &spent)| (step.node, spent))
    }

    // ---- inputs -------------------------------------------------------------------------------------

    /// Sets an f32 input (or a bf16 one, rounding).
    pub fn set_f32(&mut self, name: &str, dims: &[usize], numbers: &[f32]) -> Result<()> {
        let (offset, dtype) = self.place_input(name, dims, numbers.len(), &[DType::F32, DType::BF16])?;
        match dtype {
            DType::BF16 => {
                let slots = self.io_slice::<bf16>(offset, numbers.len());
                slots.iter_mut().zip(numbers).for_each(|(slot, &x)| *slot = bf16::from_f32(x));
            }
            _ => self.io_slice::<f32>(offset, numbers.len()).copy_from_slice(numbers),
        }
        Ok(())
    }

    /// Sets an integer input.
    pub fn set_i32(&mut self, name: &str, dims: &[usize], numbers: &[i32]) -> Result<()> {
        let (offset, _) = self.place_input(name, dims, numbers.len(), &[DType::I32])?;
        self.io_slice::<i32>(offset, numbers.len()).copy_from_slice(numbers);
        Ok(())
    }

    /// Sets a boolean input.
    pub fn set_bools(&mut self, name: &str, dims: &[usize], truths: &[bool]) -> Result<()> {
        let (offset, _) = self.place_input(name, dims, truths.len(), &[DType::Bool])?;
        let slots = self.io_slice::<u8>(offset, truths.len());
        slots.iter_mut().zip(truths).for_each(|(slot, &truth)| *slot = u8::from(truth));
        Ok(())
    }

    /// Sets an input of any dtype from an array.
    pub fn set_array(&mut self, name: &str, array: &Array) -> Result<()> {
        let dtype = self.graph.dtype(self.inputs[self.input(name)?].var);
        check_numbers(name, dtype, array)?;
        let dims = array.dims();
        match dtype {
            DType::F32 | DType::BF16 => {
                self.set_f32(name, &dims, &array.data().iter().map(|&x| x as f32).collect::<Vec<_>>())
            }
            DType::I32 => {
                self.set_i32(name, &dims, &array.data().iter().map(|&x| x as i32).collect::<Vec<_>>())
            }
            DType::Bool => {
                self.set_bools(name, &dims, &array.data().iter().map(|&x| x != 0.0).collect::<Vec<_>>())
            }
        }
    }

    fn input(&self, name: &str) -> Result<usize> {
        let found = self.inputs.iter().position(|input| input.name == name);
        let known = self.inputs.iter().map(|input| input.name.as_str());
        found.ok_or_else(|| regard_graph::Error::unknown("input", name, known).into())
    }

    /// Checks an input and says where its numbers go.
    fn place_input(
        &mut self,
        name: &str,
        dims: &[usize],
        count: usize,
        accepted: &[DType],
    ) -> Result<(usize, DType)> {
        let index = self.input(name)?;
        let var = self.inputs[index].var;
        let fact = self.graph.fact(var);
        let wrong = |got: String| Error::Fed { name: name.into(), got, expected: fact.to_string() };
        if !accepted.contains(&fact.dtype) {
            return Err(wrong(format!("{} numbers", accepted[0])));
        }
        let given = Dims::new(dims).ok_or_else(|| wrong(format!("of {} axes", dims.len())))?;
        if given.count() != count {
            return Err(wrong(format!("{count} numbers for the shape {given}")));
        }
        bind_letters(&self.graph, name, var, given, &mut Sizes::none())?;
        let bound = fact.shape.bound();
        if given.iter().zip(bound.iter()).any(|(size, bound)| size > bound) {
            return Err(wrong(given.to_string()));
        }
        let dtype = fact.dtype;
        self.inputs[index].fed = Some(given);
        match self.plan.places[var.index()] {
            Some(Place::Io { offset, .. }) => Ok((offset, dtype)),
            _ => unreachable!("the planner gives every input a place among the program's own"),
        }
    }

    fn io_slice<T: Element>(&mut self, offset: usize, count: usize) -> &mut [T] {
        let start = offset / size_of::<T>();
        &mut self.io.as_mut_slice::<T>()[start..start + count]
    }

    // ---- running ------------------------------------------------------------------------------------

    /// Runs once. A replayed run allocates nothing.
    pub fn run(&mut self, store: &mut Store) -> Result<()> {
        if store.id() != self.store_id {
            return Err(Error::ForeignStore);
        }
        let mut sizes = Sizes::none();
        for InputSlot { name, var, fed } in &self.inputs {
            let dims = fed.ok_or_else(|| not_fed(&self.graph, name, *var))?;
            bind_letters(&self.graph, name, *var, dims, &mut sizes)?;
        }
        for InputSlot { name, var, fed } in &self.inputs {
            let dims = fed.ok_or_else(|| not_fed(&self.graph, name, *var))?;
            check_dims(&self.graph, name, *var, dims, &sizes)?;
        }
        self.sizes = sizes;
        // A run that fails on the way leaves some values of this run and some of the last.
        self.has_run = false;
        self.cpu.clone().replay(self, store)?;
        self.has_run = true;
        Ok(())
    }

    // ---- outputs ------------------------------------------------------------------------------------

    /// The numbers of an f32 output or kept tap, after a run.
    pub fn f32(&self, name: &str) -> Result<&[f32]> {
        self.read::<f32>(name, DType::F32)
    }

    /// The numbers of an integer output or kept tap, after a run.
    pub fn i32(&self, name: &str) -> Result<&[i32]> {
        self.read::<i32>(name, DType::I32)
    }

    /// The single number of an f32 output.
    pub fn scalar(&self, name: &str) -> Result<f32> {
        match self.f32(name)? {
            [number] => Ok(*number),
            many => Err(Error::Read {
                name: name.into(),
                got: format!("{} numbers", many.len()),
                expected: "a single number".into(),
            }),
        }
    }

    /// The actual shape of an output or kept tap, after a run.
    pub fn dims(&self, name: &str) -> Result<Dims> {
        Ok(self.graph.shape(self.graph.find(name)?).at(&self.sizes)?)
    }

    /// An output or kept tap of any dtype as an array, after a run.
    pub fn array(&self, name: &str) -> Result<Array> {
        let var = self.graph.find(name)?;
        let (buffer, offset) = self.kept(name, var)?;
        Ok(read_numbers(buffer, offset, self.graph.shape(var).at(&self.sizes)?, self.graph.dtype(var)))
    }

    fn read<T: Element>(&self, name: &str, dtype: DType) -> Result<&[T]> {
        let var = self.graph.find(name)?;
        if self.graph.dtype(var) != dtype {
            let got = self.graph.dtype(var).to_string();
            return Err(Error::Read { name: name.into(), got, expected: dtype.to_string() });
        }
        let (buffer, offset) = self.kept(name, var)?;
        let start = offset / size_of::<T>();
        let count = self.graph.shape(var).at(&self.sizes)?.count();
        Ok(&buffer.as_slice::<T>()[start..start + count])
    }

    fn kept(&self, name: &str, var: Var) -> Result<(&Buffer, usize)> {
        let lost = |advice: &str| Error::NotKept { name: name.into(), advice: advice.into() };
        if !self.has_run {
            return Err(lost("run the program first"));
        }
        match self.plan.places[var.index()] {
            Some(Place::Io { offset, .. }) => Ok((&self.io, offset)),
            Some(Place::Constant { offset, .. }) => Ok((&self.constants, offset)),
            Some(Place::Stored(_)) => Err(lost("it lives in the store: read it there by its own name")),
            Some(Place::Arena { .. }) | None => Err(lost("name it in `keep` when making the program")),
        }
    }
}

/// What a node's CPU kernel needs at the largest sizes.
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
    kernels.needs(&KernelRequest { call: &call, stored: &stored, threads, level })
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
