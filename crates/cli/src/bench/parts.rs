//! Single parts: a matrix product, attention.

use super::How;
use super::clock::{Bench, Feeds, time};
use anyhow::{Result, bail};
use clap::Args;
use regard::graph::DType;
use regard::graph::Shape;
use regard::ops::{Attention as Spec, MatmulOptions, WeightGradient, Window};
use regard::prelude::*;

#[derive(Args)]
pub struct Matmul {
    /// Rows of A.
    #[arg(long, default_value_t = 1024)]
    m: usize,
    /// Columns of A, rows of B.
    #[arg(long, default_value_t = 1024)]
    k: usize,
    /// Columns of B.
    #[arg(long, default_value_t = 1024)]
    n: usize,
    /// The gradient of a weight instead: C[K N] = A[M K]ᵀ · B[M N], a sum over all rows.
    #[arg(long)]
    weight_gradient: bool,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
pub struct Attention {
    /// Examples.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Heads.
    #[arg(long, default_value_t = 8)]
    heads: usize,
    /// Width of each head.
    #[arg(long, default_value_t = 64)]
    width: usize,
    /// Positions.
    #[arg(long, default_value_t = 512)]
    length: usize,
    /// Each position sees only itself and what came before.
    #[arg(long)]
    causal: bool,
    /// Each position sees only so many, its own among them and none that follows; implies --causal.
    #[arg(long, value_name = "N")]
    window: Option<usize>,
    /// Also compute the gradients of queries, keys and values.
    #[arg(long)]
    backward: bool,
    #[command(flatten)]
    how: How,
}

/// C = A · B, or C = Aᵀ · B
pub fn matmul(sizes: &Matmul) -> Result<()> {
    let Matmul { m, k, n, weight_gradient, how } = sizes;
    how.check_has_weights("a matrix product")?;
    let (a_dims, b_dims) = ([*m, *k], [if *weight_gradient { *m } else { *k }, *n]);
    let mut g = Graph::inference();
    g.set_precision(how.precision.precision());
    let dtype = how.precision.precision().activation();
    let a = g.input("a", dtype, a_dims)?;
    let b = g.input("b", dtype, b_dims)?;
    let c = if *weight_gradient {
        // As in a training step: both factors of the precision, the result f32 for the optimizer.
        let op = WeightGradient { output: DType::F32, precision: how.precision.precision(), sums: false };
        g.apply_one(op, &[a, b])?
    } else {
        g.matmul(a, b, MatmulOptions::default())?
    };
    g.output("c", c)?;
    let feeds = Feeds::new().normal("a", &a_dims).normal("b", &b_dims);
    let name = if *weight_gradient { "weight gradient" } else { "matmul" };
    time(Bench { name: format!("{name} {m}x{k}x{n}"), graph: g, feeds, tokens: 0, next: None }, how)
}

/// Attention, perhaps with its gradients.
pub fn attention(sizes: &Attention) -> Result<()> {
    let Attention { batch, heads, width, length, causal, window, backward, how } = sizes;
    how.check_has_weights("attention")?;
    if *window == Some(0) {
        bail!("--window 0: a position sees at least itself; choose at least 1");
    }
    let mut g = Graph::new();
    g.set_precision(how.precision.precision());
    let shape = [*batch, *length, *heads, *width];
    let dtype = how.precision.precision().activation();
    let mut feeds = Feeds::new();
    let mut operands = Vec::new();
    for name in ["query", "key", "value"] {
        operands.push(match (backward, dtype) {
            (false, _) => g.input(name, dtype, shape)?,
            (true, DType::BF16) => g.bf16_input_with_gradient(name, shape)?,
            (true, _) => g.input_with_gradient(name, shape)?,
        });
        feeds = feeds.normal(name, &shape);
    }
    let causal = *causal || window.is_some();
    let mut spec = if causal { Spec::causal() } else { Spec::default() };
    spec.mask.window = window.map(|window| Window { before: window - 1, after: 0 });
    let y = g.attention(operands[0], operands[1], operands[2], &spec)?.y;
    if *backward {
        let cotangent = g.input("cotangent", dtype, Shape::from(shape))?;
        feeds = feeds.normal("cotangent", &shape);
        for (name, grad) in ["dq", "dk", "dv"].iter().zip(g.pullback(y, cotangent, &operands)?) {
            g.output(name, grad)?;
        }
    }
    g.output("y", y)?;
    let kind = match window {
        Some(window) => format!("window {window}"),
        None => if causal { "causal" } else { "full" }.into(),
    };
    let part = if *backward { "forward+backward" } else { "forward" };
    let name = format!("attention {part} {batch}x{length}x{heads}x{width} {kind}");
    time(Bench { name, graph: g, feeds, tokens: (batch * length) as u64, next: None }, how)
}
