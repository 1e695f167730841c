//! Attention with numbers: one head, recorded as a graph and computed by the reference engine in f64. Every
//! experiment on weights and outputs goes through here, so that it tests the library and not a copy of its
//! formulas.

use crate::Draws;
use crate::compute::{array, compute, dot};
use regard::Result;
use regard::ops::{Attention, AttentionScale, RANDOM_LENGTH, WeightsRequest, random_numbers};
use regard::prelude::*;

/// Queries, keys and values of one head. A batch of scenes is computed in one run.
#[derive(Clone, Debug)]
pub struct Scene {
    /// How many scenes.
    pub batch: usize,
    /// Queries of each.
    pub queries: usize,
    /// Keys of each.
    pub keys: usize,
    /// Width of queries and keys.
    pub width: usize,
    /// Width of values.
    pub value_width: usize,
    /// The seed of noise and dropout, where there are any.
    pub seed: u64,
    /// β. An op's settings are f32: theories take β from here.
    pub beta: f32,
    /// Batch × queries × width.
    pub q: Vec<f64>,
    /// Batch × keys × width.
    pub k: Vec<f64>,
    /// Batch × keys × value width.
    pub v: Vec<f64>,
}

/// Weights and outputs of a scene.
#[derive(Clone, Debug)]
pub struct Attended {
    /// Batch × queries × keys.
    pub weights: Vec<f64>,
    /// Batch × queries × value width.
    pub mixed: Vec<f64>,
    keys: usize,
    value_width: usize,
}

impl Attended {
    /// The weights of a row: query `row % queries` of scene `row / queries`.
    pub fn weights_of(&self, row: usize) -> &[f64] {
        &self.weights[row * self.keys..(row + 1) * self.keys]
    }

    /// The output of a row.
    pub fn output_of(&self, row: usize) -> &[f64] {
        &self.mixed[row * self.value_width..(row + 1) * self.value_width]
    }
}

impl Scene {
    /// Standard normal queries, keys and values, β = 1/√d.
    pub fn random(
        draws: &mut Draws,
        batch: usize,
        queries: usize,
        keys: usize,
        width: usize,
        value_width: usize,
    ) -> Self {
        Scene {
            batch,
            queries,
            keys,
            width,
            value_width,
            seed: 0,
            beta: 1.0 / (width as f32).sqrt(),
            q: draws.normals(batch * queries * width),
            k: draws.normals(batch * keys * width),
            v: draws.normals(batch * keys * value_width),
        }
    }

    /// β as the theory needs it.
    pub fn beta(&self) -> f64 {
        self.beta as f64
    }

    /// Query `row`, over all scenes.
    pub fn query(&self, row: usize) -> &[f64] {
        &self.q[row * self.width..(row + 1) * self.width]
    }

    /// Key `row`, over all scenes.
    pub fn key(&self, row: usize) -> &[f64] {
        &self.k[row * self.width..(row + 1) * self.width]
    }

    /// Value `row`, over all scenes.
    pub fn value(&self, row: usize) -> &[f64] {
        &self.v[row * self.value_width..(row + 1) * self.value_width]
    }

    /// qᵀk of a query and a key of the first scene.
    pub fn score(&self, query: usize, key: usize) -> f64 {
        dot(self.query(query), self.key(key))
    }

    /// Soft attention to all keys.
    pub fn attend(&self) -> Result<Attended> {
        self.attend_as(|_| Ok(Attention::default()))
    }

    /// Attention of any kind; β is the scene's.
    pub fn attend_as(
        &self,
        spec: impl FnOnce(&mut Graph) -> regard_graph::Result<Attention>,
    ) -> Result<Attended> {
        let &Scene { batch, queries, keys, width, value_width, .. } = self;
        let record = |g: &mut Graph| {
            let q = g.input("query", DType::F32, [batch, queries, 1, width])?;
            let k = g.input("key", DType::F32, [batch, keys, 1, width])?;
            let v = g.input("value", DType::F32, [batch, keys, 1, value_width])?;
            let spec = Attention { scale: AttentionScale::Constant(self.beta), ..spec(g)? };
            let attended = g.attention(q, k, v, &spec)?;
            let all = WeightsRequest::Block { queries: 0..queries, keys: 0..keys };
            Ok(vec![attended.y, g.attention_weights(q, k, attended.lse, &spec, all)?.values])
        };
        let found = compute(&self.feed()?, record)?;
        let (mixed, weights) = (found[0].data().to_vec(), found[1].data().to_vec());
        Ok(Attended { weights, mixed, keys, value_width })
    }

    /// Its numbers under the names `query`, `key` and `value`.
    pub fn feed(&self) -> Result<Feed> {
        let &Scene { batch, queries, keys, width, value_width, .. } = self;
        Ok(Feed::new()
            .with("query", array(&[batch, queries, 1, width], &self.q)?)
            .with("key", array(&[batch, keys, 1, width], &self.k)?)
            .with("value", array(&[batch, keys, 1, value_width], &self.v)?)
            .with("random", array(&[RANDOM_LENGTH], &random_numbers(self.seed, 0, 0).map(f64::from))?))
    }
}

/// 1/(1 + e⁻ˣ)
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// ln(p/(1−p))
pub fn logit(p: f64) -> f64 {
    (p / (1.0 - p)).ln()
}

/// The mean of the values other than `i`, by their weights.
pub fn mean_of_others(scene: &Scene, weights: &[f64], i: usize) -> Vec<f64> {
    let mut sum = vec![0.0; scene.value_width];
    let rest: f64 = weights.iter().enumerate().filter(|(l, _)| *l != i).map(|(_, a)| a).sum();
    for (l, a) in weights.iter().enumerate().filter(|(l, _)| *l != i) {
        sum.iter_mut().zip(scene.value(l)).for_each(|(sum, v)| *sum += a / rest * v);
    }
    sum
}
