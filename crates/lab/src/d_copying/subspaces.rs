//! Values in two subspaces: a projection takes their sum apart, the better the more upright the subspaces
//! stand.

use crate::compute::{array, compute, dot, largest_difference, length};
use crate::picture::{Axis, Chart};
use crate::{Context, Draws, Finding, Number, Verdict};
use regard::Result;
use regard::ops::MatmulOptions;
use regard::prelude::*;

const WIDTH: usize = 12;
const PART: usize = 4;

/// Orthonormal vectors, by Gram and Schmidt, twice over so that rounding is gone.
fn orthonormal(draws: &mut Draws, count: usize) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = vec![];
    while basis.len() < count {
        let mut v = draws.normals(WIDTH);
        for _ in 0..2 {
            for b in &basis {
                let along = dot(&v, b);
                v.iter_mut().zip(b).for_each(|(v, b)| *v -= along * b);
            }
        }
        let size = length(&v);
        basis.push(v.iter().map(|x| x / size).collect());
    }
    basis
}

/// AAᵀ, by the library's product.
fn projection(basis: &[Vec<f64>]) -> Result<Vec<f64>> {
    product(&basis.concat(), &basis.concat(), [basis.len(), WIDTH], [basis.len(), WIDTH], true)
}

fn product(
    a: &[f64],
    b: &[f64],
    a_size: [usize; 2],
    b_size: [usize; 2],
    transpose_a: bool,
) -> Result<Vec<f64>> {
    let feed = Feed::new().with("a", array(&a_size, a)?).with("b", array(&b_size, b)?);
    let found = compute(&feed, |g| {
        let a = g.input("a", DType::F32, a_size)?;
        let b = g.input("b", DType::F32, b_size)?;
        Ok(vec![g.matmul(a, b, MatmulOptions { transpose_a, ..Default::default() })?])
    })?;
    Ok(found[0].data().to_vec())
}

fn mix(basis: &[Vec<f64>], parts: &[f64]) -> Vec<f64> {
    (0..WIDTH).map(|at| basis.iter().zip(parts).map(|(b, c)| c * b[at]).sum()).collect()
}

/// D4: MA = A, MB = 0, M² = M = Mᵀ.
pub fn projection_separates(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("D4");
    let basis = orthonormal(&mut draws, 2 * PART);
    let (a, b) = basis.split_at(PART);
    let m = projection(a)?;
    let square = product(&m, &m, [WIDTH; 2], [WIDTH; 2], false)?;
    let turned: Vec<f64> = (0..WIDTH * WIDTH).map(|at| m[at % WIDTH * WIDTH + at / WIDTH]).collect();
    let mut off = 0.0f64;
    for _ in 0..100 {
        let (in_a, in_b) = (mix(a, &draws.normals(PART)), mix(b, &draws.normals(PART)));
        let sum: Vec<f64> = in_a.iter().zip(&in_b).map(|(x, y)| x + y).collect();
        let found = product(&m, &sum, [WIDTH; 2], [WIDTH, 1], false)?;
        off = off.max(largest_difference(&found, &in_a));
    }
    Ok(Finding::new(Verdict::Holds, "M = AAᵀ takes vₐ out of any sum vₐ + v_b; it is a projection.")
        .number(Number::at_most("M(vₐ + v_b) against vₐ, 100 pairs", off, 1e-14).erratum("E34"))
        .number(Number::at_most("M² against M", largest_difference(&square, &m), 1e-14))
        .number(Number::at_most("Mᵀ against M", largest_difference(&turned, &m), 1e-16))
        .picture(crate::picture::Heat::new(
            "M = AAᵀ for a random A of four vectors in twelve dimensions",
            "row",
            "column",
            WIDTH,
            m,
            crate::picture::Colours::Signed,
        ))
        .how("A random orthonormal basis split into A and B; products by the library in f64."))
}

/// D5: decoding from the average, and what an angle costs.
pub fn decoding(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("D5");
    let basis = orthonormal(&mut draws, 2 * PART);
    let (a, b) = basis.split_at(PART);
    let m = projection(a)?;
    let (mut points, mut line, mut worst) = (vec![], vec![], 0.0f64);
    let (mut upright, mut leaned) = (0.0, 0.0);
    for step in 0..=18 {
        let degrees = 90.0 - step as f64 * 5.0;
        let angle: f64 = f64::to_radians(degrees);
        // Every principal angle between A and the leaning B is this one.
        let leaning: Vec<Vec<f64>> = a
            .iter()
            .zip(b)
            .map(|(a, b)| a.iter().zip(b).map(|(a, b)| angle.cos() * a + angle.sin() * b).collect())
            .collect();
        let (mut sum, draws_of) = (0.0, 50);
        for _ in 0..draws_of {
            let parts = draws.normals(PART);
            let (in_a, in_b) = (mix(a, &draws.normals(PART)), mix(&leaning, &parts));
            let c: Vec<f64> = in_a.iter().zip(&in_b).map(|(x, y)| (x + y) / 2.0).collect();
            let found = product(&m, &c, [WIDTH; 2], [WIDTH, 1], false)?;
            let error: Vec<f64> = found.iter().zip(&in_a).map(|(f, v)| 2.0 * f - v).collect();
            let relative = length(&error) / length(&in_b);
            worst = worst.max((relative - angle.cos()).abs());
            sum += relative;
        }
        if step == 0 {
            upright = sum / draws_of as f64;
        }
        if step == 6 {
            leaned = sum / draws_of as f64;
        }
        points.push((degrees, sum / draws_of as f64));
        line.push((degrees, angle.cos()));
    }
    Ok(Finding::new(
        Verdict::Conditional,
        "Both can be read from the average if the subspaces are orthogonal; otherwise the error is cos θ of the other value.",
    )
    .number(Number::at_most("orthogonal: relative error of 2Mc", upright, 1e-14))
    .number(Number::shown("at an angle of 60°: relative error of 2Mc", leaned))
    .number(Number::at_most("error against cos θ, over all angles", worst, 1e-13))
    .counter_example("At an angle of 60° half of v_b is read as part of vₐ.")
    .picture(
        Chart::new("Error of decoding vₐ from the average", Axis::new("principal angle between the subspaces, degrees"), Axis::new("‖2Mc − vₐ‖ / ‖v_b‖"))
            .line("cos θ", line)
            .points("50 pairs each", points),
    )
    .how("B leaned towards A by an angle; random vectors in both; M = AAᵀ by the library’s product."))
}
