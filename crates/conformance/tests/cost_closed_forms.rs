//! The cost reader against the textbook, exactly: a block of width d on n positions does 4nd² + 2n²d
//! multiply-adds in its attention and 8nd² in its feed-forward part; causal attention has n(n+1)/2 pairs, a
//! window those inside.
//!
//! The closed forms count matrix work. Norms multiply and add, too; they are told apart by op (`layer_norm`)
//! and, where they have a scope of their own, by dotted name.

use regard::cost::{Costs, Work, cost};
use regard::graph::{Integers, Result, Sizes};
use regard::ops::{Activation, Attention, AttentionMask, LinearOptions, Window};
use regard::prelude::*;
use regard_models::{Gpt, GptConfig};

const SIZES: [(usize, usize, usize); 4] = [(1, 8, 1), (7, 24, 3), (100, 32, 4), (257, 96, 2)];

/// One block on `[1 n d]`: norms, attention, and a feed-forward part of width 4d, under names of their own.
fn block(n: usize, d: usize, heads: usize, mask: AttentionMask) -> Result<Graph> {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [1, n, d])?;
    g.scope("block.0", |g| -> Result<()> {
        let norm = |g: &mut Graph, x: Var, name: &str| {
            let weight = g.parameter(&format!("{name}.weight"), [d], Init::Ones)?;
            let bias = g.parameter(&format!("{name}.bias"), [d], Init::Zeros)?;
            g.scope(name, |g| g.layer_norm(x, Some(weight), Some(bias), NormSpec::default()))
        };
        let product = |g: &mut Graph, x: Var, name: &str, to: usize, options: LinearOptions| {
            let from = g.shape(x).bound().last_size();
            let weight = g.parameter(&format!("{name}.weight"), [to, from], Init::Normal(0.02))?;
            let bias = g.parameter(&format!("{name}.bias"), [to], Init::Zeros)?;
            g.linear(x, weight, LinearOptions { bias: Some(bias), ..options })
        };
        let h = norm(g, x, "attention_norm")?;
        let x = g.scope("attention", |g| -> Result<Var> {
            let mut parts = Vec::new();
            for name in ["query", "key", "value"] {
                let y = product(g, h, name, d, LinearOptions::default())?;
                parts.push(g.split_heads(y, heads)?);
            }
            let spec = Attention { mask, ..Default::default() };
            let mixed = g.attention(parts[0], parts[1], parts[2], &spec)?.y;
            let mixed = g.merge_heads(mixed)?;
            product(g, mixed, "output", d, LinearOptions { residual: Some(x), ..Default::default() })
        })?;
        let h = norm(g, x, "feed_forward_norm")?;
        let y = g.scope("feed_forward", |g| -> Result<Var> {
            let options = LinearOptions { activation: Activation::Gelu, ..Default::default() };
            let h = product(g, h, "up", 4 * d, options)?;
            product(g, h, "down", d, LinearOptions { residual: Some(x), ..Default::default() })
        })?;
        g.output("y", y)?;
        Ok(())
    })?;
    Ok(g)
}

fn costs(g: &Graph) -> Costs {
    let keep: Vec<Var> = g.outputs().map(|(_, var)| var).collect();
    cost(g, &Sizes::none(), &Integers::none(), Some(&keep)).unwrap()
}

fn macs(costs: &Costs, prefix: &str) -> u64 {
    costs.under(prefix).unwrap().macs
}

/// The multiply-adds of the attention's own pairs: a score and a mixture, d each over all heads.
fn pairs(costs: &Costs, d: usize) -> u64 {
    let attention = costs.by_op()["attention"].macs;
    assert_eq!(attention % (2 * d as u64), 0);
    attention / (2 * d as u64)
}

#[test]
fn a_block_costs_what_the_textbook_says() {
    for (n, d, heads) in SIZES {
        let costs = costs(&block(n, d, heads, AttentionMask::default()).unwrap());
        let (n, d) = (n as u64, d as u64);
        assert_eq!(macs(&costs, "block.0.attention"), 4 * n * d * d + 2 * n * n * d, "n {n}, d {d}");
        assert_eq!(macs(&costs, "block.0.feed_forward"), 8 * n * d * d, "n {n}, d {d}");
        // The same by op: all products and the attention, whatever they are called.
        let by_op = costs.by_op();
        let matrix = by_op["linear"].macs + by_op["attention"].macs;
        assert_eq!(matrix, 12 * n * d * d + 2 * n * n * d);
        let norms = by_op["layer_norm"].macs;
        assert!(norms > 0);
        assert_eq!(costs.total().macs, matrix + norms, "nothing else multiplies and adds");
        let both = macs(&costs, "block.0.attention_norm") + macs(&costs, "block.0.feed_forward_norm");
        assert_eq!(both, norms);
    }
}

#[test]
fn causal_and_window_count_their_pairs_exactly() {
    for (n, d, heads) in SIZES {
        let of = |mask| pairs(&costs(&block(n, d, heads, mask).unwrap()), d);
        let all = n as u64;
        assert_eq!(of(AttentionMask::default()), all * all);
        let causal = AttentionMask { causal: true, ..Default::default() };
        assert_eq!(of(causal), all * (all + 1) / 2, "causal, n {n}");
        for (before, after) in [(0, 0), (3, 0), (2, 5), (1000, 1000)] {
            let window = Some(Window { before, after });
            let inside = |causal: bool| -> u64 {
                let after = if causal { 0 } else { after };
                (0..n).map(|t| ((t + after).min(n - 1) - t.saturating_sub(before) + 1) as u64).sum()
            };
            for causal in [false, true] {
                let mask = AttentionMask { causal, window, ..Default::default() };
                assert_eq!(of(mask), inside(causal), "window {before} {after}, causal {causal}, n {n}");
            }
        }
    }
}

#[test]
fn what_runs_is_never_less_than_what_mathematics_asks_for() {
    for (n, d, heads) in SIZES {
        for causal in [false, true] {
            let mut g = block(n, d, heads, AttentionMask { causal, ..Default::default() }).unwrap();
            let y = g.find("y").unwrap();
            let loss = g.sum_all(y).unwrap();
            let parameters = g.parameters();
            for (index, gradient) in g.gradient(loss, &parameters).unwrap().into_iter().enumerate() {
                g.output(&format!("gradient.{index}"), gradient).unwrap();
            }
            let keep: Vec<Var> = g.outputs().map(|(_, var)| var).collect();
            let runs = Cpu::executed(&g, &Sizes::none(), &Integers::none(), Some(&keep)).unwrap();
            assert_eq!(runs.rows.len(), costs(&g).rows.len());
            for (row, executed) in costs(&g).rows.iter().zip(&runs.rows) {
                let (math, executed) = (row.cost, executed.cost);
                assert!(executed.macs >= math.macs && executed.flops >= math.flops, "{}: {row:?}", row.name);
            }
        }
    }
}

#[test]
fn parts_add_up_to_the_whole() {
    let config = GptConfig {
        layers: 12,
        heads: 2,
        width: 16,
        context: 10,
        vocabulary: 30,
        dropout: 0.0,
        ..GptConfig::SMALL
    };
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [2, 10]).unwrap();
    let logits = Gpt::new(config).unwrap().logits(&mut g, ids).unwrap();
    g.output("logits", logits).unwrap();
    let costs = costs(&g);
    let under = |prefix: &str| costs.under(prefix).unwrap();
    let mut sum = under("embedding") + under("final_norm") + under("head");
    for layer in 0..12 {
        let block = under(&format!("block.{layer}"));
        let parts = ["attention", "feed_forward"].map(|part| under(&format!("block.{layer}.{part}")));
        assert_eq!(block, parts[0] + parts[1]);
        // By hand: each row of this part, by its full name.
        let own = format!("block.{layer}.attention.");
        let mut rows = Work::default();
        costs.rows.iter().filter(|row| row.name.starts_with(&own)).for_each(|row| rows += row.cost);
        assert_eq!(parts[0], rows);
        sum += block;
    }
    assert_eq!(sum, costs.total());
    assert_eq!(under("block.1"), under("block.11"), "every block is the same, and block.1 is not block.11");
}
