//! A replayed program makes no heap allocation, on any thread: a training step, a decoding step.

#![allow(unsafe_code)] // an allocator that counts

use regard::prelude::*;
use regard_conformance::training::{SMALL, Training};
use regard_models::{Cached, Gpt, GptConfig};
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

/// One test, because the count is of the whole process.
#[test]
fn a_replayed_run_allocates_nothing() {
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
        assert_eq!(count, 0, "training, {precision:?}");

        let mut decode = decoding(precision, &mut store, &cpu);
        step(&mut decode, &mut store, 0, &ids[..10]);
        let count =
            allocations(|| (10..13).for_each(|at| step(&mut decode, &mut store, at, &ids[at..][..1])));
        assert_eq!(count, 0, "decoding, {precision:?}");
    }
}

/// One example through caches, in the store of the training.
fn decoding(precision: Precision, store: &mut Store, cpu: &Cpu) -> Program {
    let mut g = Graph::inference();
    g.set_precision(precision);
    let t = g.open('T', SMALL.context).unwrap();
    let ids = g.input("ids", DType::I32, shape![1, t]).unwrap();
    let position = g.input("position", DType::I32, shape![1, t]).unwrap();
    let lengths = g.input("lengths", DType::I32, [1]).unwrap();
    let gpt = Gpt::new(GptConfig { dropout: 0.0, ..SMALL }).unwrap();
    let cached = Cached::growing(position, lengths, SMALL.context);
    let logits = gpt.decode(&mut g, ids, cached).unwrap();
    g.output("logits", logits).unwrap();
    Program::new(g, &[], store, cpu).unwrap()
}

/// Takes some ids from a position on.
fn step(decode: &mut Program, store: &mut Store, start: usize, ids: &[i32]) {
    const POSITIONS: [i32; SMALL.context] = {
        let mut positions = [0; SMALL.context];
        let mut at = 0;
        while at < SMALL.context {
            positions[at] = at as i32;
            at += 1;
        }
        positions
    };
    let end = start + ids.len();
    decode.set_i32("ids", &[1, ids.len()], ids).unwrap();
    decode.set_i32("position", &[1, ids.len()], &POSITIONS[start..end]).unwrap();
    decode.set_i32("lengths", &[1], &[end as i32]).unwrap();
    decode.run(store).unwrap();
}
