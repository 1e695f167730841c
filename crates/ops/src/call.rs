//! What a CPU kernel is handed: operands and results in the arena, scratch, packed weights, threads. Safe
//! code stores only through a [`Part`], which its task alone has, and cannot look at memory that a part may
//! write; whoever needs another pattern (tiles, rows by index) uses the unsafe functions and says why its
//! tasks do not meet.

use crate::Lent;
use half::bf16;
use regard_device::{Element, Level, Pool, Scratch, convert, store_log};
use regard_graph::{DType, Dims};
use std::ops::Range;
use std::sync::atomic::AtomicBool;

mod part;
pub use part::Part;

/// Where an operand or a result lies. A null pointer marks a result that nobody reads, and an operand that
/// the kernel has in another form.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Its first byte, 64-byte aligned.
    pub at: *mut u8,
    /// Its shape in this run.
    pub dims: Dims,
    /// What its elements are.
    pub dtype: DType,
    /// Of an operand: whether a result may lie over it, as the op declared.
    pub overwritten: bool,
}

/// The elements of a dtype as Rust has them; booleans are bytes 0 and 1.
pub trait Number: Element {
    /// Their dtype.
    const DTYPE: DType;
}

impl Number for f32 {
    const DTYPE: DType = DType::F32;
}

impl Number for bf16 {
    const DTYPE: DType = DType::BF16;
}

impl Number for i32 {
    const DTYPE: DType = DType::I32;
}

impl Number for u8 {
    const DTYPE: DType = DType::Bool;
}

// SAFETY: a slot is an address with a shape; `CpuCall::new` states who may use it and when.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

/// A packed weight, in the layout that the kernel asked for.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// One call of a CPU kernel.
pub struct CpuCall<'a> {
    inputs: &'a [Slot],
    outputs: &'a [Slot],
    packed: &'a [Option<Packed<'a>>],
    lent: &'a [Option<&'a dyn Lent>],
    scratch: *mut u8,
    scratch_bytes: usize,
    thread_scratch: *mut u8,
    thread_scratch_bytes: usize,
    /// Whether tasks have parts at the moment: two such runs at once would hand out everything twice.
    parted: AtomicBool,
    /// Whether stores are noted, in the debug mode.
    logged: bool,
    /// The threads.
    pub pool: &'a Pool,
    /// The SIMD level.
    pub level: Level,
}

// SAFETY: the pointers are to memory that outlives the call. Safe functions read only what nothing writes
// meanwhile (operands that no result lies over) and write only through parts, which do not meet; who calls
// the unsafe ones upholds the same.
unsafe impl Sync for CpuCall<'_> {}

/// How many elements an elementwise kernel handles at a time: two such buffers stay in the first cache.
pub const CHUNK: usize = 512;
/// How many elements make one task of an elementwise kernel.
const TASK: usize = 32 * CHUNK;

/// Why an operand cannot be looked at as a whole.
const OVERWRITTEN: &str = "a result may lie over this operand, as `aliases` of the op says: load it through the part that stores there";

/// Why an operand is not there as it was declared.
const ELSEWHERE: &str = "the op asked for it in another form, and has it in that one alone";

/// Whether rows of `width` elements, `stride` apart from `start` on and `elements` in all, lie inside of
/// `count`.
fn fits(start: usize, stride: usize, width: usize, elements: usize, count: usize) -> bool {
    let rows = elements / width.max(1);
    let last = rows.saturating_sub(1).checked_mul(stride).and_then(|last| last.checked_add(start));
    rows == 0 || last.and_then(|last| last.checked_add(width)).is_some_and(|end| end <= count)
}

impl<'a> CpuCall<'a> {
    /// A call over memory that the engine laid out.
    ///
    /// # Safety
    /// Every non-null slot points to as many valid, aligned elements of its dtype as its shape says; scratch
    /// and thread scratch (`thread_scratch_bytes` for each thread of the pool) likewise; all of it outlives
    /// the call and nothing else touches it meanwhile; results overlap neither each other nor scratch, and an
    /// operand only where its slot says `overwritten`, and then exactly: as many elements of as many bytes.
    #[allow(clippy::too_many_arguments)] // one call site, in the engine
    pub unsafe fn new(
        inputs: &'a [Slot],
        outputs: &'a [Slot],
        packed: &'a [Option<Packed<'a>>],
        lent: &'a [Option<&'a dyn Lent>],
        scratch: (*mut u8, usize),
        thread_scratch: (*mut u8, usize),
        pool: &'a Pool,
        level: Level,
    ) -> Self {
        CpuCall {
            inputs,
            outputs,
            packed,
            lent,
            scratch: scratch.0,
            scratch_bytes: scratch.1,
            thread_scratch: thread_scratch.0,
            thread_scratch_bytes: thread_scratch.1,
            parted: AtomicBool::new(false),
            logged: pool.store_log().is_some(),
            pool,
            level,
        }
    }

    /// The shape of an operand.
    pub fn dims(&self, input: usize) -> Dims {
        self.inputs[input].dims
    }

    /// The shape of a result.
    pub fn out_dims(&self, output: usize) -> Dims {
        self.outputs[output].dims
    }

    /// The dtype of an operand.
    pub fn dtype(&self, input: usize) -> DType {
        self.inputs[input].dtype
    }

    /// The dtype of a result.
    pub fn out_dtype(&self, output: usize) -> DType {
        self.outputs[output].dtype
    }

    /// True if anybody reads this result.
    pub fn wants(&self, output: usize) -> bool {
        !self.outputs[output].at.is_null()
    }

    /// How many operands there are.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// How many results there are, those that nobody reads included.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// The packed copy of an operand that lives in the store, if the op asked for one.
    pub fn packed(&self, input: usize) -> Option<Packed<'a>> {
        self.packed.get(input).copied().flatten()
    }

    /// An operand that was lent to the store, if the op asked for its rows: then it is not there as a whole.
    pub fn lent(&self, input: usize) -> Option<&'a dyn Lent> {
        self.lent.get(input).copied().flatten()
    }

    // ---- whole operands -----------------------------------------------------------------------------

    /// An f32 operand. Panics, as its sisters do, if a result may lie over the operand (`Reuse`, `Update`):
    /// the part of a run loads those.
    #[track_caller]
    pub fn f32(&self, input: usize) -> &'a [f32] {
        self.typed(input)
    }

    /// A bf16 operand.
    #[track_caller]
    pub fn bf16(&self, input: usize) -> &'a [bf16] {
        self.typed(input)
    }

    /// An integer operand.
    #[track_caller]
    pub fn i32(&self, input: usize) -> &'a [i32] {
        self.typed(input)
    }

    /// A boolean operand: bytes 0 and 1.
    #[track_caller]
    pub fn bools(&self, input: usize) -> &'a [u8] {
        self.typed(input)
    }

    /// An operand of any dtype as plain bytes: for kernels that only move elements.
    #[track_caller]
    pub fn bytes(&self, input: usize) -> &'a [u8] {
        let slot = self.inputs[input];
        assert!(!slot.overwritten, "operand {input}: {OVERWRITTEN}");
        assert!(!slot.at.is_null(), "operand {input}: {ELSEWHERE}");
        // SAFETY: the engine's promise in `new`: nothing writes there during the call; every dtype is plain
        // bytes.
        unsafe { std::slice::from_raw_parts(slot.at, slot.dims.count() * slot.dtype.bytes()) }
    }

    #[track_caller]
    fn typed<T: Number>(&self, input: usize) -> &'a [T] {
        let slot = self.inputs[input];
        assert!(slot.dtype == T::DTYPE, "operand {input} is {}, not {}", slot.dtype, T::DTYPE);
        assert!(!slot.overwritten, "operand {input}: {OVERWRITTEN}");
        assert!(!slot.at.is_null(), "operand {input}: {ELSEWHERE}");
        // SAFETY: the engine's promise in `new`: valid elements of this dtype, and nothing writes there
        // during the call.
        unsafe { std::slice::from_raw_parts(slot.at.cast::<T>(), slot.dims.count()) }
    }

    /// All of an f32 result, to be written.
    ///
    /// # Safety
    /// The caller takes each result at most once at a time, stores to it in no other way meanwhile, and reads
    /// no operand that it overlaps.
    pub unsafe fn out_f32(&self, output: usize) -> &'a mut [f32] {
        // SAFETY: passed on to the caller.
        unsafe { self.out_typed(output) }
    }

    /// All of a bf16 result, to be written.
    ///
    /// # Safety
    /// As for [`CpuCall::out_f32`].
    pub unsafe fn out_bf16(&self, output: usize) -> &'a mut [bf16] {
        // SAFETY: passed on to the caller.
        unsafe { self.out_typed(output) }
    }

    /// All of an integer result, to be written.
    ///
    /// # Safety
    /// As for [`CpuCall::out_f32`].
    pub unsafe fn out_i32(&self, output: usize) -> &'a mut [i32] {
        // SAFETY: passed on to the caller.
        unsafe { self.out_typed(output) }
    }

    /// All of a boolean result, to be written with 0 and 1.
    ///
    /// # Safety
    /// As for [`CpuCall::out_f32`].
    pub unsafe fn out_bools(&self, output: usize) -> &'a mut [u8] {
        // SAFETY: passed on to the caller.
        unsafe { self.out_typed(output) }
    }

    /// All of a result of any dtype as plain bytes, to be written with elements of its dtype.
    ///
    /// # Safety
    /// As for [`CpuCall::out_f32`].
    pub unsafe fn out_bytes(&self, output: usize) -> &'a mut [u8] {
        let slot = self.outputs[output];
        assert!(!slot.at.is_null());
        // SAFETY: the engine's promise in `new`; exclusiveness is the caller's.
        unsafe { std::slice::from_raw_parts_mut(slot.at, slot.dims.count() * slot.dtype.bytes()) }
    }

    unsafe fn out_typed<T: Number>(&self, output: usize) -> &'a mut [T] {
        let slot = self.outputs[output];
        assert!(!slot.at.is_null() && slot.dtype == T::DTYPE);
        // SAFETY: the engine's promise in `new`; exclusiveness is the caller's.
        unsafe { std::slice::from_raw_parts_mut(slot.at.cast::<T>(), slot.dims.count()) }
    }

    /// The scratch shared by all threads, as f32.
    ///
    /// # Safety
    /// Taken once per call, and handed to threads in disjoint parts.
    pub unsafe fn scratch_f32(&self) -> &'a mut [f32] {
        if self.scratch_bytes == 0 {
            return &mut [];
        }
        // SAFETY: the engine's promise in `new`; exclusiveness is the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.scratch.cast::<f32>(), self.scratch_bytes / 4) }
    }

    /// One thread's own scratch, as f32.
    ///
    /// # Safety
    /// Taken once per task, by the thread whose number it is.
    pub unsafe fn thread_scratch_f32(&self, worker: usize) -> &'a mut [f32] {
        assert!(worker < self.pool.threads());
        if self.thread_scratch_bytes == 0 {
            return &mut [];
        }
        // SAFETY: the engine reserved `thread_scratch_bytes` for each thread; exclusiveness is the caller's.
        unsafe {
            let at = self.thread_scratch.add(worker * self.thread_scratch_bytes);
            std::slice::from_raw_parts_mut(at.cast::<f32>(), self.thread_scratch_bytes / 4)
        }
    }

    /// The threads' scratch, as the products of the device crate take it.
    ///
    /// # Safety
    /// Taken once per call, and not while a thread uses its own part otherwise.
    pub unsafe fn product_scratch(&self) -> Scratch<'a> {
        let bytes = self.thread_scratch_bytes * self.pool.threads();
        if bytes == 0 {
            return Scratch::new(&mut [], self.pool.threads());
        }
        // SAFETY: the engine reserved this much in one block; exclusiveness is the caller's.
        let block = unsafe { std::slice::from_raw_parts_mut(self.thread_scratch, bytes) };
        Scratch::new(block, self.pool.threads())
    }

    // ---- elements as f32 ----------------------------------------------------------------------------

    /// Loads elements of a float operand as f32. Panics if a result may lie over the operand: [`Part::load`]
    /// loads those.
    #[track_caller]
    pub fn load(&self, input: usize, range: Range<usize>, into: &mut [f32]) {
        assert!(!self.inputs[input].overwritten, "operand {input}: {OVERWRITTEN}");
        // SAFETY: nothing writes to the operand during the call.
        unsafe { self.load_any(input, range, into) };
    }

    /// The same for any operand.
    ///
    /// # Safety
    /// No other task stores to these elements meanwhile.
    #[track_caller]
    unsafe fn load_any(&self, input: usize, range: Range<usize>, into: &mut [f32]) {
        let slot = self.inputs[input];
        assert!(range.start <= range.end && range.end <= slot.dims.count() && range.len() == into.len());
        if self.logged && slot.overwritten {
            let bytes = slot.dtype.bytes();
            store_log::loaded(slot.at.wrapping_add(range.start * bytes), range.len() * bytes);
        }
        match slot.dtype {
            // SAFETY: in bounds by the assertion; nobody writes there, by the caller's promise.
            DType::F32 => unsafe {
                let from = slot.at.cast::<f32>().add(range.start);
                std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
            },
            // SAFETY: as above.
            DType::BF16 => unsafe {
                let from = slot.at.cast::<bf16>().add(range.start);
                convert::to_f32(self.level, std::slice::from_raw_parts(from, into.len()), into);
            },
            DType::I32 | DType::Bool => unreachable!("load is for floats; ops check dtypes when recorded"),
        }
    }

    /// Stores f32 numbers as elements of a float result, rounding to bf16 where that is its dtype. For tasks
    /// whose elements are not neighbours; others have a [`Part`], and safe code has nothing else:
    ///
    /// ```compile_fail,E0133
    /// #![forbid(unsafe_code)]
    /// // Behind a slice of the operand that the result lies over.
    /// fn scale(call: &regard_ops::CpuCall<'_>) {
    ///     let x = call.f32(0);
    ///     call.chunks(x.len(), |part| call.store(0, part.items(), &x[part.items()]));
    /// }
    /// ```
    ///
    /// # Safety
    /// No other task stores to these elements or loads them meanwhile, and no slice of them is in use.
    #[track_caller]
    pub unsafe fn store(&self, output: usize, range: Range<usize>, from: &[f32]) {
        let slot = self.outputs[output];
        assert!(range.start <= range.end && range.end <= slot.dims.count() && range.len() == from.len());
        assert!(!slot.at.is_null());
        self.note_store(slot, &range);
        match slot.dtype {
            // SAFETY: in bounds by the assertion; the elements are the caller's alone.
            DType::F32 => unsafe {
                let into = slot.at.cast::<f32>().add(range.start);
                std::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len());
            },
            // SAFETY: as above.
            DType::BF16 => unsafe {
                let into = slot.at.cast::<bf16>().add(range.start);
                convert::to_bf16(self.level, from, std::slice::from_raw_parts_mut(into, from.len()));
            },
            DType::I32 | DType::Bool => unreachable!("store is for floats; ops check dtypes when recorded"),
        }
    }

    #[inline]
    fn note_store(&self, slot: Slot, range: &Range<usize>) {
        if self.logged {
            let bytes = slot.dtype.bytes();
            store_log::stored(slot.at.wrapping_add(range.start * bytes), range.len() * bytes);
        }
    }

    /// Loads rows of `width` elements, `stride` apart from `start` on, as f32: as many as `into` has room
    /// for. Panics if a result may lie over the operand.
    #[track_caller]
    pub fn load_rows(&self, input: usize, start: usize, stride: usize, width: usize, into: &mut [f32]) {
        let slot = self.inputs[input];
        assert!(!slot.overwritten, "operand {input}: {OVERWRITTEN}");
        assert!(fits(start, stride, width, into.len(), slot.dims.count()));
        for (row, into) in into.chunks_exact_mut(width.max(1)).enumerate() {
            let from = start + row * stride;
            match slot.dtype {
                // SAFETY: in bounds by the assertion; nothing writes to the operand during the call.
                DType::F32 => unsafe {
                    let from = slot.at.cast::<f32>().add(from);
                    std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), width);
                },
                // SAFETY: as above.
                DType::BF16 => unsafe {
                    let from = slot.at.cast::<bf16>().add(from);
                    convert::to_f32(self.level, std::slice::from_raw_parts(from, width), into);
                },
                DType::I32 | DType::Bool => {
                    unreachable!("load is for floats; ops check dtypes when recorded")
                }
            }
        }
    }

    /// Stores rows of `width` f32 numbers as elements of a float result, `stride` apart from `start` on,
    /// rounding to bf16 where that is its dtype.
    ///
    /// # Safety
    /// As for [`CpuCall::store`].
    #[track_caller]
    pub unsafe fn store_rows(&self, output: usize, start: usize, stride: usize, width: usize, from: &[f32]) {
        let slot = self.outputs[output];
        assert!(fits(start, stride, width, from.len(), slot.dims.count()) && !slot.at.is_null());
        for (row, from) in from.chunks_exact(width.max(1)).enumerate() {
            let into = start + row * stride;
            self.note_store(slot, &(into..into + width));
            match slot.dtype {
                // SAFETY: in bounds by the assertion; the elements are the caller's alone.
                DType::F32 => unsafe {
                    let into = slot.at.cast::<f32>().add(into);
                    std::ptr::copy_nonoverlapping(from.as_ptr(), into, width);
                },
                // SAFETY: as above.
                DType::BF16 => unsafe {
                    let into = slot.at.cast::<bf16>().add(into);
                    convert::to_bf16(self.level, from, std::slice::from_raw_parts_mut(into, width));
                },
                DType::I32 | DType::Bool => {
                    unreachable!("store is for floats; ops check dtypes when recorded")
                }
            }
        }
    }
}
