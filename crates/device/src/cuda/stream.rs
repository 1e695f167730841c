//! A stream: what is put on it runs in order, beside the host. Copies and fills are put on it here.

use super::error::{CudaError, check};
use super::{Card, Event, Region};
use cudarc::driver::sys as cu;
use std::marker::PhantomData;

/// A queue of work. Freed on drop, after what is on it has run.
///
/// It may move to another thread, but two threads never share it: the order of what is put on it is part of
/// the result.
#[derive(Debug)]
pub struct Stream {
    card: Card,
    handle: cu::CUstream,
    not_shared: PhantomData<std::cell::Cell<()>>,
}

// SAFETY: a stream's handle may be used from any thread; that two do not use it at once is kept by the
// missing `Sync`.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream of its own, which does not wait for the default stream.
    pub fn new(card: &Card) -> Result<Stream, CudaError> {
        card.bind()?;
        let mut handle = std::ptr::null_mut();
        let flags = cu::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current; one handle is written, freed in `drop`.
        check(unsafe { cu::cuStreamCreate(&mut handle, flags) }, "making a stream")?;
        Ok(Stream { card: card.clone(), handle, not_shared: PhantomData })
    }

    /// The card that it is on.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Waits for everything on it. A fault of a kernel shows here at the latest.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.card.bind()?;
        // SAFETY: the handle lives as long as `self`.
        check(unsafe { cu::cuStreamSynchronize(self.handle) }, "waiting for the stream")
    }

    /// Puts a mark after what is on it.
    pub fn record(&self, event: &Event) -> Result<(), CudaError> {
        self.card.bind()?;
        // SAFETY: both handles are alive; the driver keeps the event until it is passed.
        check(unsafe { cu::cuEventRecord(event.handle(), self.handle) }, "recording an event")
    }

    /// What is put on it from now on waits for the mark; the host does not.
    pub fn wait(&self, event: &Event) -> Result<(), CudaError> {
        self.card.bind()?;
        // SAFETY: both handles are alive; the driver keeps the event until it is passed.
        check(unsafe { cu::cuStreamWaitEvent(self.handle, event.handle(), 0) }, "waiting for an event")
    }

    /// Copies `to.bytes` bytes from the host.
    ///
    /// # Safety
    /// Both ends are valid, and until the stream has passed the copy the host's bytes stay where they are and
    /// are not written.
    pub unsafe fn upload(&self, to: Region, from: *const u8) -> Result<(), CudaError> {
        if to.bytes == 0 {
            return Ok(());
        }
        self.card.bind()?;
        // SAFETY: the caller's promise.
        let answer = unsafe { cu::cuMemcpyHtoDAsync_v2(to.start.0, from.cast(), to.bytes, self.handle) };
        check(answer, "copying to the card")
    }

    /// Copies `from.bytes` bytes to the host.
    ///
    /// # Safety
    /// Both ends are valid, and until the stream has passed the copy nobody else reads or writes the host's
    /// bytes.
    pub unsafe fn download(&self, to: *mut u8, from: Region) -> Result<(), CudaError> {
        if from.bytes == 0 {
            return Ok(());
        }
        self.card.bind()?;
        // SAFETY: the caller's promise.
        let answer = unsafe { cu::cuMemcpyDtoHAsync_v2(to.cast(), from.start.0, from.bytes, self.handle) };
        check(answer, "copying from the card")
    }

    /// Copies inside of the card; the regions are equally long and do not overlap.
    ///
    /// # Safety
    /// Both regions are valid until the stream has passed the copy.
    pub unsafe fn copy(&self, to: Region, from: Region) -> Result<(), CudaError> {
        assert_eq!(to.bytes, from.bytes, "a copy between regions of different lengths");
        if to.bytes == 0 {
            return Ok(());
        }
        self.card.bind()?;
        // SAFETY: the caller's promise.
        let answer = unsafe { cu::cuMemcpyDtoDAsync_v2(to.start.0, from.start.0, to.bytes, self.handle) };
        check(answer, "copying on the card")
    }

    /// Fills a region with a byte.
    ///
    /// # Safety
    /// The region is valid until the stream has passed the fill.
    pub unsafe fn fill(&self, region: Region, byte: u8) -> Result<(), CudaError> {
        if region.bytes == 0 {
            return Ok(());
        }
        self.card.bind()?;
        // SAFETY: the caller's promise.
        let answer = unsafe { cu::cuMemsetD8Async(region.start.0, byte, region.bytes, self.handle) };
        check(answer, "filling memory of the card")
    }

    pub(super) fn handle(&self) -> cu::CUstream {
        self.handle
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.card.bind().is_ok() {
            // SAFETY: made in `new` and freed only here; the driver frees it when what is on it has run.
            unsafe { cu::cuStreamDestroy_v2(self.handle) };
        }
    }
}
