//! Joins, made when a program is planned: what stands behind a product or a norm's backward pass and reads
//! its result alone is done by it, before the result goes to memory. Sums (a residual stream, gradients that
//! meet) become residuals, the derivative of an activation a factor, rounding a dtype; and products gather
//! what norms behind them need. Whoever records, reads or rewrites a graph meets plain nodes and has to know
//! nothing of this.
//!
//! A join changes no bit. So only f32 results are joined: one that was rounded before somebody else went on
//! with it has lost digits that the joined node would still have. And it happens only where nobody else reads
//! what lies between, so that looking at a value keeps it, and costs memory and time, but changes no other.

use crate::kernels::attached;
use crate::linear::fused::FusedLinear;
use crate::norm::statistics::join_norms;
use crate::{
    Arithmetic, Binary, Cast, Kernels, Linear, LinearActivationBackward, NormBackward, QuantisedLinear,
    kernels_of,
};
use regard_graph::*;
use std::any::Any;

/// Makes of a recorded graph one that runs faster and gives the same: what `keep` does not need goes, and the
/// rest is joined. Everything in `keep` keeps its handle, its place in the order of running and its bits.
pub fn join(g: &mut Graph, keep: &[Var]) -> Result<()> {
    g.prune(keep)?;
    let mut readers = vec![0; g.values().len()];
    let read = g.nodes().iter().flat_map(|node| &node.inputs).chain(keep);
    read.for_each(|var| readers[var.index()] += 1);
    g.joining(|joins| {
        for at in 0..joins.graph().nodes().len() {
            let Some(Join { maker, joined, inputs }) = find(joins.graph(), at, &readers) else { continue };
            let (op, attachment) = match joined {
                Joined::Product(product) => product.attached(),
                Joined::NormBackward(norm) => attached(norm),
            };
            joins.absorb(maker, at, op, attachment, &inputs)?;
        }
        Ok(())
    })?;
    join_norms(g)
}

/// The graph that [`join`] makes of a recorded one, which stays as it is: for readers of what will run.
pub fn joined(g: &Graph, keep: &[Var]) -> Result<Graph> {
    let mut planned = g.duplicate();
    join(&mut planned, keep)?;
    Ok(planned)
}

/// A node that does what another did behind it, too.
struct Join {
    maker: usize,
    joined: Joined,
    inputs: Vec<Var>,
}

enum Joined {
    Product(FusedLinear),
    NormBackward(NormBackward),
}

/// How a node can be joined with one of those whose results it reads.
fn find(g: &Graph, at: usize, readers: &[usize]) -> Option<Join> {
    let node = &g.nodes()[at];
    if let Some(Binary { kind: Arithmetic::Add }) = op(node) {
        // Of two that could take up the sum, the one that runs later: the other's result is there by then.
        let mut operands = [(node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])];
        operands.sort_by_key(|&(y, _)| std::cmp::Reverse(made_at(g, y)));
        return operands.into_iter().find_map(|(y, other)| sum(g, node.outputs[0], y, other, readers));
    }
    if let Some(Cast { to, .. }) = op(node) {
        let maker = made_alone(g, node.inputs[0], readers)?;
        let product = growing(g, maker)?;
        let joined = Joined::Product(product.with(|linear| linear.output = *to));
        return Some(Join { maker, joined, inputs: g.nodes()[maker].inputs.clone() });
    }
    if let Some(LinearActivationBackward { activation }) = op(node) {
        let (z, dy) = (node.inputs[0], node.inputs[1]);
        let maker = made_alone(g, dy, readers)?;
        let product = growing(g, maker)?;
        // A residual is added to what the derivative has multiplied, not before.
        let free = product.derivative.is_none() && !product.linear().residual;
        if !free || !is_before(g, z, maker) {
            return None;
        }
        let product = FusedLinear { derivative: Some(*activation), ..product };
        let joined = Joined::Product(product.with(|linear| linear.output = g.dtype(z)));
        return Some(Join { maker, joined, inputs: [&g.nodes()[maker].inputs[..], &[z]].concat() });
    }
    None
}

/// How whoever makes y can make y + other.
fn sum(g: &Graph, result: Var, y: Var, other: Var, readers: &[usize]) -> Option<Join> {
    let maker = made_alone(g, y, readers)?;
    let shape = g.shape(result);
    if g.shape(y) != shape || g.shape(other) != shape || !is_before(g, other, maker) {
        return None;
    }
    let inputs = &g.nodes()[maker].inputs;
    if let Some(product) = growing(g, maker).filter(|product| !product.linear().residual) {
        // The residual comes before z.
        let (own, z) = inputs.split_at(product.z_input().unwrap_or(inputs.len()));
        let joined = Joined::Product(product.with(|linear| linear.residual = true));
        return Some(Join { maker, joined, inputs: [own, &[other], z].concat() });
    }
    let norm = op::<NormBackward>(&g.nodes()[maker]).filter(|norm| !norm.stream && norm.rounded.is_none())?;
    let joined = Joined::NormBackward(NormBackward { stream: true, ..*norm });
    Some(Join { maker, joined, inputs: [&inputs[..], &[other]].concat() })
}

/// The node that makes a value which is f32, its first result, and read once.
fn made_alone(g: &Graph, var: Var, readers: &[usize]) -> Option<usize> {
    match g.value(var).origin {
        Origin::Node { node, output: 0 } if readers[var.index()] == 1 && g.dtype(var) == DType::F32 => {
            Some(node)
        }
        _ => None,
    }
}

fn made_at(g: &Graph, var: Var) -> Option<usize> {
    match g.value(var).origin {
        Origin::Node { node, .. } => Some(node),
        _ => None,
    }
}

/// Whether a value is there when a node runs.
fn is_before(g: &Graph, var: Var, node: usize) -> bool {
    made_at(g, var).is_none_or(|made| made < node)
}

/// The product of a node, if more can be joined with it: statistics are those of y as it is.
fn growing(g: &Graph, node: usize) -> Option<FusedLinear> {
    product(g, node).filter(|product| product.statistics.is_none())
}

/// The product of a node, with what was joined with it already.
pub(crate) fn product(g: &Graph, node: usize) -> Option<FusedLinear> {
    let node = &g.nodes()[node];
    let plain = || op::<Linear>(node).map(|&linear| linear.into());
    let quantised = || op::<QuantisedLinear>(node).map(|&quantised| quantised.into());
    op::<FusedLinear>(node).copied().or_else(plain).or_else(quantised)
}

/// The op of a node, if it is of this kind and can be computed: what was recorded by other means stays as it
/// is.
pub(crate) fn op<K: Kernels>(node: &Node) -> Option<&K> {
    kernels_of(node)?;
    (&*node.op as &dyn Any).downcast_ref()
}
