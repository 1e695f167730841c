//! Sums of rows that share an index. The places of each index are listed first (a counting sort in scratch),
//! so that every result row is written once, by one task, as a sum in the order of the places: no atomics,
//! and nothing that depends on threads. Long sums go in blocks, which keeps their rounding error low.

#![allow(unsafe_code)]

use crate::call::CHUNK;
use crate::{CpuCall, Needs};
use regard_device::{Disjoint, multiversion, zero};

/// How many rows are added up before their sum joins the total.
const BLOCK: usize = 64;

/// Results of so many bytes leave the caches before anybody reads them: the rows that no index names are then
/// cleared past the caches, in tasks of [`CLEARED`] bytes.
const STREAMED: usize = 8 << 20;
const CLEARED: usize = 256 << 10;

/// `out[o, index(o, m), i] += x[o, m, i]` for all o < outer, m < count, i < inner.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    /// Leading axes.
    pub outer: usize,
    /// Whether each of the leading ones has indices of its own; otherwise they share one list.
    pub batched: bool,
    /// How many rows there are.
    pub count: usize,
    /// How many rows there are in the result.
    pub size: usize,
    /// The length of a row.
    pub inner: usize,
}

impl Scatter {
    fn groups(&self) -> usize {
        if self.batched { self.outer } else { 1 }
    }

    /// Scratch for one group: where the places of each index begin, then the places.
    fn group(&self) -> usize {
        self.size + 2 + self.count
    }

    /// Short rows that fit a thread's scratch are added one by one; the choice depends on shapes that the
    /// examples of a batch share, so that an example has the same bits in any batch.
    fn is_small(&self) -> bool {
        self.inner < 16 && (self.count + self.size) * self.inner <= 1 << 14
    }

    /// The scratch that it takes.
    pub fn needs(&self) -> Needs {
        match self.is_small() {
            true => Needs { thread_scratch: (self.count + self.size) * self.inner * 4, ..Needs::default() },
            false => Needs {
                scratch: self.groups() * self.group() * 4,
                thread_scratch: 3 * CHUNK * 4,
                ..Needs::default()
            },
        }
    }

    /// Runs it from an operand to a result; the indices have been checked.
    pub fn run(
        &self,
        call: &CpuCall<'_>,
        input: usize,
        output: usize,
        index: impl Fn(usize, usize) -> usize + Sync,
    ) {
        if self.outer == 0 || self.size == 0 || self.inner == 0 {
            return;
        }
        match self.is_small() {
            true => self.small(call, input, output, index),
            false => self.sorted(call, input, output, index),
        }
    }

    fn small(
        &self,
        call: &CpuCall<'_>,
        input: usize,
        output: usize,
        index: impl Fn(usize, usize) -> usize + Sync,
    ) {
        let (from, to) = (self.count * self.inner, self.size * self.inner);
        call.rows(self.outer, from + to, |own, scratch| {
            let outer = own.first();
            let (x, rest) = scratch.split_at_mut(from);
            let out = &mut rest[..to];
            own.load(input, outer * from..(outer + 1) * from, x);
            out.fill(0.0);
            let group = if self.batched { outer } else { 0 };
            for (place, row) in x.chunks_exact(self.inner).enumerate() {
                let at = index(group, place) * self.inner;
                out[at..at + self.inner].iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            own.store(output, outer * to..(outer + 1) * to, out);
        });
    }

    fn sorted(
        &self,
        call: &CpuCall<'_>,
        input: usize,
        output: usize,
        index: impl Fn(usize, usize) -> usize + Sync,
    ) {
        // SAFETY: taken once, here; u32 and f32 have the same size and alignment, and every bit pattern is a
        // u32.
        let lists = unsafe {
            let scratch = call.scratch_f32();
            std::slice::from_raw_parts_mut(scratch.as_mut_ptr().cast::<u32>(), self.groups() * self.group())
        };
        for (group, list) in lists.chunks_exact_mut(self.group()).enumerate() {
            let (starts, places) = list.split_at_mut(self.size + 2);
            sort(starts, places, |place| index(group, place));
        }
        let lists = &*lists;
        let streamed = self.outer * self.size * self.inner * call.out_dtype(output).bytes() >= STREAMED;
        if streamed {
            self.clear(call, output, lists);
        }
        let pieces = self.inner.div_ceil(CHUNK);
        call.rows(self.outer * self.size * pieces, self.inner.min(CHUNK), |own, scratch| {
            let (row, from) = (own.first() / pieces, own.first() % pieces * CHUNK);
            let places = self.places(lists, row);
            if streamed && places.is_empty() {
                return;
            }
            let outer = row / self.size;
            let length = CHUNK.min(self.inner - from);
            let (total, rest) = scratch.split_at_mut(length);
            let (block, rest) = rest.split_at_mut(length);
            let part = &mut rest[..length];
            total.fill(0.0);
            for some in places.chunks(BLOCK) {
                block.fill(0.0);
                for &place in some {
                    let at = (outer * self.count + place as usize) * self.inner + from;
                    call.load(input, at..at + length, part);
                    add(call.level, block, part);
                }
                add(call.level, total, block);
            }
            let at = row * self.inner + from;
            // SAFETY: each piece of each row is stored once, by one task.
            unsafe { call.store(output, at..at + length, total) };
        });
    }

    /// The places of a row of the result, in increasing order.
    fn places<'a>(&self, lists: &'a [u32], row: usize) -> &'a [u32] {
        let (outer, index) = (row / self.size, row % self.size);
        let group = if self.batched { outer } else { 0 };
        let (starts, places) = lists[group * self.group()..][..self.group()].split_at(self.size + 2);
        &places[starts[index] as usize..starts[index + 1] as usize]
    }

    /// Writes zeros over the rows without places, run by run.
    fn clear(&self, call: &CpuCall<'_>, output: usize, lists: &[u32]) {
        let (rows, bytes) = (self.outer * self.size, self.inner * call.out_dtype(output).bytes());
        let together = (CLEARED / bytes).max(1);
        // SAFETY: nothing else uses the result until the run below is over.
        let out = Disjoint::new(unsafe { call.out_bytes(output) });
        call.pool.run(rows.div_ceil(together), &|task, _| {
            let (mut row, end) = (task * together, ((task + 1) * together).min(rows));
            let runs = std::iter::from_fn(|| {
                let start = (row..end).find(|&row| self.places(lists, row).is_empty())?;
                row = (start..end).find(|&row| !self.places(lists, row).is_empty()).unwrap_or(end);
                // SAFETY: tasks have rows of their own, and the runs of a task do not meet.
                Some(unsafe { out.range(start * bytes..row * bytes) })
            });
            zero::streaming(call.level, runs);
        });
    }
}

/// Lists the places of every index in increasing order: those of index i are
/// `places[starts[i]..starts[i + 1]]`.
fn sort(starts: &mut [u32], places: &mut [u32], index: impl Fn(usize) -> usize) {
    starts.fill(0);
    for place in 0..places.len() {
        starts[index(place) + 2] += 1;
    }
    for i in 1..starts.len() {
        starts[i] += starts[i - 1];
    }
    // starts[i + 1] is where index i begins, and moves on to where it ends.
    for place in 0..places.len() {
        let start = &mut starts[index(place) + 1];
        places[*start as usize] = place as u32;
        *start += 1;
    }
}

multiversion! {
    fn add(total: &mut [f32], row: &[f32]) {
        total.iter_mut().zip(row).for_each(|(t, x)| *t += x);
    }
}
