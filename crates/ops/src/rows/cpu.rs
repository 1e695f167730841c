//! Sums of rows that share an index. The places of each index are listed first (a counting sort in scratch),
//! so that every result row is written once, by one task, as a sum in the order of the places: no atomics, and
//! nothing that depends on threads. Long sums go in blocks, which keeps their rounding error low.

#![allow(unsafe_code)]

use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::multiversion;

/// How many rows are added up before their sum joins the total.
const BLOCK: usize = 64;

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

    /// Bytes of scratch.
    pub fn scratch(&self) -> usize {
        self.groups() * self.group() * 4
    }

    /// Runs it from an operand to a result; the indices have been checked.
    pub fn run(
        &self,
        call: &CpuCall<'_>,
        input: usize,
        output: usize,
        index: impl Fn(usize, usize) -> usize,
    ) {
        if self.outer == 0 || self.size == 0 || self.inner == 0 {
            return;
        }
        // SAFETY: taken once, here; u32 and f32 have the same size and alignment, and every bit pattern is a u32.
        let lists = unsafe {
            let scratch = call.scratch_f32();
            std::slice::from_raw_parts_mut(scratch.as_mut_ptr().cast::<u32>(), self.groups() * self.group())
        };
        for (group, list) in lists.chunks_exact_mut(self.group()).enumerate() {
            let (starts, places) = list.split_at_mut(self.size + 2);
            sort(starts, places, |place| index(group, place));
        }
        let lists = &*lists;
        let pieces = self.inner.div_ceil(CHUNK);
        call.rows(self.outer * self.size * pieces, self.inner.min(CHUNK), |task, _| {
            let (row, from) = (task / pieces, task % pieces * CHUNK);
            let (outer, index) = (row / self.size, row % self.size);
            let length = CHUNK.min(self.inner - from);
            let group = if self.batched { outer } else { 0 };
            let (starts, places) = lists[group * self.group()..][..self.group()].split_at(self.size + 2);
            let places = &places[starts[index] as usize..starts[index + 1] as usize];
            let (mut total, mut block, mut part) = ([0.0; CHUNK], [0.0; CHUNK], [0.0; CHUNK]);
            let (total, block, part) = (&mut total[..length], &mut block[..length], &mut part[..length]);
            for some in places.chunks(BLOCK) {
                block.fill(0.0);
                for &place in some {
                    let at = (outer * self.count + place as usize) * self.inner + from;
                    call.load(input, at..at + length, part);
                    add(call.level, block, part);
                }
                add(call.level, total, block);
            }
            call.store(output, row * self.inner + from..row * self.inner + from + length, total);
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
