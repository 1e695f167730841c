//! What a norm has to know of a row before it can normalise it: the mean, and the sum of the squares of the
//! deviations from it (of the numbers themselves for RMS norm). A product that makes the rows gathers this on
//! their way to memory, for each part of their columns: [... parts 3], a mean, the rest of it that f32 has
//! rounded away, and the sum of squares.

use super::{Norm, NormKind};
use crate::join::{op, product};
use crate::kernels::attached;
use crate::linear::fused::FusedLinear;
use regard_graph::*;

/// Numbers for each part of a row.
pub(super) const STATISTICS: usize = 3;
/// The most columns of a part.
pub(super) const MOST_COLUMNS: usize = 512;
/// Parts have whole multiples of so many columns, the last one of a row excepted.
const GRAIN: usize = 32;

/// Columns of each part of a row of n, but for the last one, which may have fewer: as few parts as can be,
/// nearly equal. A matter of the width alone and the same on every device, for the shape of the statistics
/// follows from it.
pub(super) const fn columns_of_part(n: usize) -> usize {
    let grains = if n == 0 { 1 } else { n.div_ceil(GRAIN) };
    grains.div_ceil(grains.div_ceil(MOST_COLUMNS / GRAIN)) * GRAIN
}

/// Parts of a row of n.
pub(super) const fn parts_of_row(n: usize) -> usize {
    n.div_ceil(columns_of_part(n))
}

/// Has products gather what the norms that read them need, so that these pass over their rows once instead of
/// three times. Every value keeps its place and its meaning. Joins an f32 product that a norm reads as it is,
/// without adding something first.
pub(crate) fn join_norms(g: &mut Graph) -> Result<()> {
    for at in 0..g.nodes().len() {
        let Some(&norm) = op::<Norm>(&g.nodes()[at]).filter(|norm| !norm.residual && !norm.statistics) else {
            continue;
        };
        let x = g.nodes()[at].inputs[0];
        let Origin::Node { node: from, output: 0 } = g.value(x).origin else { continue };
        let Some(product) = product(g, from) else { continue };
        // Norms of another kind want to know something else.
        let agreed = product.statistics.is_none_or(|kind| kind == norm.kind);
        let shape = g.shape(x);
        let fits = shape.last().and_then(Dim::fixed).is_some() && shape.len() < MAX_RANK;
        if !agreed || !fits || g.dtype(x) != DType::F32 {
            continue;
        }
        let (op, attachment) = FusedLinear { statistics: Some(norm.kind), ..product }.attached();
        let inputs = g.nodes()[from].inputs.clone();
        let results = g.refine(from, op, attachment, &inputs)?;
        let inputs = [&g.nodes()[at].inputs[..], &results[results.len() - 1..]].concat();
        let (op, attachment) = attached(Norm { statistics: true, ..norm });
        g.refine(at, op, attachment, &inputs)?;
    }
    Ok(())
}

/// The shape of the statistics of rows whose width has this letter.
pub(crate) fn statistics_pattern(op: &str, width: &str, letters: &Letters) -> Result<String> {
    match letters.get(width) {
        Some(dim) if dim.fixed().is_none() => Err(Error::invalid(
            op,
            format!("it has statistics of rows of {width} = {dim}"),
            "rows come in parts that depend on their width: fix it, or let the norm find its own",
        )),
        dim => Ok(format!("... {} {STATISTICS}", parts_of_row(dim.and_then(Dim::fixed).unwrap_or(0)))),
    }
}

/// The specification of gathering: the statistics of one row, part after part. The norm that reads them
/// counts the work.
pub(crate) fn gathered(kind: NormKind, row: &[f64]) -> Vec<f64> {
    let of_part = |part: &[f64]| {
        let mean = if kind == NormKind::Layer { part.iter().sum::<f64>() / part.len() as f64 } else { 0.0 };
        [mean, 0.0, part.iter().map(|x| (x - mean) * (x - mean)).sum()]
    };
    row.chunks(columns_of_part(row.len())).flat_map(of_part).collect()
}

/// The specification of reading them: the mean of a row of n, and its sum of squares.
pub(super) fn read(kind: NormKind, parts: &[f64], n: usize) -> (f64, f64) {
    let (parts, _) = parts.as_chunks::<STATISTICS>();
    let columns = columns_of_part(n);
    let count = |part: usize| (n - part * columns).min(columns) as f64;
    if kind == NormKind::Rms {
        return (0.0, parts.iter().map(|[.., squares]| squares).sum());
    }
    let of_part = |[mean, rest, _]: &[f64; STATISTICS]| mean + rest;
    let mean = parts.iter().enumerate().map(|(i, part)| count(i) * of_part(part)).sum::<f64>() / n as f64;
    let about = |(i, part): (usize, &[f64; STATISTICS])| part[2] + count(i) * (of_part(part) - mean).powi(2);
    (mean, parts.iter().enumerate().map(about).sum())
}
