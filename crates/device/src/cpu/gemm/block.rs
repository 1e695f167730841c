//! The product of one small tile on the calling thread, for attention: rows of A straight from memory, B in
//! f32 panels, the same chains as the large product.

use super::kernel::{self, Panel, Strip, Tile};
use super::{PANEL, STRIP, k_blocks, panel_floats};
use crate::cpu::level::Level;

/// `C[m n] = A[m k] · B[k n]`, or `C += …` with `accumulate`, on the calling thread. B lies in panels as
/// `pack_panel_rows` and `pack_panel_columns` write them. Panics if sizes do not fit.
#[allow(clippy::too_many_arguments)]
pub fn block(
    level: Level,
    m: usize,
    n: usize,
    k: usize,
    a: &[f32],
    a_row_stride: usize,
    b_panels: &[f32],
    c: &mut [f32],
    c_row_stride: usize,
    accumulate: bool,
) {
    if m == 0 || n == 0 {
        return;
    }
    assert!(k == 0 || (m - 1) * a_row_stride + k <= a.len(), "block: A is {m} x {k}, got {}", a.len());
    assert!(b_panels.len() >= panel_floats(k, n), "block: B is {k} x {n}, got {}", b_panels.len());
    assert!((m - 1) * c_row_stride + n <= c.len(), "block: C is {m} x {n}, got {}", c.len());
    assert!(m == 1 || c_row_stride >= n, "block: rows of C overlap");
    for (index, (start, size)) in k_blocks(k).enumerate() {
        let add = accumulate || index > 0;
        for panel in 0..n.div_ceil(PANEL) {
            let columns = PANEL.min(n - panel * PANEL);
            let b = Panel::F32(b_panels[(panel * k + start) * PANEL..].as_ptr());
            for row in (0..m).step_by(STRIP) {
                let rows = STRIP.min(m - row);
                // With k = 0 nothing is read.
                let a = a.get(row * a_row_stride + start..).unwrap_or(&[]).as_ptr();
                let strip = Strip::Rows(a_row_stride);
                let corner = row * c_row_stride + panel * PANEL;
                if columns == PANEL {
                    let tile = Tile { c: c[corner..].as_mut_ptr(), stride: c_row_stride, add };
                    // SAFETY: the sizes of A, B and C were checked above; this panel is whole.
                    unsafe { kernel::multiply(level, rows, size, a, strip, b, tile) };
                } else {
                    let mut edge = [0.0f32; STRIP * PANEL];
                    let tile = Tile { c: edge.as_mut_ptr(), stride: PANEL, add: false };
                    // SAFETY: as above, into a tile that is wide enough.
                    unsafe { kernel::multiply(level, rows, size, a, strip, b, tile) };
                    for (r, edge) in edge.chunks_exact(PANEL).take(rows).enumerate() {
                        let row = &mut c[corner + r * c_row_stride..][..columns];
                        row.iter_mut().zip(edge).for_each(|(c, x)| *c = if add { *c + x } else { *x });
                    }
                }
            }
        }
    }
}
