//! The product itself: the call, its cut into tasks, and what one task does.

use super::blocks;
use super::epilogue::{Epilogue, Finish, Parts, Target};
use super::few_rows;
use super::int8::apply_scales;
use super::kernel::{self, Panel, Strip, Tile};
use super::matrix::{Matrix, MatrixMut};
use super::narrow_rows::{self, narrow_rows};
use super::pack_a::{self, pack_a};
use super::pack_b::{PackedB, Storage};
use super::row_sums::add_row_sums;
use super::statistics::{STATISTICS, parts_of_row};
use super::{PANEL, STRIP, k_blocks};
use crate::cpu::level::{Bf16Chain, Level};
use crate::cpu::scratch::Scratch;
use crate::cpu::threads::{Disjoint, Pool};
#[cfg(target_arch = "x86_64")]
use half::bf16;
use std::ops::Range;

/// Most strips of a task: 192 rows, 300 kB of packed A (200 in bf16), which stay in the second cache while
/// panels of B pass. A whole number of strips of AMX, too.
const MOST_STRIPS: usize = 16;
/// Strips down to which a task is made less tall before it is made narrower: wide tasks pack A less often.
const LEAST_STRIPS: usize = 8;
/// Most panels of a task: 512 columns. More would pack A less often but make the tile too large.
pub(super) const MOST_PANELS: usize = 16;
/// A few tasks for each thread, so that the last ones leave nobody idle for long.
const TASKS_PER_THREAD: usize = 3;
/// Elements of the packed part of A.
const PACKED_A: usize = MOST_STRIPS * STRIP * pack_a::ROW;
/// Elements from one row of the tile to the next.
pub(super) const TILE_ROW: usize = MOST_PANELS * PANEL;
/// Elements of the tile of C.
const TILE: usize = MOST_STRIPS * STRIP * TILE_ROW;

/// A product C[M N] = epilogue(A[M K] · B[K N]); K and N come from B.
#[derive(Debug)]
pub struct Gemm<'a> {
    /// Rows of A and C.
    pub m: usize,
    /// M by K; rounded to bf16 as it is read if B is stored so, to blocks of integers beside a B of blocks,
    /// and as it is beside a B of integers with a scale for each column.
    pub a: Matrix<'a>,
    /// K by N, packed.
    pub b: PackedB<'a>,
    /// M by N.
    pub out: MatrixMut<'a>,
    /// What happens before the result is stored.
    pub epilogue: Epilogue<'a>,
    /// Also the sum over k of each row of A, which is transposed then; added to what is there, as C is.
    pub row_sums: Option<&'a mut [f32]>,
}

impl<'a> Gemm<'a> {
    /// The plain product. With B stored as bf16 it is the bf16 product, summed in f32.
    pub fn new(m: usize, a: Matrix<'a>, b: PackedB<'a>, out: MatrixMut<'a>) -> Self {
        Gemm { m, a, b, out, epilogue: Epilogue::default(), row_sums: None }
    }

    /// The same product with an epilogue.
    pub fn with(self, epilogue: Epilogue<'a>) -> Self {
        Gemm { epilogue, ..self }
    }

    /// The same product with the sums of the rows of A.
    pub fn with_row_sums(self, row_sums: Option<&'a mut [f32]>) -> Self {
        Gemm { row_sums, ..self }
    }

    /// Bytes of scratch that each worker needs, whatever the sizes.
    pub const fn thread_scratch_bytes() -> usize {
        (PACKED_A + TILE) * 4
    }
}

/// Computes a product. Panics if sizes do not fit or the scratch has too few or too small slots.
///
/// With a scratch of one slot the whole product runs on the calling thread.
pub fn gemm(pool: &Pool, level: Level, call: Gemm<'_>, scratch: &mut Scratch<'_>) {
    let Gemm { m, a, b, out, epilogue, row_sums } = call;
    let (n, k) = (b.n, b.k);
    check(m, &a, &b, &out, &epilogue);
    if let Some(sums) = &row_sums {
        assert_eq!(sums.len(), m, "gemm: row sums, one for each row of A");
        assert!(a.row_stride == 1 || m == 1, "gemm: row sums are those of a transposed A");
        assert!(
            b.storage.form().is_none(),
            "gemm: row sums are those of an A that is not rounded to integers"
        );
    }
    assert!(
        scratch.slot_bytes() >= Gemm::thread_scratch_bytes(),
        "gemm: a worker needs {} bytes of scratch, got {}",
        Gemm::thread_scratch_bytes(),
        scratch.slot_bytes()
    );
    let alone = scratch.workers() == 1;
    assert!(
        alone || scratch.workers() >= pool.threads(),
        "gemm: scratch for {} workers, the pool has {}",
        scratch.workers(),
        pool.threads()
    );
    if m == 0 || (n == 0 && row_sums.is_none()) {
        return;
    }
    let few = few_rows::fits(level, b.storage, m, a.column_stride);
    let threads = if alone { 1 } else { pool.threads() };
    let statistics = epilogue.statistics.map(|statistics| Parts::new(statistics, n));
    // Tasks for few rows are narrow, so that all threads have some: their statistics are taken when all is
    // done.
    let narrow = few || Cut::is_short_of_parts(m, n, threads);
    let (statistics, at_the_end) = if narrow { (None, statistics) } else { (statistics, None) };
    let whole_parts = statistics.is_some();
    let product = Product {
        level,
        a,
        b,
        k,
        row_sums: row_sums.map(Disjoint::new),
        finish: Finish {
            scale: epilogue.scale,
            bias: epilogue.bias,
            pre: epilogue.pre.map(Target::new),
            activation: epilogue.activation,
            derivative: epilogue.derivative,
            residual: epilogue.residual,
            accumulate: epilogue.accumulate,
            out: Target::new(out),
            statistics,
        },
    };
    if n == 0 {
        k_blocks(k, b.storage).for_each(|block| product.sum_rows((0, m), 0, block));
        return;
    }
    let cut = if few {
        let panels = match b.storage.form() {
            Some(_) => blocks::panels_of_task(n, threads),
            None => few_rows::panels_of_task(level, b.storage, k),
        };
        Cut::few_rows(m, n, panels)
    } else {
        let unit = match (b.storage, kernel::bf16_strip(level)) {
            (Storage::Bf16, Some(strip)) => strip,
            _ => STRIP,
        };
        let cut = Cut::new(m, n, unit, threads, whole_parts);
        // A transposed A is no thread's own, and its parts are read again for each of the columns: then each
        // thread keeps to some columns instead.
        if a.column_stride == 1 { cut } else { Cut { parts: 1, ..cut } }
    };
    let scratch = &*scratch;
    let task = |task: usize, worker: usize| {
        // SAFETY: within a run a worker's number belongs to one thread, and `gemm` borrows the scratch alone.
        let slot = unsafe { scratch.worker(worker) };
        let (rows, columns) = cut.task(task, m, n);
        product.tile(rows, columns, cut.few, slot);
    };
    if alone {
        (0..cut.tasks()).for_each(|index| task(index, 0));
    } else {
        pool.run(cut.tasks(), &task);
    }
    if let Some(statistics) = at_the_end {
        // SAFETY: the tasks above are done, and each of these has a row of its own.
        let note = |row: usize, _: usize| unsafe { product.finish.note_row(level, &statistics, row, n) };
        if alone { (0..m).for_each(|row| note(row, 0)) } else { pool.run(m, &note) }
    }
}

fn check(m: usize, a: &Matrix<'_>, b: &PackedB<'_>, out: &MatrixMut<'_>, epilogue: &Epilogue<'_>) {
    let (n, k) = (b.n, b.k);
    a.check(m, k, "gemm: A");
    out.check(m, n, "gemm: C");
    if let Some(pre) = &epilogue.pre {
        pre.check(m, n, "gemm: pre");
    }
    if let Some(bias) = epilogue.bias {
        assert_eq!(bias.len(), n, "gemm: bias, one number for each column");
    }
    if let Some((_, z)) = &epilogue.derivative {
        z.check(m, n, "gemm: z");
        assert!(z.column_stride == 1 || n == 1, "gemm: the columns of z must be contiguous");
    }
    if let Some(residual) = &epilogue.residual {
        residual.check(m, n, "gemm: residual");
        assert!(residual.column_stride == 1 || n == 1, "gemm: the residual's columns must be contiguous");
    }
    let narrow = matches!(out.data, super::DataMut::Bf16(_));
    assert!(!(epilogue.accumulate && narrow), "gemm: only an f32 output can be added to");
    if let Some(statistics) = &epilogue.statistics {
        assert_eq!(
            statistics.parts.len(),
            m * parts_of_row(n) * STATISTICS,
            "gemm: statistics of every part"
        );
        assert!(!epilogue.accumulate && !narrow, "gemm: statistics are those of an f32 output, not added to");
    }
}

/// How a product is cut into tasks. The cut never shows in the bits.
#[derive(Clone, Copy)]
struct Cut {
    rows: usize,
    columns: usize,
    down: usize,
    across: usize,
    /// Runs of rows, one for each thread.
    parts: usize,
    /// All rows in every task, panels side by side.
    few: bool,
}

impl Cut {
    /// All rows by so many panels a task.
    fn few_rows(m: usize, n: usize, panels: usize) -> Cut {
        let columns = panels * PANEL;
        Cut { rows: m, columns, down: 1, across: n.div_ceil(columns), parts: 1, few: true }
    }

    /// Whether threads would wait if every task had a whole part of a row, or several.
    fn is_short_of_parts(m: usize, n: usize, threads: usize) -> bool {
        threads > 1 && m.div_ceil(STRIP) * parts_of_row(n) < TASKS_PER_THREAD * threads
    }

    /// For kernels that take `unit` rows at a time. Tasks with statistics have whole parts of a row, as wide
    /// as they can be.
    fn new(m: usize, n: usize, unit: usize, threads: usize, whole_parts: bool) -> Cut {
        let (strips, panels) = (m.div_ceil(STRIP), n.div_ceil(PANEL));
        let (mut tall, mut wide) = (MOST_STRIPS.min(strips), MOST_PANELS.min(panels));
        let enough = if threads == 1 { 1 } else { TASKS_PER_THREAD * threads };
        let narrow = if whole_parts { wide } else { 1 };
        while strips.div_ceil(tall) * panels.div_ceil(wide) < enough && (tall > 1 || wide > narrow) {
            if tall > LEAST_STRIPS || tall * STRIP > wide * PANEL || wide == narrow {
                tall = tall.div_ceil(2);
            } else {
                wide = wide.div_ceil(2);
            }
        }
        if threads > 1 {
            // Threads that end together: 22 tasks of 16 strips of which the last has five take two threads
            // eleven rounds of 16 strips, 38 of nine take them nineteen of 9, which is less. A task costs a
            // little beside its strips.
            let rounds = |tall: usize| (strips.div_ceil(tall) * panels.div_ceil(wide)).div_ceil(threads);
            let time = |&tall: &usize| rounds(tall) * ((tall * STRIP).next_multiple_of(unit) + unit / 4);
            tall = (tall.div_ceil(2)..=tall).rev().min_by_key(time).unwrap_or(tall);
        }
        // Equal shares: nine strips are 5 + 4, not 8 + 1.
        let (down, across) = (strips.div_ceil(tall), panels.div_ceil(wide));
        let (rows, columns) = (strips.div_ceil(down) * STRIP, panels.div_ceil(across) * PANEL);
        let (down, across) = (m.div_ceil(rows), n.div_ceil(columns));
        Cut { rows, columns, down, across, parts: threads.min(down).max(1), few: false }
    }

    fn tasks(&self) -> usize {
        self.down * self.across
    }

    /// First row and number of rows, first column and number of columns. Tasks of one thread have rows of
    /// their own, where there are enough; its neighbouring tasks share their panels of B.
    fn task(&self, index: usize, m: usize, n: usize) -> ((usize, usize), (usize, usize)) {
        let first = |part: usize| part * self.down / self.parts;
        let part = (1..self.parts).take_while(|&part| first(part) * self.across <= index).count();
        let (start, tall) = (first(part), first(part + 1) - first(part));
        let within = index - start * self.across;
        let (row, column) = ((start + within % tall) * self.rows, within / tall * self.columns);
        ((row, self.rows.min(m - row)), (column, self.columns.min(n - column)))
    }
}

pub(super) struct Product<'a> {
    pub level: Level,
    pub a: Matrix<'a>,
    pub b: PackedB<'a>,
    pub k: usize,
    row_sums: Option<Disjoint<'a, f32>>,
    finish: Finish<'a>,
}

impl Product<'_> {
    /// Rows `row..row + rows` by columns `column..column + columns`, from A and B to the stored result.
    fn tile(
        &self,
        (row, rows): (usize, usize),
        (column, columns): (usize, usize),
        few: bool,
        slot: &mut [u8],
    ) {
        // SAFETY: every bit pattern is an f32.
        let (_, floats, _) = unsafe { slot.align_to_mut::<f32>() };
        let (packed, tile) = floats.split_at_mut(PACKED_A);
        let tile = &mut tile[..TILE];
        let panels = column / PANEL..(column + columns).div_ceil(PANEL);
        if let Some(form) = self.b.storage.form() {
            return self.blocks(form, (row, rows), panels, packed, tile);
        }
        if few {
            k_blocks(self.k, self.b.storage)
                .for_each(|block| self.sum_rows((row, rows), panels.start, block));
            return self.few_rows(rows, panels, packed, tile);
        }
        assert!(rows <= MOST_STRIPS * STRIP && panels.len() <= MOST_PANELS);
        let storage = self.b.storage;
        let in_place = match storage {
            Storage::F32 | Storage::Bf16 => {
                // AMX adds to what is there from the first k on, not at the end.
                let adds_at_end = storage == Storage::F32 || self.level.bf16_chain() == Bf16Chain::Pairs;
                let one_sum = adds_at_end && k_blocks(self.k, storage).count() == 1;
                self.finish.in_place((row, rows), (column, columns), one_sum)
            }
            _ => None,
        };
        let to = in_place.unwrap_or(Tile { c: tile.as_mut_ptr(), stride: TILE_ROW, add: false });
        // SAFETY: `to` has these rows and whole panels, in scratch or in the output, where tasks cover
        // different rows or columns.
        unsafe {
            match kernel::bf16_strip(self.level) {
                #[cfg(target_arch = "x86_64")]
                Some(strip) if storage == Storage::Bf16 => {
                    self.multiply_bf16((row, rows), panels, strip, packed, to);
                }
                _ => self.multiply((row, rows), panels, packed, to),
            }
        }
        if in_place.is_some() {
            return;
        }
        for (r, values) in tile.chunks_exact_mut(TILE_ROW).take(rows).enumerate() {
            // SAFETY: tasks cover different rows or columns, so no other task works on these elements.
            unsafe { self.finish(values, (row + r, column), columns) };
        }
    }

    /// From the sums of `columns` columns of one row, from `column` on, to the stored result.
    ///
    /// # Safety
    /// No other task works on these elements of the outputs at the same time.
    pub(super) unsafe fn finish(&self, sums: &mut [f32], (row, column): (usize, usize), columns: usize) {
        let sums = &mut sums[..columns];
        for (place, sums) in sums.chunks_mut(PANEL).enumerate() {
            if let Some(scales) = self.b.scales(column / PANEL + place) {
                apply_scales(self.level, sums, scales);
            }
        }
        // SAFETY: passed on to the caller.
        unsafe { self.finish.row(self.level, sums, row, column) };
    }

    /// The sums of these rows of A over a block of k, by the task of the first panel.
    fn sum_rows(&self, (row, rows): (usize, usize), first_panel: usize, (start, size): (usize, usize)) {
        let Some(sums) = self.row_sums.as_ref().filter(|_| first_panel == 0) else { return };
        // SAFETY: of all tasks with these rows only one begins with the first panel.
        let sums = unsafe { sums.range(row..row + rows) };
        if start == 0 && !self.finish.accumulate {
            sums.fill(0.0);
        }
        add_row_sums(self.level, &self.a, row, (start, size), sums);
    }

    /// The sums of a tile, A as f32.
    ///
    /// # Safety
    /// The tile has `rows` rows of whole panels that nobody else uses.
    unsafe fn multiply(
        &self,
        (row, rows): (usize, usize),
        panels: Range<usize>,
        packed: &mut [f32],
        tile: Tile,
    ) {
        let storage = self.b.storage;
        let round = storage == Storage::Bf16;
        for (index, (start, size)) in k_blocks(self.k, storage).enumerate() {
            let in_place = if round { None } else { pack_a::rows_in_place(&self.a, row, (start, size)) };
            let (a, strip, apart) = match in_place {
                Some(rows) => (rows, Strip::Rows(self.a.row_stride), STRIP * self.a.row_stride),
                None => {
                    let (strip, apart) =
                        pack_a(self.level, &self.a, round, (row, rows), (start, size), packed);
                    (&*packed, strip, apart)
                }
            };
            self.sum_rows((row, rows), panels.start, (start, size));
            let tile = Tile { add: tile.add || index > 0, ..tile };
            for (place, panel) in panels.clone().enumerate() {
                let b = match storage {
                    Storage::F32 => Panel::F32(self.b.part(panel, start, size).cast()),
                    Storage::Bf16 => Panel::Bf16(self.b.part(panel, start, size).cast()),
                    _ => Panel::Int8(self.b.part(panel, start, size).cast()),
                };
                for (number, first) in (0..rows).step_by(STRIP).enumerate() {
                    let a = a[number * apart..].as_ptr();
                    let count = STRIP.min(rows - first);
                    // SAFETY: A has `rows` rows of `size` there, which `check` saw or `pack_a` wrote; `part`
                    // checked that B has `size` rows; the caller vouches for the tile.
                    unsafe {
                        let to = tile.after(first, place * PANEL);
                        to.fetch(count);
                        kernel::multiply(self.level, count, size, a, strip, b, to);
                    }
                }
            }
        }
    }

    /// The sums of a tile, A as bf16.
    ///
    /// # Safety
    /// As [`Self::multiply`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn multiply_bf16(
        &self,
        (row, rows): (usize, usize),
        panels: Range<usize>,
        strip: usize,
        packed: &mut [f32],
        tile: Tile,
    ) {
        // SAFETY: every bit pattern is two bf16.
        let packed = unsafe { packed.align_to_mut::<bf16>() }.1;
        let mut kernel = kernel::Bf16Kernel::new(self.level);
        for (index, (start, size)) in k_blocks(self.k, Storage::Bf16).enumerate() {
            let in_place = narrow_rows::rows_in_place(&self.a, row, (start, size), strip);
            let (a, apart) = match in_place {
                Some(rows) => (rows, self.a.row_stride),
                None => {
                    let to = pack_a::ROW_BF16;
                    narrow_rows(self.level, &self.a, (row, rows), (start, size), packed, to);
                    (&*packed, to)
                }
            };
            self.sum_rows((row, rows), panels.start, (start, size));
            let tile = Tile { add: tile.add || index > 0, ..tile };
            for (place, panel) in panels.clone().enumerate() {
                let b = self.b.part(panel, start, size).cast();
                for first in (0..rows).step_by(strip) {
                    let a = a[first * apart..].as_ptr();
                    let count = strip.min(rows - first);
                    // SAFETY: A has `rows` rows of `size` there, which `check` saw and which are whole tiles,
                    // or which `narrow_rows` wrote with zeros behind; `part` checked that B has `size` rows;
                    // the caller vouches for the tile.
                    unsafe {
                        let to = tile.after(first, place * PANEL);
                        to.fetch(count);
                        kernel.multiply(count, size, a, apart, b, to);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::columns_of_part;
    use super::*;

    /// Whatever the threads and however rows are shared out among them, tasks cover C once.
    #[test]
    fn tasks_cover_every_element_once() {
        for (m, n, threads) in [(1, 1, 1), (12, 40, 2), (250, 1030, 2), (409, 96, 3), (700, 600, 16)] {
            let cut = Cut::new(m, n, STRIP, threads, false);
            let whole = Cut::new(m, n, STRIP, threads, true);
            assert_eq!(whole.columns, columns_of_part(n), "{m} x {n}, {threads} threads");
            for cut in [Cut { parts: 1, ..cut }, cut, whole] {
                let mut seen = vec![0u8; m * n];
                for index in 0..cut.tasks() {
                    let ((row, rows), (column, columns)) = cut.task(index, m, n);
                    for r in row..row + rows {
                        seen[r * n + column..r * n + column + columns].iter_mut().for_each(|seen| *seen += 1);
                    }
                }
                assert!(
                    seen.iter().all(|&seen| seen == 1),
                    "{m} x {n}, {threads} threads, {} parts",
                    cut.parts
                );
            }
        }
    }
}
