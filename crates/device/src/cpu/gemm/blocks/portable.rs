//! The kernel in plain Rust: a row by 32 columns, block by block.

use super::super::PANEL;
use super::super::kernel::Tile;
use super::{BLOCK, Form, Rows};
use half::f16;

/// # Safety
/// As [`super::multiply`], with one panel.
pub(super) unsafe fn multiply(form: Form, rows: usize, a: Rows, b: *const u8, tile: Tile) {
    for row in 0..rows {
        // SAFETY: all addresses are inside the rows, the panel and the tile, whose sizes the caller vouches
        // for.
        unsafe {
            let to = std::slice::from_raw_parts_mut(tile.c.add(row * tile.stride), PANEL);
            let mut sums = [0.0f32; PANEL];
            if tile.add {
                sums.copy_from_slice(to);
            }
            for block in 0..a.blocks {
                let cell = std::slice::from_raw_parts(b.add(block * form.cell_bytes()), form.cell_bytes());
                let x = std::slice::from_raw_parts(a.integers(row, block), BLOCK);
                add_block(form, cell, x, (a.scale(row, block), a.sum(row, block)), &mut sums);
            }
            to.copy_from_slice(&sums);
        }
    }
}

/// Adds the products of one block to the sums of 32 columns.
fn add_block(form: Form, cell: &[u8], x: &[u8], (scale, sum): (f32, i32), sums: &mut [f32; PANEL]) {
    let (head, body) = cell.split_at(form.head());
    let half = |at: usize| f16::from_le_bytes([head[2 * at], head[2 * at + 1]]).to_f32();
    let x = |k: usize| i32::from(x[k] as i8);
    for (j, total) in sums.iter_mut().enumerate() {
        let byte = |group: usize, t: usize| i32::from(body[(group * PANEL + j) * 4 + t]);
        match form {
            Form::Q8 => {
                let products = (0..BLOCK).map(|k| byte(k / 4, k % 4) * x(k));
                let exact = (sum + products.sum::<i32>()) as f32;
                *total = exact.mul_add(half(j) * scale, *total);
            }
            Form::Q4 => {
                let half_block = BLOCK / 2;
                let low = (0..half_block).map(|k| (byte(k / 4, k % 4) & 15) * x(k));
                let high = (0..half_block).map(|k| (byte(k / 4, k % 4) >> 4) * x(half_block + k));
                let exact = (low.sum::<i32>() + high.sum::<i32>()) as f32;
                *total = exact.mul_add(half(j) * scale, *total);
                *total = half(PANEL + j).mul_add(f32::from_bits(sum as u32), *total);
            }
        }
    }
}
