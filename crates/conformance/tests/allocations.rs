//! A replayed training step makes no heap allocation, on any thread.

#![allow(unsafe_code)] // an allocator that counts

use regard::prelude::*;
use regard_conformance::training::{SMALL, Training};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

struct Counting;

static WATCHING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if WATCHING.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if WATCHING.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many allocations happen meanwhile, on all threads.
fn allocations(work: impl FnOnce()) -> usize {
    ALLOCATIONS.store(0, Ordering::SeqCst);
    WATCHING.store(true, Ordering::SeqCst);
    work();
    WATCHING.store(false, Ordering::SeqCst);
    ALLOCATIONS.load(Ordering::SeqCst)
}

#[test]
fn a_replayed_step_allocates_nothing() {
    assert!(allocations(|| drop(vec![1u8; 10])) > 0, "the count works");
    for precision in [Precision::F32, Precision::Bf16] {
        let cpu = Cpu::with(3, regard::device::Level::best()).unwrap();
        let mut store = Store::new(1);
        let mut training = Training::new(SMALL, 4, precision, &mut store, &cpu).unwrap();
        let ids = training.ids(4 * 24 + 1);
        training.feed(4, 24, &ids, 1).unwrap();
        training.program.run(&mut store).unwrap();
        // Another batch size and length under the bounds is a replay, too.
        let count = allocations(|| {
            training.feed(3, 17, &ids, 2).unwrap();
            training.program.run(&mut store).unwrap();
        });
        assert_eq!(count, 0, "{precision:?}");
    }
}
