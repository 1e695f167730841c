//! Jacobians of recorded functions, row by row by the gradient reader, and their singular values.

use crate::compute::{array, dot};
use regard::Result;
use regard::prelude::*;
use regard::reference::{self, Mode};

/// The Jacobian of a function of `x` (of shape `dims`) at a point: a row for each number of the result.
pub fn jacobian(
    dims: &[usize],
    x: &[f64],
    stored: &Feed,
    record: impl FnOnce(&mut Graph, Var) -> regard_graph::Result<Var>,
) -> Result<Vec<f64>> {
    let mut g = Graph::new();
    let input = g.input_with_gradient("x", dims)?;
    let y = record(&mut g, input)?;
    let shape = g.shape(y).bound();
    let pick = g.input("pick", DType::F32, &shape[..])?;
    let picked = g.mul(y, pick)?;
    let one = g.sum_all(picked)?;
    let gradient = g.gradient(one, &[input])?[0];
    let mut rows = Vec::with_capacity(shape.count() * x.len());
    for row in 0..shape.count() {
        let chosen: Vec<f64> = (0..shape.count()).map(|at| if at == row { 1.0 } else { 0.0 }).collect();
        let feed = stored.clone().with("x", array(dims, x)?).with("pick", array(&shape, &chosen)?);
        rows.extend_from_slice(reference::run(&g, &feed, Mode::Exact)?.value(gradient).data());
    }
    Ok(rows)
}

/// The singular values of a matrix of so many columns, largest first: columns are turned against each other
/// until all are orthogonal (one-sided Jacobi), which finds small values as surely as large ones.
pub fn singular_values(matrix: &[f64], columns: usize) -> Vec<f64> {
    let rows = matrix.len() / columns.max(1);
    let mut column: Vec<Vec<f64>> =
        (0..columns).map(|j| (0..rows).map(|i| matrix[i * columns + j]).collect()).collect();
    const SWEEPS: usize = 60;
    for _ in 0..SWEEPS {
        let mut turned = false;
        for i in 0..columns {
            for j in i + 1..columns {
                let (a, b, c) =
                    (dot(&column[i], &column[i]), dot(&column[j], &column[j]), dot(&column[i], &column[j]));
                if c == 0.0 || c.abs() <= 1e-15 * (a * b).sqrt() {
                    continue;
                }
                turned = true;
                let ratio = (b - a) / (2.0 * c);
                let tangent = ratio.signum() / (ratio.abs() + (1.0 + ratio * ratio).sqrt());
                let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
                let sine = cosine * tangent;
                let (first, second) = column.split_at_mut(j);
                for (x, y) in first[i].iter_mut().zip(&mut second[0]) {
                    (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
                }
            }
        }
        if !turned {
            break;
        }
    }
    let mut values: Vec<f64> = column.iter().map(|c| dot(c, c).sqrt()).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_values_of_known_matrices() {
        let close = |found: Vec<f64>, wanted: &[f64]| {
            assert!(crate::compute::largest_difference(&found, wanted) < 1e-12, "{found:?}");
        };
        close(singular_values(&[3.0, 0.0, 0.0, -2.0], 2), &[3.0, 2.0]);
        close(singular_values(&[1.0, 1.0, 1.0, 1.0], 2), &[2.0, 0.0]);
        close(singular_values(&[0.0, 1.0, 0.0, 0.0], 2), &[1.0, 0.0]);
    }

    #[test]
    fn the_jacobian_of_squares_is_diagonal() {
        let found = jacobian(&[2], &[3.0, -1.0], &Feed::new(), |g, x| g.square(x)).unwrap();
        assert_eq!(found, [6.0, 0.0, 0.0, -2.0]);
    }
}
