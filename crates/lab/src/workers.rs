//! Work in parts, shared among threads: claims, and the trainings of one claim. Whoever has parts left looks
//! for a free thread before each, so that the last long claim is not left to one of them. Results stand in
//! the order of the parts, whoever did them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Scope;

/// Nobody beside the one who works.
pub(crate) static ALONE: Workers = Workers { free: AtomicUsize::new(0) };

/// Threads that may be used beside those that work already.
#[derive(Debug)]
pub struct Workers {
    free: AtomicUsize,
}

impl Workers {
    /// So many threads in all, the caller's among them.
    pub fn new(threads: usize) -> Workers {
        Workers { free: AtomicUsize::new(threads.saturating_sub(1)) }
    }

    fn take(&self) -> bool {
        self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(1)).is_ok()
    }

    fn give(&self) {
        self.free.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits for something that another thread does; meanwhile this thread's place is free for others.
    pub fn waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.give();
        let found = wait();
        // The place may have been taken by now: then one thread too many works for a while, which changes
        // nothing but the time.
        self.take();
        found
    }

    /// What `work` makes of each part, in their order.
    pub fn each<T: Sync, R: Send>(&self, parts: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
        let job = Job {
            workers: self,
            parts,
            work: &work,
            next: AtomicUsize::new(0),
            done: parts.iter().map(|_| Mutex::new(None)).collect(),
        };
        std::thread::scope(|scope| job.help(scope));
        job.done.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect()
    }
}

struct Job<'a, T, R, W> {
    workers: &'a Workers,
    parts: &'a [T],
    work: &'a W,
    next: AtomicUsize,
    done: Vec<Mutex<Option<R>>>,
}

impl<T: Sync, R: Send, W: Fn(&T) -> R + Sync> Job<'_, T, R, W> {
    fn help<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = self.parts.get(at) else { return };
            if at + 1 < self.parts.len() && self.workers.take() {
                scope.spawn(move || {
                    self.help(scope);
                    self.workers.give();
                });
            }
            let found = (self.work)(part);
            if let Ok(mut slot) = self.done[at].lock() {
                *slot = Some(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::time::Duration;

    #[test]
    fn parts_come_back_in_order_and_are_shared() {
        for threads in [1, 2, 5] {
            let workers = Workers::new(threads);
            let seen = Mutex::new(HashSet::new());
            let found = workers.each(&[1, 2, 3, 4, 5, 6], |part| {
                seen.lock().unwrap().insert(std::thread::current().id());
                std::thread::sleep(Duration::from_millis(5));
                part * 10
            });
            assert_eq!(found, [10, 20, 30, 40, 50, 60]);
            assert!(seen.lock().unwrap().len() <= threads);
            assert_eq!(workers.free.load(Ordering::Relaxed), threads - 1);
        }
    }

    #[test]
    fn a_long_part_is_helped_by_those_who_are_done() {
        let workers = Workers::new(3);
        let most = AtomicUsize::new(0);
        let now = AtomicUsize::new(0);
        workers.each(&[1usize, 8], |parts| {
            workers.each(&vec![(); *parts], |()| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(10));
                now.fetch_sub(1, Ordering::SeqCst);
            })
        });
        assert!(most.load(Ordering::SeqCst) > 1 && most.load(Ordering::SeqCst) <= 3);
    }
}
