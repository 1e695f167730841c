//! A program: a recorded graph, planned once for a device, to be replayed with no allocation and no dispatch
//! cost. Set its inputs, run it with its store, read its outputs. Here is what all devices share: names,
//! shapes, the plan; where the numbers are and how they are computed is the device's half ([`Loaded`]).

use crate::device::{Loaded, Taken};
use crate::feed::{bind_letters, check_dims, check_numbers, not_fed};
use crate::store::to_array;
use crate::{AsDevice, Device, Error, Numbers, Result, Store};
use half::bf16;
use regard_device::Element;
use regard_graph::plan::{Place, Plan, Request, plan};
use regard_graph::{DType, Dims, Graph, Sizes, Var, check_size};
use regard_ops::{Array, with_weights};

/// A graph with its plan: what a device is told of a program.
pub(crate) struct PlannedGraph {
    pub graph: Graph,
    pub plan: Plan,
    /// The entry of the store of each of [`Graph::stored`].
    pub entries: Vec<usize>,
}

struct InputSlot {
    name: String,
    var: Var,
    fed: Option<Dims>,
}

/// Where a program's memory goes, in bytes, known before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Intermediate values and scratch; shared with the other programs of the same device.
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
    planned: PlannedGraph,
    device: Device,
    loaded: Loaded,
    sizes: Sizes,
    store_id: u64,
    inputs: Vec<InputSlot>,
    memory: Memory,
    has_run: bool,
    /// Nanoseconds of each step so far; empty unless asked for.
    spent: Vec<u64>,
}

impl Program {
    /// Plans a graph for a device: a [`Device`] or a [`Cpu`](crate::Cpu). Its outputs are kept, and so are
    /// the taps asked for: looking at a value changes no bit of any other. Parameters and states that the
    /// store does not have yet are made as declared. Weights are held as the store says
    /// ([`Store::hold_weights`]), and nodes that nobody looks in between are joined as the device likes it,
    /// which changes no bit, either.
    pub fn new(graph: Graph, keep: &[&str], store: &mut Store, device: &impl AsDevice) -> Result<Self> {
        let device = device.as_device();
        let mut graph = with_weights(graph, store.weights())?;
        let mut kept: Vec<Var> = graph.outputs().map(|(_, var)| var).collect();
        for name in keep {
            kept.push(graph.find(name)?);
        }
        device.join(&mut graph, &kept)?;
        // Before any kernel is asked what it needs: it multiplies sizes.
        (0..graph.values().len()).try_for_each(|index| check_size(&graph, "plan", graph.var(index), None))?;
        let needs = device.needs(&graph, &kept)?;
        let plan = plan(&graph, &Request { keep: kept, scratch: &|node| needs[node].scratch })?;
        // What a device relies on when it turns places into addresses.
        plan.check(&graph)?;
        let entries =
            graph.stored().iter().map(|stored| store.declare_stored(stored)).collect::<Result<Vec<_>>>()?;
        let planned = PlannedGraph { graph, plan, entries };
        let loaded = device.load(&planned, &needs, store)?;
        let PlannedGraph { graph, plan, .. } = &planned;
        let Taken { packed, threads } = loaded.taken();
        let memory = Memory {
            arena: plan.arena_bytes,
            io: plan.io_bytes,
            constants: plan.constant_bytes,
            stored: graph.stored().iter().map(|stored| stored.fact.bytes()).sum(),
            packed,
            threads,
        };
        let inputs =
            graph.inputs().map(|(name, var)| InputSlot { name: name.into(), var, fed: None }).collect();
        let (store_id, sizes, spent) = (store.id(), Sizes::none(), Vec::new());
        Ok(Program { planned, device, loaded, sizes, store_id, inputs, memory, has_run: false, spent })
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The graph that it runs.
    pub fn graph(&self) -> &Graph {
        &self.planned.graph
    }

    /// Where its values live.
    pub fn plan(&self) -> &Plan {
        &self.planned.plan
    }

    /// How much memory it takes.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Begins to measure the time of every node, from nothing. It costs two looks at the clock for each.
    pub fn measure(&mut self) {
        self.spent = vec![0; self.planned.plan.steps.len()];
    }

    /// Measures no more, until [`Program::measure`] is called again; what was measured is forgotten.
    pub fn stop_measuring(&mut self) {
        self.spent.clear();
    }

    /// The nodes that run, by their index in [`Graph::nodes`], and the nanoseconds that each took in all runs
    /// since [`Program::measure`]: none before.
    pub fn spent(&self) -> impl Iterator<Item = (usize, u64)> {
        self.planned.plan.steps.iter().zip(&self.spent).map(|(step, &spent)| (step.node, spent))
    }

    // ---- inputs -------------------------------------------------------------------------------------

    /// Sets an f32 input (or a bf16 one, rounding).
    pub fn set_f32(&mut self, name: &str, dims: &[usize], numbers: &[f32]) -> Result<()> {
        let (offset, dtype) = self.place_input(name, dims, numbers.len(), &[DType::F32, DType::BF16])?;
        match dtype {
            DType::BF16 => {
                let slots = self.loaded.input::<bf16>(offset, numbers.len())?;
                slots.iter_mut().zip(numbers).for_each(|(slot, &x)| *slot = bf16::from_f32(x));
            }
            _ => self.loaded.input::<f32>(offset, numbers.len())?.copy_from_slice(numbers),
        }
        Ok(())
    }

    /// Sets an integer input.
    pub fn set_i32(&mut self, name: &str, dims: &[usize], numbers: &[i32]) -> Result<()> {
        let (offset, _) = self.place_input(name, dims, numbers.len(), &[DType::I32])?;
        self.loaded.input::<i32>(offset, numbers.len())?.copy_from_slice(numbers);
        Ok(())
    }

    /// Sets a boolean input.
    pub fn set_bools(&mut self, name: &str, dims: &[usize], truths: &[bool]) -> Result<()> {
        let (offset, _) = self.place_input(name, dims, truths.len(), &[DType::Bool])?;
        let slots = self.loaded.input::<u8>(offset, truths.len())?;
        slots.iter_mut().zip(truths).for_each(|(slot, &truth)| *slot = u8::from(truth));
        Ok(())
    }

    /// Sets an input of any dtype from an array.
    pub fn set_array(&mut self, name: &str, array: &Array) -> Result<()> {
        let dtype = self.planned.graph.dtype(self.inputs[self.input(name)?].var);
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
        let fact = self.planned.graph.fact(var);
        let wrong = |got: String| Error::Fed { name: name.into(), got, expected: fact.to_string() };
        if !accepted.contains(&fact.dtype) {
            return Err(wrong(format!("{} numbers", accepted[0])));
        }
        let given = Dims::new(dims).ok_or_else(|| wrong(format!("of {} axes", dims.len())))?;
        if given.count() != count {
            return Err(wrong(format!("{count} numbers for the shape {given}")));
        }
        bind_letters(&self.planned.graph, name, var, given, &mut Sizes::none())?;
        let bound = fact.shape.bound();
        if given.iter().zip(bound.iter()).any(|(size, bound)| size > bound) {
            return Err(wrong(given.to_string()));
        }
        let dtype = fact.dtype;
        self.inputs[index].fed = Some(given);
        match self.planned.plan.places[var.index()] {
            Some(Place::Io { offset, .. }) => Ok((offset, dtype)),
            _ => unreachable!("the planner gives every input a place among the program's own"),
        }
    }

    // ---- running ------------------------------------------------------------------------------------

    /// Runs once. A replayed run allocates nothing. A device may only enqueue it here: then what was wrong
    /// with the numbers is said by [`Program::wait`] or by the first read, which wait for it. The CPU is done
    /// when this returns.
    pub fn run(&mut self, store: &mut Store) -> Result<()> {
        if store.id() != self.store_id {
            return Err(Error::ForeignStore);
        }
        let graph = &self.planned.graph;
        let mut sizes = Sizes::none();
        for InputSlot { name, var, fed } in &self.inputs {
            let dims = fed.ok_or_else(|| not_fed(graph, name, *var))?;
            bind_letters(graph, name, *var, dims, &mut sizes)?;
        }
        for InputSlot { name, var, fed } in &self.inputs {
            let dims = fed.ok_or_else(|| not_fed(graph, name, *var))?;
            check_dims(graph, name, *var, dims, &sizes)?;
        }
        self.sizes = sizes;
        // A run that fails on the way leaves some values of this run and some of the last.
        self.has_run = false;
        self.loaded.run(&self.planned, &self.sizes, store, &mut self.spent)?;
        self.has_run = true;
        Ok(())
    }

    /// Waits until all runs are done, and says what was wrong with them.
    pub fn wait(&self) -> Result<()> {
        self.loaded.wait()
    }

    // ---- outputs ------------------------------------------------------------------------------------

    /// The numbers of an f32 output or kept tap, after a run, for which it waits.
    pub fn f32(&self, name: &str) -> Result<Numbers<'_, f32>> {
        self.read::<f32>(name, DType::F32)
    }

    /// The numbers of an integer output or kept tap, after a run, for which it waits.
    pub fn i32(&self, name: &str) -> Result<Numbers<'_, i32>> {
        self.read::<i32>(name, DType::I32)
    }

    /// The single number of an f32 output.
    pub fn scalar(&self, name: &str) -> Result<f32> {
        match &*self.f32(name)? {
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
        let graph = &self.planned.graph;
        Ok(graph.shape(graph.find(name)?).at(&self.sizes)?)
    }

    /// An output or kept tap of any dtype as an array, after a run.
    pub fn array(&self, name: &str) -> Result<Array> {
        let var = self.planned.graph.find(name)?;
        let place = self.kept(name, var)?;
        let dims = self.dims(name)?;
        let count = dims.count();
        Ok(match self.planned.graph.dtype(var) {
            DType::F32 => to_array(dims, &self.loaded.read::<f32>(place, count)?, f64::from),
            DType::BF16 => to_array(dims, &self.loaded.read::<bf16>(place, count)?, bf16::to_f64),
            DType::I32 => to_array(dims, &self.loaded.read::<i32>(place, count)?, f64::from),
            DType::Bool => to_array(dims, &self.loaded.read::<u8>(place, count)?, f64::from),
        })
    }

    fn read<T: Element>(&self, name: &str, dtype: DType) -> Result<Numbers<'_, T>> {
        let graph = &self.planned.graph;
        let var = graph.find(name)?;
        if graph.dtype(var) != dtype {
            let got = graph.dtype(var).to_string();
            return Err(Error::Read { name: name.into(), got, expected: dtype.to_string() });
        }
        let place = self.kept(name, var)?;
        self.loaded.read(place, graph.shape(var).at(&self.sizes)?.count())
    }

    /// Where a value lies that can be read.
    fn kept(&self, name: &str, var: Var) -> Result<Place> {
        let lost = |advice: &str| Error::NotKept { name: name.into(), advice: advice.into() };
        if !self.has_run {
            return Err(lost("run the program first"));
        }
        match self.planned.plan.places[var.index()] {
            Some(place @ (Place::Io { .. } | Place::Constant { .. })) => Ok(place),
            Some(Place::Stored(_)) => Err(lost("it lives in the store: read it there by its own name")),
            Some(Place::Arena { .. }) | None => Err(lost("name it in `keep` when making the program")),
        }
    }
}
