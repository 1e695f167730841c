//! A mark on a stream: others can wait for it, and the time between two can be asked.

use super::Card;
use super::error::{CudaError, check};
use cudarc::driver::sys as cu;

/// A mark on a stream. Freed on drop.
#[derive(Debug)]
pub struct Event {
    card: Card,
    handle: cu::CUevent,
}

// SAFETY: the driver allows an event to be recorded, waited for and freed from any thread.
unsafe impl Send for Event {}
// SAFETY: as above: waiting and asking are calls that the driver locks itself.
unsafe impl Sync for Event {}

impl Event {
    /// A mark for waiting only, which is cheaper than one with a time.
    pub fn new(card: &Card) -> Result<Event, CudaError> {
        Event::with(card, cu::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32)
    }

    /// A mark that knows its time.
    pub fn timed(card: &Card) -> Result<Event, CudaError> {
        Event::with(card, 0)
    }

    fn with(card: &Card, flags: u32) -> Result<Event, CudaError> {
        card.bind()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current; one handle is written, freed in `drop`.
        check(unsafe { cu::cuEventCreate(&mut handle, flags) }, "making an event")?;
        Ok(Event { card: card.clone(), handle })
    }

    /// Waits until the stream has passed the mark. An event that was never recorded is passed.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.card.bind()?;
        // SAFETY: the handle lives as long as `self`.
        check(unsafe { cu::cuEventSynchronize(self.handle) }, "waiting for an event")
    }

    /// Milliseconds from an earlier mark to this one; both are timed and passed.
    pub fn milliseconds_since(&self, earlier: &Event) -> Result<f32, CudaError> {
        self.card.bind()?;
        let mut time = 0.0;
        // SAFETY: both handles are alive; one number is written.
        let answer = unsafe { cu::cuEventElapsedTime_v2(&mut time, earlier.handle, self.handle) };
        check(answer, "asking for the time between two events")?;
        Ok(time)
    }

    pub(super) fn handle(&self) -> cu::CUevent {
        self.handle
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.card.bind().is_ok() {
            // SAFETY: made in `with` and freed only here; the driver keeps it until the stream has passed it.
            unsafe { cu::cuEventDestroy_v2(self.handle) };
        }
    }
}
