//! Sums over broadcast axes. The innermost axes that are treated alike form runs: where they are kept, strips
//! of columns are added up row by row; where they are summed, whole runs are. Each result is a sum of block
//! sums, blocks of a fixed length in increasing order, so its bits depend on its own terms alone.

#![allow(unsafe_code)]

use super::SumTo;
use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::{multiversion, reduce};
use regard_graph::{Dims, MAX_RANK};

/// How many rows are added up before their sum joins the total: keeps the rounding error of long sums low.
const BLOCK: usize = 64;
/// How many columns one task sums: several tasks even for narrow values.
const COLUMNS: usize = 128;

/// How x is walked: outer kept axes, outer summed axes, and the innermost run.
struct Walks {
    kept: Dims,
    summed: Dims,
    strides: [usize; MAX_RANK],
    /// The distance between neighbours among the summed, where it is the same everywhere.
    step: Option<usize>,
    run: usize,
    run_is_summed: bool,
}

impl Walks {
    fn new(x: Dims, out: Dims) -> Walks {
        let leading = x.len() - out.len();
        let is_summed = |axis: usize| axis < leading || out[axis - leading] != x[axis];
        // Axes of size 1 go with either kind.
        let last = (0..x.len()).rev().find(|&axis| x[axis] != 1);
        let run_is_summed = last.is_some_and(is_summed);
        let alike = |axis: &usize| x[*axis] == 1 || is_summed(*axis) == run_is_summed;
        let outer = x.len() - (0..x.len()).rev().take_while(alike).count();
        let (mut kept, mut summed) = (x, x);
        for axis in 0..x.len() {
            if axis >= outer || is_summed(axis) {
                kept[axis] = 1;
            }
            if axis >= outer || !is_summed(axis) {
                summed[axis] = 1;
            }
        }
        let strides = x.strides();
        let (mut step, mut inner) = (Some(0), None);
        for axis in (0..outer).rev().filter(|&axis| summed[axis] != 1) {
            match inner {
                None => step = Some(strides[axis]),
                Some(inner) if strides[axis] == strides[inner] * x[inner] => {}
                Some(_) => step = None,
            }
            inner = Some(axis);
        }
        Walks { kept, summed, strides, step, run: x[outer..].iter().product(), run_is_summed }
    }

    fn offset(&self, dims: &Dims, flat: usize) -> usize {
        let at = dims.coordinates(flat);
        (0..dims.len()).map(|axis| at[axis] * self.strides[axis]).sum()
    }

    fn base(&self, j: usize) -> usize {
        self.offset(&self.kept, j)
    }

    fn term(&self, s: usize) -> usize {
        self.step.map_or_else(|| self.offset(&self.summed, s), |step| s * step)
    }
}

pub fn run(op: &SumTo, call: &CpuCall<'_>) {
    let (x, out) = (call.dims(0), call.out_dims(0));
    if out.count() == 0 {
        return;
    }
    // Dividing a plain sum by 1 changes no bit.
    let terms = if op.mean { SumTo::terms(&x, &out) as f32 } else { 1.0 };
    let walks = Walks::new(x, out);
    if walks.run_is_summed {
        runs(call, &walks, terms);
    } else {
        strips(call, &walks, terms);
    }
}

/// The innermost axes are kept: every task adds up a strip of columns.
fn strips(call: &CpuCall<'_>, walks: &Walks, terms: f32) {
    let (count, width) = (walks.summed.count(), walks.run);
    let across = width.div_ceil(COLUMNS);
    call.pool.run(walks.kept.count() * across, &|task, _| {
        let (j, first) = (task / across, task % across * COLUMNS);
        let length = COLUMNS.min(width - first);
        let at = walks.base(j) + first;
        let [mut total, mut block, mut row] = [[0.0; COLUMNS]; 3];
        for start in (0..count).step_by(BLOCK) {
            block.fill(0.0);
            for s in start..(start + BLOCK).min(count) {
                let from = at + walks.term(s);
                call.load(0, from..from + length, &mut row[..length]);
                add(call.level, &mut block, &row);
            }
            add(call.level, &mut total, &block);
        }
        total.iter_mut().for_each(|total| *total /= terms);
        let at = j * width + first;
        // SAFETY: each strip of each row is stored once, by one task.
        unsafe { call.store(0, at..at + length, &total[..length]) };
    });
}

/// The innermost axes are summed: chunks of a run are summed in sixteen lanes, and the chunks in f64.
fn runs(call: &CpuCall<'_>, walks: &Walks, terms: f32) {
    let count = walks.summed.count();
    call.rows(walks.kept.count(), count * walks.run, |own, _| {
        let j = own.first();
        let base = walks.base(j);
        let mut chunk = [0.0; CHUNK];
        let mut total = 0.0;
        for s in 0..count {
            let at = base + walks.term(s);
            for from in (0..walks.run).step_by(CHUNK) {
                let part = &mut chunk[..CHUNK.min(walks.run - from)];
                call.load(0, at + from..at + from + part.len(), part);
                total += f64::from(reduce::sum(call.level, part));
            }
        }
        own.store(0, j..j + 1, &[total as f32 / terms]);
    });
}

multiversion! {
    fn add(total: &mut [f32], row: &[f32]) {
        for (t, x) in total.iter_mut().zip(row) {
            *t += x;
        }
    }
}
