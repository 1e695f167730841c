//! A card with its compiler and its library of products: one call of an op is uploaded, its list run, its
//! results read back.

use regard_device::cuda::{
    Address, Architecture, Card, Compiler, CubinCache, CudaError, Function, Memory, Module, Product,
    Products, Region, Source, Stream,
};
use regard_graph::{Alias, Concrete, DType, Dims};
use regard_ops::{Array, CudaCall, CudaList, CudaProduct, CudaWork, Fault, Kernels};
use std::cell::RefCell;
use std::collections::HashMap;

/// Bytes behind every result, which must stay as they are.
const GUARD: usize = 256;
const WORKSPACE: usize = 32 << 20;

pub struct Room {
    pub card: Card,
    stream: Stream,
    compiler: Compiler,
    architecture: Architecture,
    products: Products,
    workspace: Memory,
    modules: RefCell<HashMap<Source, Module>>,
}

/// One call: operands as numbers that their dtypes hold, dtypes and shapes of the results, and who reads
/// them.
pub struct Call<'a> {
    pub kernels: &'a dyn Kernels,
    pub inputs: Vec<(DType, Array)>,
    pub outputs: Vec<(DType, Dims)>,
    pub used: Vec<bool>,
    /// Results that lie over operands.
    pub over: Vec<(usize, usize)>,
}

/// What came of a call.
pub struct Outcome {
    pub results: Vec<Vec<f64>>,
    /// Whether what lies behind results and scratch was left alone.
    pub kept: bool,
    pub fault: Option<Fault>,
}

pub enum Trouble {
    Cuda(CudaError),
    NotYet(String),
}

impl From<CudaError> for Trouble {
    fn from(error: CudaError) -> Self {
        Trouble::Cuda(error)
    }
}

fn bytes_of(dtype: DType, numbers: &[f64]) -> Vec<u8> {
    let bytes = numbers.iter().flat_map(|&x| match dtype {
        DType::F32 => (x as f32).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f64(x).to_le_bytes().to_vec(),
        DType::I32 => (x as i32).to_le_bytes().to_vec(),
        DType::Bool => vec![u8::from(x != 0.0)],
    });
    bytes.collect()
}

fn numbers_of(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let word = |b: &[u8]| [b[0], b[1], b[2], b[3]];
    match dtype {
        DType::F32 => bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(word(b)))).collect(),
        DType::BF16 => {
            bytes.chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f64()).collect()
        }
        DType::I32 => bytes.chunks_exact(4).map(|b| f64::from(i32::from_le_bytes(word(b)))).collect(),
        DType::Bool => bytes.iter().map(|&b| f64::from(b)).collect(),
    }
}

impl Room {
    pub fn open() -> Result<Room, CudaError> {
        let card = Card::open(0)?;
        let compiler = Compiler::new(Some(card.facts().driver), CubinCache::of_user())?;
        let architecture = compiler.architecture(card.facts().capability)?;
        let (stream, products) = (Stream::new(&card)?, Products::new(&card)?);
        let workspace = Memory::new(&card, WORKSPACE)?;
        let modules = RefCell::default();
        Ok(Room { card, stream, compiler, architecture, products, workspace, modules })
    }

    fn function(&self, source: &Source, kernel: &str) -> Result<Function, CudaError> {
        if !self.modules.borrow().contains_key(source) {
            let compiled = self.compiler.compile(source, self.architecture)?;
            let module = Module::load(&self.card, &source.name, &compiled.cubin)?;
            self.modules.borrow_mut().insert(source.clone(), module);
        }
        self.modules.borrow()[source].function(kernel)
    }

    /// Memory whose every byte is ones: NaN as f32 and bf16, so that what is not written is seen.
    fn poisoned(&self, bytes: usize) -> Result<Memory, CudaError> {
        let memory = Memory::new(&self.card, bytes)?;
        // SAFETY: all of a block that lives until the wait.
        unsafe { self.stream.fill(memory.region(), 0xff) }?;
        self.stream.synchronize()?;
        Ok(memory)
    }

    pub fn run(&self, call: &Call<'_>) -> Result<Outcome, Trouble> {
        let mut inputs = Vec::new();
        for (dtype, array) in &call.inputs {
            let mut bytes = bytes_of(*dtype, array.data());
            bytes.extend([0xff; GUARD]);
            inputs.push(Memory::of(&self.stream, &bytes)?);
        }
        let mut outputs = Vec::new();
        for (dtype, dims) in &call.outputs {
            outputs.push(self.poisoned(dims.count() * dtype.bytes() + GUARD)?);
        }
        let (fault, stop) = (self.poisoned(8)?, Memory::of(&self.stream, &[0u32])?);
        let input_dims: Vec<Dims> = call.inputs.iter().map(|(_, array)| array.dims()).collect();
        let input_dtypes: Vec<DType> = call.inputs.iter().map(|(dtype, _)| *dtype).collect();
        let output_dims: Vec<Dims> = call.outputs.iter().map(|output| output.1).collect();
        let output_dtypes: Vec<DType> = call.outputs.iter().map(|output| output.0).collect();
        let integers = vec![None; call.inputs.len()];
        let shapes = Concrete {
            inputs: &input_dims,
            outputs: &output_dims,
            input_dtypes: &input_dtypes,
            output_dtypes: &output_dtypes,
            integers: &integers,
            used: &call.used,
        };
        let inputs_at: Vec<Address> = inputs.iter().map(Memory::start).collect();
        let place = |output: usize| match call.over.iter().find(|over| over.0 == output) {
            Some(&(_, input)) => inputs_at[input],
            None => outputs[output].start(),
        };
        let outputs_at: Vec<Address> =
            (0..outputs.len()).map(|at| if call.used[at] { place(at) } else { Address(0) }).collect();
        let list = |scratch: Address| -> Result<CudaList, Trouble> {
            let call_of = CudaCall {
                call: &shapes,
                inputs: &inputs_at,
                outputs: &outputs_at,
                copies: &vec![None; inputs_at.len()],
                scratch,
                fault: fault.start(),
                stop: stop.start(),
                shared: self.card.facts().shared_per_block,
                tf32: false,
            };
            call.kernels.cuda(&call_of).map_err(|not_yet| Trouble::NotYet(not_yet.to_string()))
        };
        let needs = list(Address(256))?.scratch;
        let scratch = self.poisoned(needs + GUARD)?;
        let list = list(scratch.start())?;
        for work in &list.work {
            self.put(work)?;
        }
        self.stream.synchronize()?;
        let mut kept = true;
        let mut results = Vec::new();
        for (at, &(dtype, dims)) in call.outputs.iter().enumerate() {
            let over = call.over.iter().find(|over| over.0 == at);
            let memory = over.map_or(&outputs[at], |&(_, input)| &inputs[input]);
            let mut bytes = memory.to_vec::<u8>(&self.stream)?;
            let guard = bytes.split_off(dims.count() * dtype.bytes());
            kept &= guard.iter().all(|&byte| byte == 0xff);
            results.push(numbers_of(dtype, &bytes));
        }
        let behind = scratch.to_vec::<u8>(&self.stream)?;
        kept &= behind[needs..].iter().all(|&byte| byte == 0xff);
        let word =
            fault.to_vec::<u8>(&self.stream)?.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let found = (word != u64::MAX).then_some((word >> 32) as u32).zip(list.fault.as_ref());
        let fault = found.map(|(place, sentence)| sentence(place, word as u32 as i32));
        Ok(Outcome { results, kept, fault })
    }

    fn put(&self, work: &CudaWork) -> Result<(), CudaError> {
        // SAFETY: lists are made with memory that lives until the stream has passed.
        unsafe {
            match work {
                CudaWork::Launch(launch) => {
                    let mut function = self.function(&launch.source, launch.kernel)?;
                    function.allow_shared(launch.grid.shared)?;
                    function.launch(&self.stream, launch.grid, &launch.arguments)
                }
                CudaWork::Copy { to, from } => self.stream.copy(*to, *from),
                CudaWork::Fill { region, byte } => self.stream.fill(*region, *byte),
                CudaWork::Product(CudaProduct { product, alpha, beta, operands }) => {
                    let c = if *beta == 0.0 { operands.d } else { operands.c };
                    let all = operands.a.0 | operands.b.0 | c.0 | operands.d.0;
                    let alignment = 1 << all.trailing_zeros().min(8);
                    let product = Product { alignment, ..*product };
                    let mut planned = self.products.plan_first(&product, WORKSPACE)?;
                    let workspace: Region = self.workspace.region();
                    let operands = regard_device::cuda::Operands { workspace, ..*operands };
                    planned.run(&self.stream, *alpha, *beta, &operands)?;
                    self.stream.synchronize()
                }
            }
        }
    }
}

/// Operands that a result may lie over, and must: those of equal size alone.
pub fn aliases(
    aliases: &[Alias],
    update: bool,
    inputs: &[(DType, Array)],
    outputs: &[(DType, Dims)],
) -> Vec<(usize, usize)> {
    let wanted = |alias: &&Alias| {
        matches!(alias, Alias::Update { .. }) == update && !matches!(alias, Alias::View { .. })
    };
    let pairs = aliases.iter().filter(wanted).map(|alias| alias.output_and_input());
    let size = |(dtype, count): (DType, usize)| dtype.bytes() * count;
    let fits = |&(output, input): &(usize, usize)| {
        size((outputs[output].0, outputs[output].1.count()))
            == size((inputs[input].0, inputs[input].1.data().len()))
    };
    pairs.filter(fits).collect()
}
