//! The panels of B: 32 columns each, k rows of 32 one after the other, the last panel filled up with zeros.
//!
//! A bf16 panel keeps columns j and 16 + j side by side, because then a 32-bit shift and a mask widen a row.

use super::PANEL;
use super::kernel::bf16_place;
use super::matrix::{Data, Matrix};
use super::transpose::{TALL, turn};
use crate::cpu::convert::{narrow, widen};
use crate::cpu::level::Level;
use crate::cpu::threads::Pool;
use half::bf16;

/// How the numbers of a packed B are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// As f32.
    F32,
    /// Rounded to bf16.
    Bf16,
}

impl Storage {
    /// Bytes of one number.
    pub const fn bytes(self) -> usize {
        match self {
            Storage::F32 => 4,
            Storage::Bf16 => 2,
        }
    }
}

/// A packed B, for reading.
#[derive(Clone, Copy, Debug)]
pub struct PackedB<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) k: usize,
    pub(super) n: usize,
    pub(super) storage: Storage,
}

impl<'a> PackedB<'a> {
    /// What [`pack_b`] wrote to `bytes` for these sizes. Panics if it is too short or not aligned.
    pub fn new(bytes: &'a [u8], k: usize, n: usize, storage: Storage) -> Self {
        let needed = packed_b_bytes(k, n, storage);
        assert!(bytes.len() >= needed, "packed {k} x {n} needs {needed} bytes, got {}", bytes.len());
        assert!((bytes.as_ptr() as usize).is_multiple_of(storage.bytes()), "packed B is not aligned");
        PackedB { bytes, k, n, storage }
    }

    /// Rows of B.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Columns of B.
    pub fn n(&self) -> usize {
        self.n
    }

    /// How the numbers are stored.
    pub fn storage(&self) -> Storage {
        self.storage
    }
}

/// Bytes of a packed K by N matrix.
pub const fn packed_b_bytes(k: usize, n: usize, storage: Storage) -> usize {
    n.div_ceil(PANEL) * PANEL * k * storage.bytes()
}

/// Numbers in the f32 panels of a K by N matrix, for [`pack_panel_rows`] and [`pack_panel_columns`].
pub const fn panel_floats(k: usize, n: usize) -> usize {
    n.div_ceil(PANEL) * PANEL * k
}

/// Packs a K by N matrix, whichever way its strides run. Panics if sizes do not fit or `out` is not aligned.
pub fn pack_b(
    pool: &Pool,
    level: Level,
    source: Matrix<'_>,
    k: usize,
    n: usize,
    storage: Storage,
    out: &mut [u8],
) {
    source.check(k, n, "pack_b");
    let bytes = packed_b_bytes(k, n, storage);
    assert!(out.len() >= bytes, "packed {k} x {n} needs {bytes} bytes, got {}", out.len());
    let out = &mut out[..bytes];
    match storage {
        // SAFETY: every bit pattern is an f32; unaligned ends are refused below.
        Storage::F32 => match unsafe { out.align_to_mut::<f32>() } {
            ([], out, []) => pack_panels(pool, level, source, k, n, out, panel_f32),
            _ => panic!("packed B is not aligned to 4 bytes"),
        },
        // SAFETY: every bit pattern is a bf16; unaligned ends are refused below.
        Storage::Bf16 => match unsafe { out.align_to_mut::<bf16>() } {
            ([], out, []) => pack_panels(pool, level, source, k, n, out, panel_bf16),
            _ => panic!("packed B is not aligned to 2 bytes"),
        },
    }
}

/// Packs one part of one panel: source from its first element on, strides down and across, columns, out.
type PackPart<T> = fn(Level, Data<'_>, usize, usize, usize, &mut [T]);

fn pack_panels<T: Send>(
    pool: &Pool,
    level: Level,
    source: Matrix<'_>,
    k: usize,
    n: usize,
    out: &mut [T],
    part: PackPart<T>,
) {
    let (down, across) = (source.row_stride, source.column_stride);
    // Some hundred kilobytes a task: enough to be worth a claim, small enough to share out.
    let rows_per_task = 1024;
    pool.rows(out, PANEL, rows_per_task, |first, out, _| {
        let (mut row, mut rest) = (first, out);
        while !rest.is_empty() {
            let (panel, start) = (row / k, row % k);
            let rows = (k - start).min(rest.len() / PANEL);
            let (out, after) = rest.split_at_mut(rows * PANEL);
            let columns = PANEL.min(n - panel * PANEL);
            let from = start * down + panel * PANEL * across;
            part(level, source.data.after(from), down, across, columns, out);
            (row, rest) = (row + rows, after);
        }
    });
}

/// Packs K by N rows, `stride` apart, into f32 panels on the calling thread: the source's rows are K.
pub fn pack_panel_rows<'a>(
    level: Level,
    source: impl Into<Data<'a>>,
    stride: usize,
    k: usize,
    n: usize,
    out: &mut [f32],
) {
    pack_here(level, Matrix::rows(source, stride), k, n, out);
}

/// Packs the transpose of N by K rows, `stride` apart, into f32 panels on the calling thread: the source's
/// rows are N, the columns of B.
pub fn pack_panel_columns<'a>(
    level: Level,
    source: impl Into<Data<'a>>,
    stride: usize,
    k: usize,
    n: usize,
    out: &mut [f32],
) {
    pack_here(level, Matrix::transposed(source, stride), k, n, out);
}

fn pack_here(level: Level, source: Matrix<'_>, k: usize, n: usize, out: &mut [f32]) {
    source.check(k, n, "pack_panel");
    let floats = panel_floats(k, n);
    assert!(out.len() >= floats, "panels of {k} x {n} need {floats} numbers, got {}", out.len());
    if k == 0 {
        return;
    }
    for (panel, out) in out[..floats].chunks_exact_mut(k * PANEL).enumerate() {
        let from = panel * PANEL * source.column_stride;
        let data = source.data.after(from);
        let columns = PANEL.min(n - panel * PANEL);
        panel_f32(level, data, source.row_stride, source.column_stride, columns, out);
    }
}

/// Fills the rows of one panel: contiguous rows at once, a transposed source sixteen rows at a time.
fn panel_f32(level: Level, source: Data<'_>, down: usize, across: usize, columns: usize, out: &mut [f32]) {
    if columns < PANEL {
        out.fill(0.0);
    }
    if down != 1 || across == 1 {
        return rows_to_f32(level, source, down, across, columns, out);
    }
    let whole = out.len() / PANEL / TALL * TALL;
    let (tall, rest) = out.split_at_mut(whole * PANEL);
    for (i, out) in tall.chunks_exact_mut(TALL * PANEL).enumerate() {
        turn(level, source.after(i * TALL), across, columns, out);
    }
    if !rest.is_empty() {
        rows_to_f32(level, source.after(whole), down, across, columns, rest);
    }
}

/// The same for bf16; a transposed source goes by way of sixteen f32 rows.
fn panel_bf16(level: Level, source: Data<'_>, down: usize, across: usize, columns: usize, out: &mut [bf16]) {
    if columns < PANEL {
        out.fill(bf16::ZERO);
    }
    if down != 1 || across == 1 {
        return rows_to_bf16(level, source, down, across, columns, out);
    }
    let whole = out.len() / PANEL / TALL * TALL;
    let (tall, rest) = out.split_at_mut(whole * PANEL);
    let mut turned = [0.0; TALL * PANEL];
    for (i, out) in tall.chunks_exact_mut(TALL * PANEL).enumerate() {
        turn(level, source.after(i * TALL), across, columns, &mut turned);
        rows_to_bf16(level, Data::F32(&turned), PANEL, 1, PANEL, out);
    }
    if !rest.is_empty() {
        rows_to_bf16(level, source.after(whole), down, across, columns, rest);
    }
}

/// Rows of a panel from a strided source; `row` writes a whole contiguous one.
#[inline(always)]
fn fill<S: Copy, T: Copy>(
    source: &[S],
    (down, across): (usize, usize),
    columns: usize,
    out: &mut [T],
    row: impl Fn(&[S; PANEL], &mut [T; PANEL]),
    place: impl Fn(usize) -> usize,
    convert: impl Fn(S) -> T,
) {
    for (i, out) in out.chunks_exact_mut(PANEL).enumerate() {
        if across == 1 && columns == PANEL {
            let from = source[i * down..i * down + PANEL].try_into().expect("a whole row");
            row(from, out.try_into().expect("a whole row"));
        } else {
            for j in 0..columns {
                out[place(j)] = convert(source[i * down + j * across]);
            }
        }
    }
}

/// A row in the order of the columns.
#[inline(always)]
fn in_order<S: Copy>(from: &[S; PANEL], out: &mut [f32; PANEL], convert: impl Fn(S) -> f32) {
    for j in 0..PANEL {
        out[j] = convert(from[j]);
    }
}

/// A row with columns j and 16 + j side by side: made as 32-bit words, which vectorises.
#[inline(always)]
fn in_pairs<S: Copy>(from: &[S; PANEL], out: &mut [bf16; PANEL], convert: impl Fn(S) -> bf16) {
    const HALF: usize = PANEL / 2;
    let bits = |j: usize| convert(from[j]).to_bits() as u32;
    let words: [u32; HALF] = std::array::from_fn(|j| bits(j) | bits(HALF + j) << 16);
    for (j, word) in words.iter().enumerate() {
        out[2 * j] = bf16::from_bits(*word as u16);
        out[2 * j + 1] = bf16::from_bits((word >> 16) as u16);
    }
}

crate::multiversion! {
    fn rows_to_f32(source: Data<'_>, down: usize, across: usize, columns: usize, out: &mut [f32]) {
        let strides = (down, across);
        match source {
            Data::F32(x) => fill(x, strides, columns, out, |a, b| in_order(a, b, |x| x), |j| j, |x| x),
            Data::Bf16(x) => fill(x, strides, columns, out, |a, b| in_order(a, b, widen), |j| j, widen),
        }
    }

    fn rows_to_bf16(source: Data<'_>, down: usize, across: usize, columns: usize, out: &mut [bf16]) {
        let strides = (down, across);
        match source {
            Data::F32(x) => fill(x, strides, columns, out, |a, b| in_pairs(a, b, narrow), bf16_place, narrow),
            Data::Bf16(x) => fill(x, strides, columns, out, |a, b| in_pairs(a, b, |x| x), bf16_place, |x| x),
        }
    }
}
