//! Random programs: 5 to 40 ops on small sequences `[B T C]`, from nothing but a seed. Integers and masks are
//! constants, so every reader knows them. [`Recipe::train`] ends a program with a step of an optimizer.

use crate::choices::Choices;
use regard::graph::{Graph, Result, Var};
use regard::ops::{
    Activation, AdamW, Attention, AttentionBias, AttentionKind, AttentionMask, AttentionScale, BatchNormSpec,
    CrossEntropyOptions, Gate, LinearOptions, MatmulOptions, NormSpec, Pairing, RotarySpec, Sgd, Window,
};
use regard::prelude::*;

/// What a random program is made of.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Everything depends on it.
    pub seed: u64,
    /// Precision of products and attention.
    pub precision: Precision,
    /// Whether dropout may occur.
    pub random: bool,
    /// The largest sizes of batch, length and width.
    pub most: [usize; 3],
    /// The least and most ops.
    pub ops: [usize; 2],
    /// Whether nothing may degenerate: no single position, no narrow rows, no two keys that are the same, no
    /// flat piece of a function.
    pub generic: bool,
    /// Whether there may be scores of any size, and choices and maxima, whose derivative is not that of small
    /// differences.
    pub rough: bool,
}

impl Recipe {
    /// A program for comparing engines.
    pub fn new(seed: u64, precision: Precision) -> Self {
        Recipe { seed, precision, random: true, most: [3, 9, 24], ops: [5, 40], generic: false, rough: true }
    }

    /// A small program, for element-by-element reach.
    pub fn small(seed: u64) -> Self {
        Recipe {
            seed,
            precision: Precision::F32,
            random: false,
            most: [2, 3, 6],
            ops: [5, 12],
            generic: false,
            rough: true,
        }
    }

    /// A small program in which what can change does change.
    pub fn generic(seed: u64) -> Self {
        Recipe { generic: true, rough: false, most: [2, 4, 7], ..Recipe::small(seed) }
    }

    /// Records it; the results are the last value and some losses of it.
    pub fn record(&self, g: &mut Graph) -> Result<Vec<Var>> {
        g.set_precision(self.precision);
        let mut choices = Choices::new(self.seed);
        let batch = choices.between(1, self.most[0]);
        let length = choices.between(if self.generic { 2 } else { 1 }, self.most[1]);
        let mut author = Author { recipe: *self, batch, length, choices, values: Vec::new(), parameters: 0 };
        author.leaves(g)?;
        let steps = author.choices.between(self.ops[0], self.ops[1]);
        while g.nodes().len() < steps {
            let index = g.nodes().len();
            let value = g.scope(format!("step.{index}"), |g| author.step(g))?;
            author.values.push(value);
        }
        author.finish(g)
    }

    /// Ends a program: gradients are clipped by their norm, and AdamW or SGD takes a step with them.
    pub fn train(&self, g: &mut Graph, parameters: &[(Var, Var)]) -> Result<()> {
        if parameters.is_empty() {
            return Ok(());
        }
        let mut choices = Choices::new(self.seed ^ 0x5_7e95);
        let gradients: Vec<Var> = parameters.iter().map(|&(_, gradient)| gradient).collect();
        let (_, scale) = g.clip_norm(&gradients, choices.pick(&[0.1, 1.0, 1e6]))?;
        let scale = if choices.one_in(3) { None } else { Some(scale) };
        let lr = g.constant(DType::F32, shape![], &[choices.pick(&[1e-3, 0.1])])?;
        let weight_decay = choices.pick(&[0.0, 0.1]);
        if choices.one_in(2) {
            let step = g.constant(DType::I32, shape![], &[choices.pick(&[1.0, 2.0, 1000.0])])?;
            g.adamw_step(parameters, &AdamW { weight_decay, ..Default::default() }, lr, step, scale)?;
        } else {
            let momentum = choices.pick(&[0.0, 0.9]);
            let nesterov = momentum > 0.0 && choices.one_in(2);
            g.sgd_step(parameters, &Sgd { momentum, nesterov, weight_decay }, lr, scale)?;
        }
        Ok(())
    }
}

struct Author {
    recipe: Recipe,
    batch: usize,
    length: usize,
    choices: Choices,
    /// All `[batch length C]`, with different widths C.
    values: Vec<Var>,
    parameters: usize,
}

impl Author {
    fn leaves(&mut self, g: &mut Graph) -> Result<()> {
        for index in 0..self.choices.between(1, 2) {
            let width = self.width();
            let x = g.input_with_gradient(&format!("x.{index}"), [self.batch, self.length, width])?;
            self.values.push(x);
        }
        if self.choices.one_in(2) {
            let positions = self.batch * self.length;
            let tokens = if self.recipe.generic { positions + 1 } else { self.choices.between(2, 7) };
            let width = self.width();
            let ids = self.indices(g, &[self.batch, self.length], tokens)?;
            let table = self.parameter(g, &[tokens, width])?;
            let embedded = g.embedding(table, ids, None)?;
            self.values.push(embedded);
        }
        Ok(())
    }

    /// One more value from those there are.
    fn step(&mut self, g: &mut Graph) -> Result<Var> {
        let x = self.value();
        match self.choices.below(if self.recipe.rough { 23 } else { 20 }) {
            0 | 1 => self.linear(g, x),
            2 => self.norm(g, x),
            3 => self.unary(g, x),
            4 => {
                let b = self.linear_to(g, x, self.width_of(g, x))?;
                let b = self.as_like(g, b, x)?;
                let gates = [Gate::Relu, Gate::Gelu, Gate::GeluTanh, Gate::Silu, Gate::Sigmoid];
                let gate = self.choices.pick(&gates[usize::from(self.recipe.generic)..]);
                g.gated(gate, x, b)
            }
            5 | 6 => self.arithmetic(g, x),
            7 if self.recipe.random => g.dropout(x, 0.3),
            7 => g.scale(x, 0.7),
            8 => {
                if self.choices.one_in(2) {
                    g.softmax(x)
                } else {
                    g.log_softmax(x)
                }
            }
            9..=11 => self.attention(g, x),
            12 => self.product(g, x),
            13 => self.join_and_cut(g, x),
            14 => {
                let turned = g.transpose(x, &[0, 2, 1])?;
                let bent = g.tanh(turned)?;
                g.transpose(bent, &[0, 2, 1])
            }
            15 => {
                let width = self.width_of(g, x);
                let flat = g.reshape(x, [self.batch * self.length, width])?;
                let flat = self.linear_to(g, flat, width)?;
                g.reshape(flat, [self.batch, self.length, width])
            }
            16 => {
                let mean = g.mean_keep(x, &[1])?;
                g.add(x, mean)
            }
            17 => {
                let indices = self.indices(g, &[self.length], self.length)?;
                g.gather(x, indices, 1)
            }
            18 => {
                let table = self.parameter(g, &[self.length, self.width_of(g, x)])?;
                g.add_position(x, table, None)
            }
            19 => {
                let dims = [self.batch, self.length, self.width_of(g, x)];
                let mask = self.truths(g, &dims)?;
                let other = g.scale(x, -0.5)?;
                g.select(mask, x, other)
            }
            20 => {
                let axes: &[usize] = self.choices.pick(&[&[1], &[2], &[1, 2]]);
                let most = g.max_keep(x, axes)?;
                g.sub(x, most)
            }
            21 => self.patches(g, x),
            _ => self.cached(g, x),
        }
    }

    fn linear(&mut self, g: &mut Graph, x: Var) -> Result<Var> {
        let width = self.width();
        // Far below zero an activation is flat.
        let x = if self.recipe.generic { g.scale(x, 1.0 / self.width_of(g, x) as f32)? } else { x };
        let weight = self.parameter(g, &[width, self.width_of(g, x)])?;
        let bias = if self.choices.one_in(2) { Some(self.parameter(g, &[width])?) } else { None };
        let kinds =
            [Activation::None, Activation::Relu, Activation::Gelu, Activation::GeluTanh, Activation::Silu];
        let mut activation = self.choices.pick(&kinds);
        if self.recipe.generic && activation == Activation::Relu {
            activation = Activation::Silu;
        }
        let fits: Vec<Var> = self.values.iter().copied().filter(|&v| self.width_of(g, v) == width).collect();
        let residual = if fits.is_empty() { None } else { Some(self.choices.pick(&fits)) };
        g.linear(x, weight, LinearOptions { bias, activation, residual, ..Default::default() })
    }

    /// A plain product, scaled so that numbers of size 1 stay of size 1.
    fn linear_to(&mut self, g: &mut Graph, x: Var, width: usize) -> Result<Var> {
        let from = self.width_of(g, x);
        let weight = self.parameter(g, &[width, from])?;
        let y = g.linear(x, weight, LinearOptions::default())?;
        g.scale(y, 1.0 / (from as f32).sqrt())
    }

    fn norm(&mut self, g: &mut Graph, x: Var) -> Result<Var> {
        let width = self.width_of(g, x);
        // Norms of very few numbers have a vanishing derivative, of which a relative error says nothing.
        if width < 5 {
            return g.tanh(x);
        }
        let scale = self.parameter(g, &[width])?;
        let shift = self.parameter(g, &[width])?;
        match self.choices.below(3) {
            0 => g.layer_norm(x, Some(scale), Some(shift), NormSpec::default()),
            1 => g.rms_norm(x, Some(scale), NormSpec::default()),
            _ if self.batch * self.length < 5 => g.layer_norm(x, None, None, NormSpec::default()),
            _ => {
                let name = format!("running.{}", self.parameters);
                let mean = g.state(&format!("{name}.mean"), DType::F32, [width], Init::Zeros)?;
                let variance = g.state(&format!("{name}.variance"), DType::F32, [width], Init::Ones)?;
                let spec = BatchNormSpec::default();
                Ok(g.batch_norm(x, [mean, variance], Some(scale), Some(shift), spec)?.normed)
            }
        }
    }

    fn unary(&mut self, g: &mut Graph, x: Var) -> Result<Var> {
        match self.choices.below(9) {
            0 if !self.recipe.generic => g.relu(x),
            1 => g.gelu(x),
            2 => g.gelu_tanh(x),
            3 => g.silu(x),
            4 => g.tanh(x),
            0 | 5 => g.sigmoid(x),
            6 => {
                let small = g.tanh(x)?;
                g.exp(small)
            }
            7 => {
                let positive = g.sigmoid(x)?;
                let positive = g.shift(positive, 1.5)?;
                g.log(positive)
            }
            _ => {
                let square = g.square(x)?;
                let positive = g.shift(square, 1.0)?;
                g.sqrt(positive)
            }
        }
    }

    fn arithmetic(&mut self, g: &mut Graph, x: Var) -> Result<Var> {
        let width = self.width_of(g, x);
        let dims: &[usize] = match self.choices.below(3) {
            // Norms and softmax do not feel what is added to a whole row.
            1 if self.recipe.generic => &[width],
            0 => &[width],
            1 => &[self.length, 1],
            _ => &[self.batch, self.length, width],
        };
        let other = self.parameter(g, dims)?;
        match self.choices.below(4) {
            0 => g.add(x, other),
            1 => g.sub(other, x),
            2 => {
                let bounded = g.tanh(other)?;
                g.mul(x, bounded)
            }
            _ => {
                let positive = g.sigmoid(other)?;
                let positive = g.shift(positive, 0.5)?;
                g.div(x, positive)
            }
        }
    }

    fn attention(&mut self, g: &mut Graph, x: Var) -> Result<Var> {
        let groups = self.choices.between(1, 2);
        let heads = groups * self.choices.between(1, 2);
        let narrowest = if self.recipe.generic { 3 } else { 1 };
        let (d, e) = (2 * self.choices.between(1, 4), self.choices.between(narrowest, 5));
        let source = self.value();
        let mut project = |g: &mut Graph, from: Var, heads: usize, width: usize| -> Result<Var> {
            // Scores of size 1, or of any size.
            let bounded = !self.recipe.rough || self.choices.one_in(2);
            let from = if bounded { g.tanh(from)? } else { from };
            let y = self.linear_to(g, from, heads * width)?;
            g.split_heads(y, heads)
        };
        let mut query = project(g, x, heads, d)?;
        let mut key = project(g, source, groups, d)?;
        let value = project(g, source, groups, e)?;
        if self.choices.one_in(2) {
            let spec = RotarySpec {
                pairing: self.choices.pick(&[Pairing::Halves, Pairing::Interleaved]),
                ..Default::default()
            };
            query = g.rotary(query, None, spec)?;
            key = g.rotary(key, None, spec)?;
        }
        let [b, t] = [self.batch, self.length];
        let mut mask = AttentionMask { causal: self.choices.one_in(3), ..Default::default() };
        let masks = self.choices.below(5);
        match masks {
            0 => mask.window = Some(Window { before: self.choices.below(3), after: self.choices.below(2) }),
            1 => mask.key_lengths = Some(self.lengths(g)?),
            2 => mask.key_mask = Some(self.allowed(g, &[b, t])?),
            3 => {
                let dims = [self.choices.pick(&[1, b]), self.choices.pick(&[1, heads]), t, t];
                mask.explicit = Some(self.allowed(g, &dims)?);
            }
            _ => {}
        }
        let bias = match self.choices.below(5) {
            // An entry of a table that all keys of a row share moves nothing: with a mask, that may be so.
            0 | 2 if self.recipe.generic && masks < 4 => AttentionBias::None,
            0 => AttentionBias::Buckets {
                table: self.parameter(g, &[8, heads])?,
                bidirectional: self.choices.one_in(2) || self.recipe.generic,
                max_distance: 6,
            },
            1 => AttentionBias::Alibi { slopes: self.parameter(g, &[heads])? },
            2 => AttentionBias::Clipped { table: self.parameter(g, &[5, heads])? },
            3 => {
                let rows = self.choices.pick(&[1, b]);
                AttentionBias::Dense(self.parameter(g, &[rows, 1, t, t])?)
            }
            _ => AttentionBias::None,
        };
        let scale = match self.choices.below(3) {
            0 => AttentionScale::Parameter(self.parameter(g, &[heads])?),
            1 => AttentionScale::Constant(0.5),
            _ => AttentionScale::Default,
        };
        let dropout = if self.recipe.random && self.choices.one_in(3) { 0.25 } else { 0.0 };
        let spec = Attention { scale, mask, bias, kind: self.kind(), dropout, ..Default::default() };
        let mixed = g.attention(query, key, value, &spec)?.y;
        g.merge_heads(mixed)
    }

    /// Mostly the softmax.
    fn kind(&mut self) -> AttentionKind {
        match self.choices.below(8) {
            _ if !self.recipe.rough => AttentionKind::Soft,
            0 => AttentionKind::Hard,
            1 => AttentionKind::StraightThrough,
            2 | 3 if self.recipe.random => {
                AttentionKind::Gumbel { temperature: 0.7, hard: self.choices.one_in(2) }
            }
            _ => AttentionKind::Soft,
        }
    }

    /// A sequence seen as images of one channel, cut into patches and seen as a sequence again.
    fn patches(&mut self, g: &mut Graph, x: Var) -> Result<Var> {
        let (length, width) = (self.length, self.width_of(g, x));
        let mut part = |of: usize| {
            let parts: Vec<usize> = (1..=of).filter(|&part| of.is_multiple_of(part)).collect();
            self.choices.pick(&parts)
        };
        let patch = [part(length), part(width)];
        let image = g.reshape(x, [self.batch, 1, length, width])?;
        let rows = g.patches(image, patch)?;
        g.reshape(rows, [self.batch, length, width])
    }

    /// Attention to keys and values that are written into caches first; no gradient goes through those.
    fn cached(&mut self, g: &mut Graph, x: Var) -> Result<Var> {
        let (heads, width, slots) = (self.choices.between(1, 2), 3, self.length + self.choices.below(3));
        let dtype = self.choices.pick(&[DType::F32, DType::BF16]);
        let mut caches = Vec::new();
        for part in ["key", "value"] {
            let new = self.linear_to(g, x, heads * width)?;
            let new = g.split_heads(new, heads)?;
            self.parameters += 1;
            let name = format!("cache.{}.{part}", self.parameters);
            let cache = g.state(&name, dtype, [self.batch, slots, heads, width], Init::Zeros)?;
            let mut left: Vec<usize> = (0..slots).collect();
            let order: Vec<f64> =
                (0..self.length).map(|_| left.remove(self.choices.below(left.len())) as f64).collect();
            let slot = g.constant(DType::I32, [self.batch, self.length], &order.repeat(self.batch))?;
            let written = g.cache_write(cache, new, slot, None)?;
            caches.push(if dtype == DType::F32 { written } else { g.cast(written, DType::F32)? });
        }
        let query = self.linear_to(g, x, heads * width)?;
        let query = g.split_heads(query, heads)?;
        let mixed = g.attention(query, caches[0], caches[1], &Attention::default())?.y;
        g.merge_heads(mixed)
    }

    /// (x · yᵀ) · z, as attention without its softmax.
    fn product(&mut self, g: &mut Graph, x: Var) -> Result<Var> {
        let y = self.linear_to(g, self.values[0], self.width_of(g, x))?;
        let scale = 1.0 / (self.width_of(g, x) * self.length) as f32;
        let scores = g.matmul(x, y, MatmulOptions { transpose_b: true, scale, ..Default::default() })?;
        let z = self.value();
        g.matmul(scores, z, MatmulOptions::default())
    }

    fn join_and_cut(&mut self, g: &mut Graph, x: Var) -> Result<Var> {
        let y = self.linear_to(g, x, self.width_of(g, x))?;
        let y = self.as_like(g, y, x)?;
        let joined = g.concat(&[x, y], 2)?;
        let width = 2 * self.width_of(g, x);
        let narrowest = if self.recipe.generic { 3 } else { 1 };
        let start = self.choices.below(width - narrowest + 1);
        let length = self.choices.between(narrowest, width - start);
        g.slice(joined, 2, start, length)
    }

    fn finish(&mut self, g: &mut Graph) -> Result<Vec<Var>> {
        let last = self.values[self.values.len() - 1];
        let classes = self.width_of(g, last);
        let mut results = vec![last];
        // One class has no loss to speak of.
        if classes > 1 {
            let targets = self.integers(g, &[self.batch, self.length], classes)?;
            let options = CrossEntropyOptions { label_smoothing: 0.1, ..Default::default() };
            results.push(g.scope("finish", |g| g.cross_entropy(last, targets, options))?);
            let weight = self.parameter(g, &[6, classes])?;
            let targets = self.integers(g, &[self.batch, self.length], 6)?;
            let scale = g.constant(DType::F32, shape![], &[0.5])?;
            let loss = g.scope("finish", |g| {
                g.linear_cross_entropy(last, weight, None, targets, scale, CrossEntropyOptions::default())
            })?;
            results.push(loss.loss);
        }
        Ok(results)
    }

    // ---- small change -------------------------------------------------------------------------------

    fn value(&mut self) -> Var {
        // Mostly recent ones, so that programs are deep rather than wide.
        let recent = self.values.len().min(3);
        self.values[self.values.len() - 1 - self.choices.below(recent)]
    }

    fn width(&mut self) -> usize {
        let least = if self.recipe.generic { 3 } else { 2 };
        self.choices.between(least, self.recipe.most[2])
    }

    fn width_of(&self, g: &Graph, x: Var) -> usize {
        g.shape(x).bound().last_size()
    }

    fn as_like(&self, g: &mut Graph, x: Var, like: Var) -> Result<Var> {
        if g.dtype(x) == g.dtype(like) { Ok(x) } else { g.cast(x, g.dtype(like)) }
    }

    fn parameter(&mut self, g: &mut Graph, dims: &[usize]) -> Result<Var> {
        self.parameters += 1;
        g.parameter(&format!("parameter.{}", self.parameters), dims, Init::Normal(1.0))
    }

    fn integers(&mut self, g: &mut Graph, dims: &[usize], below: usize) -> Result<Var> {
        let numbers: Vec<f64> =
            (0..dims.iter().product()).map(|_| self.choices.below(below) as f64).collect();
        g.constant(DType::I32, dims, &numbers)
    }

    /// Indices into `below` rows: any of them, or different ones, so that no two rows become the same.
    fn indices(&mut self, g: &mut Graph, dims: &[usize], below: usize) -> Result<Var> {
        if !self.recipe.generic {
            return self.integers(g, dims, below);
        }
        let mut left: Vec<f64> = (0..below).map(|index| index as f64).collect();
        let count: usize = dims.iter().product();
        let numbers: Vec<f64> = (0..count).map(|_| left.remove(self.choices.below(left.len()))).collect();
        g.constant(DType::I32, dims, &numbers)
    }

    /// How many keys each example has; a row without keys is zero, and what it multiplies is not felt.
    fn lengths(&mut self, g: &mut Graph) -> Result<Var> {
        let least = usize::from(self.recipe.generic);
        let numbers: Vec<f64> =
            (0..self.batch).map(|_| (least + self.choices.below(self.length + 1 - least)) as f64).collect();
        g.constant(DType::I32, [self.batch], &numbers)
    }

    /// A mask whose last axis is that of the keys; the first key is always allowed where no row may be empty.
    fn allowed(&mut self, g: &mut Graph, dims: &[usize]) -> Result<Var> {
        let first = |at: usize| self.recipe.generic && at.is_multiple_of(self.length);
        let firsts: Vec<bool> = (0..dims.iter().product()).map(first).collect();
        let truths: Vec<f64> = firsts
            .into_iter()
            .map(|first| if self.choices.one_in(3) && !first { 0.0 } else { 1.0 })
            .collect();
        g.constant(DType::Bool, dims, &truths)
    }

    fn truths(&mut self, g: &mut Graph, dims: &[usize]) -> Result<Var> {
        let truths: Vec<f64> =
            (0..dims.iter().product()).map(|_| if self.choices.one_in(3) { 0.0 } else { 1.0 }).collect();
        g.constant(DType::Bool, dims, &truths)
    }
}
