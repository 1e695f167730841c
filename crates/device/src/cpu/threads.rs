//! A pool of threads that share out numbered tasks. No allocation, a short spin before sleep, and the caller
//! works too. Each worker begins with its own run of neighbouring tasks, the same part of the whole in every
//! job: what it wrote in one kernel is still in its caches when it reads it in the next. Whoever is done goes
//! on with what others have left; so who does which task is chance in the end. What a task computes must not
//! depend on it, and then results do not depend on the number of threads.

use super::store_log::{self, StoreLog};
use crate::DeviceError;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// What the tasks do: called with (task, worker).
type Work<'a> = dyn Fn(usize, usize) + Sync + 'a;

// The state word: bit 0 says that a job is open, bits 1 to 31 count the workers that joined it, and the
// upper half numbers the jobs, so that a worker joins each one once.
const OPEN: u64 = 1;
const JOINED_ONE: u64 = 2;
const JOINED: u64 = 0xffff_fffe;
const NUMBER_SHIFT: u32 = 32;

/// Turns of the spin loop before a thread sleeps: some tens of microseconds, the gap between two kernels.
const SPINS: u32 = 2000;

thread_local! {
    /// The pool (its address) and the worker number in whose task this thread is; 0 outside.
    static INSIDE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Marks this thread as inside a task, until dropped, also by a panic.
struct Inside((usize, usize));

impl Inside {
    fn enter(place: (usize, usize)) -> Inside {
        Inside(INSIDE.replace(place))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

#[derive(Clone, Copy)]
struct Job {
    work: *const Work<'static>,
    tasks: usize,
}

/// The next task of a worker's share, on a cache line of its own.
#[repr(align(128))]
struct Cursor(AtomicUsize);

/// The first task of a worker's share of some tasks, which is the end of the share before it.
fn share(tasks: usize, threads: usize, worker: usize) -> usize {
    tasks / threads * worker + worker.min(tasks % threads)
}

struct Shared {
    state: AtomicU64,
    /// One for each thread.
    cursors: Box<[Cursor]>,
    job: UnsafeCell<Job>,
    stop: AtomicBool,
    spins: u32,
    sleepers: AtomicUsize,
    caller_waits: AtomicBool,
    gate: Mutex<()>,
    wake: Condvar,
    done: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written by the one caller that holds the run lock while no worker is joined, and read
// only by workers that joined afterwards (release and acquire on `state`).
unsafe impl Sync for Shared {}
// SAFETY: the raw pointer in `job` is used only while its run lasts, wherever the pool may be by then.
unsafe impl Send for Shared {}

/// A pool of threads.
pub struct Pool {
    shared: Arc<Shared>,
    run_lock: Mutex<()>,
    workers: Vec<JoinHandle<()>>,
    /// Who stores what, in the debug mode.
    log: Option<Arc<StoreLog>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool of `threads` threads: the caller of [`Pool::run`] and `threads - 1` sleeping workers.
    pub fn new(threads: usize) -> Result<Pool, DeviceError> {
        if threads == 0 {
            return Err(DeviceError::NoThreads);
        }
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            cursors: (0..threads).map(|_| Cursor(AtomicUsize::new(0))).collect(),
            job: UnsafeCell::new(Job { work: &|_, _| (), tasks: 0 }),
            stop: AtomicBool::new(false),
            // With more threads than cores a spinning thread only keeps a working one from its core.
            spins: if threads <= Pool::default_threads() { SPINS } else { 0 },
            sleepers: AtomicUsize::new(0),
            caller_waits: AtomicBool::new(false),
            gate: Mutex::new(()),
            wake: Condvar::new(),
            done: Condvar::new(),
            panic: Mutex::new(None),
        });
        let workers = Vec::with_capacity(threads - 1);
        let mut pool = Pool { shared, run_lock: Mutex::new(()), workers, log: None };
        for index in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = std::thread::Builder::new().name(format!("regard-{index}"));
            let worker = builder
                .spawn(move || shared.serve(index))
                .map_err(|source| DeviceError::Thread { index, threads, source })?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// The same with a log of stores: the debug mode of kernels. Slow; results are the same.
    pub fn with_store_log(threads: usize) -> Result<Pool, DeviceError> {
        let mut pool = Pool::new(threads)?;
        pool.log = Some(Arc::default());
        Ok(pool)
    }

    /// The log of stores, if there is one.
    pub fn store_log(&self) -> Option<&Arc<StoreLog>> {
        self.log.as_ref()
    }

    /// The number of cores that this process may use.
    pub fn default_threads() -> usize {
        std::thread::available_parallelism().map_or(1, |cores| cores.get())
    }

    /// Number of threads, the caller counted.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `work(task, worker)` for every task below `tasks`, each once, and returns when all are done.
    ///
    /// Workers are numbered below [`Pool::threads`]; within one run no two threads have the same number.
    /// A run from inside a task of the same pool is done on the spot, by that task's worker. A panic in a
    /// task is raised again here, after all workers have let go of `work`. Two pools whose tasks run each
    /// other wait for each other forever: nest pools in one order.
    pub fn run(&self, tasks: usize, work: &(dyn Fn(usize, usize) + Sync)) {
        let id = Arc::as_ptr(&self.shared) as usize;
        let (inside, number) = INSIDE.get();
        let nested = inside == id;
        match &self.log {
            // A run inside a task is part of that task.
            Some(log) if !nested => {
                let run = log.begin_run();
                self.share_out(tasks, None, &|task, worker| {
                    let _noting = log.work_on(run, task);
                    work(task, worker);
                });
            }
            _ => self.share_out(tasks, nested.then_some(number), work),
        }
    }

    /// Runs the tasks; `nested` is the worker in whose task it was called.
    fn share_out(&self, tasks: usize, nested: Option<usize>, work: &(dyn Fn(usize, usize) + Sync)) {
        if nested.is_some() || tasks <= 1 || self.workers.is_empty() {
            let worker = nested.unwrap_or(0);
            let _inside = Inside::enter((Arc::as_ptr(&self.shared) as usize, worker));
            (0..tasks).for_each(|task| work(task, worker));
            return;
        }
        let guard = lock(&self.run_lock);
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes; this function returns after every worker has let go of it.
        let work = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        let job = Job { work, tasks };
        // SAFETY: the run lock is held and no worker is joined.
        unsafe { *shared.job.get() = job };
        for (worker, cursor) in shared.cursors.iter().enumerate() {
            cursor.0.store(share(tasks, shared.cursors.len(), worker), Relaxed);
        }
        let number = (shared.state.load(Relaxed) >> NUMBER_SHIFT) + 1;
        shared.state.store(number << NUMBER_SHIFT | OPEN, SeqCst);
        shared.wake_workers(tasks - 1);

        shared.take_part(job, 0);

        shared.state.fetch_and(!OPEN, SeqCst);
        shared.wait_for_workers();
        let panic = lock(&shared.panic).take();
        drop(guard);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// Cuts `out` into rows of `row_len`, gives `rows_per_task` of them to each task, and calls
    /// `work(first_row, rows, worker)`. A last row may be shorter.
    pub fn rows<T: Send>(
        &self,
        out: &mut [T],
        row_len: usize,
        rows_per_task: usize,
        work: impl Fn(usize, &mut [T], usize) + Sync,
    ) {
        let len = out.len();
        if len == 0 {
            return;
        }
        let (row_len, rows_per_task) = (row_len.max(1), rows_per_task.max(1));
        let step = row_len.saturating_mul(rows_per_task);
        let out = Disjoint::new(out);
        self.run(len.div_ceil(step), &|task, worker| {
            let range = task * step..((task + 1).saturating_mul(step)).min(len);
            // SAFETY: tasks have different numbers, so their ranges do not meet.
            work(task * rows_per_task, unsafe { out.range(range) }, worker);
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        drop(lock(&self.shared.gate));
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker never panics: its tasks are caught.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish()
    }
}

impl Shared {
    /// The life of a worker.
    fn serve(&self, worker: usize) {
        let mut last = 0;
        let mut spins = 0;
        loop {
            if self.stop.load(SeqCst) {
                return;
            }
            let state = self.state.load(Acquire);
            if is_news(state, last) {
                if self.state.compare_exchange(state, state + JOINED_ONE, SeqCst, Relaxed).is_ok() {
                    last = state >> NUMBER_SHIFT;
                    spins = 0;
                    // SAFETY: joined, so the caller keeps the job as it is until this worker leaves.
                    let job = unsafe { *self.job.get() };
                    self.take_part(job, worker);
                    self.leave();
                }
            } else if spins < self.spins {
                spins += 1;
                std::hint::spin_loop();
            } else {
                self.sleep(last);
                spins = 0;
            }
        }
    }

    fn take_part(&self, job: Job, worker: usize) {
        // SAFETY: the caller of `run` keeps the closure alive until all workers have left.
        let work = unsafe { &*job.work };
        let result = catch_unwind(AssertUnwindSafe(|| {
            let _inside = Inside::enter((self as *const Shared as usize, worker));
            let threads = self.cursors.len();
            // Its own share, then what is left of the next one's, and so on round.
            for owner in (worker..threads).chain(0..worker) {
                let end = share(job.tasks, threads, owner + 1);
                loop {
                    let task = self.cursors[owner].0.fetch_add(1, Relaxed);
                    if task >= end {
                        break;
                    }
                    work(task, worker);
                }
            }
        }));
        if let Err(payload) = result {
            // The rest is not worth doing; far from overflow, whoever still counts on.
            self.cursors.iter().for_each(|cursor| cursor.0.store(usize::MAX / 2, Relaxed));
            lock(&self.panic).get_or_insert(payload);
        }
    }

    fn leave(&self) {
        let state = self.state.fetch_sub(JOINED_ONE, SeqCst) - JOINED_ONE;
        if state & (JOINED | OPEN) == 0 && self.caller_waits.load(SeqCst) {
            drop(lock(&self.gate));
            self.done.notify_one();
        }
    }

    fn sleep(&self, last: u64) {
        let mut gate = lock(&self.gate);
        self.sleepers.fetch_add(1, SeqCst);
        while !self.stop.load(SeqCst) && !is_news(self.state.load(SeqCst), last) {
            gate = self.wake.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }

    fn wake_workers(&self, wanted: usize) {
        let sleepers = self.sleepers.load(SeqCst);
        if sleepers > 0 {
            // Whoever is about to sleep holds the gate until it really does.
            drop(lock(&self.gate));
            (0..sleepers.min(wanted)).for_each(|_| self.wake.notify_one());
        }
    }

    fn wait_for_workers(&self) {
        for _ in 0..self.spins {
            if self.state.load(Acquire) & JOINED == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        let mut gate = lock(&self.gate);
        self.caller_waits.store(true, SeqCst);
        while self.state.load(SeqCst) & JOINED != 0 {
            gate = self.done.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_waits.store(false, SeqCst);
    }
}

/// Whether the state shows an open job that is not the one numbered `last`.
fn is_news(state: u64, last: u64) -> bool {
    state & OPEN != 0 && state >> NUMBER_SHIFT != last
}

/// A slice that tasks write in parts, each its own: the compiler's exclusive borrow, kept by promise.
#[derive(Debug)]
pub struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    /// Whether parts are noted in a log of stores.
    logged: bool,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: access goes through the unsafe `range`, whose callers keep the parts apart.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}
// SAFETY: as a `&mut [T]`.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    /// Takes the slice for the time of the run.
    pub fn new(slice: &'a mut [T]) -> Self {
        let logged = store_log::is_on();
        Disjoint { start: slice.as_mut_ptr(), len: slice.len(), logged, slice: PhantomData }
    }

    /// Length of the whole slice.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the slice is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part, for writing. Panics if it reaches beyond the slice.
    ///
    /// # Safety
    /// At no time may two parts that share an element be in use.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn range(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        // SAFETY: inside the slice; the caller keeps parts that are in use apart.
        let part =
            unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.end - range.start) };
        if self.logged {
            store_log::stored(part.as_ptr().cast(), size_of_val(part));
        }
        part
    }

    /// Where a tile of rows begins that are `stride` apart and `width` long. Panics as [`Self::range`] does
    /// if they reach beyond the slice; whoever writes keeps to elements of the tile, and to tiles that nobody
    /// else uses.
    #[inline]
    pub(super) fn tile(&self, first: usize, rows: usize, stride: usize, width: usize) -> *mut T {
        let range = first..first + (rows - 1) * stride + width;
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        // SAFETY: inside the slice.
        let start = unsafe { self.start.add(first) };
        if self.logged {
            let row = |row: usize| start.wrapping_add(row * stride).cast();
            (0..rows).for_each(|at| store_log::stored(row(at), width * size_of::<T>()));
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_once_and_workers_in_range() {
        for threads in [1, 2, 3, 5] {
            let pool = Pool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads);
            for tasks in [0, 1, 2, 7, 1000] {
                let counts: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(tasks, &|task, worker| {
                    assert!(worker < threads);
                    counts[task].fetch_add(1, Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Relaxed) == 1), "{threads} {tasks}");
            }
        }
    }

    #[test]
    fn many_short_runs() {
        let pool = Pool::new(3).unwrap();
        let sum = AtomicUsize::new(0);
        for _ in 0..20_000 {
            pool.run(3, &|task, _| {
                sum.fetch_add(task, Relaxed);
            });
        }
        assert_eq!(sum.load(Relaxed), 60_000);
        // After a pause the workers sleep and must be woken.
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            pool.run(8, &|_, _| {
                sum.fetch_add(1, Relaxed);
            });
        }
        assert_eq!(sum.load(Relaxed), 60_160);
    }

    #[test]
    fn a_worker_number_is_held_by_one_thread_at_a_time() {
        let pool = Pool::new(4).unwrap();
        let busy: Vec<_> = (0..4).map(|_| AtomicBool::new(false)).collect();
        pool.run(200, &|_, worker| {
            assert!(!busy[worker].swap(true, SeqCst));
            std::thread::yield_now();
            busy[worker].store(false, SeqCst);
        });
    }

    #[test]
    fn nested_runs_stay_with_their_worker() {
        let pool = Pool::new(3).unwrap();
        let sum = AtomicUsize::new(0);
        pool.run(10, &|_, outer| {
            pool.run(10, &|_, inner| {
                assert_eq!(outer, inner);
                sum.fetch_add(1, Relaxed);
            });
        });
        assert_eq!(sum.load(Relaxed), 100);
    }

    #[test]
    fn a_single_task_is_a_task() {
        let pool = Pool::new(3).unwrap();
        let numbers = Mutex::new(Vec::new());
        pool.run(1, &|_, outer| {
            pool.run(64, &|_, inner| {
                std::thread::yield_now();
                lock(&numbers).push((outer, inner));
            });
        });
        assert_eq!(lock(&numbers).clone(), [(0, 0); 64]);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        for threads in [1, 3] {
            let pool = Pool::new(threads).unwrap();
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(50, &|task, _| assert_ne!(task, 13, "unlucky"));
            }));
            let text = *result.unwrap_err().downcast::<String>().unwrap();
            assert!(text.contains("unlucky"), "{text}");
            let sum = AtomicUsize::new(0);
            pool.run(50, &|_, _| {
                sum.fetch_add(1, Relaxed);
            });
            assert_eq!(sum.load(Relaxed), 50);
        }
    }

    #[test]
    fn two_callers_take_turns() {
        let pool = Pool::new(2).unwrap();
        let sum = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        pool.run(4, &|_, _| {
                            sum.fetch_add(1, Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(sum.load(Relaxed), 3 * 500 * 4);
    }

    #[test]
    fn rows_are_cut_right() {
        let pool = Pool::new(3).unwrap();
        for (rows, row_len, per_task) in [(10, 3, 4), (1, 5, 1), (7, 1, 100), (0, 4, 2)] {
            let mut out = vec![0usize; rows * row_len];
            pool.rows(&mut out, row_len, per_task, |first, part, _| {
                for (row, values) in part.chunks_mut(row_len).enumerate() {
                    values.fill(first + row + 1);
                }
            });
            assert!(out.iter().enumerate().all(|(i, &row)| row == i / row_len + 1), "{out:?}");
        }
    }

    #[test]
    fn no_threads_is_an_error() {
        assert!(matches!(Pool::new(0), Err(DeviceError::NoThreads)));
    }
}
