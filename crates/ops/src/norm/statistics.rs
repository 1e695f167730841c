//! What a norm has to know of a row before it can normalise it: the mean, and the sum of the squares of the deviations from
//! it (of the numbers themselves for RMS norm). A product that makes the rows gathers this on their way to memory, for
//! each part of their columns: [... parts 3], a mean, the rest of it that f32 has rounded away, and the sum of squares.

use super::{Norm, NormKind};
use crate::{Kernels, Linear, ReferenceCall, kernels_of};
use regard_device::statistics::{STATISTICS, columns_of_part, parts_of_row};
use regard_graph::*;
use std::any::Any;
use std::sync::Arc;

/// Has products gather what the norms that read them need, so that these pass over their rows once instead of three times.
/// Every value keeps its place and its meaning: a program is joined when it is planned, whatever recorded it. Joins an f32
/// product that a norm reads as it is, without adding something first.
pub fn join_norms(g: &mut Graph) -> Result<()> {
    for at in 0..g.nodes().len() {
        let Some(&norm) = op::<Norm>(g, at).filter(|norm| !norm.residual && !norm.statistics) else {
            continue;
        };
        let x = g.nodes()[at].inputs[0];
        let Origin::Node { node: from, output: 0 } = g.value(x).origin else { continue };
        let Some(&product) = op::<Linear>(g, from) else { continue };
        // Norms of another kind want to know something else.
        let agreed = product.statistics.is_none_or(|kind| kind == norm.kind);
        let shape = g.shape(x);
        let fits = shape.last().and_then(Dim::fixed).is_some() && shape.len() < MAX_RANK;
        if !agreed || !fits || g.dtype(x) != DType::F32 {
            continue;
        }
        let product = Linear { statistics: Some(norm.kind), ..product };
        let inputs = g.nodes()[from].inputs.clone();
        let results = refine(g, from, product, &inputs)?;
        let inputs = [&g.nodes()[at].inputs[..], &results[results.len() - 1..]].concat();
        refine(g, at, Norm { statistics: true, ..norm }, &inputs)?;
    }
    Ok(())
}

fn op<K: Kernels>(g: &Graph, node: usize) -> Option<&K> {
    // Only what can be computed: a node that was recorded by other means stays as it is.
    let node = &g.nodes()[node];
    kernels_of(node)?;
    (&*node.op as &dyn Any).downcast_ref()
}

fn refine<K: Kernels>(g: &mut Graph, node: usize, op: K, inputs: &[Var]) -> Result<Vec<Var>> {
    let kernels: Arc<dyn Kernels> = Arc::new(op);
    g.refine(node, kernels.clone(), Arc::new(kernels), inputs)
}

/// The shape of the statistics of rows of n.
pub(crate) fn statistics_pattern(n: usize) -> String {
    format!("... {} {STATISTICS}", parts_of_row(n))
}

/// The work of gathering them from rows of n.
pub(crate) fn statistics_cost(kind: NormKind, rows: usize, n: usize) -> Cost {
    let (rows, n, parts) = (rows as u64, n as u64, parts_of_row(n) as u64);
    let centred = u64::from(kind == NormKind::Layer);
    let math = Work { macs: rows * n, flops: rows * centred * (2 * n + parts), ..Work::default() };
    // What the rounded mean leaves is summed as well.
    let macs = math.macs + rows * centred * parts;
    let flops = math.flops + rows * centred * (n + parts);
    Cost { math, executed: Work { macs, flops, ..math } }
}

/// The specification of gathering: the statistics of one row, part after part.
pub(crate) fn gathered(kind: NormKind, row: &[f64], call: &mut ReferenceCall<'_>) -> Vec<f64> {
    let of_part = |part: &[f64]| {
        let mut mean = 0.0;
        if kind == NormKind::Layer {
            mean = part.iter().sum::<f64>() / part.len() as f64;
            call.count_flops(2 * part.len() + 1);
        }
        call.count_macs(part.len());
        [mean, 0.0, part.iter().map(|x| (x - mean) * (x - mean)).sum()]
    };
    row.chunks(columns_of_part(row.len())).flat_map(of_part).collect()
}

/// The specification of reading them: the mean of a row of n, and its sum of squares.
pub(super) fn read(kind: NormKind, parts: &[f64], n: usize, call: &mut ReferenceCall<'_>) -> (f64, f64) {
    let (parts, _) = parts.as_chunks::<STATISTICS>();
    let columns = columns_of_part(n);
    let count = |part: usize| (n - part * columns).min(columns) as f64;
    call.count_flops(parts.len());
    if kind == NormKind::Rms {
        return (0.0, parts.iter().map(|[.., squares]| squares).sum());
    }
    let of_part = |[mean, rest, _]: &[f64; STATISTICS]| mean + rest;
    let mean = parts.iter().enumerate().map(|(i, part)| count(i) * of_part(part)).sum::<f64>() / n as f64;
    call.count_flops(parts.len() + 1);
    call.count_macs(parts.len());
    let about = |(i, part): (usize, &[f64; STATISTICS])| part[2] + count(i) * (of_part(part) - mean).powi(2);
    call.count_flops(2 * parts.len());
    call.count_macs(parts.len());
    (mean, parts.iter().enumerate().map(about).sum())
}
