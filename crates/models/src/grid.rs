//! Learned positions of a grid of patches, for another grid: a table becomes a table. Bicubic with a = −0.75
//! and pixel centres at halves, as PyTorch's `interpolate(mode="bicubic", align_corners=False)`, which ViTs
//! use at other sizes.

use regard_graph::{Error, Result};

/// The positions of patches on `from` = [rows, columns], moved to another grid: `[1 + P C]` -> `[1 + P′ C]`
/// row-major. The first row is that of the class token and stays. On the same grid the table stays as it is,
/// to the bit.
pub fn interpolate_positions(
    table: &[f32],
    width: usize,
    from: [usize; 2],
    to: [usize; 2],
) -> Result<Vec<f32>> {
    let numbers = |[rows, columns]: [usize; 2]| {
        let patches = rows.checked_mul(columns).filter(|&patches| patches > 0)?;
        patches.checked_add(1)?.checked_mul(width).filter(|&count| count > 0)
    };
    let mut moved = Vec::new();
    let fits = numbers(from) == Some(table.len())
        && numbers(to).is_some_and(|count| moved.try_reserve_exact(count).is_ok());
    if !fits {
        let ([rows, columns], [new_rows, new_columns]) = (from, to);
        return Err(Error::invalid(
            "positions",
            format!(
                "a table of {} numbers of width {width}, from a grid of {rows} by {columns} to one of {new_rows} by \
                 {new_columns}",
                table.len(),
            ),
            "give a row for the class token and one for each patch of the grid, and grids of at least 1 by 1",
        ));
    }
    if from == to {
        return Ok(table.to_vec());
    }
    let (class, patches) = table.split_at(width);
    let (down, across) = (taps(from[0], to[0]), taps(from[1], to[1]));
    moved.extend_from_slice(class);
    for vertical in &down {
        for horizontal in &across {
            moved.extend((0..width).map(|channel| {
                let at =
                    |row: usize, column: usize| patches[(row * from[1] + column) * width + channel] as f64;
                let along =
                    |row: usize| horizontal.iter().map(|&(column, w)| w * at(row, column)).sum::<f64>();
                vertical.iter().map(|&(row, w)| w * along(row)).sum::<f64>() as f32
            }));
        }
    }
    Ok(moved)
}

/// The same as a matrix `[P′ P]` row-major, by which the positions of patches `[P C]` are multiplied.
pub(crate) fn interpolation(from: [usize; 2], to: [usize; 2]) -> Vec<f64> {
    let (down, across) = (taps(from[0], to[0]), taps(from[1], to[1]));
    let mut matrix = Vec::new();
    for vertical in &down {
        for horizontal in &across {
            let mut line = vec![0.0; from[0] * from[1]];
            for &(row, w) in vertical {
                horizontal.iter().for_each(|&(column, v)| line[row * from[1] + column] += w * v);
            }
            matrix.append(&mut line);
        }
    }
    matrix
}

/// For each new place along an axis the four old ones that it is made of, with their weights; places beyond
/// the edge are those at the edge.
fn taps(from: usize, to: usize) -> Vec<[(usize, f64); 4]> {
    let ratio = from as f64 / to as f64;
    (0..to)
        .map(|place| {
            let centre = (place as f64 + 0.5) * ratio - 0.5;
            let first = centre.floor();
            [-1.0, 0.0, 1.0, 2.0].map(|step| {
                let old = (first + step).clamp(0.0, (from - 1) as f64);
                (old as usize, cubic((centre - first - step).abs()))
            })
        })
        .collect()
}

/// Keys' cubic kernel with a = −0.75, for distances up to 2.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.75;
    if x <= 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else {
        ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(patches: usize, width: usize) -> Vec<f32> {
        (0..(1 + patches) * width).map(|i| ((i * i + 3 * i) % 17) as f32 / 7.0 - 1.0).collect()
    }

    #[test]
    fn the_same_grid_changes_nothing() {
        for grid in [[1, 1], [2, 8], [5, 7]] {
            let table = table(grid[0] * grid[1], 3);
            assert_eq!(interpolate_positions(&table, 3, grid, grid).unwrap(), table);
            // Nor would the formula itself: at whole distances the kernel is 1 or 0.
            assert!(taps(grid[1], grid[1]).iter().enumerate().all(|(place, taps)| {
                taps.iter().all(|&(old, w)| w == 0.0 || (w == 1.0 && old == place))
            }));
        }
    }

    #[test]
    fn weights_add_up_to_one() {
        for (from, to) in [(2, 4), (8, 4), (5, 9), (7, 3), (1, 6)] {
            for taps in taps(from, to) {
                assert!((taps.iter().map(|(_, w)| w).sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn the_matrix_moves_a_table_as_the_function_does() {
        for (from, to) in [([2, 8], [4, 4]), ([3, 3], [7, 8]), ([4, 4], [2, 3])] {
            let (table, patches) = (table(from[0] * from[1], 2), from[0] * from[1]);
            let wanted = interpolate_positions(&table, 2, from, to).unwrap();
            let matrix = interpolation(from, to);
            for (place, line) in matrix.chunks(patches).enumerate() {
                for channel in 0..2 {
                    let rows = line.iter().zip(table[2 + channel..].iter().step_by(2));
                    let got = rows.map(|(w, x)| w * f64::from(*x)).sum::<f64>();
                    assert!((got - f64::from(wanted[2 + place * 2 + channel])).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn a_grid_with_as_many_patches_is_another_grid() {
        let flat = table(16, 2);
        let square = interpolate_positions(&flat, 2, [2, 8], [4, 4]).unwrap();
        assert_eq!(square.len(), flat.len());
        assert_ne!(square, flat);
        assert_eq!(square[..2], flat[..2], "the class token's row stays");
        // Rows and columns exchanged before are rows and columns exchanged after.
        let turned = |t: &[f32], [rows, columns]: [usize; 2]| -> Vec<f32> {
            let mut out = t[..2].to_vec();
            for c in 0..columns {
                for r in 0..rows {
                    out.extend_from_slice(&t[2 + (r * columns + c) * 2..][..2]);
                }
            }
            out
        };
        let other = interpolate_positions(&turned(&flat, [2, 8]), 2, [8, 2], [4, 4]).unwrap();
        for (a, b) in other.iter().zip(turned(&square, [4, 4])) {
            assert!((a - b).abs() < 1e-6);
        }
    }

    #[test]
    fn tables_that_are_no_grid_are_refused() {
        assert_eq!(
            interpolate_positions(&[0.0; 30], 3, [3, 4], [6, 6]).unwrap_err().to_string(),
            "positions: a table of 30 numbers of width 3, from a grid of 3 by 4 to one of 6 by 6; give a row for the \
             class token and one for each patch of the grid, and grids of at least 1 by 1"
        );
        assert!(interpolate_positions(&[0.0; 3], 3, [0, 4], [6, 6]).is_err());
        assert!(interpolate_positions(&[0.0; 15], 3, [2, 2], [2, 0]).is_err());
        assert!(interpolate_positions(&[], 0, [2, 2], [2, 1]).is_err());
        assert!(interpolate_positions(&[0.0; 15], 3, [2, 2], [1 << 40, 1 << 40]).is_err());
        assert!(interpolate_positions(&[0.0; 15], 3, [2, 2], [1 << 30, 1 << 30]).is_err());
    }
}
