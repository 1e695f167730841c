//! Transposition by elements of one, two or four bytes. Axes that stay together are merged first; then either
//! whole runs are copied, or the two axes that are innermost in x and in y are walked in square tiles.

#![allow(unsafe_code)]

use crate::CpuCall;
use regard_device::{Disjoint, Pool};
use regard_graph::{DType, Dims, MAX_RANK};

/// The side of a tile: two tiles of four-byte elements fill half of the first cache.
const TILE: usize = 64;
/// How many elements make one task.
const TASK: usize = 16 * 1024;

/// The result's axes after merging: sizes, and the stride of each in x.
struct Axes {
    rank: usize,
    size: [usize; MAX_RANK],
    stride: [usize; MAX_RANK],
}

pub fn run(order: &[usize], call: &CpuCall<'_>) {
    let axes = merge(order, call.dims(0));
    // SAFETY: the only result, taken once; it overlaps no operand, for the op declares no alias.
    unsafe {
        match call.dtype(0) {
            DType::F32 => copy(call.pool, &axes, call.f32(0), call.out_f32(0)),
            DType::BF16 => copy(call.pool, &axes, call.bf16(0), call.out_bf16(0)),
            DType::I32 => copy(call.pool, &axes, call.i32(0), call.out_i32(0)),
            DType::Bool => copy(call.pool, &axes, call.bools(0), call.out_bools(0)),
        }
    }
}

/// Leaves out axes of size 1 and merges neighbours that are neighbours in x, too.
fn merge(order: &[usize], x: Dims) -> Axes {
    let strides = x.strides();
    let mut axes = Axes { rank: 0, size: [1; MAX_RANK], stride: [1; MAX_RANK] };
    for &axis in order {
        if x[axis] == 1 {
            continue;
        }
        let last = axes.rank.wrapping_sub(1);
        if axes.rank > 0 && axes.stride[last] == strides[axis] * x[axis] {
            axes.size[last] *= x[axis];
            axes.stride[last] = strides[axis];
        } else {
            axes.size[axes.rank] = x[axis];
            axes.stride[axes.rank] = strides[axis];
            axes.rank += 1;
        }
    }
    axes
}

fn copy<T: Copy + Default + Send + Sync>(pool: &Pool, axes: &Axes, x: &[T], out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    if axes.rank == 0 || axes.stride[axes.rank - 1] == 1 {
        runs(pool, axes, x, out);
    } else {
        tiles(pool, axes, x, out);
    }
}

/// The innermost axis is the same in x and y: whole runs are copied.
fn runs<T: Copy + Send + Sync>(pool: &Pool, axes: &Axes, x: &[T], out: &mut [T]) {
    let outer = axes.rank.saturating_sub(1);
    let length = axes.size[outer];
    pool.rows(out, length, (TASK / length).max(1), |first, rows, _| {
        for (i, row) in rows.chunks_exact_mut(length).enumerate() {
            let (mut rest, mut from) = (first + i, 0);
            for axis in (0..outer).rev() {
                from += rest % axes.size[axis] * axes.stride[axis];
                rest /= axes.size[axis];
            }
            row.copy_from_slice(&x[from..from + length]);
        }
    });
}

/// The innermost axis of x is axis `a` of y: tiles over it and the innermost axis of y.
fn tiles<T: Copy + Default + Send + Sync>(pool: &Pool, axes: &Axes, x: &[T], out: &mut [T]) {
    let b = axes.rank - 1;
    let a = (0..b).find(|&axis| axes.stride[axis] == 1).unwrap_or(0);
    let mut out_stride = [1; MAX_RANK];
    for axis in (0..b).rev() {
        out_stride[axis] = out_stride[axis + 1] * axes.size[axis + 1];
    }
    let tiles_of = |axis: usize| axes.size[axis].div_ceil(TILE);
    let outer: usize = (0..b).filter(|&axis| axis != a).map(|axis| axes.size[axis]).product();
    let count = outer * tiles_of(a) * tiles_of(b);
    let per_task = (TASK / (axes.size[a].min(TILE) * axes.size[b].min(TILE))).max(1);
    let out = Disjoint::new(out);
    pool.run(count.div_ceil(per_task), &|task, _| {
        for tile in task * per_task..((task + 1) * per_task).min(count) {
            let (first_b, rest) = (tile % tiles_of(b) * TILE, tile / tiles_of(b));
            let (first_a, mut rest) = (rest % tiles_of(a) * TILE, rest / tiles_of(a));
            let (mut from, mut to) = (first_a + first_b * axes.stride[b], first_a * out_stride[a] + first_b);
            for axis in (0..b).rev().filter(|&axis| axis != a) {
                from += rest % axes.size[axis] * axes.stride[axis];
                to += rest % axes.size[axis] * out_stride[axis];
                rest /= axes.size[axis];
            }
            let (high, wide) = (TILE.min(axes.size[a] - first_a), TILE.min(axes.size[b] - first_b));
            // Through a small buffer: x and y are touched in contiguous rows only. Strides are often powers
            // of two, and then the lines of a column would fight for one place in the cache.
            let mut buffer = [[T::default(); TILE]; TILE];
            for j in 0..wide {
                let row = &x[from + j * axes.stride[b]..][..high];
                buffer.iter_mut().zip(row).for_each(|(column, x)| column[j] = *x);
            }
            for (i, row) in buffer[..high].iter().enumerate() {
                let start = to + i * out_stride[a];
                // SAFETY: each element of the result lies in one row of one tile.
                unsafe { out.range(start..start + wide) }.copy_from_slice(&row[..wide]);
            }
        }
    });
}
