//! The panels of B: 32 columns each, k rows of 32 one after the other, the last panel filled up with zeros. A
//! bf16 panel keeps two neighbouring k side by side, as [`super::pairs`] says; one of integers begins with
//! its scales, as [`super::int8`] says; one of blocks is as [`super::blocks`] says.

use super::blocks::{self, Form};
use super::matrix::{Data, Matrix};
use super::transpose::{TALL, turn};
use super::{PANEL, int8, pairs};
use crate::cpu::convert::widen;
use crate::cpu::level::Level;
use crate::cpu::threads::Pool;
use std::ops::Range;

/// How the numbers of a packed B are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// As f32.
    F32,
    /// Rounded to bf16.
    Bf16,
    /// As 8-bit integers times one scale for each column.
    Int8,
    /// As 8-bit integers, 32 neighbours of a column times a scale of their own; A is rounded likewise.
    Q8,
    /// As 4-bit integers, 32 neighbours of a column times a scale plus a least number of their own; A is
    /// rounded to 8 bits.
    Q4,
}

impl Storage {
    /// Bytes of one number, in whole bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Storage::F32 => 4,
            Storage::Bf16 => 2,
            Storage::Int8 | Storage::Q8 | Storage::Q4 => 1,
        }
    }

    /// What its blocks hold, if it has any.
    pub(super) const fn form(self) -> Option<Form> {
        match self {
            Storage::F32 | Storage::Bf16 | Storage::Int8 => None,
            Storage::Q8 => Some(Form::Q8),
            Storage::Q4 => Some(Form::Q4),
        }
    }

    /// K as it is stored: bf16 comes in pairs.
    const fn rows(self, k: usize) -> usize {
        match self {
            Storage::F32 | Storage::Int8 => k,
            Storage::Bf16 => k.next_multiple_of(2),
            Storage::Q8 | Storage::Q4 => k.next_multiple_of(blocks::BLOCK),
        }
    }

    /// Bytes of one panel.
    const fn panel_bytes(self, k: usize) -> usize {
        match self {
            Storage::F32 | Storage::Bf16 => self.rows(k) * PANEL * self.bytes(),
            Storage::Int8 => int8::panel_bytes(k),
            Storage::Q8 => k.div_ceil(blocks::BLOCK) * Form::Q8.cell_bytes(),
            Storage::Q4 => k.div_ceil(blocks::BLOCK) * Form::Q4.cell_bytes(),
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
        assert!((bytes.as_ptr() as usize).is_multiple_of(4), "packed B is not aligned to 4 bytes");
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

    /// Rows `start..start + size` of one panel; `start` is even.
    pub(super) fn part(&self, panel: usize, start: usize, size: usize) -> *const u8 {
        let bytes = self.storage.bytes();
        let head = if self.storage == Storage::Int8 { int8::SCALES } else { 0 };
        let first = panel * self.apart() + head + start * PANEL * bytes;
        self.bytes[first..first + self.storage.rows(size) * PANEL * bytes].as_ptr()
    }

    /// Some panels of blocks from block `first` on: where the first of them begins. `count` blocks of each
    /// are there.
    pub(super) fn blocks(&self, panels: Range<usize>, first: usize, count: usize) -> *const u8 {
        let cell = self.storage.form().map_or(0, Form::cell_bytes);
        let last = panels.end.saturating_sub(1).max(panels.start) * self.apart() + first * cell;
        assert!(last + count * cell <= self.bytes.len());
        self.bytes[panels.start * self.apart() + first * cell..].as_ptr()
    }

    /// Bytes from one panel to the next.
    pub(super) fn apart(&self) -> usize {
        self.storage.panel_bytes(self.k)
    }

    /// The scales of the columns of one panel, as bytes of f32; none unless they are stored as integers.
    pub(super) fn scales(&self, panel: usize) -> Option<&'a [u8]> {
        (self.storage == Storage::Int8).then(|| &self.bytes[panel * self.apart()..][..int8::SCALES])
    }
}

/// Bytes of a packed K by N matrix.
pub const fn packed_b_bytes(k: usize, n: usize, storage: Storage) -> usize {
    n.div_ceil(PANEL) * storage.panel_bytes(k)
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
    if storage == Storage::Int8 {
        return int8::pack(pool, level, source, k, n, out);
    }
    if let Some(form) = storage.form() {
        return blocks::pack(pool, level, source, form, (k, n), out);
    }
    // SAFETY: every bit pattern is an f32 or a pair of bf16; unaligned ends are refused below.
    match (storage, unsafe { out.align_to_mut::<u32>() }) {
        (Storage::F32, ([], out, [])) => {
            // SAFETY: u32 and f32 have the same size and alignment, and every bit pattern is valid for both.
            let out = unsafe { out.align_to_mut::<f32>() }.1;
            pack_panels(pool, source, (k, n), k, out, |data, strides, _, columns, out| {
                panel_f32(level, data, strides, columns, out);
            });
        }
        (Storage::Bf16, ([], out, [])) => {
            pack_panels(pool, source, (k, n), k.div_ceil(2), out, |data, strides, rows, columns, out| {
                pairs::fill(level, data, strides, rows, columns, out);
            });
        }
        _ => panic!("packed B is not aligned to 4 bytes"),
    }
}

/// Packs one part of one panel: source from its first element on, strides down and across, rows of the
/// source, columns, out.
type PackPart<'a, T> = dyn Fn(Data<'_>, (usize, usize), usize, usize, &mut [T]) + Sync + 'a;

/// All panels, each of `tall` rows of 32: one row for each k, or for each pair of k.
fn pack_panels<T: Send>(
    pool: &Pool,
    source: Matrix<'_>,
    (k, n): (usize, usize),
    tall: usize,
    out: &mut [T],
    part: impl Fn(Data<'_>, (usize, usize), usize, usize, &mut [T]) + Sync,
) {
    let part: &PackPart<'_, T> = &part;
    let (down, across) = (source.row_stride, source.column_stride);
    let each = k.div_ceil(tall.max(1));
    // Some hundred kilobytes a task: enough to be worth a claim, small enough to share out.
    let rows_per_task = 1024;
    pool.rows(out, PANEL, rows_per_task, |first, out, _| {
        let (mut row, mut rest) = (first, out);
        while !rest.is_empty() {
            let (panel, start) = (row / tall, row % tall);
            let rows = (tall - start).min(rest.len() / PANEL);
            let (out, after) = rest.split_at_mut(rows * PANEL);
            let columns = PANEL.min(n - panel * PANEL);
            let from = start * each * down + panel * PANEL * across;
            let source_rows = (rows * each).min(k - start * each);
            part(source.data.after(from), (down, across), source_rows, columns, out);
            (row, rest) = (row + rows, after);
        }
    });
}

/// All panels of a matrix, on the calling thread.
pub(super) fn panels_f32(level: Level, source: Matrix<'_>, k: usize, n: usize, out: &mut [f32]) {
    if k == 0 {
        return;
    }
    for (panel, out) in out.chunks_exact_mut(k * PANEL).take(n.div_ceil(PANEL)).enumerate() {
        let data = source.data.after(panel * PANEL * source.column_stride);
        let columns = PANEL.min(n - panel * PANEL);
        panel_f32(level, data, (source.row_stride, source.column_stride), columns, out);
    }
}

/// All panels of a matrix as pairs, on the calling thread.
pub(super) fn panels_bf16(level: Level, source: Matrix<'_>, k: usize, n: usize, out: &mut [u32]) {
    if k == 0 {
        return;
    }
    for (panel, out) in out.chunks_exact_mut(k.div_ceil(2) * PANEL).take(n.div_ceil(PANEL)).enumerate() {
        let data = source.data.after(panel * PANEL * source.column_stride);
        let columns = PANEL.min(n - panel * PANEL);
        pairs::fill(level, data, (source.row_stride, source.column_stride), k, columns, out);
    }
}

/// Fills the rows of one panel: contiguous rows at once, a transposed source sixteen rows at a time.
pub(super) fn panel_f32(
    level: Level,
    source: Data<'_>,
    (down, across): (usize, usize),
    columns: usize,
    out: &mut [f32],
) {
    if columns < PANEL {
        out.fill(0.0);
    }
    if down != 1 || across == 1 {
        return rows_to_f32(level, source, down, across, columns, out);
    }
    let whole = out.len() / PANEL / TALL * TALL;
    let (tall, rest) = out.split_at_mut(whole * PANEL);
    for (i, out) in tall.chunks_exact_mut(TALL * PANEL).enumerate() {
        turn(level, source.after(i * TALL), across, columns, out, PANEL);
    }
    if !rest.is_empty() {
        rows_to_f32(level, source.after(whole), down, across, columns, rest);
    }
}

/// Rows of a panel from a strided source.
#[inline(always)]
fn fill<S: Copy>(
    source: &[S],
    (down, across): (usize, usize),
    columns: usize,
    out: &mut [f32],
    convert: impl Fn(S) -> f32,
) {
    for (i, out) in out.chunks_exact_mut(PANEL).enumerate() {
        if across == 1 && columns == PANEL {
            // Of known length, which vectorises.
            let from: &[S; PANEL] = source[i * down..i * down + PANEL].try_into().expect("a whole row");
            for j in 0..PANEL {
                out[j] = convert(from[j]);
            }
        } else {
            for j in 0..columns {
                out[j] = convert(source[i * down + j * across]);
            }
        }
    }
}

crate::multiversion! {
    fn rows_to_f32(source: Data<'_>, down: usize, across: usize, columns: usize, out: &mut [f32]) {
        match source {
            Data::F32(x) => fill(x, (down, across), columns, out, |x| x),
            Data::Bf16(x) => fill(x, (down, across), columns, out, widen),
        }
    }
}
