//! How an op is computed. [`Kernels`] is the second half of an op's contract, beside
//! [`regard_graph::Op`]: the f64 specification, the fast CPU version, and what a CUDA card is given to do.
//! No default methods: an op that lacks one does not compile.

use crate::{Array, CpuCall, CudaCall, CudaList, NotYet};
use regard_device::{Level, Storage};
use regard_graph::{Attachment, Concrete, DType, Error, Graph, Node, Op, Precision, Var, Work};
use std::borrow::Cow;
use std::sync::Arc;

/// What can go wrong while numbers flow: an id outside of its table, a position outside of its cache.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{op}: {what}; {advice}")]
pub struct Fault {
    /// The op that found it.
    pub op: &'static str,
    /// What is wrong, with the numbers.
    pub what: String,
    /// What to do.
    pub advice: &'static str,
}

/// How an op is computed.
pub trait Kernels: Op {
    /// The specification: naive, f64, one thread, obviously right. Counts its arithmetic as it goes.
    fn reference(&self, call: &mut ReferenceCall<'_>) -> Result<(), Fault>;

    /// The work that the CPU kernel executes, with recomputation and padded tiles: what a roofline is about.
    /// That of [`Op::cost`] where the kernel does just what the mathematics says.
    fn cpu_work(&self, call: &Concrete<'_>) -> Work;

    /// What the CPU kernel needs beside its operands, at the largest sizes.
    fn needs(&self, request: &Request<'_>) -> Needs;

    /// The fast version. Must not allocate, and must give the same bits for any number of threads, at any
    /// SIMD level (of one order of bf16 sums: [`Level::same_bits`]), and for any other rows in the batch.
    fn cpu(&self, call: &CpuCall<'_>) -> Result<(), Fault>;

    /// What a CUDA card is given to do, described without one. The same bits for any other rows in the batch;
    /// no atomic sums of floats. [`NotYet`] where cards do not compute it.
    fn cuda(&self, call: &CudaCall<'_>) -> Result<CudaList, NotYet>;
}

/// What `Kernels::needs` is told.
pub struct Request<'a> {
    /// The largest shapes, and the dtypes.
    pub call: &'a Concrete<'a>,
    /// Which inputs live in the store, so that packed copies of them are kept between runs.
    pub stored: &'a [bool],
    /// How many threads will run.
    pub threads: usize,
    /// The SIMD level.
    pub level: Level,
}

/// Memory that a CPU kernel needs beside its operands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bytes shared by all threads during the call.
    pub scratch: usize,
    /// Bytes for each thread during the call.
    pub thread_scratch: usize,
    /// Packed copies of inputs that live in the store.
    pub packs: Vec<Pack>,
}

/// A packed copy of a weight, wanted by a kernel: `call.packed(input)` gives it, always of the present
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pack {
    /// Which input.
    pub input: usize,
    /// In which form.
    pub kind: CopyKind,
}

/// Forms in which kernels want a weight beside the one in the store, a matrix `[rows, columns]` in memory
/// (leading axes merged into rows). Each belongs to the engine that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyKind {
    /// Panels of the CPU's products.
    Panels {
        /// The product contracts the columns instead of the rows: the panels hold the transposed matrix.
        transposed: bool,
        /// What the panels hold.
        storage: Storage,
    },
    /// No copy: the kernel reads few rows of a large table. Where the table was lent to the store
    /// (`call.lent(input)`), they are read from there; else the operand itself is there, as always.
    Rows,
}

/// One call of a specification.
pub struct ReferenceCall<'a> {
    /// The operands.
    pub inputs: &'a [&'a Array],
    /// The results, zeros of the right shapes, to be filled.
    pub outputs: &'a mut [Array],
    /// Which results anybody reads. All are computed; work that only serves an unused one is not counted.
    pub used: &'a [bool],
    /// True in the *rounded* mode: operands of bf16 products are rounded first.
    pub rounded: bool,
    /// Multiply-adds done.
    pub macs: u64,
    /// Other arithmetic done.
    pub flops: u64,
}

impl<'a> ReferenceCall<'a> {
    /// An operand of a product: rounded to bf16 if the product is and the mode says so.
    pub fn operand(&self, input: usize, precision: Precision) -> Cow<'a, Array> {
        match (self.rounded, precision) {
            (true, Precision::Bf16) => Cow::Owned(self.inputs[input].rounded()),
            _ => Cow::Borrowed(self.inputs[input]),
        }
    }

    /// Counts `n` multiply-adds.
    pub fn count_macs(&mut self, n: usize) {
        self.macs += n as u64;
    }

    /// Counts `n` other operations.
    pub fn count_flops(&mut self, n: usize) {
        self.flops += n as u64;
    }
}

/// Records ops that can be computed: what the recording methods of this crate, and of a user's own ops, use.
pub trait Record {
    /// Records an op and returns all its outputs.
    fn apply<K: Kernels>(&mut self, op: K, inputs: &[Var]) -> regard_graph::Result<Vec<Var>>;

    /// Records an op and returns its first output.
    fn apply_one<K: Kernels>(&mut self, op: K, inputs: &[Var]) -> regard_graph::Result<Var> {
        Ok(self.apply(op, inputs)?[0])
    }
}

impl Record for Graph {
    fn apply<K: Kernels>(&mut self, op: K, inputs: &[Var]) -> regard_graph::Result<Vec<Var>> {
        let (op, attachment) = attached(op);
        self.record(op, attachment, inputs)
    }
}

/// An op as the readers know it, and with its kernels.
pub(crate) fn attached(op: impl Kernels) -> (Arc<dyn Op>, Attachment) {
    let kernels: Arc<dyn Kernels> = Arc::new(op);
    (kernels.clone(), Arc::new(kernels))
}

/// The kernels of a recorded node; `None` if it was recorded by other means than [`Record::apply`].
pub fn kernels_of(node: &Node) -> Option<&Arc<dyn Kernels>> {
    node.attachment.downcast_ref::<Arc<dyn Kernels>>()
}

/// Checks that an operand is f32 or bf16.
pub fn check_float(op: &str, operand: &str, dtype: DType) -> regard_graph::Result<()> {
    if dtype.is_float() {
        return Ok(());
    }
    Err(Error::DType {
        op: op.into(),
        operand: operand.into(),
        got: dtype.to_string(),
        expected: "f32 or bf16".into(),
        advice: "cast it to f32 first".into(),
    })
}

/// Checks that an operand has the one dtype that it may have.
pub fn check_dtype(op: &str, operand: &str, got: DType, expected: DType) -> regard_graph::Result<()> {
    if got == expected {
        return Ok(());
    }
    let advice = match expected {
        DType::F32 => "parameters and statistics are f32",
        DType::BF16 => "cast it to bf16 first",
        DType::I32 => "ids, positions and lengths are i32",
        DType::Bool => "masks are bool",
    };
    Err(Error::DType {
        op: op.into(),
        operand: operand.into(),
        got: got.to_string(),
        expected: expected.to_string(),
        advice: advice.into(),
    })
}
