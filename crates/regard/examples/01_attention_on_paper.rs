//! Attention on paper: three keys, two queries, numbers small enough to check by hand.
//!
//!     cargo run --release -p regard --example 01_attention_on_paper
//!
//! Notes on attention come in two conventions. In one, items are columns: A = softargmax(β KᵀQ), H = V·A. In
//! the other, items are rows: H = softmax(β QKᵀ)·V. Both are computed here, step by step and by the fused op;
//! all three give the same numbers.

use regard::ops::{Attention, AttentionScale, MatmulOptions};
use regard::prelude::*;

// Rows are items: 2 queries and 3 keys of width 2, values of width 4.
const Q: [f64; 4] = [1.0, 0.0, 0.5, 2.0];
const K: [f64; 6] = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
const V: [f64; 12] = [1.0, 0.0, 0.0, 2.0, 0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 1.0, 2.0];
const BETA: f32 = 1.0;

fn main() -> regard::Result<()> {
    // Items as columns: Q is 2×2, K 2×3, V 4×3; each column of A sums to 1.
    let columns = regard::eval(|g| {
        let q = g.given(&[2, 2], &transposed(&Q, 2))?; // D T
        let k = g.given(&[2, 3], &transposed(&K, 2))?; // D S
        let v = g.given(&[4, 3], &transposed(&V, 4))?; // E S
        let options = MatmulOptions { transpose_a: true, scale: BETA, ..Default::default() };
        let scores = g.matmul(k, q, options)?; // S T = β KᵀQ
        // Softargmax over each column; our softmax works along the last axis.
        let across = g.transpose(scores, &[1, 0])?; // T S
        let weights = g.softmax(across)?;
        let weights = g.transpose(weights, &[1, 0])?; // S T
        g.matmul(v, weights, MatmulOptions::default()) // E T = V·A
    })?;

    // Items as rows.
    let rows = regard::eval(|g| {
        let (q, k, v) = (g.given(&[2, 2], &Q)?, g.given(&[3, 2], &K)?, g.given(&[3, 4], &V)?);
        let options = MatmulOptions { transpose_b: true, scale: BETA, ..Default::default() };
        let scores = g.matmul(q, k, options)?; // T S = β QKᵀ
        let weights = g.softmax(scores)?;
        g.matmul(weights, v, MatmulOptions::default()) // T E
    })?;

    // The fused op: batch 1, one head. B T H D, B S G D, B S G E -> B T H E.
    let fused = regard::eval(|g| {
        let q = g.given(&[1, 2, 1, 2], &Q)?;
        let k = g.given(&[1, 3, 1, 2], &K)?;
        let v = g.given(&[1, 3, 1, 4], &V)?;
        let spec = Attention { scale: AttentionScale::Constant(BETA), ..Default::default() };
        Ok(g.attention(q, k, v, &spec)?.y)
    })?;

    println!("query  H, items as columns            H, items as rows               fused");
    for t in 0..2 {
        let column: Vec<f64> = (0..4).map(|e| columns.data()[e * 2 + t]).collect();
        println!("{t}      {}  {}  {}", show(&column), show(rows.row(t)), show(fused.row(t)));
        for ((column, row), fused) in column.iter().zip(rows.row(t)).zip(fused.row(t)) {
            assert!((column - row).abs() < 1e-12 && (column - fused).abs() < 1e-12);
        }
    }
    println!("The last value is 2 in every row of V, so every convex combination keeps it at 2.");
    Ok(())
}

fn transposed(rows: &[f64], width: usize) -> Vec<f64> {
    (0..width).flat_map(|column| rows.iter().skip(column).step_by(width).copied()).collect()
}

fn show(row: &[f64]) -> String {
    row.iter().map(|x| format!("{x:6.4}")).collect::<Vec<_>>().join(" ")
}
