//! After construction nothing allocates: runs of the pool, packing, products, conversions and reductions make
//! no heap call on any thread.

#![allow(unsafe_code)]

use regard_device::{
    Buffer, Epilogue, Gemm, Level, Matrix, MatrixMut, PackedB, Pointwise, Pool, Scratch, Storage, gemm,
    pack_b, packed_b_bytes, reduce,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn replays_make_no_heap_calls() {
    let (m, k, n) = (150, 600, 200);
    let pool = Pool::new(3).unwrap();
    let level = Level::best();
    let mut a = Buffer::zeroed(m * k * 4).unwrap();
    let mut b = Buffer::zeroed(k * n * 4).unwrap();
    let mut panels = Buffer::zeroed(packed_b_bytes(k, n, Storage::Bf16)).unwrap();
    let mut out = Buffer::zeroed(m * n * 4).unwrap();
    let mut block = Buffer::zeroed(Scratch::bytes(Gemm::thread_scratch_bytes(), 3)).unwrap();
    a.as_mut_slice::<f32>().fill(0.25);
    b.as_mut_slice::<f32>().fill(0.5);
    let mut step = || {
        pack_b(
            &pool,
            level,
            Matrix::rows(b.as_slice::<f32>(), n),
            k,
            n,
            Storage::Bf16,
            panels.as_mut_slice(),
        );
        let packed = PackedB::new(panels.as_slice(), k, n, Storage::Bf16);
        let to = MatrixMut::rows(out.as_mut_slice::<f32>(), n);
        let epilogue = Epilogue { activation: Pointwise::Gelu, ..Epilogue::default() };
        let call = Gemm::new(m, Matrix::rows(a.as_slice::<f32>(), k), packed, to).with(epilogue);
        gemm(&pool, level, call, &mut Scratch::new(block.as_mut_slice(), 3));
        reduce::sum(level, out.as_slice())
    };
    // A thread that the system starts late makes its own heap calls then: all three have begun once they
    // meet.
    let all = std::sync::Barrier::new(3);
    pool.run(3, &|_, _| {
        all.wait();
    });
    let first = step();
    let before = CALLS.load(SeqCst);
    for _ in 0..20 {
        assert_eq!(step(), first);
    }
    assert_eq!(CALLS.load(SeqCst) - before, 0);
    assert_eq!(out.as_slice::<f32>()[0], 0.25 * 0.5 * k as f32);
}
