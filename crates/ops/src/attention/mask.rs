//! Which keys each query may attend to, from the integers of one run. The kernels, the specification, the
//! cost and the reach all ask this one file.

use super::form::{Extent, Extra, Form};
use super::spec::Window;
use crate::ReferenceCall;
use regard_graph::Concrete;
use std::ops::Range;

/// The masks and positions of one run.
#[derive(Clone, Copy, Debug)]
pub struct Allowed<'a> {
    pub extent: Extent,
    pub causal: bool,
    pub window: Option<Window>,
    pub key_lengths: Option<&'a [i32]>,
    pub key_mask: Option<&'a [u8]>,
    pub explicit: Option<Pairs<'a, u8>>,
    pub query_position: Option<&'a [i32]>,
    pub key_position: Option<&'a [i32]>,
}

/// One number for each pair, [B|1 H|1 T S].
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a, T> {
    pub data: &'a [T],
    pub per_batch: bool,
    pub per_head: bool,
}

impl<'a, T> Pairs<'a, T> {
    /// The keys' numbers of one query.
    pub fn row(&self, extent: &Extent, b: usize, h: usize, t: usize) -> &'a [T] {
        let start = self.index(extent, b, h, t) * extent.s;
        &self.data[start..start + extent.s]
    }

    /// The flat index of (b, h, t) in the operand's own first three axes.
    pub fn index(&self, extent: &Extent, b: usize, h: usize, t: usize) -> usize {
        let b = if self.per_batch { b } else { 0 };
        let (h, heads) = if self.per_head { (h, extent.h) } else { (0, 1) };
        (b * heads + h) * extent.t + t
    }
}

/// How much of a tile of queries and keys is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// No pair: the tile is skipped.
    Nothing,
    /// Some pairs, or not known to be all or none.
    Part,
    /// Every pair.
    All,
}

impl Allowed<'_> {
    /// The position of a query.
    pub fn query_at(&self, b: usize, t: usize) -> i32 {
        self.query_position.map_or(t as i32, |all| all[b * self.extent.t + t])
    }

    /// The position of a key.
    pub fn key_at(&self, b: usize, s: usize) -> i32 {
        self.key_position.map_or(s as i32, |all| all[b * self.extent.s + s])
    }

    /// The positions that a query at this position may attend to, both ends included.
    pub fn range(&self, query: i32) -> (i32, i32) {
        let at = query as i64;
        let (mut low, mut high) = (i32::MIN as i64, i32::MAX as i64);
        if let Some(Window { before, after }) = self.window {
            low = at.saturating_sub(i64::try_from(before).unwrap_or(i64::MAX)).max(low);
            high = at.saturating_add(i64::try_from(after).unwrap_or(i64::MAX)).min(high);
        }
        if self.causal {
            high = high.min(at);
        }
        (low as i32, high as i32)
    }

    /// Where an example's keys end: those from here on exist for no query.
    pub fn end(&self, b: usize) -> usize {
        self.key_lengths.map_or(self.extent.s, |all| (all[b].max(0) as usize).min(self.extent.s))
    }

    /// Whether a key exists for any query of its example.
    pub fn exists(&self, b: usize, s: usize) -> bool {
        s < self.end(b) && self.key_mask.is_none_or(|all| all[b * self.extent.s + s] != 0)
    }

    /// Whether an example has no key from this one on, however far it is padded.
    pub fn ends_by(&self, b: usize, s: usize) -> bool {
        (s..self.end(b)).all(|s| !self.exists(b, s))
    }

    /// Whether a query may attend to a key.
    pub fn allows(&self, b: usize, h: usize, t: usize, s: usize) -> bool {
        let (low, high) = self.range(self.query_at(b, t));
        let at = self.key_at(b, s);
        self.exists(b, s)
            && (low..=high).contains(&at)
            && self.explicit.is_none_or(|pairs| pairs.row(&self.extent, b, h, t)[s] != 0)
    }

    /// How much of a tile is allowed, from the least and the largest positions in it.
    pub fn cover(&self, b: usize, h: usize, queries: Range<usize>, keys: Range<usize>) -> Cover {
        let end = self.end(b);
        if keys.start >= end || queries.is_empty() {
            return Cover::Nothing;
        }
        let mut whole = keys.end <= end;
        if let Some(mask) = self.key_mask {
            let row = &mask[b * self.extent.s..][keys.start..keys.end.min(end)];
            if row.iter().all(|&x| x == 0) {
                return Cover::Nothing;
            }
            whole &= row.iter().all(|&x| x != 0);
        }
        if self.causal || self.window.is_some() {
            let (first, last) = self.query_span(b, queries.clone());
            let (near, far) = span(self.key_position, b * self.extent.s, keys.start..keys.end.min(end));
            // Ranges move with the position, so those of the first and last bound all between.
            let ((low, high), (last_low, last_high)) = (self.range(first), self.range(last));
            if far < low || near > last_high {
                return Cover::Nothing;
            }
            whole &= near >= last_low && far <= high;
        }
        if let Some(pairs) = self.explicit {
            let (mut any, mut all) = (false, true);
            for t in queries {
                let row = &pairs.row(&self.extent, b, h, t)[keys.start..keys.end.min(end)];
                any |= row.iter().any(|&x| x != 0);
                all &= row.iter().all(|&x| x != 0);
                if any && !all {
                    return Cover::Part;
                }
            }
            if !any {
                return Cover::Nothing;
            }
            whole &= all;
        }
        if whole { Cover::All } else { Cover::Part }
    }

    /// The least and the largest position of some queries.
    pub fn query_span(&self, b: usize, queries: Range<usize>) -> (i32, i32) {
        span(self.query_position, b * self.extent.t, queries)
    }

    /// Whether heads differ in what they may attend to.
    pub fn per_head(&self) -> bool {
        self.explicit.is_some_and(|pairs| pairs.per_head)
    }

    /// The number of allowed pairs, and of rows with at least one, over all examples and heads.
    pub fn count(&self) -> (u64, u64) {
        let Extent { b: batch, t: queries, s: keys, h: heads, .. } = self.extent;
        let (mut pairs, mut rows) = (0, 0);
        for b in 0..batch {
            let mut positions: Vec<i32> =
                (0..keys).filter(|&s| self.exists(b, s)).map(|s| self.key_at(b, s)).collect();
            positions.sort_unstable();
            for t in 0..queries {
                if self.explicit.is_some() {
                    let repeat = if self.per_head() { 1 } else { heads };
                    for h in 0..heads / repeat {
                        let found = (0..keys).filter(|&s| self.allows(b, h, t, s)).count();
                        pairs += (found * repeat) as u64;
                        rows += if found > 0 { repeat as u64 } else { 0 };
                    }
                    continue;
                }
                let (low, high) = self.range(self.query_at(b, t));
                let below = positions.partition_point(|&at| at < low);
                let found = positions.partition_point(|&at| at <= high).saturating_sub(below);
                pairs += (found * heads) as u64;
                rows += if found > 0 { heads as u64 } else { 0 };
            }
        }
        (pairs, rows)
    }

    /// How many tiles of these sizes have an allowed pair, over all examples and heads.
    pub fn tiles(&self, queries: usize, keys: usize) -> u64 {
        let Extent { b: batch, t, s, h: heads, .. } = self.extent;
        let repeat = if self.per_head() { 1 } else { heads };
        let mut tiles = 0;
        for b in 0..batch {
            for h in 0..heads / repeat.max(1) {
                for first in (0..t).step_by(queries) {
                    let rows = first..(first + queries).min(t);
                    let columns = (0..s).step_by(keys).map(|at| at..(at + keys).min(s));
                    let found =
                        columns.filter(|at| self.cover(b, h, rows.clone(), at.clone()) != Cover::Nothing);
                    tiles += (found.count() * repeat) as u64;
                }
            }
        }
        tiles
    }
}

/// The least and the largest position of a range that is not empty.
fn span(positions: Option<&[i32]>, offset: usize, range: Range<usize>) -> (i32, i32) {
    match positions {
        None => (range.start as i32, range.end as i32 - 1),
        Some(all) => {
            let own = &all[offset + range.start..offset + range.end];
            own.iter().fold((i32::MAX, i32::MIN), |(low, high), &at| (low.min(at), high.max(at)))
        }
    }
}

/// The integers of one run, owned: for the specification and the readers.
#[derive(Clone, Debug)]
pub struct Known {
    extent: Extent,
    causal: bool,
    window: Option<Window>,
    key_lengths: Option<Vec<i32>>,
    key_mask: Option<Vec<u8>>,
    explicit: Option<(Vec<u8>, bool, bool)>,
    query_position: Option<Vec<i32>>,
    key_position: Option<Vec<i32>>,
    /// Rows of the key/value batch, where they are picked and known.
    pub key_row: Option<Vec<i32>>,
    /// Whether the positions of queries and keys are known.
    pub positions: bool,
}

impl Known {
    /// From the numbers of a specification's call, whose optional operands begin at `base`.
    pub fn of_call(form: &Form, extent: Extent, call: &ReferenceCall<'_>, base: usize) -> Self {
        Known::gather(form, extent, base, &|input| {
            let numbers = call.inputs[input].data().iter().map(|&x| x as i64);
            Some((numbers.collect(), call.inputs[input].dims().to_vec()))
        })
    }

    /// From what a reader of the graph knows. What is not known allows everything.
    pub fn of_reader(form: &Form, extent: Extent, call: &Concrete<'_>, base: usize) -> Self {
        Known::gather(form, extent, base, &|input| {
            call.integers[input].map(|numbers| (numbers.to_vec(), call.inputs[input].to_vec()))
        })
    }

    fn gather(
        form: &Form,
        extent: Extent,
        base: usize,
        numbers: &dyn Fn(usize) -> Option<(Vec<i64>, Vec<usize>)>,
    ) -> Self {
        let find = |extra: Extra| form.place(base, extra).and_then(numbers);
        let integers = |extra: Extra| -> Option<Vec<i32>> {
            find(extra).map(|(numbers, _)| numbers.into_iter().map(|x| x as i32).collect())
        };
        let bits = |numbers: Vec<i64>| numbers.into_iter().map(|x| u8::from(x != 0)).collect();
        let (query_position, key_position) = (integers(Extra::QueryPosition), integers(Extra::KeyPosition));
        let positions = form.has(Extra::QueryPosition) == query_position.is_some()
            && form.has(Extra::KeyPosition) == key_position.is_some();
        Known {
            extent,
            causal: form.causal && positions,
            window: form.window.filter(|_| positions),
            key_lengths: integers(Extra::KeyLengths),
            key_mask: find(Extra::KeyMask).map(|(numbers, _)| bits(numbers)),
            explicit: find(Extra::Mask)
                .map(|(numbers, dims)| (bits(numbers), dims[0] == extent.b, dims[1] == extent.h)),
            query_position,
            key_position,
            key_row: integers(Extra::KeyRow),
            positions,
        }
    }

    /// The masks and positions.
    pub fn allowed(&self) -> Allowed<'_> {
        Allowed {
            extent: self.extent,
            causal: self.causal,
            window: self.window,
            key_lengths: self.key_lengths.as_deref(),
            key_mask: self.key_mask.as_deref(),
            explicit: self.explicit.as_ref().map(|(data, per_batch, per_head)| Pairs {
                data,
                per_batch: *per_batch,
                per_head: *per_head,
            }),
            query_position: self.query_position.as_deref(),
            key_position: self.key_position.as_deref(),
        }
    }
}
