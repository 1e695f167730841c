//! A card with its compiler, and what runs on it: operands are uploaded, results poisoned, launches put on
//! the stream.

use regard_device::cuda::{
    Address, Architecture, Card, Compiler, CubinCache, CudaError, Event, Function, Memory, Module, Source,
    Stream, kernels::Launch,
};
use regard_graph::{Concrete, DType, Dims};
use regard_ops::{AttentionBackward, AttentionOp, CudaCall, CudaList, Kernels};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Bytes behind every result, which must stay as they are.
const GUARD: usize = 256;

/// One of the two ops.
#[derive(Clone, Debug)]
pub enum Op {
    Forward(AttentionOp),
    Backward(AttentionBackward),
}

/// An operand or a result: what it is made of, its shape and, in memory, its bytes.
#[derive(Clone, Debug)]
pub struct Value {
    pub dtype: DType,
    pub dims: Dims,
    pub bytes: Vec<u8>,
}

impl Value {
    pub fn new(dtype: DType, dims: Dims, numbers: &[f64]) -> Value {
        let bytes = numbers.iter().flat_map(|&x| match dtype {
            DType::F32 => (x as f32).to_le_bytes().to_vec(),
            DType::BF16 => half::bf16::from_f64(x).to_le_bytes().to_vec(),
            DType::I32 => (x as i32).to_le_bytes().to_vec(),
            DType::Bool => vec![u8::from(x != 0.0)],
        });
        Value { dtype, dims, bytes: bytes.collect() }
    }

    pub fn numbers(&self) -> Vec<f64> {
        let bytes = &self.bytes;
        match self.dtype {
            DType::F32 => {
                bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f64).collect()
            }
            DType::BF16 => {
                bytes.chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f64()).collect()
            }
            DType::I32 => {
                bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f64).collect()
            }
            DType::Bool => bytes.iter().map(|&b| b as f64).collect(),
        }
    }
}

/// One call: the op, its operands, and dtype and shape of its results.
#[derive(Clone, Debug)]
pub struct Call {
    pub op: Op,
    pub inputs: Vec<Value>,
    pub outputs: Vec<(DType, Dims)>,
    pub used: Vec<bool>,
}

impl Call {
    /// The launches for these addresses.
    pub fn plan(&self, inputs: &[Address], outputs: &[Address], scratch: Address, shared: usize) -> CudaList {
        let input_dims: Vec<Dims> = self.inputs.iter().map(|value| value.dims).collect();
        let input_dtypes: Vec<DType> = self.inputs.iter().map(|value| value.dtype).collect();
        let output_dims: Vec<Dims> = self.outputs.iter().map(|output| output.1).collect();
        let output_dtypes: Vec<DType> = self.outputs.iter().map(|output| output.0).collect();
        let integers = vec![None; self.inputs.len()];
        let shapes = Concrete {
            inputs: &input_dims,
            outputs: &output_dims,
            input_dtypes: &input_dtypes,
            output_dtypes: &output_dtypes,
            integers: &integers,
            used: &self.used,
        };
        let call = CudaCall {
            call: &shapes,
            inputs,
            outputs,
            copies: &vec![None; inputs.len()],
            scratch,
            fault: Address(0),
            stop: Address(0),
            shared,
            tf32: false,
        };
        match &self.op {
            Op::Forward(op) => op.cuda(&call).expect("attention is computed on cards"),
            Op::Backward(op) => op.cuda(&call).expect("attention is computed on cards"),
        }
    }

    /// The launches at addresses that nobody uses: what must be compiled.
    pub fn sources(&self, shared: usize) -> Vec<Source> {
        let at = |count: usize| vec![Address(256); count];
        let plan = self.plan(&at(self.inputs.len()), &at(self.outputs.len()), Address(256), shared);
        plan.launches().map(|launch| launch.source.clone()).collect()
    }
}

/// A call with its memory on the card.
pub struct Placed {
    pub plan: CudaList,
    outputs: Vec<Memory>,
    kept: Vec<Memory>,
}

pub struct Room {
    pub card: Card,
    pub stream: Stream,
    compiler: Compiler,
    architecture: Architecture,
    modules: RefCell<HashMap<Source, Module>>,
    functions: RefCell<HashMap<(Source, &'static str), Function>>,
}

impl Room {
    pub fn open() -> Result<Room, CudaError> {
        let card = Card::open(0)?;
        let compiler = Compiler::new(Some(card.facts().driver), CubinCache::of_user())?;
        let architecture = compiler.architecture(card.facts().capability)?;
        let stream = Stream::new(&card)?;
        let (modules, functions) = (RefCell::default(), RefCell::default());
        Ok(Room { card, stream, compiler, architecture, modules, functions })
    }

    pub fn shared(&self) -> usize {
        self.card.facts().shared_per_block
    }

    /// Compiles what is not compiled yet, on all threads; how many there were.
    pub fn compile(&self, sources: impl IntoIterator<Item = Source>) -> Result<usize, CudaError> {
        let mut modules = self.modules.borrow_mut();
        let new: HashSet<Source> =
            sources.into_iter().filter(|source| !modules.contains_key(source)).collect();
        let new: Vec<Source> = new.into_iter().collect();
        let threads = std::thread::available_parallelism().map_or(4, usize::from);
        let compiled = self.compiler.compile_all(&new, self.architecture, threads)?;
        for (source, compiled) in new.iter().zip(compiled) {
            modules.insert(source.clone(), Module::load(&self.card, &source.name, &compiled.cubin)?);
        }
        Ok(new.len())
    }

    fn function(&self, launch: &Launch) -> Result<Function, CudaError> {
        let key = (launch.source.clone(), launch.kernel);
        let known = self.functions.borrow().get(&key).cloned();
        let mut function = match known {
            Some(known) => known,
            None => {
                self.compile([launch.source.clone()])?;
                self.modules.borrow()[&launch.source].function(launch.kernel)?
            }
        };
        // Sizes are chosen at run time: a later launch may need more than the first.
        function.allow_shared(launch.grid.shared)?;
        self.functions.borrow_mut().insert(key, function.clone());
        Ok(function)
    }

    /// Memory whose every byte is ones: NaN as f32 and bf16, so that what is not written is seen.
    fn poisoned(&self, bytes: usize) -> Result<Memory, CudaError> {
        let memory = Memory::new(&self.card, bytes)?;
        // SAFETY: all of a block that lives until the wait.
        unsafe { self.stream.fill(memory.region(), 0xff) }?;
        self.stream.synchronize()?;
        Ok(memory)
    }

    /// Uploads operands and makes room for results and scratch.
    pub fn place(&self, call: &Call) -> Result<Placed, CudaError> {
        let mut kept = Vec::new();
        for value in &call.inputs {
            kept.push(Memory::of(&self.stream, &value.bytes)?);
        }
        let mut outputs = Vec::new();
        for (dtype, dims) in &call.outputs {
            let count: usize = dims.iter().product();
            outputs.push(self.poisoned(count * dtype.bytes() + GUARD)?);
        }
        let at = |all: &[Memory]| all.iter().map(Memory::start).collect::<Vec<Address>>();
        let (inputs_at, outputs_at) = (at(&kept), at(&outputs));
        let needs = call.plan(&inputs_at, &outputs_at, Address(256), self.shared()).scratch;
        let scratch = self.poisoned(needs + GUARD)?;
        let plan = call.plan(&inputs_at, &outputs_at, scratch.start(), self.shared());
        kept.push(scratch);
        Ok(Placed { plan, outputs, kept })
    }

    /// Puts the launches of a call on the stream.
    pub fn launch(&self, placed: &Placed) -> Result<(), CudaError> {
        for launch in placed.plan.launches() {
            // SAFETY: the launch was described with memory that `placed` holds.
            unsafe { self.function(launch)?.launch(&self.stream, launch.grid, &launch.arguments) }?;
        }
        Ok(())
    }

    /// Runs a call: its results, and whether what lies behind them and behind the scratch was left alone.
    pub fn run(&self, call: &Call) -> Result<(Vec<Value>, bool), CudaError> {
        let placed = self.place(call)?;
        self.launch(&placed)?;
        self.stream.synchronize()?;
        let mut values = Vec::new();
        let mut kept = true;
        for (memory, &(dtype, dims)) in placed.outputs.iter().zip(&call.outputs) {
            let mut bytes = memory.to_vec::<u8>(&self.stream)?;
            let guard = bytes.split_off(bytes.len() - GUARD);
            kept &= guard.iter().all(|&byte| byte == 0xff);
            values.push(Value { dtype, dims, bytes });
        }
        if let Some(scratch) = placed.kept.last() {
            let bytes = scratch.to_vec::<u8>(&self.stream)?;
            kept &= bytes[bytes.len() - GUARD..].iter().all(|&byte| byte == 0xff);
        }
        Ok((values, kept))
    }

    /// The median time of a call, in milliseconds.
    pub fn time(&self, placed: &Placed, times: usize) -> Result<f64, CudaError> {
        const WARM: usize = 3;
        let (begin, end) = (Event::timed(&self.card)?, Event::timed(&self.card)?);
        let mut all = Vec::new();
        // Looked up beforehand: a look-up takes longer than a small kernel.
        let launches = placed.plan.launches().map(|launch| Ok((self.function(launch)?, launch)));
        let launches = launches.collect::<Result<Vec<_>, CudaError>>()?;
        for i in 0..WARM + times {
            self.stream.record(&begin)?;
            for (function, launch) in &launches {
                // SAFETY: the launch was described with memory that `placed` holds.
                unsafe { function.launch(&self.stream, launch.grid, &launch.arguments) }?;
            }
            self.stream.record(&end)?;
            end.synchronize()?;
            if i >= WARM {
                all.push(f64::from(end.milliseconds_since(&begin)?));
            }
        }
        all.sort_by(f64::total_cmp);
        Ok(all[times / 2])
    }
}
