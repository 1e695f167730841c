//! The debug mode of kernels: which task stored each byte. A pool with a log numbers its runs and their
//! tasks; whatever hands out memory for writing ([`Disjoint`](crate::Disjoint), the stores of the ops crate)
//! notes the bytes under the task at work, and two tasks of one run that meet at a byte are a conflict,
//! whether or not threads met there this time.
//!
//! It sees what goes through such a handle, at the size of the handle: a task that is handed a whole row and
//! writes half of it has stored the row. It does not see plain writes to a slice that one thread holds alone,
//! nor the scratch of threads.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

thread_local! {
    /// Whether this thread works under a log; apart from the rest so that asking costs next to nothing.
    static LOGGED: Cell<bool> = const { Cell::new(false) };
    /// The log, and the task at work.
    static AT_WORK: RefCell<Option<(Arc<StoreLog>, TaskNumber)>> = const { RefCell::new(None) };
}

/// A task of a run: the run in the upper half, the task's number and 1 in the lower. 0 is no task at all: the
/// one thread between two runs, which no other works beside.
type TaskNumber = u64;

/// Several tasks of a run.
const SEVERAL: u64 = u32::MAX as u64;

/// Two tasks of one run that met at a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// In which of the watched stretches.
    pub stretch: usize,
    /// At which of its bytes.
    pub byte: usize,
    /// The task that met the byte first, as far as the log still knows.
    pub first: Option<usize>,
    /// The task that met it then.
    pub second: usize,
    /// Whether one of them only loaded it.
    pub loaded: bool,
}

/// Who stored each byte of some stretches of memory.
#[derive(Debug, Default)]
pub struct StoreLog {
    runs: AtomicU64,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    stretches: Vec<Stretch>,
    conflict: Option<Conflict>,
}

/// For each byte who stored and who loaded it last.
#[derive(Debug)]
struct Stretch {
    start: usize,
    stored: Vec<TaskNumber>,
    loaded: Vec<TaskNumber>,
}

impl StoreLog {
    /// Watches these stretches of memory from here on, each given by its first byte and its length, instead
    /// of others before, and makes this thread note its stores until the guard is dropped.
    pub fn watch(self: &Arc<Self>, stretches: impl Iterator<Item = (*const u8, usize)>) -> Noting {
        let mut watched = self.lock();
        watched.conflict = None;
        watched.stretches.clear();
        watched.stretches.extend(stretches.map(|(start, bytes)| Stretch {
            start: start as usize,
            stored: vec![0; bytes],
            loaded: vec![0; bytes],
        }));
        self.work_as(0)
    }

    /// The first conflict since the last [`StoreLog::watch`].
    pub fn conflict(&self) -> Option<Conflict> {
        self.lock().conflict
    }

    /// The number of a new run.
    pub(super) fn begin_run(&self) -> u64 {
        self.runs.fetch_add(1, Relaxed) + 1
    }

    /// Makes this thread note its stores under a task of a run, until the guard is dropped.
    pub(super) fn work_on(self: &Arc<Self>, run: u64, task: usize) -> Noting {
        self.work_as(run << 32 | (task as u64 + 1))
    }

    fn work_as(self: &Arc<Self>, task: TaskNumber) -> Noting {
        Noting { before: AT_WORK.replace(Some((Arc::clone(self), task))), logged: LOGGED.replace(true) }
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn note(&mut self, at: usize, bytes: usize, task: TaskNumber, stores: bool) {
        for (index, stretch) in self.stretches.iter_mut().enumerate() {
            let end = stretch.start + stretch.stored.len();
            for byte in at.max(stretch.start)..(at + bytes).min(end) {
                let byte = byte - stretch.start;
                let (stored, loaded) = (&mut stretch.stored[byte], &mut stretch.loaded[byte]);
                let other = |known: TaskNumber| known >> 32 == task >> 32 && known != task && task != 0;
                let met = match (other(*stored), stores && other(*loaded)) {
                    (true, _) => Some((*stored, !stores)),
                    (false, true) => Some((*loaded, true)),
                    (false, false) => None,
                };
                if let (Some((first, loaded)), None) = (met, self.conflict) {
                    let number = |task: TaskNumber| (task & SEVERAL) as usize - 1;
                    let first = (first & SEVERAL != SEVERAL).then(|| number(first));
                    self.conflict =
                        Some(Conflict { stretch: index, byte, first, second: number(task), loaded });
                }
                match stores {
                    true => *stored = task,
                    false => *loaded = if other(*loaded) { task | SEVERAL } else { task },
                }
            }
        }
    }
}

/// While it lives, this thread notes its stores; then things are as before.
#[must_use]
pub struct Noting {
    before: Option<(Arc<StoreLog>, TaskNumber)>,
    logged: bool,
}

impl Drop for Noting {
    fn drop(&mut self) {
        AT_WORK.set(self.before.take());
        LOGGED.set(self.logged);
    }
}

/// Whether this thread notes its stores.
#[inline]
pub fn is_on() -> bool {
    LOGGED.get()
}

/// Notes that the task at work on this thread stores these bytes, or was handed them for that.
#[cold]
pub fn stored(at: *const u8, bytes: usize) {
    note(at, bytes, true);
}

/// Notes that the task at work on this thread loads these bytes.
#[cold]
pub fn loaded(at: *const u8, bytes: usize) {
    note(at, bytes, false);
}

fn note(at: *const u8, bytes: usize, stores: bool) {
    AT_WORK.with_borrow(|at_work| {
        if let Some((log, task)) = at_work {
            log.lock().note(at as usize, bytes, *task, stores);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disjoint, Pool};

    /// Hands each of some tasks a part of eight numbers, and says what the log found.
    fn handed(parts: &[std::ops::Range<usize>]) -> Option<Conflict> {
        let pool = Pool::with_store_log(3).unwrap();
        let log = pool.store_log().unwrap();
        let mut numbers = [0f32; 8];
        let stretch = (numbers.as_ptr().cast(), size_of_val(&numbers));
        let _noting = log.watch([stretch].into_iter());
        let numbers = Disjoint::new(&mut numbers);
        pool.run(parts.len(), &|task, _| {
            // SAFETY: the part is handed out, and not used.
            let part = unsafe { numbers.range(parts[task].clone()) };
            assert_eq!(part.len(), parts[task].len());
        });
        log.conflict()
    }

    #[test]
    fn tasks_that_meet_at_a_byte_are_found_and_others_are_not() {
        assert_eq!(handed(&[0..3, 3..8]), None);
        let Some(Conflict { stretch, byte, first: Some(first), second, loaded }) = handed(&[0..3, 2..8])
        else {
            panic!("not found")
        };
        assert_eq!((stretch, byte, first.min(second), first.max(second), loaded), (0, 8, 0, 1, false));
    }

    #[test]
    fn one_run_after_the_other_may_write_the_same() {
        let pool = Pool::with_store_log(2).unwrap();
        let log = pool.store_log().unwrap();
        let mut numbers = [0f32; 8];
        let _noting = log.watch([(numbers.as_ptr().cast(), 32)].into_iter());
        let shared = Disjoint::new(&mut numbers);
        for shift in 0..2 {
            pool.run(8, &|task, _| {
                let at = (task + shift) % 8;
                // A run inside of a task is that task.
                // SAFETY: each task of a run has a number of its own; the run inside happens on the spot.
                pool.run(2, &|_, _| unsafe { shared.range(at..at + 1) }[0] += 1.0);
            });
        }
        assert_eq!(log.conflict(), None);
        assert_eq!(numbers, [4.0; 8]);
    }

    #[test]
    fn what_one_task_loads_another_must_not_store() {
        let pool = Pool::with_store_log(1).unwrap();
        let log = pool.store_log().unwrap();
        let numbers = [0u8; 4];
        let met = |loads: [usize; 3], stores: usize| {
            let _noting = log.watch([(numbers.as_ptr(), 4)].into_iter());
            pool.run(3, &|task, _| {
                loaded(&numbers[loads[task]], 1);
                if task == 2 {
                    stored(&numbers[stores], 1);
                }
            });
            log.conflict()
        };
        assert_eq!(met([0, 1, 2], 2), None);
        assert_eq!(met([0, 1, 2], 3), None);
        let found = |first| Some(Conflict { stretch: 0, byte: 1, first, second: 2, loaded: true });
        assert_eq!(met([0, 1, 2], 1), found(Some(1)));
        assert_eq!(met([1, 1, 1], 1), found(None));
        assert!(!is_on());
    }
}
