//! A card's half of a program: where its values are, and for each combination of sizes that it has met what
//! goes on the stream ([`Prepared`]). A run brings weights that changed elsewhere, uploads the inputs and
//! puts the rest on the stream; it does not wait.

use super::prepared::Prepared;
use super::{Cuda, State, check_room};
use crate::cpu_program::{constant_bytes, kernels_at};
use crate::device::Taken;
use crate::program::PlannedGraph;
use crate::{Numbers, Result, Store};
use regard_device::Element;
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::kernels::map::{Input, Map};
use regard_device::cuda::{Address, Event, Function, Memory, Pinned, Region};
use regard_graph::plan::Place;
use regard_graph::{Alias, Concrete, DType, Dims, Graph, Origin, Sizes, Var};
use regard_ops::{CudaCall, CudaList, FaultSentence, Kernels, check_cuda_sizes};
use std::sync::Arc;

/// How many combinations of sizes are kept ready.
const KEPT: usize = 8;

pub(crate) struct CudaProgram {
    cuda: Cuda,
    steps: Vec<Step>,
    io: Memory,
    constants: Memory,
    /// Inputs in host memory that the card reads by itself, and where each is there and among the inputs of
    /// the plan.
    staging: Pinned,
    inputs: Vec<StagedInput>,
    /// Passed once the card has read the staged inputs of the last run.
    uploaded: Event,
    /// Copies of weights in bf16 that are made anew when the weights have changed.
    casts: Vec<Cast>,
    /// Entries that the program reads or changes.
    entries: Vec<usize>,
    updates: Vec<usize>,
    ready: Vec<Prepared>,
    packed: usize,
    scratch: usize,
}

struct Step {
    node: usize,
    kernels: Arc<dyn Kernels>,
    used: Vec<bool>,
    /// The word of its faults.
    fault: Option<usize>,
    copies: Vec<Option<Address>>,
}

struct StagedInput {
    var: Var,
    /// Offset among the inputs and kept values of the plan.
    planned: usize,
    /// Offset in the staging memory.
    staged: usize,
}

struct Cast {
    entry: usize,
    function: Function,
    launch: Launch,
}

impl CudaProgram {
    pub fn new(cuda: &Cuda, planned: &PlannedGraph, store: &mut Store) -> Result<CudaProgram> {
        let PlannedGraph { graph, plan, entries } = planned;
        let (mut steps, updates) = steps_of(planned)?;
        let Survey { scratch, wanted, sentences } = Survey::new(cuda, planned, &steps)?;
        let copied = |entry: usize| wanted.iter().any(|wanted| wanted.entry == entry);
        let io_bytes = plan.io_bytes.max(64);
        let of_store: usize =
            entries.iter().map(|&entry| store.missing_on_card(entry, cuda, copied(entry))).sum();
        let growth = cuda.lock().missing(plan.arena_bytes, scratch);
        check_room(cuda.card(), of_store + growth + io_bytes + plan.constant_bytes)?;

        for &entry in entries {
            store.place_on_card(entry, cuda)?;
        }
        let mut casts: Vec<Cast> = Vec::new();
        for Wanted { step, input, entry } in wanted {
            steps[step].copies[input] = Some(store.place_bf16(entry, cuda)?);
            if casts.iter().all(|cast| cast.entry != entry) {
                casts.push(Cast::new(entry, store, cuda)?);
            }
        }
        let packed = casts.iter().map(|cast| 2 * store.entry_dims(cast.entry).count()).sum();
        let mut state = cuda.lock();
        state.arena(plan.arena_bytes)?;
        state.reserve_scratch(scratch)?;
        let io = Memory::new(cuda.card(), io_bytes)?;
        // SAFETY: the whole of a block that lives as long as the program, which waits for the stream when it
        // goes.
        unsafe { state.stream.fill(io.region(), 0) }?;
        let constants = Memory::of(&state.stream, &constant_bytes(graph, plan)?)?;
        let (inputs, staged) = staged_inputs(planned);
        let (staging, uploaded) = (Pinned::new(cuda.card(), staged.max(64))?, Event::new(cuda.card())?);
        for (step, sentence) in steps.iter_mut().zip(sentences) {
            if let Some(sentence) = sentence {
                step.fault = state.faults.take(&graph.nodes()[step.node].name, sentence);
            }
        }
        drop(state);
        Ok(CudaProgram {
            cuda: cuda.clone(),
            steps,
            io,
            constants,
            staging,
            inputs,
            uploaded,
            casts,
            entries: entries.clone(),
            updates,
            ready: Vec::new(),
            packed,
            scratch,
        })
    }

    pub fn taken(&self) -> Taken {
        Taken { packed: self.packed, threads: self.scratch }
    }

    pub fn input<T: Element>(&mut self, offset: usize, count: usize) -> Result<&mut [T]> {
        self.uploaded.synchronize()?;
        let input = self.inputs.iter().find(|input| input.planned == offset);
        let staged = input.unwrap_or_else(|| unreachable!("every input is staged")).staged / size_of::<T>();
        Ok(&mut self.staging.as_mut_slice::<T>()[staged..staged + count])
    }

    pub fn run(
        &mut self,
        planned: &PlannedGraph,
        sizes: &Sizes,
        store: &mut Store,
        spent: &mut [u64],
    ) -> Result<()> {
        let cuda = self.cuda.clone();
        let mut state = cuda.lock();
        for &entry in &self.entries {
            store.bring_to_card(entry, &cuda, &mut state)?;
        }
        let measured = !spent.is_empty();
        let same = |ready: &Prepared| ready.sizes == *sizes && ready.by_step == measured;
        let at = match self.ready.iter().position(same) {
            Some(at) => at,
            None => {
                let prepared = self.prepare(&mut state, planned, sizes, measured, store)?;
                self.ready.insert(0, prepared);
                self.ready.truncate(KEPT);
                0
            }
        };
        // The last used stays longest.
        self.ready[..=at].rotate_right(1);
        let ready = &mut self.ready[0];
        // Places are said in the sizes of this run.
        for (index, sentence) in &ready.sentences {
            state.faults.replace(*index, sentence.clone());
        }
        for &(staged, to) in &ready.uploads {
            // SAFETY: the staged bytes are inside of the pinned block, which `input` hands out again only
            // once the event recorded below is passed; the region is inside of this program's own block.
            unsafe { state.stream.upload(to, self.staging.as_ptr().add(staged)) }?;
        }
        state.stream.record(&self.uploaded)?;
        for cast in self.casts.iter().filter(|cast| store.take_stale_bf16(cast.entry, &cuda)) {
            // SAFETY: it reads an entry and writes its copy, both of which the store holds for as long as the
            // stream runs.
            unsafe { cast.function.launch(&state.stream, cast.launch.grid, &cast.launch.arguments) }?;
        }
        for &entry in &self.updates {
            store.changed_on_card(entry, &cuda);
        }
        // SAFETY: `Plan::check` says that every place lies inside of its memory and that places are disjoint
        // but where a result may lie over an operand; arena and scratch have the memory that the lists asked
        // for, and never move; blocks of this program live as long as it does, entries as long as the store,
        // and freeing any of them waits for the card.
        unsafe {
            match measured {
                false => ready.run(&mut state),
                true => ready.run_measured(&mut state, spent),
            }
        }
    }

    /// Everything that goes on the stream at these sizes.
    fn prepare(
        &mut self,
        state: &mut State,
        planned: &PlannedGraph,
        sizes: &Sizes,
        by_step: bool,
        store: &mut Store,
    ) -> Result<Prepared> {
        let entries = self.entries.iter().map(|&entry| store.place_on_card(entry, &self.cuda));
        let entries = &entries.collect::<Result<Vec<Address>>>()?;
        let arena = state.arena(planned.plan.arena_bytes)?;
        let places = Places { arena, io: self.io.start(), constants: self.constants.start(), entries };
        let shape = Shape { cuda: &self.cuda, planned, places, scratch: state.scratch() };
        let mut lists = Vec::with_capacity(self.steps.len());
        let mut sentences = Vec::new();
        for step in &mut self.steps {
            let made = |step: &Step, state: &State| {
                let fault = step.fault.map_or(Address(0), |index| state.faults.word(index));
                shape.list(step, sizes, fault, state.faults.stop())
            };
            let mut list = made(step, state)?;
            // What is wrong at these sizes alone was not known when the program was made.
            if let (None, Some(sentence)) = (step.fault, &list.fault) {
                let name = &planned.graph.nodes()[step.node].name;
                step.fault = state.faults.take(name, sentence.clone());
                list = made(step, state)?;
            }
            state.reserve_scratch(list.scratch)?;
            sentences.extend(step.fault.zip(list.fault.clone()));
            lists.push(list);
        }
        let mut uploads = Vec::new();
        for input in &self.inputs {
            let bytes =
                planned.graph.shape(input.var).at(sizes)?.count() * planned.graph.dtype(input.var).bytes();
            uploads.push((input.staged, Region { start: self.io.start().after(input.planned), bytes }));
        }
        let mut prepared = Prepared::new(state, *sizes, lists, uploads, by_step)?;
        prepared.sentences = sentences;
        Ok(prepared)
    }

    pub fn wait(&self) -> Result<()> {
        self.cuda.wait()
    }

    pub fn read<T: Element>(&self, place: Place, count: usize) -> Result<Numbers<'_, T>> {
        let (memory, offset) = match place {
            Place::Io { offset, .. } => (&self.io, offset),
            Place::Constant { offset, .. } => (&self.constants, offset),
            Place::Arena { .. } | Place::Stored(_) => unreachable!("a program reads what it keeps itself"),
        };
        let mut numbers = vec![T::default(); count];
        let from = memory.region().part(offset, size_of_val(&numbers[..]));
        // SAFETY: the region is inside of a block of this program.
        unsafe { self.cuda.lock().download(&mut numbers, from) }?;
        Ok(Numbers::copied(numbers))
    }
}

impl Drop for CudaProgram {
    fn drop(&mut self) {
        let mut state = self.cuda.lock();
        // What runs still uses this program's blocks. After a lost card there is nothing to wait for.
        let _ = state.stream.synchronize();
        self.steps.iter().filter_map(|step| step.fault).for_each(|index| state.faults.give_back(index));
    }
}

/// What runs, and which entries of the store it changes.
fn steps_of(planned: &PlannedGraph) -> Result<(Vec<Step>, Vec<usize>)> {
    let PlannedGraph { graph, plan, entries } = planned;
    let (mut steps, mut updates) = (Vec::new(), Vec::new());
    for step in &plan.steps {
        let node = &graph.nodes()[step.node];
        for &alias in &node.declared.aliases {
            let Alias::Update { input, .. } = alias else { continue };
            updates.extend(graph.value(node.inputs[input]).version_of.map(|stored| entries[stored]));
        }
        let used = step.used.iter().enumerate();
        let used = used.map(|(output, &used)| used && !node.declared.views(output)).collect();
        let (kernels, copies) = (kernels_at(graph, step.node)?.clone(), vec![None; node.inputs.len()]);
        steps.push(Step { node: step.node, kernels, used, fault: None, copies });
    }
    updates.sort_unstable();
    updates.dedup();
    Ok((steps, updates))
}

/// Where inputs are staged, and how many bytes that takes.
fn staged_inputs(planned: &PlannedGraph) -> (Vec<StagedInput>, usize) {
    let (mut inputs, mut staged) = (Vec::new(), 0);
    for (_, var) in planned.graph.inputs() {
        if let Some(Place::Io { offset, bytes }) = planned.plan.places[var.index()] {
            inputs.push(StagedInput { var, planned: offset, staged });
            staged += bytes.next_multiple_of(64);
        }
    }
    (inputs, staged)
}

/// What lists ask for at the largest sizes, made at addresses that are not real yet.
struct Survey {
    scratch: usize,
    wanted: Vec<Wanted>,
    /// What to say of faults, for each step.
    sentences: Vec<Option<FaultSentence>>,
}

/// An operand that is wanted in bf16 and lies in the store.
struct Wanted {
    step: usize,
    input: usize,
    entry: usize,
}

impl Survey {
    fn new(cuda: &Cuda, planned: &PlannedGraph, steps: &[Step]) -> Result<Survey> {
        let PlannedGraph { graph, entries, .. } = planned;
        let letters = graph.letters().iter();
        let bounds = letters.copied().try_fold(Sizes::none(), |sizes, one| sizes.with(one, one.bound()))?;
        let nowhere = &vec![NOWHERE; entries.len()];
        let places = Places { arena: NOWHERE, io: NOWHERE, constants: NOWHERE, entries: nowhere };
        let shape = Shape { cuda, planned, places, scratch: NOWHERE };
        let mut survey = Survey { scratch: 0, wanted: Vec::new(), sentences: Vec::new() };
        for (step, own) in steps.iter().enumerate() {
            let list = shape.list(own, &bounds, Address(0), Address(0))?;
            survey.scratch = survey.scratch.max(list.scratch);
            survey.sentences.push(list.fault);
            for input in list.wanted {
                // A version that this very program makes is not there when the copies are made.
                if let Origin::Stored(stored) = graph.value(graph.nodes()[own.node].inputs[input]).origin {
                    survey.wanted.push(Wanted { step, input, entry: entries[stored] });
                }
            }
        }
        Ok(survey)
    }
}

impl Cast {
    /// The launch that makes the copy of an entry in bf16.
    fn new(entry: usize, store: &mut Store, cuda: &Cuda) -> Result<Cast> {
        let (from, to) = (store.place_on_card(entry, cuda)?, store.place_bf16(entry, cuda)?);
        let from = Input { at: from, strides: vec![1] };
        let count = store.entry_dims(entry).count();
        let launch = Map::new("x0", &["f32"], "bf16").launch(&[count], &[from], [0.0; 4], to);
        Ok(Cast { entry, function: cuda.lock().function(&launch)?, launch })
    }
}

/// Stands for an address before there is one: aligned, and not 0, which means that there is none.
const NOWHERE: Address = Address(1 << 20);

/// Where the blocks of a program are.
#[derive(Clone, Copy)]
struct Places<'a> {
    arena: Address,
    io: Address,
    constants: Address,
    /// One for each of [`Graph::stored`].
    entries: &'a [Address],
}

/// What the list of a step is made from.
struct Shape<'a> {
    cuda: &'a Cuda,
    planned: &'a PlannedGraph,
    places: Places<'a>,
    scratch: Address,
}

impl Shape<'_> {
    fn list(&self, step: &Step, sizes: &Sizes, fault: Address, stop: Address) -> Result<CudaList> {
        let graph = &self.planned.graph;
        let node = &graph.nodes()[step.node];
        let dims = |vars: &[Var]| -> Result<Vec<Dims>> {
            Ok(vars.iter().map(|&var| graph.shape(var).at(sizes)).collect::<regard_graph::Result<_>>()?)
        };
        let (inputs, outputs) = (dims(&node.inputs)?, dims(&node.outputs)?);
        let (input_dtypes, output_dtypes) = (dtypes(graph, &node.inputs), dtypes(graph, &node.outputs));
        let integers = vec![None; inputs.len()];
        let call = Concrete {
            inputs: &inputs,
            outputs: &outputs,
            input_dtypes: &input_dtypes,
            output_dtypes: &output_dtypes,
            integers: &integers,
            used: &step.used,
        };
        let from: Vec<Address> = node.inputs.iter().map(|&var| self.address(var)).collect();
        let to: Vec<Address> = node
            .outputs
            .iter()
            .zip(&step.used)
            .map(|(&var, &used)| if used { self.address(var) } else { Address(0) })
            .collect();
        check_cuda_sizes(node.op.name(), &call)?;
        Ok(step.kernels.cuda(&CudaCall {
            call: &call,
            inputs: &from,
            outputs: &to,
            copies: &step.copies,
            scratch: self.scratch,
            fault,
            stop,
            shared: self.cuda.facts().shared_per_block,
            tf32: self.cuda.tf32(),
        })?)
    }

    fn address(&self, var: Var) -> Address {
        match self.planned.plan.places[var.index()] {
            None => Address(0),
            Some(Place::Arena { offset, .. }) => self.places.arena.after(offset),
            Some(Place::Io { offset, .. }) => self.places.io.after(offset),
            Some(Place::Constant { offset, .. }) => self.places.constants.after(offset),
            Some(Place::Stored(index)) => self.places.entries[index],
        }
    }
}

fn dtypes(graph: &Graph, vars: &[Var]) -> Vec<DType> {
    vars.iter().map(|&var| graph.dtype(var)).collect()
}
