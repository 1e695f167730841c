//! Memory of the host that the card can reach by itself, and a ring of it through which uploads go: the host
//! fills one slot while the card still reads the others. An event guards each slot.

use super::error::{CudaError, check};
use super::{Card, Event, Region, Stream};
use crate::Element;
use cudarc::driver::sys as cu;
use std::ptr::NonNull;

/// Pinned memory of the host, zeroed. Freed on drop.
#[derive(Debug)]
pub struct Pinned {
    card: Card,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the block is owned alone; shared access only reads.
unsafe impl Send for Pinned {}
// SAFETY: `&Pinned` gives only shared views; what the card writes goes through the unsafe functions of
// `Stream`.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// A block of so many zero bytes, aligned to a page.
    pub fn new(card: &Card, bytes: usize) -> Result<Pinned, CudaError> {
        card.bind()?;
        let mut start = std::ptr::null_mut();
        // SAFETY: the context is current; one pointer is written, freed in `drop`.
        let answer = unsafe { cu::cuMemHostAlloc(&mut start, bytes.max(1), 0) };
        check(answer, "pinning memory of the host")?;
        let start = NonNull::new(start.cast::<u8>()).expect("the driver gave memory");
        // SAFETY: the block has so many bytes and is nobody else's.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Pinned { card: card.clone(), start, bytes })
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

    /// The block as numbers; trailing bytes that do not fill one are left out.
    pub fn as_slice<T: Element>(&self) -> &[T] {
        // SAFETY: aligned to a page, inside of the block, initialised, and every bit pattern is a value of an
        // `Element`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }

    /// The block as numbers, for writing; trailing bytes that do not fill one are left out.
    pub fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and `&mut self` makes the view the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.card.bind().is_ok() {
            // SAFETY: allocated in `new` and freed only here; the driver waits for copies that still use it.
            unsafe { cu::cuMemFreeHost(self.start.as_ptr().cast()) };
        }
    }
}

/// A ring of pinned slots between the host and a card.
#[derive(Debug)]
pub struct Ring {
    slots: Vec<(Pinned, Event)>,
    next: usize,
}

impl Ring {
    /// So many slots of so many bytes each; at least one of each is made.
    pub fn new(card: &Card, slots: usize, bytes: usize) -> Result<Ring, CudaError> {
        let slot = |_| Ok((Pinned::new(card, bytes.max(1))?, Event::new(card)?));
        Ok(Ring { slots: (0..slots.max(1)).map(slot).collect::<Result<_, CudaError>>()?, next: 0 })
    }

    /// Bytes of one slot.
    pub fn slot_bytes(&self) -> usize {
        self.slots[0].0.len()
    }

    /// Lets `fill` write the bytes into a free slot and puts their copy to the card on the stream. Waits only
    /// when every slot is still being read. Panics when the region is longer than a slot.
    ///
    /// # Safety
    /// The region is valid until the stream has passed the copy.
    pub unsafe fn upload_with(
        &mut self,
        stream: &Stream,
        to: Region,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), CudaError> {
        assert!(to.bytes <= self.slot_bytes(), "{} bytes for slots of {}", to.bytes, self.slot_bytes());
        let slots = self.slots.len();
        let (pinned, event) = &mut self.slots[self.next];
        event.synchronize()?;
        fill(&mut pinned.as_mut_slice()[..to.bytes]);
        // SAFETY: the slot is not touched before its event is passed, which is recorded behind the copy; the
        // region is the caller's promise.
        unsafe { stream.upload(to, pinned.as_ptr()) }?;
        stream.record(event)?;
        self.next = (self.next + 1) % slots;
        Ok(())
    }

    /// Uploads numbers of any count, slot by slot. They are copied before this returns; the card has them
    /// when the stream has passed. Panics when the region has another length.
    ///
    /// # Safety
    /// The region is valid until the stream has passed the copies.
    pub unsafe fn upload<T: Element>(
        &mut self,
        stream: &Stream,
        to: Region,
        values: &[T],
    ) -> Result<(), CudaError> {
        assert_eq!(to.bytes, size_of_val(values), "numbers for a region of another length");
        // SAFETY: the bytes of initialised numbers without padding.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), to.bytes) };
        for (i, chunk) in bytes.chunks(self.slot_bytes()).enumerate() {
            let part = to.part(i * self.slot_bytes(), chunk.len());
            // SAFETY: the caller's promise, for a part of the region.
            unsafe { self.upload_with(stream, part, |slot| slot.copy_from_slice(chunk)) }?;
        }
        Ok(())
    }

    /// Reads numbers of any count after what is on the stream, slot by slot: while one slot is copied out the
    /// card fills the next. Panics when the region has another length.
    ///
    /// # Safety
    /// The region is valid.
    pub unsafe fn download<T: Element>(
        &mut self,
        stream: &Stream,
        values: &mut [T],
        from: Region,
    ) -> Result<(), CudaError> {
        assert_eq!(from.bytes, size_of_val(values), "numbers for a region of another length");
        // SAFETY: the bytes of numbers without padding, for which every bit pattern is a value.
        let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), from.bytes) };
        let (slot_bytes, slots) = (self.slot_bytes(), self.slots.len());
        let mut chunks: Vec<&mut [u8]> = bytes.chunks_mut(slot_bytes).collect();
        for step in 0..chunks.len() + slots - 1 {
            if step < chunks.len() {
                let part = from.part(step * slot_bytes, chunks[step].len());
                let (pinned, event) = &mut self.slots[step % slots];
                event.synchronize()?;
                // SAFETY: the slot is free, as its event is passed, and is not touched before the one
                // recorded now is.
                unsafe { stream.download(pinned.as_mut_ptr(), part) }?;
                stream.record(event)?;
            }
            if let Some(done) = (step + 1).checked_sub(slots).filter(|&done| done < chunks.len()) {
                let (pinned, event) = &self.slots[done % slots];
                event.synchronize()?;
                let chunk = &mut chunks[done];
                chunk.copy_from_slice(&pinned.as_slice::<u8>()[..chunk.len()]);
            }
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The card may still read a slot; freeing waits for it only as far as the driver promises, so wait
        // here.
        for (_, event) in &self.slots {
            let _ = event.synchronize();
        }
    }
}
