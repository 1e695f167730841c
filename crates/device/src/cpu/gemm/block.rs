//! The product of one small tile on the calling thread, for attention: rows of A straight from memory, B in
//! panels, the same chains as the large product.

use super::kernel::{self, Panel, Strip, Tile};
use super::{BLOCK_BF16, PANEL, STRIP, Storage, TILE_K, k_blocks};
use crate::cpu::convert::widen;
use crate::cpu::level::Level;
use half::bf16;

/// Rows of the largest strip.
const MOST_ROWS: usize = 32;

/// C and whether to add to it.
pub(super) struct Into<'a> {
    pub c: &'a mut [f32],
    pub stride: usize,
    pub accumulate: bool,
}

impl Into<'_> {
    fn check(&self, m: usize, n: usize) {
        assert!((m - 1) * self.stride + n <= self.c.len(), "block: C is {m} x {n}, got {}", self.c.len());
        assert!(m == 1 || self.stride >= n, "block: rows of C overlap");
    }

    /// Lets `multiply` write `rows` rows from `row` on of one panel, by way of a tile of whole panels at the
    /// edge.
    #[inline(always)]
    fn panel(
        &mut self,
        (row, rows): (usize, usize),
        panel: usize,
        n: usize,
        add: bool,
        multiply: impl FnOnce(Tile),
    ) {
        let columns = PANEL.min(n - panel * PANEL);
        let corner = row * self.stride + panel * PANEL;
        if columns == PANEL {
            return multiply(Tile { c: self.c[corner..].as_mut_ptr(), stride: self.stride, add });
        }
        self.edge(rows, (corner, columns), add, multiply);
    }

    /// The same for fewer columns than a panel has.
    #[cold]
    fn edge(
        &mut self,
        rows: usize,
        (corner, columns): (usize, usize),
        add: bool,
        multiply: impl FnOnce(Tile),
    ) {
        let mut edge = [0.0f32; MOST_ROWS * PANEL];
        if add {
            for (r, edge) in edge.chunks_exact_mut(PANEL).take(rows).enumerate() {
                edge[..columns].copy_from_slice(&self.c[corner + r * self.stride..][..columns]);
            }
        }
        multiply(Tile { c: edge.as_mut_ptr(), stride: PANEL, add });
        for (r, edge) in edge.chunks_exact(PANEL).take(rows).enumerate() {
            self.c[corner + r * self.stride..][..columns].copy_from_slice(&edge[..columns]);
        }
    }
}

/// f32 throughout; the sizes of A and B were checked.
pub(super) fn f32_block(
    level: Level,
    [m, n, k]: [usize; 3],
    a: &[f32],
    stride: usize,
    panels: &[f32],
    mut into: Into<'_>,
) {
    if m == 0 || n == 0 {
        return;
    }
    assert!(k == 0 || (m - 1) * stride + k <= a.len(), "block: A is {m} x {k}, got {}", a.len());
    assert!(panels.len() >= n.div_ceil(PANEL) * PANEL * k, "block: B is {k} x {n}, got {}", panels.len());
    into.check(m, n);
    for (index, (start, size)) in k_blocks(k, Storage::F32).enumerate() {
        let add = into.accumulate || index > 0;
        for panel in 0..n.div_ceil(PANEL) {
            let b = Panel::F32(panels[(panel * k + start) * PANEL..].as_ptr());
            for row in (0..m).step_by(STRIP) {
                let rows = STRIP.min(m - row);
                // With k = 0 nothing is read.
                let a = a.get(row * stride + start..).unwrap_or(&[]).as_ptr();
                into.panel((row, rows), panel, n, add, |tile| {
                    // SAFETY: the sizes of A, B and C were checked above; this panel of the tile is whole.
                    unsafe { kernel::multiply(level, rows, size, a, Strip::Rows(stride), b, tile) };
                });
            }
        }
    }
}

/// bf16 operands, f32 sums: at levels without products of bf16, strips of A are widened on their way.
pub(super) fn bf16_block(
    level: Level,
    [m, n, k]: [usize; 3],
    a: &[bf16],
    stride: usize,
    panels: &[bf16],
    mut into: Into<'_>,
) {
    if m == 0 || n == 0 {
        return;
    }
    let (whole, paired) = (k.next_multiple_of(TILE_K), k.next_multiple_of(2));
    assert!(k == 0 || (m - 1) * stride + whole <= a.len(), "block: A is {m} x {whole}, got {}", a.len());
    assert!(m == 1 || stride >= whole, "block: rows of A are {stride} apart, {whole} or more are needed");
    assert!(
        panels.len() >= n.div_ceil(PANEL) * PANEL * paired,
        "block: B is {k} x {n}, got {}",
        panels.len()
    );
    assert!((panels.as_ptr() as usize).is_multiple_of(4), "block: B is not aligned to 4 bytes");
    into.check(m, n);
    for (index, (start, size)) in k_blocks(k, Storage::Bf16).enumerate() {
        let add = into.accumulate || index > 0;
        let panel_at = |panel: usize| panels[(panel * paired + start) * PANEL..].as_ptr().cast::<u32>();
        #[cfg(target_arch = "x86_64")]
        if let Some(strip) = kernel::bf16_strip(level) {
            let mut kernel = kernel::Bf16Kernel::new(level);
            for row in (0..m).step_by(strip) {
                let rows = strip.min(m - row);
                let a = a.get(row * stride + start..).unwrap_or(&[]).as_ptr();
                for panel in 0..n.div_ceil(PANEL) {
                    let b = panel_at(panel);
                    into.panel((row, rows), panel, n, add, |tile| {
                        // SAFETY: the sizes of A, B and C were checked above; this panel of the tile is
                        // whole; that rows end with zeros is part of what an operand of bf16 is.
                        unsafe { kernel.multiply(rows, size, a, stride, b, tile) };
                    });
                }
            }
            continue;
        }
        let mut wide = [0.0f32; STRIP * BLOCK_BF16];
        for row in (0..m).step_by(STRIP) {
            let rows = STRIP.min(m - row);
            for r in 0..rows {
                let from = a.get((row + r) * stride + start..).unwrap_or(&[]);
                wide[r * BLOCK_BF16..]
                    .iter_mut()
                    .zip(from.iter().take(size))
                    .for_each(|(x, y)| *x = widen(*y));
            }
            for panel in 0..n.div_ceil(PANEL) {
                let (a, b) = (wide.as_ptr(), Panel::Bf16(panel_at(panel)));
                into.panel((row, rows), panel, n, add, |tile| {
                    // SAFETY: as above; the strip is as wide as the largest block.
                    unsafe { kernel::multiply(level, rows, size, a, Strip::Rows(BLOCK_BF16), b, tile) };
                });
            }
        }
    }
}
