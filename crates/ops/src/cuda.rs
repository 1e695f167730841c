//! How an op says what it does on an NVIDIA card: a list of launches, products, copies and fills, made from
//! settings, sizes and addresses alone. No card is needed to make one, so that lists are tested and sources
//! compiled anywhere; the engine runs them. Which kernels are taken depends on settings and sizes, never on
//! time: same sizes, same bits.

mod elementwise;
mod movement;
pub(crate) mod products;
pub(crate) mod table;
pub(crate) mod teams;

use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid, Operands, Product, Region, Source};
use regard_graph::{Concrete, DType};
use std::fmt;
use std::sync::Arc;

/// One call on a card.
#[derive(Clone, Copy)]
pub struct CudaCall<'a> {
    /// Shapes, dtypes and which results anybody reads.
    pub call: &'a Concrete<'a>,
    /// Where the operands are. A result that may reuse an operand's memory can lie exactly over it.
    pub inputs: &'a [Address],
    /// Where the results go; unused ones and views have `Address(0)`.
    pub outputs: &'a [Address],
    /// Where the engine keeps operands in bf16 that a list asked for ([`CudaList::bf16`]), where it does.
    pub copies: &'a [Option<Address>],
    /// Where [`CudaList::scratch`] bytes are free during the call.
    pub scratch: Address,
    /// A word of this node, all ones, in which kernels leave the least place of an operand that is wrong and
    /// the number that stands there (`fault_at` of the prelude). Address(0) where nobody asks.
    pub fault: Address,
    /// A word that is not 0 once any kernel has found a fault: what outlives the run is not changed any more.
    pub stop: Address,
    /// The most shared memory that a block may have on the card.
    pub shared: usize,
    /// Whether products of f32 may round their operands to tf32.
    pub tf32: bool,
}

impl CudaCall<'_> {
    /// The numbers of an operand.
    pub fn count(&self, input: usize) -> usize {
        self.call.inputs[input].count()
    }

    /// The numbers of a result.
    pub fn out_count(&self, output: usize) -> usize {
        self.call.outputs[output].count()
    }

    /// The bytes of a number of an operand.
    pub fn bytes(&self, input: usize) -> usize {
        self.call.input_dtypes[input].bytes()
    }

    /// Whether anybody reads a result.
    pub fn used(&self, output: usize) -> bool {
        self.call.used[output]
    }

    /// A grid with a thread for each of so many things, 256 to a block.
    pub fn threads(count: usize) -> Grid {
        assert!(count < 1 << 32, "{count} threads in one launch");
        Grid::line(count.div_ceil(256) as u32, 256)
    }

    /// The type of an operand in `prelude.cuh`.
    pub fn type_of(&self, input: usize) -> &'static str {
        cuda_type(self.call.input_dtypes[input])
    }

    /// The type of a result in `prelude.cuh`.
    pub fn out_type_of(&self, output: usize) -> &'static str {
        cuda_type(self.call.output_dtypes[output])
    }
}

/// Numbers of one value of a call on a card: kernels count them in 32 bits, with room for whole blocks.
const MOST_NUMBERS: usize = 1 << 31;

/// Whether every value of a call is small enough for kernels on a card.
pub fn check_cuda_sizes(op: &'static str, call: &Concrete<'_>) -> Result<(), NotYet> {
    let largest = call.inputs.iter().chain(call.outputs).map(|dims| dims.count()).max().unwrap_or(0);
    if largest < MOST_NUMBERS {
        return Ok(());
    }
    Err(NotYet { op, what: format!("a value of {largest} numbers, {MOST_NUMBERS} or more") })
}

/// The type in `prelude.cuh` of numbers of a dtype.
pub fn cuda_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::BF16 => "bf16",
        DType::I32 => "i32",
        DType::Bool => "u8",
    }
}

/// A product of matrices with where its operands are; the engine adds the workspace.
#[derive(Clone, Copy, Debug)]
pub struct CudaProduct {
    /// What is multiplied how. The engine sets its alignment from the addresses.
    pub product: Product,
    /// The factor of the product.
    pub alpha: f32,
    /// The factor of C.
    pub beta: f32,
    /// Where everything is.
    pub operands: Operands,
}

/// One thing to put on the stream.
#[derive(Clone, Debug)]
pub enum CudaWork {
    /// A kernel.
    Launch(Launch),
    /// A product of matrices.
    Product(CudaProduct),
    /// Copies inside of the card; the regions do not overlap.
    Copy {
        /// Where to.
        to: Region,
        /// Where from, as long.
        from: Region,
    },
    /// Fills memory with a byte.
    Fill {
        /// What is filled.
        region: Region,
        /// With what.
        byte: u8,
    },
}

/// Makes the sentence of what a kernel found: the place of an operand and the number there.
pub type FaultSentence = Arc<dyn Fn(u32, i32) -> crate::Fault + Send + Sync>;

/// What to put on the stream for one call, in order, and what it needs.
#[derive(Clone, Default)]
pub struct CudaList {
    /// The work.
    pub work: Vec<CudaWork>,
    /// Bytes of scratch.
    pub scratch: usize,
    /// Operands, f32 in memory, that are wanted in bf16.
    pub wanted: Vec<usize>,
    /// What to say of a fault, for ops that can find one.
    pub fault: Option<FaultSentence>,
}

impl CudaList {
    /// Nothing yet.
    pub fn new() -> CudaList {
        CudaList::default()
    }

    /// One launch; one without blocks is left out.
    pub fn launch(&mut self, launch: Launch) {
        if launch.grid.blocks.iter().all(|&blocks| blocks > 0) {
            self.work.push(CudaWork::Launch(launch));
        }
    }

    /// One product.
    pub fn product(&mut self, product: CudaProduct) {
        self.work.push(CudaWork::Product(product));
    }

    /// A copy of so many bytes.
    pub fn copy(&mut self, to: Address, from: Address, bytes: usize) {
        if bytes > 0 && to != from {
            let region = |start| Region { start, bytes };
            self.work.push(CudaWork::Copy { to: region(to), from: region(from) });
        }
    }

    /// Fills so many bytes with zeros.
    pub fn clear(&mut self, start: Address, bytes: usize) {
        if bytes > 0 {
            self.work.push(CudaWork::Fill { region: Region { start, bytes }, byte: 0 });
        }
    }

    /// Fills so many bytes with ones.
    pub fn set(&mut self, start: Address, bytes: usize) {
        if bytes > 0 {
            self.work.push(CudaWork::Fill { region: Region { start, bytes }, byte: 0xff });
        }
    }

    /// So many bytes of scratch, aligned to 256.
    pub fn room(&mut self, call: &CudaCall<'_>, bytes: usize) -> Address {
        let offset = self.scratch;
        self.scratch = (offset + bytes.max(1)).next_multiple_of(256);
        call.scratch.after(offset)
    }

    /// What to say of a fault that kernels of this list leave in [`CudaCall::fault`].
    pub fn on_fault(&mut self, sentence: impl Fn(u32, i32) -> crate::Fault + Send + Sync + 'static) {
        self.fault = Some(Arc::new(sentence));
    }

    /// Does nothing but tell a fault that sizes alone show.
    pub fn of_fault(call: &CudaCall<'_>, fault: crate::Fault) -> CudaList {
        let mut list = CudaList::new();
        list.tell(call, fault);
        list
    }

    /// Tells a fault that sizes alone show, in every run, and stops what follows from changing what outlives
    /// it.
    pub(crate) fn tell(&mut self, call: &CudaCall<'_>, fault: crate::Fault) {
        self.launch(Launch {
            source: Source::new("cuda/tell.cu", include_str!("cuda/tell.cu")),
            kernel: "tell",
            grid: Grid::line(1, 1),
            arguments: Arguments::new().with(call.fault).with(call.stop),
        });
        self.on_fault(move |_, _| fault.clone());
    }

    /// The launches alone, for tests.
    pub fn launches(&self) -> impl Iterator<Item = &Launch> {
        self.work.iter().filter_map(|work| match work {
            CudaWork::Launch(launch) => Some(launch),
            _ => None,
        })
    }
}

impl fmt::Debug for CudaList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CudaList { work, scratch, wanted, fault } = self;
        let all = (work, scratch, wanted, fault.is_some());
        write!(f, "{all:?}")
    }
}

/// An op, or a setting of one, that cards do not compute yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} is not computed on CUDA cards yet{}; use the CPU", if what.is_empty() { String::new() } else { format!(" ({what})") })]
pub struct NotYet {
    /// The op.
    pub op: &'static str,
    /// Which setting of it; empty for all.
    pub what: String,
}

impl NotYet {
    /// All settings of an op.
    pub fn op(op: &'static str) -> NotYet {
        NotYet { op, what: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_graph::Dims;

    #[test]
    fn values_that_no_kernel_can_count_are_told() {
        let (small, large) =
            ([Dims::new(&[1 << 16, (1 << 15) - 1]).unwrap()], [Dims::new(&[1 << 31]).unwrap()]);
        let call = Concrete {
            inputs: &small,
            outputs: &small,
            input_dtypes: &[DType::F32],
            output_dtypes: &[DType::F32],
            integers: &[None],
            used: &[true],
        };
        assert_eq!(check_cuda_sizes("linear", &call), Ok(()));
        let call = Concrete { outputs: &large, ..call };
        assert_eq!(
            check_cuda_sizes("linear", &call).unwrap_err().to_string(),
            "linear is not computed on CUDA cards yet (a value of 2147483648 numbers, 2147483648 or more); use the CPU"
        );
    }
}
