//! Addresses on a card, regions of them, and a plain block of its memory.
//!
//! An address is a number: making one is safe, and launch lists can be written where there is no card. Using
//! one is what the unsafe functions of [`Stream`](super::Stream) and [`Function`](super::Function) do.

use super::error::{CudaError, check};
use super::{Card, Stream};
use crate::Element;
use cudarc::driver::sys as cu;

/// A place in a card's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Address {
    /// The place so many bytes further on.
    pub fn after(self, bytes: usize) -> Address {
        Address(self.0 + bytes as u64)
    }
}

/// A stretch of a card's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    /// Where it begins.
    pub start: Address,
    /// How long it is.
    pub bytes: usize,
}

impl Region {
    /// A part of it. Panics when it is not inside.
    pub fn part(self, offset: usize, bytes: usize) -> Region {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "{bytes} bytes at {offset} are not inside of {}",
            self.bytes
        );
        Region { start: self.start.after(offset), bytes }
    }
}

/// A block of a card's memory, freed on drop. Its content is undefined until it is written.
#[derive(Debug)]
pub struct Memory {
    card: Card,
    region: Region,
}

impl Memory {
    /// A block of so many bytes, aligned to 256.
    pub fn new(card: &Card, bytes: usize) -> Result<Memory, CudaError> {
        card.bind()?;
        let mut start = 0;
        // SAFETY: the context is current; the call writes one address. A block of no bytes is refused, so one
        // is asked for.
        let answer = unsafe { cu::cuMemAlloc_v2(&mut start, bytes.max(1)) };
        check(answer, "taking memory of the card").map_err(|error| card.out_of_memory(error, bytes))?;
        Ok(Memory { card: card.clone(), region: Region { start: Address(start), bytes } })
    }

    /// A block that holds these numbers.
    pub fn of<T: Element>(stream: &Stream, values: &[T]) -> Result<Memory, CudaError> {
        let mut memory = Memory::new(stream.card(), size_of_val(values))?;
        memory.write(stream, 0, values)?;
        Ok(memory)
    }

    /// All of it.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Where it begins.
    pub fn start(&self) -> Address {
        self.region.start
    }

    /// Writes numbers from a byte on, after what is on the stream, and waits until they are there. Panics
    /// when they do not fit.
    pub fn write<T: Element>(
        &mut self,
        stream: &Stream,
        offset: usize,
        values: &[T],
    ) -> Result<(), CudaError> {
        let region = self.region.part(offset, size_of_val(values));
        // SAFETY: the region is inside of this block, which outlives the wait below, as do the values.
        unsafe { stream.upload(region, values.as_ptr().cast()) }?;
        stream.synchronize()
    }

    /// Reads numbers from a byte on, after what is on the stream. Panics when there are not so many.
    pub fn read<T: Element>(
        &self,
        stream: &Stream,
        offset: usize,
        values: &mut [T],
    ) -> Result<(), CudaError> {
        let region = self.region.part(offset, size_of_val(values));
        // SAFETY: the region is inside of this block, which outlives the wait below, as do the values; every
        // bit pattern is a value of an `Element`.
        unsafe { stream.download(values.as_mut_ptr().cast(), region) }?;
        stream.synchronize()
    }

    /// All of it as numbers, after what is on the stream.
    pub fn to_vec<T: Element>(&self, stream: &Stream) -> Result<Vec<T>, CudaError> {
        let mut values = vec![T::default(); self.region.bytes / size_of::<T>()];
        self.read(stream, 0, &mut values)?;
        Ok(values)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.card.bind().is_ok() {
            // SAFETY: allocated in `new` and freed only here; the driver waits for what still uses it.
            unsafe { cu::cuMemFree_v2(self.region.start.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_inside() {
        let region = Region { start: Address(4096), bytes: 100 };
        assert_eq!(region.part(40, 60), Region { start: Address(4136), bytes: 60 });
        assert_eq!(region.part(100, 0).bytes, 0);
        for (offset, bytes) in [(0, 101), (100, 1), (usize::MAX, 2)] {
            assert!(std::panic::catch_unwind(|| region.part(offset, bytes)).is_err());
        }
    }
}
