//! Sums over axes on a card. The innermost axes that are treated alike form runs, as on the CPU: where they
//! are summed, a team of threads has one result; where they are kept, threads have columns side by side. Long
//! sums are cut into parts, whose number is a matter of sizes, and the sums of parts are summed by a second
//! launch.

use super::SumTo;
use crate::cuda::products::number;
use crate::cuda::teams::{Team, blocks, size};
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid, Number, Source};
use regard_graph::{Dims, MAX_RANK};

/// Columns and rows of a block of `sum_strips`.
const WIDE: usize = 32;
const TALL: usize = 16;
/// The most parts of all results together: enough blocks to fill a card.
const MOST_PARTS: usize = 2048;
/// The fewest terms of a part of a run, and of a column.
const SHORT_RUN: usize = 4096;
const SHORT_COLUMN: usize = 16 * TALL;

/// Groups of axes: sizes and how far apart neighbours lie.
#[derive(Clone, Copy, Default)]
struct Axes {
    rank: usize,
    dims: [u32; MAX_RANK],
    strides: [u32; MAX_RANK],
}

impl Axes {
    fn push(&mut self, dim: usize, stride: usize) {
        (self.dims[self.rank], self.strides[self.rank]) = (size(dim), size(stride));
        self.rank += 1;
    }

    /// So many rows, so far apart.
    fn rows(count: usize, stride: usize) -> Axes {
        let mut axes = Axes::default();
        axes.push(count, stride);
        axes
    }

    fn count(&self) -> usize {
        self.dims[..self.rank].iter().map(|&dim| dim as usize).product()
    }

    /// As the kernels read it.
    fn words(&self) -> [u32; 1 + 2 * MAX_RANK] {
        let mut words = [0; 1 + 2 * MAX_RANK];
        words[0] = self.rank as u32;
        words[1..=MAX_RANK].copy_from_slice(&self.dims);
        words[1 + MAX_RANK..].copy_from_slice(&self.strides);
        words
    }
}

/// How x is walked.
struct Walk {
    kept: Axes,
    summed: Axes,
    /// The innermost axes where these are kept.
    width: Option<usize>,
}

impl Walk {
    fn new(x: Dims, out: Dims) -> Walk {
        let leading = x.len() - out.len();
        let strides = x.strides();
        // Neighbours that are treated alike are one group, and axes of size 1 belong to none.
        let mut groups: Vec<(bool, usize, usize)> = Vec::new();
        for axis in (0..x.len()).filter(|&axis| x[axis] != 1) {
            let summed = axis < leading || out[axis - leading] != x[axis];
            match groups.last_mut().filter(|group| group.0 == summed) {
                Some(group) => (group.1, group.2) = (group.1 * x[axis], strides[axis]),
                None => groups.push((summed, x[axis], strides[axis])),
            }
        }
        let width = match groups.last() {
            Some(&(true, ..)) => None,
            Some(&(false, width, _)) => {
                groups.pop();
                Some(width)
            }
            None => Some(1),
        };
        let (mut kept, mut summed) = (Axes::default(), Axes::default());
        for (is_summed, dim, stride) in groups {
            let axes = if is_summed { &mut summed } else { &mut kept };
            axes.push(dim, stride);
        }
        Walk { kept, summed, width }
    }
}

fn source(team: Team, from: Number, to: Number) -> Source {
    team.source("sum_to/kernel.cu", include_str!("kernel.cu")).define("X", from.name()).define("Y", to.name())
}

/// A number of parts of at least `least` terms, of which all results together have at most [`MOST_PARTS`];
/// and their length.
fn parts(results: usize, terms: usize, least: usize) -> (usize, usize) {
    let most = (MOST_PARTS / results.max(1)).max(1);
    let length = terms.div_ceil((terms / least).clamp(1, most)).max(1);
    (terms.div_ceil(length).max(1), length)
}

/// `sum_runs`: y[result][part].
fn runs(
    y: (Address, Number),
    x: (Address, Number),
    [kept, summed]: [&Axes; 2],
    (count, length): (usize, usize),
    terms: f32,
) -> Launch {
    let (results, all) = (kept.count(), summed.count());
    let team = if length <= 1024 { Team(32) } else { Team(256) };
    let arguments = Arguments::new().with(y.0).with(x.0).with(kept.words()).with(summed.words());
    let arguments = arguments.with(size(results)).with(size(all)).with(size(count)).with(size(length));
    let grid = team.grid(results * count);
    Launch { source: source(team, x.1, y.1), kernel: "sum_runs", grid, arguments: arguments.with(terms) }
}

/// `sum_strips`: y[part][outer][column].
fn strips(
    y: (Address, Number),
    x: (Address, Number),
    ([kept, summed], width): ([&Axes; 2], usize),
    (count, length): (usize, usize),
    (more, terms): (bool, f32),
) -> Launch {
    let strips = width.div_ceil(WIDE);
    let arguments = Arguments::new().with(y.0).with(x.0).with(kept.words()).with(summed.words());
    let arguments = arguments.with(size(width)).with(size(strips)).with(size(summed.count()));
    let arguments = arguments.with(size(length)).with(u32::from(more)).with(terms);
    let grid = Grid {
        blocks: [blocks(kept.count() * strips, 1), size(count), 1],
        threads: [WIDE as u32, TALL as u32, 1],
        shared: 0,
    };
    Launch { source: source(Team(32), x.1, y.1), kernel: "sum_strips", grid, arguments }
}

pub fn list(op: &SumTo, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let (x, out) = (call.call.inputs[0], call.call.outputs[0]);
    if !call.used(0) || out.count() == 0 {
        return list;
    }
    // Dividing a plain sum by 1 changes no bit.
    let terms = if op.mean { SumTo::terms(&x, &out) as f32 } else { 1.0 };
    let from = (call.inputs[0], number(call.call.input_dtypes[0]));
    let to = (call.outputs[0], number(call.call.output_dtypes[0]));
    let Walk { kept, summed, width } = Walk::new(x, out);
    match width {
        Some(_) if summed.rank == 0 => list.convert(to, from, out.count()),
        Some(width) => {
            let walk = ([&kept, &summed], width);
            sum_strips(&mut list, call, to, from, walk, (false, terms));
        }
        None => {
            let cut = parts(kept.count(), summed.count(), SHORT_RUN);
            if cut.0 == 1 {
                list.launch(runs(to, from, [&kept, &summed], cut, terms));
                return list;
            }
            let partial = (list.room(call, kept.count() * cut.0 * 4), Number::F32);
            list.launch(runs(partial, from, [&kept, &summed], cut, 1.0));
            let (rows, along) = (Axes::rows(kept.count(), cut.0), Axes::rows(cut.0, 1));
            list.launch(runs(to, partial, [&rows, &along], (1, cut.0), terms));
        }
    }
    list
}

fn sum_strips(
    list: &mut CudaList,
    call: &CudaCall<'_>,
    to: (Address, Number),
    from: (Address, Number),
    walk: ([&Axes; 2], usize),
    (more, terms): (bool, f32),
) {
    let ([kept, summed], width) = walk;
    let cut = parts(kept.count() * width.div_ceil(WIDE), summed.count(), SHORT_COLUMN);
    if cut.0 == 1 {
        return list.launch(strips(to, from, walk, cut, (more, terms)));
    }
    let results = kept.count() * width;
    let partial = (list.room(call, cut.0 * results * 4), Number::F32);
    list.launch(strips(partial, from, walk, cut, (false, 1.0)));
    let (none, rows) = (Axes::default(), Axes::rows(cut.0, results));
    list.launch(strips(to, partial, ([&none, &rows], results), (1, cut.0), (more, terms)));
}

/// The columns of a matrix, for ops that sum them: rows of `width` numbers, `stride` apart.
pub(crate) struct Columns {
    pub rows: usize,
    pub width: usize,
    pub stride: usize,
}

impl Columns {
    /// The sums of all columns, in f32.
    pub fn sum(&self, list: &mut CudaList, call: &CudaCall<'_>, to: Address, from: (Address, Number)) {
        self.sum_onto(list, call, to, from, false);
    }

    /// The same, added to what stands there if there is `more`.
    pub fn sum_onto(
        &self,
        list: &mut CudaList,
        call: &CudaCall<'_>,
        to: Address,
        from: (Address, Number),
        more: bool,
    ) {
        let (none, rows) = (Axes::default(), Axes::rows(self.rows, self.stride));
        sum_strips(list, call, (to, Number::F32), from, ([&none, &rows], self.width), (more, 1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_are_treated_alike_are_one_group() {
        let dims = |dims: &[usize]| Dims::new(dims).unwrap();
        let walk = Walk::new(dims(&[2, 3, 1, 4]), dims(&[4]));
        assert_eq!((walk.kept.rank, walk.summed.count(), walk.width), (0, 6, Some(4)));
        assert_eq!(walk.summed.strides[0], 4);
        let walk = Walk::new(dims(&[2, 3, 4]), dims(&[3, 1]));
        assert_eq!(
            (walk.summed.dims[..2].to_vec(), walk.summed.strides[..2].to_vec()),
            (vec![2, 4], vec![12, 1])
        );
        assert_eq!((walk.kept.count(), walk.kept.strides[0], walk.width), (3, 4, None));
        let walk = Walk::new(dims(&[1, 1]), dims(&[]));
        assert_eq!((walk.kept.count(), walk.summed.rank, walk.width), (1, 0, Some(1)));
    }

    #[test]
    fn parts_cover_the_terms() {
        for (results, terms, least) in
            [(1, 0, 64), (1, 1, 64), (1, 1 << 30, 64), (5000, 1 << 20, 64), (3, 129, 64)]
        {
            let (count, length) = parts(results, terms, least);
            assert!(count * length >= terms && (count - 1) * length <= terms, "{results} {terms}");
            assert!(count * results <= MOST_PARTS.max(results), "{results} {terms}");
        }
        assert_eq!(parts(1, 0, 64), (1, 1));
    }
}
