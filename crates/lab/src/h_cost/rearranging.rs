//! The two lines of attention that multiply nothing: rearranging into heads, and the softmax. Counted by the
//! cost reader on the listing written out, op by op, and measured.

use super::lines::{costs, timed};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::ops::MatmulOptions;
use regard::prelude::*;

/// Sizes of one call.
#[derive(Clone, Copy)]
struct Sizes {
    queries: usize,
    keys: usize,
    width: usize,
    heads: usize,
}

const BASE: Sizes = Sizes { queries: 32, keys: 48, width: 64, heads: 4 };

/// The listing: heads are moved to the front by a real rearrangement, then scores, softmax, weighted sum, and
/// back.
fn listing(sizes: Sizes) -> Result<Graph> {
    let Sizes { queries, keys, width, heads } = sizes;
    let head = width / heads;
    let mut g = Graph::inference();
    let rows = [("query", queries), ("key", keys), ("value", keys)];
    let mut parts = vec![];
    for (name, n) in rows {
        let x = g.input(name, DType::F32, [n, heads, head])?;
        parts.push(g.transpose(x, &[1, 0, 2])?); // n h d -> h n d
    }
    let scale = 1.0 / (head as f32).sqrt();
    let scores =
        g.matmul(parts[0], parts[1], MatmulOptions { transpose_b: true, scale, ..Default::default() })?;
    let weights = g.softmax(scores)?;
    let mixed = g.matmul(weights, parts[2], MatmulOptions::default())?;
    let back = g.transpose(mixed, &[1, 0, 2])?;
    g.output("y", back)?;
    Ok(g)
}

/// Bytes that the rearrangements read and write, and operations of the softmax.
fn counted(sizes: Sizes) -> Result<[f64; 2]> {
    let found = costs(&listing(sizes)?)?;
    let rows = |op: &'static str| found.rows.iter().filter(move |row| row.op == op);
    let bytes: u64 = rows("transpose").map(|row| row.cost.read + row.cost.written).sum();
    let softmax: u64 = rows("softmax").map(|row| row.cost.flops + row.cost.macs).sum();
    Ok([bytes as f64, softmax as f64])
}

/// H9: rearranging is Θ(nd), the softmax Θ(h·n_t·n_s).
pub fn two_lines(context: &Context) -> Result<Finding> {
    let Sizes { queries, keys, width, heads } = BASE;
    let doubled = [
        ("n_t and n_s", Sizes { queries: 2 * queries, keys: 2 * keys, ..BASE }, [2.0, 4.0]),
        ("n_s alone", Sizes { keys: 2 * keys, ..BASE }, [f64::NAN, 2.0]),
        ("d", Sizes { width: 2 * width, ..BASE }, [2.0, 1.0]),
        ("h", Sizes { heads: 2 * heads, ..BASE }, [1.0, 2.0]),
    ];
    let base = counted(BASE)?;
    let mut table = Table::new(
        "Work when one size is doubled, over the work before",
        &["doubled", "rearranging, bytes", "softmax, operations"],
    );
    let mut finding = Finding::new(
        Verdict::Holds,
        "Rearranging moves 2·4·(2n_t + 2n_s)·d bytes, so Θ(nd) whatever the heads; the softmax takes a fixed number of operations for each \
         of h·n_t·n_s weights, whatever d.",
    )
    .number(Number::equal("rearranging: bytes over 16·(n_t + n_s)·d", base[0] / (16 * (queries + keys) * width) as f64, 1.0, 0.0));
    for (name, sizes, wanted) in doubled {
        let found = counted(sizes)?;
        let ratios = [found[0] / base[0], found[1] / base[1]];
        table.row([name.to_string(), figure(ratios[0]), figure(ratios[1])]);
        for (line, ratio, wanted) in
            [("rearranging", ratios[0], wanted[0]), ("softmax", ratios[1], wanted[1])]
        {
            if wanted.is_finite() {
                // A softmax has some work for each row beside that for each weight.
                finding = finding.number(Number::equal(
                    format!("{line}: work with {name} doubled"),
                    ratio,
                    wanted,
                    0.05,
                ));
            }
        }
    }
    // Times of both lines against n, beside.
    let mut lines = [vec![], vec![]];
    for n in [64usize, 128, 256, 512] {
        let g = listing(Sizes { queries: n, keys: n, ..BASE })?;
        let names: Vec<&str> = g.nodes().iter().map(|node| node.op.name()).collect();
        let (_, nodes) = timed(g, context.size(3, 12))?;
        for (line, op) in lines.iter_mut().zip(["transpose", "softmax"]) {
            let own = nodes.iter().filter(|(node, _)| names[*node] == op).map(|(_, ns)| *ns as f64 / 1e3);
            line.push((n as f64, own.sum::<f64>()));
        }
    }
    let grown = |line: &[(f64, f64)]| line[3].1 / line[2].1;
    let (moved, soft) = (grown(&lines[0]), grown(&lines[1]));
    let [rearranging, softmax] = lines;
    Ok(finding
        .number(Number::shown("measured: rearranging at n = 512 over n = 256", moved))
        .number(Number::shown("measured: softmax at n = 512 over n = 256", soft))
        .table(table)
        .picture(
            Chart::new("Measured, d = 64, four heads, one thread", Axis::log("n"), Axis::log("µs"))
                .line("rearranging", rearranging)
                .line("softmax", softmax),
        )
        .how("The listing written out with transpose, matmul and softmax, counted by the cost reader; times of single nodes, the least of a few runs. (The attention op of the library does neither line by itself: it reads heads where they stand.)"))
}
