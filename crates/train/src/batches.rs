//! The batches of a run in windows, made ahead on another thread. No window has batches of two epochs, so the
//! last one of an epoch may be shorter.

use crate::{Error, Length, Result, State};
use regard_data::loader::{Loader, LoaderSettings, Place};
use regard_data::{Batch, Source};
use regard_engine::Device;
use std::sync::Arc;

/// The most threads that make batches for a card.
const MOST_THREADS: usize = 4;

/// How many threads make batches for this device: one beside a CPU that computes, some for a card, which is
/// faster than one. The batches are the same.
pub fn loader_threads(device: &Device) -> usize {
    match device.cpu() {
        Some(_) => 1,
        None => std::thread::available_parallelism().map_or(1, |all| (all.get() / 2).clamp(1, MOST_THREADS)),
    }
}

/// The batches of a run, from where it is.
pub(crate) struct Batches {
    source: Arc<dyn Source>,
    loader: Loader,
}

impl Batches {
    pub fn new(source: &Arc<dyn Source>, state: &State, length: Length, threads: usize) -> Result<Batches> {
        let from = Place { epoch: state.epoch, index: state.batch };
        let epochs = match length {
            Length::Steps(_) => None,
            Length::Epochs(epochs) => Some(epochs),
        };
        let ahead = LoaderSettings::default().ahead.max(2 * threads);
        let settings = LoaderSettings { from, epochs, ahead, threads };
        Ok(Batches { source: Arc::clone(source), loader: Loader::new(Arc::clone(source), settings)? })
    }

    /// At most so many batches from a place on, and the place after them.
    pub fn window(&mut self, place: Place, most: usize) -> Result<(Vec<Batch>, Place)> {
        let Place { epoch, index } = place;
        let batches = self.source.batches(epoch);
        let end = batches.min(index + most);
        let mut window = Vec::with_capacity(end.saturating_sub(index));
        for index in index..end {
            match self.loader.next() {
                Some((got, batch)) if got == (Place { epoch, index }) => window.push(batch?),
                // An error comes in its place; anything else is out of step.
                Some((_, Err(error))) => return Err(error.into()),
                _ => return Err(changed(epoch, batches)),
            }
        }
        if window.is_empty() {
            return Err(changed(epoch, batches));
        }
        let next =
            if end == batches { Place { epoch: epoch + 1, index: 0 } } else { Place { epoch, index: end } };
        Ok((window, next))
    }
}

fn changed(epoch: u64, batches: usize) -> Error {
    Error::invalid(
        format!("epoch {epoch} of the source has {batches} batches now, and had another number before"),
        "a source must give the same number whenever it is asked, and at least one batch",
    )
}
