//! Batches made ahead: while a step runs, other threads make the batches of the next ones. They come in
//! order, and are the same however many threads make them, because a source is a pure function.

use crate::{Batch, Error, Result, Source};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Where a batch stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The epoch, from 0 on.
    pub epoch: u64,
    /// The number of the batch in it, from 0 on.
    pub index: usize,
}

/// How a loader works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderSettings {
    /// The first batch: where a run begins or goes on.
    pub from: Place,
    /// The epoch before which it ends; never if not given.
    pub epochs: Option<u64>,
    /// How many batches lie ready, at most: at least one for each thread.
    pub ahead: usize,
    /// How many threads make them, at least one.
    pub threads: usize,
}

impl Default for LoaderSettings {
    fn default() -> Self {
        LoaderSettings { from: Place::default(), epochs: None, ahead: 4, threads: 1 }
    }
}

/// Batches of a source, in order, each with its place. It ends after the last epoch, or after the first
/// error. Dropped, it stops its threads, as soon as the batches that they are at are made.
///
/// ```
/// use regard_data::batching::{Order, TokenRows};
/// use regard_data::loader::{Loader, LoaderSettings};
/// use std::sync::Arc;
///
/// let text: Vec<u32> = (0..100).collect();
/// let source = TokenRows::consecutive(text, 8, 4, Order::Shuffled { seed: 1 }, false)?;
/// let loader = Loader::new(Arc::new(source), LoaderSettings { epochs: Some(2), ..Default::default() })?;
/// let tokens = loader.map(|(_, batch)| batch.map(|batch| batch.targets)).sum::<Result<u64, _>>()?;
/// assert_eq!(tokens, 2 * 99);
/// # Ok::<(), regard_data::Error>(())
/// ```
pub struct Loader {
    /// One for each thread. Thread w makes every n-th batch, beginning with the w-th.
    channels: Vec<Receiver<Item>>,
    threads: Vec<JoinHandle<()>>,
    turn: usize,
}

type Item = (Place, Result<Batch>);

impl Loader {
    /// Starts making batches.
    pub fn new(source: Arc<dyn Source>, settings: LoaderSettings) -> Result<Loader> {
        let count = settings.threads.max(1);
        let mut loader = Loader { channels: Vec::new(), threads: Vec::new(), turn: 0 };
        for number in 0..count {
            let (sender, receiver) = sync_channel(settings.ahead.div_ceil(count).max(1));
            let places = Places { source: Arc::clone(&source), next: settings.from, epochs: settings.epochs };
            let thread = thread::Builder::new()
                .name(format!("regard-loader-{number}"))
                .spawn(move || make(places, number, count, &sender))
                .map_err(|error| {
                    Error::invalid(
                        format!("no thread to make batches could be started: {error}"),
                        "ask for fewer threads, or end other programs",
                    )
                })?;
            loader.channels.push(receiver);
            loader.threads.push(thread);
        }
        Ok(loader)
    }

    /// Ends all threads and waits for them.
    fn stop(&mut self) {
        // A thread that has nobody to send to ends.
        self.channels.clear();
        for thread in self.threads.drain(..) {
            // What could panic in there was caught.
            let _ = thread.join();
        }
    }
}

impl Iterator for Loader {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let item = self.channels.get(self.turn)?.recv().ok();
        match &item {
            Some((_, Ok(_))) => self.turn = (self.turn + 1) % self.channels.len(),
            Some((_, Err(_))) | None => self.stop(),
        }
        item
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The work of one thread.
fn make(places: Places, number: usize, count: usize, sender: &SyncSender<Item>) {
    let source = Arc::clone(&places.source);
    for (turn, (place, known)) in places.enumerate() {
        let mine = turn % count == number;
        if !mine && known.is_ok() {
            continue;
        }
        let Place { epoch, index } = place;
        let batch = known.and_then(|()| caught(place, || source.batch(epoch, index)).and_then(|batch| batch));
        let failed = batch.is_err();
        // An error in finding places comes to all threads at the same turn; the one whose turn it is tells
        // it.
        if (mine && sender.send((place, batch)).is_err()) || failed {
            return;
        }
    }
}

/// What `work` gives, or its panic as an error.
fn caught<T>(place: Place, work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Error::invalid(
            format!(
                "making batch {} of epoch {} failed: {}",
                place.index,
                place.epoch,
                crate::error::shown_text(text.unwrap_or("it panicked"))
            ),
            "this is a mistake in the source of the batches",
        )
    })
}

/// The places of all batches, one after the other.
struct Places {
    source: Arc<dyn Source>,
    next: Place,
    epochs: Option<u64>,
}

impl Iterator for Places {
    type Item = (Place, Result<()>);

    fn next(&mut self) -> Option<(Place, Result<()>)> {
        let mut empty = 0;
        loop {
            let place = self.next;
            if self.epochs.is_some_and(|epochs| place.epoch >= epochs) {
                return None;
            }
            match caught(place, || self.source.batches(place.epoch)) {
                Err(error) => return Some((place, Err(error))),
                Ok(batches) if place.index < batches => {
                    self.next.index += 1;
                    return Some((place, Ok(())));
                }
                Ok(batches) => {
                    // One epoch may be empty, or its end be where a run goes on; two in a row would go on for
                    // ever.
                    empty += (batches == 0) as u32;
                    if empty == 2 {
                        return Some((
                            place,
                            Err(Error::invalid(
                                format!("epoch {} has no batches", place.epoch),
                                "give it examples: a loader would look for the next batch for ever",
                            )),
                        ));
                    }
                    self.next = Place { epoch: place.epoch + 1, index: 0 };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    /// Epoch e has 3 + e batches that say where they stand; some go wrong.
    #[derive(Default)]
    struct Counting {
        asked: AtomicUsize,
        error: Option<Place>,
        panic: Option<Place>,
        slow: bool,
        empty: bool,
    }

    impl Source for Counting {
        fn batches(&self, epoch: u64) -> usize {
            if self.empty { 0 } else { 3 + epoch as usize }
        }

        fn batch(&self, epoch: u64, index: usize) -> Result<Batch> {
            let count = self.asked.fetch_add(1, Ordering::SeqCst);
            if self.slow && count.is_multiple_of(2) {
                thread::sleep(Duration::from_millis(2));
            }
            let place = Some(Place { epoch, index });
            if self.error == place {
                return Err(Error::invalid("the disk is gone", "bring it back"));
            }
            assert!(self.panic != place, "nothing \u{7} works");
            let values = vec![epoch as i32, index as i32];
            Ok(Batch { fields: vec![Field::i32("where", &[2], values)], ..Batch::default() })
        }
    }

    fn collect(source: Counting, settings: LoaderSettings) -> Vec<(Place, Result<Batch, String>)> {
        let loader = Loader::new(Arc::new(source), settings).unwrap();
        loader.map(|(place, batch)| (place, batch.map_err(|error| error.to_string()))).collect()
    }

    fn at(epoch: u64, index: usize) -> Place {
        Place { epoch, index }
    }

    #[test]
    fn batches_come_in_order_however_many_threads_make_them() {
        for threads in 0..4 {
            for ahead in [0, 1, 7] {
                let settings = LoaderSettings { epochs: Some(3), ahead, threads, ..Default::default() };
                let got = collect(Counting { slow: true, ..Default::default() }, settings);
                let places: Vec<Place> = got.iter().map(|(place, _)| *place).collect();
                let expected: Vec<Place> =
                    (0..3).flat_map(|e| (0..3 + e as usize).map(move |i| at(e, i))).collect();
                assert_eq!(places, expected, "{threads} {ahead}");
                for (place, batch) in got {
                    let field = Field::i32("where", &[2], vec![place.epoch as i32, place.index as i32]);
                    assert_eq!(batch.unwrap().fields, [field]);
                }
            }
        }
    }

    #[test]
    fn going_on_gives_what_would_have_come() {
        for threads in [1, 2] {
            let whole = LoaderSettings { epochs: Some(3), threads, ..Default::default() };
            let all = collect(Counting::default(), whole);
            for (from, rest) in [(at(0, 2), 2), (at(1, 0), 3), (at(2, 4), 11), (at(0, 3), 3), (at(3, 0), 12)]
            {
                let got = collect(Counting::default(), LoaderSettings { from, ..whole });
                assert_eq!(got, all[rest..], "{from:?}");
            }
        }
    }

    #[test]
    fn an_error_comes_in_its_place_and_ends_it() {
        for threads in [1, 2, 3] {
            let settings = LoaderSettings { threads, ..Default::default() };
            let got = collect(Counting { error: Some(at(1, 2)), ..Default::default() }, settings);
            assert_eq!(got.len(), 6);
            assert!(got[..5].iter().all(|(_, batch)| batch.is_ok()));
            assert_eq!(got[5], (at(1, 2), Err("the disk is gone; bring it back".into())));
        }
    }

    #[test]
    fn a_panic_comes_as_an_error_in_its_place() {
        for threads in [1, 2] {
            let settings = LoaderSettings { threads, ..Default::default() };
            let got = collect(Counting { panic: Some(at(0, 1)), ..Default::default() }, settings);
            assert_eq!(got.len(), 2);
            let (place, text) = (got[1].0, got[1].1.clone().unwrap_err());
            assert_eq!(place, at(0, 1));
            assert!(text.contains("making batch 1 of epoch 0 failed: nothing \\u{7} works"), "{text}");
        }
    }

    #[test]
    fn epochs_without_batches_end() {
        for threads in [1, 2] {
            let settings = LoaderSettings { threads, ..Default::default() };
            let got = collect(Counting { empty: true, ..Default::default() }, settings);
            assert_eq!(got.len(), 1);
            let text = got[0].1.clone().unwrap_err();
            assert!(text.contains("epoch 1 has no batches"), "{text}");
        }
    }

    #[test]
    fn no_more_is_made_than_asked_for_and_dropping_stops_the_threads() {
        for threads in [1, 2] {
            let source = Arc::new(Counting::default());
            let settings = LoaderSettings { ahead: 4, threads, ..Default::default() };
            let mut loader = Loader::new(Arc::clone(&source) as Arc<dyn Source>, settings).unwrap();
            assert_eq!(loader.next().unwrap().0, at(0, 0));
            // One is taken, four lie ready, and each thread holds one more.
            let most = 5 + threads;
            let patience = Instant::now() + Duration::from_secs(20);
            while source.asked.load(Ordering::SeqCst) < most && Instant::now() < patience {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(20));
            assert_eq!(source.asked.load(Ordering::SeqCst), most);
            drop(loader);
            // Only ours is left: the threads gave theirs back.
            assert_eq!(Arc::strong_count(&source), 1);
        }
    }
}
