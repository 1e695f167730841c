//! How the weights of a whole program are held: one rewrite of its graph, whatever model recorded it.
//! Products with parameters become products with integers, or with bf16, the output projection inside of a
//! loss as well; embeddings, norms, biases and attention stay as they are.

use super::{QuantisedLinear, Rounding};
use crate::kernels::attached;
use crate::{
    BinaryOps, CrossEntropyOps, CrossEntropyOptions, Kernels, Linear, LinearCrossEntropy, LinearOptions,
    QuantisedLinearOps, SumToOps,
};
use regard_graph::*;
use std::any::Any;

/// How the weights of products are held in memory while a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Weights {
    /// As the precision of the program says: f32, or rounded to bf16.
    #[default]
    Full,
    /// Rounded to bf16, and so is what they are multiplied by: half the bytes of f32.
    Bf16,
    /// 8-bit integers with a scale for each output, for inference: a quarter of the bytes of f32.
    Int8,
    /// 8-bit integers with a scale for each 32 inputs, for inference; so is what they are multiplied by.
    Q8,
    /// 4-bit integers with a scale and a least number for each 32 inputs, for inference: a sixth of the bytes
    /// of f32. What they are multiplied by is rounded to 8 bits.
    Q4,
}

impl Weights {
    /// How weights become integers, if they do.
    fn rounding(self) -> Option<Rounding> {
        match self {
            Weights::Full | Weights::Bf16 => None,
            Weights::Int8 => Some(Rounding::Outputs),
            Weights::Q8 => Some(Rounding::Blocks8),
            Weights::Q4 => Some(Rounding::Blocks4),
        }
    }
}

/// The same program with weights held in this way.
///
/// ```
/// # use regard_ops::prelude::*;
/// # use regard_ops::{LinearOptions, Weights, with_weights};
/// # fn main() -> regard_graph::Result<()> {
/// let mut g = Graph::inference();
/// let x = g.input("x", DType::F32, [2, 8])?;
/// let weight = g.parameter("up.weight", [32, 8], Init::Normal(0.02))?;
/// let y = g.linear(x, weight, LinearOptions::default())?;
/// g.output("y", y)?;
/// let g = with_weights(g, Weights::Q8)?;
/// assert_eq!(g.nodes()[0].name, "quantised_linear");
/// # Ok(()) }
/// ```
pub fn with_weights(g: Graph, weights: Weights) -> Result<Graph> {
    if weights == Weights::Full {
        return Ok(g);
    }
    let parameter = |var: Var| match g.value(var).origin {
        Origin::Stored(at) => g.stored()[at].role == Role::Parameter,
        _ => false,
    };
    rewrite(&g, |new, at, operands| {
        let node = &g.nodes()[at];
        let op: &dyn Any = &*node.op;
        if let Some(&linear) = op.downcast_ref::<Linear>()
            && parameter(node.inputs[1])
        {
            let mut results = match weights.rounding() {
                Some(rounding) => instead(new, node, QuantisedLinear { linear, rounding }, operands)?,
                None => instead(new, node, Linear { precision: Precision::Bf16, ..linear }, operands)?,
            };
            // What came before the activation is for gradients, of which there are none.
            results.truncate(1);
            return Ok(results);
        }
        if let Some(&op) = op.downcast_ref::<LinearCrossEntropy>()
            && parameter(node.inputs[1])
        {
            return match weights.rounding() {
                Some(rounding) => node.in_scope(new, |new| loss(new, &op, rounding, operands)),
                None => instead(new, node, LinearCrossEntropy { precision: Precision::Bf16, ..op }, operands),
            };
        }
        node.record_again(new, operands)
    })
}

/// Records an op in the place of a node.
fn instead<K: Kernels>(g: &mut Graph, node: &Node, op: K, operands: &[Var]) -> Result<Vec<Var>> {
    let (op, attachment) = attached(op);
    node.record_as(g, op, attachment, operands)
}

/// The output projection and the cross-entropy one after the other; there are no gradients in a forward pass.
fn loss(g: &mut Graph, op: &LinearCrossEntropy, rounding: Rounding, operands: &[Var]) -> Result<Vec<Var>> {
    let bias = op.bias.then(|| operands[2]);
    let (targets, scale) = (operands[operands.len() - 2], operands[operands.len() - 1]);
    let options = LinearOptions { bias, output: Some(DType::F32), ..Default::default() };
    let logits = g.quantised_linear(operands[0], operands[1], rounding, options)?;
    let LinearCrossEntropy { ignore_index, label_smoothing, .. } = *op;
    let rows = g.cross_entropy(logits, targets, CrossEntropyOptions { ignore_index, label_smoothing })?;
    let sum = g.sum_all(rows)?;
    Ok(vec![g.mul(sum, scale)?, rows])
}
