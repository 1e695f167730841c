//! An aligned, zeroed block of memory: the arena, the store and the scratch are made of these.
//!
//! The block is over-allocated with `calloc`'s natural alignment and aligned inside, because only then does
//! the system hand out untouched pages: a large buffer costs memory where it is written, not where it is not.

use crate::DeviceError;
use half::bf16;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment of every buffer: one cache line, one AVX-512 register.
const LINE: usize = 64;
/// Alignment of large buffers: one page.
const PAGE: usize = 4096;
/// From this size on a buffer is aligned to a page.
const LARGE: usize = 1 << 16;
/// From this size on a buffer is aligned to, and asks for, huge pages: walks of the page table cost large
/// products several per cent.
const HUGE: usize = 1 << 21;
/// What `calloc` guarantees on every platform that Rust supports with 64 bits.
const NATURAL: usize = 16;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for half::bf16 {}
    impl Sealed for i32 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for u8 {}
}

/// A type as which a buffer may be viewed: plain numbers, for which every bit pattern is a value.
pub trait Element: sealed::Sealed + Copy + Default + Send + Sync + 'static {}
impl Element for f32 {}
impl Element for f64 {}
impl Element for bf16 {}
impl Element for i32 {}
impl Element for u32 {}
impl Element for u64 {}
impl Element for u8 {}

/// A zeroed block, aligned to 64 bytes (to a page when large, to a huge page when huge), freed on drop.
#[derive(Debug)]
pub struct Buffer {
    block: NonNull<u8>,
    layout: Layout,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the buffer owns its block alone; shared access only reads.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` gives only shared views; `&mut Buffer` is needed for writing.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A block of `bytes` zero bytes. Pages that are never touched cost nothing.
    pub fn zeroed(bytes: usize) -> Result<Buffer, DeviceError> {
        let align = match bytes {
            HUGE.. => HUGE,
            LARGE.. => PAGE,
            _ => LINE,
        };
        let refused = || DeviceError::OutOfMemory { bytes };
        let size = bytes.checked_add(align).ok_or_else(refused)?;
        let layout = Layout::from_size_align(size, NATURAL).map_err(|_| refused())?;
        // SAFETY: the layout's size is at least `align`, so not zero.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(refused)?;
        let shift = block.as_ptr().align_offset(align);
        // SAFETY: `shift < align`, and the block is `align` bytes longer than what is used from there on.
        let start = unsafe { block.add(shift) };
        if bytes >= HUGE {
            ask_for_huge_pages(start, bytes);
        }
        Ok(Buffer { block, layout, start, bytes })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// The first byte, for writing.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The buffer as numbers; trailing bytes that do not fill one are left out.
    pub fn as_slice<T: Element>(&self) -> &[T] {
        // SAFETY: the start is aligned to 64, the length is inside the block, the bytes were initialised with
        // zeros, and every bit pattern is a value of an `Element`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }

    /// The buffer as numbers, for writing; trailing bytes that do not fill one are left out.
    pub fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and `&mut self` makes the view the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout and freed only here.
        unsafe { dealloc(self.block.as_ptr(), self.layout) }
    }
}

/// Tells the system that huge pages are welcome. Advice only: where it is not taken nothing changes.
#[cfg(target_os = "linux")]
fn ask_for_huge_pages(start: NonNull<u8>, bytes: usize) {
    const MADV_HUGEPAGE: i32 = 14;
    unsafe extern "C" {
        fn madvise(start: *mut std::ffi::c_void, bytes: usize, advice: i32) -> i32;
    }
    // SAFETY: whole huge pages inside a block that this process owns; the advice changes no content.
    unsafe { madvise(start.as_ptr().cast(), bytes / HUGE * HUGE, MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: NonNull<u8>, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zeroed_and_aligned() {
        for bytes in [0, 1, 63, 64, 4096, LARGE - 1, LARGE, 1_000_003, HUGE, HUGE + 5] {
            let mut buffer = Buffer::zeroed(bytes).unwrap();
            assert_eq!(buffer.len(), bytes);
            assert_eq!(buffer.is_empty(), bytes == 0);
            assert_eq!(buffer.as_ptr() as usize % if bytes >= LARGE { PAGE } else { LINE }, 0);
            assert!(buffer.as_slice::<u8>().iter().all(|&b| b == 0));
            assert_eq!(buffer.as_slice::<f64>().len(), bytes / 8);
            buffer.as_mut_slice::<u8>().fill(255);
            assert!(buffer.as_slice::<i32>().iter().all(|&x| x == -1));
        }
    }

    #[test]
    fn views_see_the_same_bytes() {
        let mut buffer = Buffer::zeroed(16).unwrap();
        buffer.as_mut_slice::<f32>().copy_from_slice(&[1.0, -2.0, 0.5, 3.0]);
        assert_eq!(buffer.as_slice::<bf16>()[1], bf16::from_f32(1.0));
        assert_eq!(buffer.as_slice::<bf16>()[3], bf16::from_f32(-2.0));
    }

    #[test]
    fn refuses_what_cannot_be() {
        let text = Buffer::zeroed(usize::MAX / 2).unwrap_err().to_string();
        assert!(text.starts_with("out of memory"), "{text}");
        let text = Buffer::zeroed(usize::MAX - 8).unwrap_err().to_string();
        assert!(text.contains("bytes"), "{text}");
    }

    #[test]
    fn untouched_pages_cost_nothing() {
        // Far more than the machine may have; only the touched pages are real.
        if let Ok(mut large) = Buffer::zeroed(1 << 34) {
            let all = large.as_mut_slice::<u8>();
            all[1 << 33] = 7;
            assert_eq!((all[0], all[1 << 33], all[(1 << 34) - 1]), (0, 7, 0));
        }
    }
}
