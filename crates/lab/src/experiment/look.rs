//! What trained attention looks at: the weights of every head, asked of the attentions that the model itself
//! recorded.

use super::{Batch, Model};
use crate::Context;
use regard::Result;
use regard::ops::{AttentionOp, WeightsRequest};
use regard::prelude::*;

/// The weights of one layer: rows × heads × queries × keys.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Examples.
    pub rows: usize,
    /// Heads.
    pub heads: usize,
    /// Queries, and keys.
    pub length: usize,
    /// The weights.
    pub weights: Vec<f64>,
}

impl Pattern {
    /// The weights of one query.
    pub fn of(&self, row: usize, head: usize, query: usize) -> &[f64] {
        let at = ((row * self.heads + head) * self.length + query) * self.length;
        &self.weights[at..at + self.length]
    }

    /// All queries of a head, over all examples: the query's place and its weights.
    pub fn queries(&self, head: usize) -> impl Iterator<Item = (usize, &[f64])> {
        let pairs = (0..self.rows).flat_map(|row| (0..self.length).map(move |query| (row, query)));
        pairs.map(move |(row, query)| (query, self.of(row, head, query)))
    }

    /// The mean over examples: queries × keys.
    pub fn mean(&self, head: usize) -> Vec<f64> {
        let size = self.length * self.length;
        let mut sum = vec![0.0; size];
        for row in 0..self.rows {
            let at = (row * self.heads + head) * size;
            sum.iter_mut()
                .zip(&self.weights[at..at + size])
                .for_each(|(sum, w)| *sum += w / self.rows as f64);
        }
        sum
    }
}

/// The weights of every layer for these examples, and each head's mean output (heads × width) beside them.
pub fn patterns(
    context: &Context,
    model: &Model,
    store: &mut Store,
    batch: &Batch,
) -> Result<Vec<(Pattern, Vec<f64>)>> {
    let &Batch { rows, length, .. } = batch;
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [rows, length])?;
    let logits = model.logits(&mut g, ids)?;
    g.output("logits", logits)?;
    let attentions: Vec<[Var; 4]> = g
        .nodes()
        .iter()
        .filter(|node| node.is::<AttentionOp>())
        .map(|node| [node.inputs[0], node.inputs[1], node.outputs[1], node.outputs[0]])
        .collect();
    let spec = model.spec();
    for (layer, &[query, key, lse, y]) in attentions.iter().enumerate() {
        let all = WeightsRequest::Block { queries: 0..length, keys: 0..length };
        let weights = g.attention_weights(query, key, lse, &spec, all)?.values;
        g.output(&format!("weights.{layer}"), weights)?;
        g.output(&format!("mixed.{layer}"), y)?;
    }
    let layers = attentions.len();
    let mut program = Program::new(g, &[], store, &context.engine()?)?;
    program.set_i32("ids", &[rows, length], &batch.ids)?;
    program.run(store)?;
    (0..layers)
        .map(|layer| {
            let found = program.array(&format!("weights.{layer}"))?;
            let heads = found.dims()[1];
            let mixed = program.array(&format!("mixed.{layer}"))?;
            let width = mixed.data().len() / (rows * length);
            let mut mean = vec![0.0; width];
            for row in mixed.data().chunks(width) {
                mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x / (rows * length) as f64);
            }
            Ok((Pattern { rows, heads, length, weights: found.data().to_vec() }, mean))
        })
        .collect()
}

/// Spearman's rank correlation; ties share the mean of their ranks.
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let n = a.len() as f64;
    let mean = (n - 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

fn ranks(numbers: &[f64]) -> Vec<f64> {
    let rank = |x: &f64| {
        let below = numbers.iter().filter(|y| *y < x).count() as f64;
        let equal = numbers.iter().filter(|y| *y == x).count() as f64;
        below + (equal - 1.0) / 2.0
    };
    numbers.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_of_known_orders() {
        assert_eq!(spearman(&[1.0, 2.0, 9.0], &[0.1, 0.2, 0.3]), 1.0);
        assert_eq!(spearman(&[1.0, 2.0, 9.0], &[0.3, 0.2, 0.1]), -1.0);
        assert_eq!(ranks(&[5.0, 5.0, 1.0]), [1.5, 1.5, 0.0]);
    }
}
