//! The parts that tasks store: of every result a run of neighbouring elements or rows that one task alone
//! has. This is how a kernel without unsafe code writes, and why its tasks cannot meet.

use super::{CHUNK, CpuCall, Number, OVERWRITTEN, TASK};
use regard_device::Level;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// What one task may store: some neighbouring items (elements, or rows) out of all, and of every result the
/// share that belongs to them. Of a result with an element for each item that is those elements; of one with
/// rows, those rows.
///
/// It is lent to the task alone, so that nothing else can store through it:
///
/// ```compile_fail,E0596
/// #![forbid(unsafe_code)]
/// // Tasks inside of a task would all write the same elements.
/// fn race(call: &regard_ops::CpuCall<'_>) {
///     call.chunks(call.out_dims(0).count(), |part| {
///         call.pool.run(4, &|_, _| part.store(0, part.items(), &[1.0; regard_ops::CHUNK]));
///     });
/// }
/// ```
pub struct Part<'c> {
    call: &'c CpuCall<'c>,
    items: Range<usize>,
    of: usize,
    /// How many elements an item has in most results: spares a division where that is so.
    width: usize,
}

impl Part<'_> {
    /// Which items it has.
    pub fn items(&self) -> Range<usize> {
        self.items.clone()
    }

    /// The first of its items: the row, where a part is one.
    pub fn first(&self) -> usize {
        self.items.start
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it has no items. Never so in a task.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The SIMD level.
    pub fn level(&self) -> Level {
        self.call.level
    }

    /// Loads elements of a float operand as f32: any of them, but only its own of an operand that a result
    /// may lie over.
    #[track_caller]
    pub fn load(&self, input: usize, range: Range<usize>, into: &mut [f32]) {
        let slot = &self.call.inputs[input];
        let own = !slot.overwritten || self.owns(&range, slot.dims.count());
        assert!(
            own,
            "operand {input}, elements {range:?}, as items {:?} of {}: {OVERWRITTEN}",
            self.items, self.of
        );
        // SAFETY: either nothing writes to the operand during the call, or it is as long as the result over
        // it, whose elements in this range are this part's alone; the part is borrowed, so it does not store
        // them meanwhile.
        unsafe { self.call.load_any(input, range, into) };
    }

    /// Stores f32 numbers as its elements of a float result, rounding to bf16 where that is its dtype. Panics
    /// if they are not its own.
    #[track_caller]
    pub fn store(&mut self, output: usize, range: Range<usize>, from: &[f32]) {
        self.check_own(output, &range);
        // SAFETY: these elements are this part's alone; no slice of an operand under them can be had.
        unsafe { self.call.store(output, range, from) };
    }

    /// All of its elements of a result, to be written.
    #[track_caller]
    pub fn own<T: Number>(&mut self, output: usize) -> &mut [T] {
        let [own] = self.own_of([output]);
        own
    }

    /// All of its elements of several results of one dtype, to be written.
    #[track_caller]
    pub fn own_of<T: Number, const N: usize>(&mut self, outputs: [usize; N]) -> [&mut [T]; N] {
        for (index, output) in outputs.iter().enumerate() {
            assert!(!outputs[..index].contains(output), "result {output} is asked for twice");
        }
        outputs.map(|output| {
            let slot = self.call.outputs[output];
            assert!(slot.dtype == T::DTYPE, "result {output} is {}, not {}", slot.dtype, T::DTYPE);
            assert!(!slot.at.is_null(), "nobody reads result {output}: ask `wants` first");
            let range = self.share(slot.dims.count());
            self.call.note_store(slot, &range);
            // SAFETY: valid elements of this dtype, by the engine's promise in `CpuCall::new`; no other part
            // has them, no other of these slices, and this part cannot be used otherwise while it is borrowed
            // here.
            unsafe { std::slice::from_raw_parts_mut(slot.at.cast::<T>().add(range.start), range.len()) }
        })
    }

    /// The elements out of `count` that are its own: those that lie whole within its items, were both spread
    /// over one line.
    fn share(&self, count: usize) -> Range<usize> {
        if self.of.checked_mul(self.width) == Some(count) {
            return self.items.start * self.width..self.items.end * self.width;
        }
        let at = |item: usize| item as u128 * count as u128;
        let (of, end) = (self.of as u128, at(self.items.end));
        (at(self.items.start).div_ceil(of) as usize)..(end / of) as usize
    }

    /// Whether elements out of `count` are its own. Two parts of one run share none: the items of one end
    /// where those of the other begin or before, and the elements with them.
    #[inline]
    fn owns(&self, range: &Range<usize>, count: usize) -> bool {
        if count == self.of {
            return self.items.start <= range.start && range.end <= self.items.end;
        }
        let (of, count) = (self.of as u128, count as u128);
        range.start as u128 * of >= self.items.start as u128 * count
            && range.end as u128 * of <= self.items.end as u128 * count
    }

    #[track_caller]
    fn check_own(&self, output: usize, range: &Range<usize>) {
        let own = self.owns(range, self.call.outputs[output].dims.count());
        let Part { items, of, .. } = self;
        assert!(
            own,
            "result {output}: a task with items {items:?} of {of} stores elements {range:?}, not all its own"
        );
    }
}

/// While it lives, the tasks of a call have parts.
struct Parted<'c>(&'c AtomicBool);

impl Drop for Parted<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl CpuCall<'_> {
    /// Runs `body` over all chunks of `count` elements, on all threads. A chunk has at most [`CHUNK`]
    /// elements.
    #[track_caller]
    pub fn chunks(&self, count: usize, body: impl Fn(&mut Part<'_>) + Sync) {
        let _parted = self.begin_parts();
        self.pool.run(count.div_ceil(TASK), &|task, _| {
            let mut start = task * TASK;
            let end = (start + TASK).min(count);
            while start < end {
                let stop = (start + CHUNK).min(end);
                body(&mut Part { call: self, items: start..stop, of: count, width: 1 });
                start = stop;
            }
        });
    }

    /// Runs `body` for every row with the thread's own scratch, on all threads, several neighbouring rows to
    /// a task.
    #[track_caller]
    pub fn rows(&self, rows: usize, width: usize, body: impl Fn(&mut Part<'_>, &mut [f32]) + Sync) {
        let _parted = self.begin_parts();
        let rows_per_task = (TASK / width.max(1)).max(1);
        self.pool.run(rows.div_ceil(rows_per_task), &|task, worker| {
            // SAFETY: only this run hands it out, and in a run a worker's number belongs to one thread.
            let scratch = unsafe { self.thread_scratch_f32(worker) };
            let first = task * rows_per_task;
            for row in first..(first + rows_per_task).min(rows) {
                body(&mut Part { call: self, items: row..row + 1, of: rows, width }, scratch);
            }
        });
    }

    /// Runs `body` for every block of `at_once` neighbouring items (the last may have fewer) with the
    /// thread's own scratch, on all threads: a block to a task.
    #[track_caller]
    pub fn blocks(&self, items: usize, at_once: usize, body: impl Fn(&mut Part<'_>, &mut [f32]) + Sync) {
        let _parted = self.begin_parts();
        let at_once = at_once.max(1);
        self.pool.run(items.div_ceil(at_once), &|task, worker| {
            // SAFETY: only this run hands it out, and in a run a worker's number belongs to one thread.
            let scratch = unsafe { self.thread_scratch_f32(worker) };
            let own = task * at_once..((task + 1) * at_once).min(items);
            body(&mut Part { call: self, items: own, of: items, width: 1 }, scratch);
        });
    }

    /// Parts are handed out by one run at a time: of two at once, from inside each other or from two threads,
    /// both would have every element.
    #[track_caller]
    fn begin_parts(&self) -> Parted<'_> {
        let before = self.parted.swap(true, Ordering::Acquire);
        assert!(
            !before,
            "a run over parts begins while another one of the same call goes on: begin it when that is over"
        );
        Parted(&self.parted)
    }
}
