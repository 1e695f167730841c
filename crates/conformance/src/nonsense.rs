//! Nonsense: random operands of random shapes and dtypes for every recording method, most of which fit
//! nothing. What comes back may be a value or an error, but it comes back.

use crate::choices::Choices;
use regard::graph::{Dim, Result};
use regard::ops::*;
use regard::prelude::*;

/// The sizes from which shapes are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// So small that whatever can be recorded can be run.
    Small,
    /// Nothing, little, and far more than any machine has.
    Huge,
}

/// How many recording methods `Nonsense::call` knows.
pub const METHODS: usize = 67;

/// A graph in the making.
pub struct Nonsense {
    choices: Choices,
    sizes: Sizes,
    letters: Vec<Letter>,
    values: Vec<Var>,
    foreign: Vec<Var>,
}

impl Nonsense {
    /// Leaves of all kinds, and some values of another, larger graph.
    pub fn new(seed: u64, sizes: Sizes, g: &mut Graph) -> Result<Self> {
        let mut choices = Choices::new(seed);
        g.set_precision(choices.pick(&[Precision::F32, Precision::Bf16]));
        let bounds = if sizes == Sizes::Small { [4, 2] } else { [1 << 40, usize::MAX] };
        let letters = vec![g.open('B', bounds[0])?, g.open('T', bounds[1])?];
        let mut other = Graph::new();
        let foreign = (0..200).map(|i| other.input(&format!("x{i}"), DType::F32, [2, 2]));
        let foreign = foreign.collect::<Result<Vec<_>>>()?;
        let mut made = Nonsense { choices, sizes, letters, values: Vec::new(), foreign };
        for index in 0..made.choices.between(6, 14) {
            let leaf = made.leaf(g, index)?;
            made.values.push(leaf);
        }
        Ok(made)
    }

    /// All values made so far.
    pub fn values(&self) -> &[Var] {
        &self.values
    }

    /// Calls a recording method, by number, with what comes to hand.
    pub fn step(&mut self, g: &mut Graph, method: usize) -> Result<()> {
        let made = self.call(g, method)?;
        assert!(made.iter().all(|&var| g.owns(var)), "a value of another graph came back");
        self.values.extend(made);
        Ok(())
    }

    fn leaf(&mut self, g: &mut Graph, index: usize) -> Result<Var> {
        let name = format!("leaf.{index}");
        let rank = self.choices.pick(&[0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 6]);
        let dtype = self.dtype();
        let fixed: Vec<usize> = (0..rank).map(|_| self.size()).collect();
        match self.choices.below(8) {
            0 => g.parameter(&name, fixed.as_slice(), Init::Ones),
            1 => g.parameter(&name, fixed.as_slice(), Init::Zeros),
            2 => g.state(&name, dtype, fixed.as_slice(), Init::Zeros),
            3 if self.sizes == Sizes::Small => {
                let count = fixed.iter().product::<usize>();
                let numbers: Vec<f64> = (0..count).map(|_| self.choices.below(2) as f64).collect();
                g.constant(dtype, fixed.as_slice(), &numbers)
            }
            4 => {
                let shape = self.shape(rank);
                g.input_with_gradient(&name, shape)
            }
            _ => {
                let shape = self.shape(rank);
                g.input(&name, dtype, shape)
            }
        }
    }

    fn dtype(&mut self) -> DType {
        self.choices.pick(&[DType::F32, DType::F32, DType::F32, DType::BF16, DType::I32, DType::Bool])
    }

    fn size(&mut self) -> usize {
        match self.sizes {
            Sizes::Small => self.choices.pick(&[0, 1, 1, 2, 2, 2, 4, 4, 4, 4, 3, 8]),
            Sizes::Huge => self.choices.pick(&[0, 1, 2, 4, 1 << 40, 1 << 62, usize::MAX]),
        }
    }

    fn dim(&mut self) -> Dim {
        let letter = self.choices.below(2);
        match self.choices.below(8) {
            0 | 1 => self.letters[letter].into(),
            2 if self.sizes == Sizes::Huge => Dim::from(self.letters[letter]).times(&self.size().into()),
            _ => self.size().into(),
        }
    }

    fn shape(&mut self, rank: usize) -> Shape {
        Shape::new((0..rank).map(|_| self.dim()).collect())
    }

    fn any(&mut self) -> Var {
        if self.choices.one_in(60) {
            return self.choices.pick(&self.foreign.clone());
        }
        self.values[self.choices.below(self.values.len())]
    }

    fn maybe(&mut self) -> Option<Var> {
        if self.choices.one_in(3) { Some(self.any()) } else { None }
    }

    /// A value of this dtype and number of axes, where there is one.
    fn like(&mut self, g: &Graph, dtype: DType, rank: usize) -> Var {
        let fits = |var: &&Var| g.dtype(**var) == dtype && g.shape(**var).len() == rank;
        let all: Vec<Var> = self.values.iter().filter(fits).copied().collect();
        if all.is_empty() || self.choices.one_in(10) { self.any() } else { self.choices.pick(&all) }
    }

    fn axis(&mut self) -> usize {
        self.choices.pick(&[0, 0, 1, 1, 2, 3, 6, usize::MAX])
    }

    fn axes(&mut self) -> Vec<usize> {
        (0..self.choices.below(4)).map(|_| self.axis()).collect()
    }

    fn number(&mut self) -> f32 {
        self.choices.pick(&[0.0, 0.5, 1.0, -1.0, 2.0, f32::NAN, f32::INFINITY, f32::MAX, 1e-30])
    }

    fn some_dtype(&mut self) -> Option<DType> {
        if self.choices.one_in(2) { None } else { Some(self.dtype()) }
    }

    fn norm(&mut self) -> NormSpec {
        let epsilon = if self.choices.one_in(4) { self.number() } else { 1e-5 };
        NormSpec { epsilon, output: self.some_dtype() }
    }

    fn batch_norm(&mut self) -> BatchNormSpec {
        let odd = self.choices.one_in(4);
        let [epsilon, momentum] = if odd { [self.number(), self.number()] } else { [1e-5, 0.1] };
        BatchNormSpec { epsilon, momentum, output: self.some_dtype() }
    }

    fn entropy(&mut self) -> CrossEntropyOptions {
        let label_smoothing = if self.choices.one_in(4) { self.number() } else { 0.0 };
        CrossEntropyOptions { ignore_index: self.choices.pick(&[-100, 0, i32::MAX]), label_smoothing }
    }

    fn attention(&mut self, g: &Graph) -> Attention {
        let window = match self.choices.one_in(4) {
            true => Some(Window { before: self.size(), after: self.size() }),
            false => None,
        };
        let mask = AttentionMask {
            causal: self.choices.one_in(2),
            window,
            key_lengths: self.choices.one_in(5).then(|| self.like(g, DType::I32, 1)),
            key_mask: self.choices.one_in(5).then(|| self.like(g, DType::Bool, 2)),
            explicit: self.choices.one_in(5).then(|| self.like(g, DType::Bool, 4)),
        };
        let bias = match self.choices.below(12) {
            0 => AttentionBias::Buckets {
                table: self.like(g, DType::F32, 2),
                bidirectional: self.choices.one_in(2),
                max_distance: self.size(),
            },
            1 => AttentionBias::Alibi { slopes: self.like(g, DType::F32, 1) },
            2 => AttentionBias::Clipped { table: self.like(g, DType::F32, 2) },
            3 => AttentionBias::Dense(self.like(g, DType::F32, 4)),
            _ => AttentionBias::None,
        };
        let scale = match self.choices.below(6) {
            0 => AttentionScale::Constant(self.number()),
            1 => AttentionScale::Parameter(self.any()),
            _ => AttentionScale::Default,
        };
        let kind = match self.choices.below(8) {
            0 => AttentionKind::Hard,
            1 => AttentionKind::StraightThrough,
            2 => AttentionKind::Gumbel { temperature: self.number(), hard: self.choices.one_in(2) },
            _ => AttentionKind::Soft,
        };
        Attention {
            scale,
            cap: None,
            mask,
            query_position: self.choices.one_in(5).then(|| self.like(g, DType::I32, 2)),
            key_position: self.choices.one_in(5).then(|| self.like(g, DType::I32, 2)),
            key_row: self.choices.one_in(5).then(|| self.like(g, DType::I32, 1)),
            bias,
            kind,
            dropout: if self.choices.one_in(6) { self.number() } else { 0.0 },
        }
    }

    fn request(&mut self) -> WeightsRequest {
        match self.choices.below(6) {
            0 => WeightsRequest::Rows(self.axes()),
            1 => WeightsRequest::Columns(self.axes()),
            2 => WeightsRequest::Block {
                queries: self.size()..self.size(),
                keys: self.choices.below(2)..self.size(),
            },
            3 => WeightsRequest::TopK(self.size()),
            4 => WeightsRequest::ColumnSums,
            _ => WeightsRequest::Entropy,
        }
    }

    fn call(&mut self, g: &mut Graph, method: usize) -> Result<Vec<Var>> {
        let (x, y) = (self.any(), self.any());
        match method {
            ..18 => self.accumulate_to_clip(g, method, x, y),
            18..36 => self.compare_to_matmul(g, method, x, y),
            36..50 => self.norm_to_rotary(g, method, x, y),
            _ => self.scale_to_reduce(g, method, x, y),
        }
    }

    fn accumulate_to_clip(&mut self, g: &mut Graph, method: usize, x: Var, y: Var) -> Result<Vec<Var>> {
        match method {
            0 => one(g.accumulate(x, y)),
            1 => one(g.add_integers(x, y)),
            2 => {
                let position = self.maybe();
                one(g.add_position(x, y, position))
            }
            3 => one(g.assign(x, y)),
            4 => one(g.assign_number(x, self.number())),
            5 | 6 => {
                let [q, k, v] = [0; 3].map(|_| self.like(g, DType::F32, 4));
                let v = if self.choices.one_in(2) { k } else { v };
                let k = if self.choices.one_in(2) { q } else { k };
                let spec = self.attention(g);
                let made = g.attention(q, k, v, &spec)?;
                Ok(vec![made.y, made.lse, made.choice])
            }
            7 => {
                let [q, k] = [0; 2].map(|_| self.like(g, DType::F32, 4));
                let (lse, spec, request) = (self.like(g, DType::F32, 3), self.attention(g), self.request());
                let found = g.attention_weights(q, k, lse, &spec, request)?;
                Ok([Some(found.values), found.indices].into_iter().flatten().collect())
            }
            8 => {
                let running = [0; 2].map(|_| self.like(g, DType::F32, 1));
                let (scale, shift, spec) = (self.maybe(), self.maybe(), self.batch_norm());
                let made = g.batch_norm(x, running, scale, shift, spec)?;
                Ok(vec![made.normed, made.running_mean, made.running_variance])
            }
            9 => {
                let running = [0; 2].map(|_| self.like(g, DType::F32, 1));
                let (scale, shift, spec) = (self.maybe(), self.maybe(), self.batch_norm());
                one(g.batch_norm_eval(x, running, scale, shift, spec))
            }
            10 => one(g.add(x, y)),
            11 => one(g.sub(x, y)),
            12 => one(g.mul(x, y)),
            13 => one(g.div(x, y)),
            14 => one(g.broadcast_to(x, y)),
            15 => {
                let cache = self.like(g, DType::F32, 4);
                let new = self.like(g, DType::F32, 4);
                let (slot, row) = (self.like(g, DType::I32, 2), self.maybe());
                one(g.cache_write(cache, new, slot, row))
            }
            16 => one(g.cast(x, self.dtype())),
            _ => {
                let all: Vec<Var> = (0..self.choices.below(3)).map(|_| self.any()).collect();
                g.clip_norm(&all, f64::from(self.number())).map(|(a, b)| vec![a, b])
            }
        }
    }

    fn compare_to_matmul(&mut self, g: &mut Graph, method: usize, x: Var, y: Var) -> Result<Vec<Var>> {
        match method {
            18 => one(g.less(x, y)),
            19 => one(g.less_equal(x, y)),
            20 => one(g.equal(x, y)),
            21 => {
                let all: Vec<Var> = (0..self.choices.below(4)).map(|_| self.any()).collect();
                let all = if self.choices.one_in(2) { vec![x; 2] } else { all };
                one(g.concat(&all, self.axis()))
            }
            22 => {
                let targets = self.like(g, DType::I32, 1);
                let options = self.entropy();
                one(g.cross_entropy(x, targets, options))
            }
            23 => one(g.dropout(x, self.number())),
            24 => one(g.dropout_at(x, self.number(), y)),
            25 => {
                let (table, ids) = (self.like(g, DType::F32, 2), self.like(g, DType::I32, 2));
                let output = self.some_dtype();
                one(g.embedding(table, ids, output))
            }
            26 => one(g.empty_rows(x)),
            27 => {
                let rank = self.choices.below(8);
                let shape = self.shape(rank);
                one(g.fill(self.dtype(), shape, self.number()))
            }
            28 => one(g.gated(self.choices.pick(&Gate::ALL), x, y)),
            29 => {
                let indices = self.like(g, DType::I32, 1);
                one(g.gather(x, indices, self.axis()))
            }
            30 => {
                let indices = self.like(g, DType::I32, 2);
                one(g.gather_rows(x, indices))
            }
            31 => {
                let (indices, size) = (self.like(g, DType::I32, 1), self.dim());
                one(g.scatter_add(x, indices, self.axis(), size))
            }
            32 => {
                let (indices, size) = (self.like(g, DType::I32, 2), self.dim());
                one(g.scatter_add_rows(x, indices, size))
            }
            33 => {
                let options = LinearOptions {
                    bias: self.maybe(),
                    activation: self.choices.pick(&[Activation::None, Activation::Gelu]),
                    residual: self.maybe(),
                    layout: self.choices.pick(&[WeightLayout::OutIn, WeightLayout::InOut]),
                    output: self.some_dtype(),
                };
                let weight = self.like(g, DType::F32, 2);
                one(g.linear(x, weight, options))
            }
            34 => {
                let (weight, targets) = (self.like(g, DType::F32, 2), self.like(g, DType::I32, 1));
                let (x, scale, bias) =
                    (self.like(g, DType::F32, 2), self.like(g, DType::F32, 0), self.maybe());
                let options = self.entropy();
                let made = g.linear_cross_entropy(x, weight, bias, targets, scale, options)?;
                Ok(vec![made.loss])
            }
            _ => {
                let options = MatmulOptions {
                    transpose_a: self.choices.one_in(2),
                    transpose_b: self.choices.one_in(2),
                    scale: self.number(),
                    output: self.some_dtype(),
                };
                one(g.matmul(x, y, options))
            }
        }
    }

    fn norm_to_rotary(&mut self, g: &mut Graph, method: usize, x: Var, y: Var) -> Result<Vec<Var>> {
        match method {
            36 => {
                let (scale, shift, spec) = (self.maybe(), self.maybe(), self.norm());
                one(g.layer_norm(x, scale, shift, spec))
            }
            37 => {
                let (scale, shift, spec) = (self.maybe(), self.maybe(), self.norm());
                let y = if self.choices.one_in(2) { x } else { y };
                let made = g.add_layer_norm(x, y, scale, shift, spec)?;
                Ok(vec![made.normed, made.stream])
            }
            38 => {
                let (scale, spec) = (self.maybe(), self.norm());
                one(g.rms_norm(x, scale, spec))
            }
            39 => {
                let (scale, spec) = (self.maybe(), self.norm());
                let made = g.add_rms_norm(x, y, scale, spec)?;
                Ok(vec![made.normed, made.stream])
            }
            40 => one(g.patches(x, [self.size(), self.size()])),
            41 => {
                let image = [0; 3].map(|_| self.dim());
                one(g.join_patches(x, [self.size(), self.size()], image))
            }
            42 => one(g.max(x, &self.axes())),
            43 => one(g.max_keep(x, &self.axes())),
            44 => g.max_with_index(x, &self.axes()).map(|(a, b)| vec![a, b]),
            45 => one(g.argmax(x, self.axis())),
            46 => {
                let rank = self.choices.below(8);
                let shape = self.shape(rank);
                one(g.reshape(x, shape))
            }
            47 => one(g.split_heads(x, self.size())),
            48 => one(g.merge_heads(x)),
            _ => {
                let width = if self.choices.one_in(2) { None } else { Some(self.size()) };
                let spec = RotarySpec {
                    base: f64::from(self.choices.pick(&[10_000.0, 10_000.0, 0.0, -1.0, f32::NAN])),
                    width,
                    pairing: self.choices.pick(&[Pairing::Halves, Pairing::Interleaved]),
                    inverse: self.choices.one_in(2),
                    stretch: None,
                    scale: 1.0,
                };
                let (x, position) = (self.like(g, DType::F32, 4), self.maybe());
                one(g.rotary(x, position, spec))
            }
        }
    }

    fn scale_to_reduce(&mut self, g: &mut Graph, method: usize, x: Var, y: Var) -> Result<Vec<Var>> {
        match method {
            50 => one(g.scale(x, self.number())),
            51 => one(g.shift(x, self.number())),
            52 => {
                let mask = self.like(g, DType::Bool, 1);
                one(g.select(mask, x, y))
            }
            53 => {
                let (axis, start, length) = (self.axis(), self.size(), self.dim());
                one(g.slice(x, axis, start, length))
            }
            54 => {
                let (axis, length) = (self.axis(), self.dim());
                one(g.slice_last(x, axis, length))
            }
            55 => one(g.softmax_scaled(x, self.number())),
            56 => one(g.log_softmax_scaled(x, self.number())),
            57 => {
                let lengths: Vec<Dim> = (0..self.choices.below(4)).map(|_| self.dim()).collect();
                g.split(x, self.axis(), &lengths)
            }
            58 => one(g.stop_gradient(x)),
            59 => one(g.sum_to(x, y)),
            60 => {
                let rank = self.choices.below(8);
                let fact = Fact::new(self.shape(rank), self.dtype());
                one(g.sum_to_fact(x, fact))
            }
            61 => one(g.sum_all(x)),
            62 => {
                let order = if self.choices.one_in(3) { self.axes() } else { vec![1, 0] };
                one(g.transpose(x, &order))
            }
            63 => {
                let functions =
                    [UnaryOps::relu, UnaryOps::gelu, UnaryOps::log, UnaryOps::sqrt, UnaryOps::recip];
                let function: fn(&mut Graph, Var) -> Result<Var> = self.choices.pick(&functions);
                one(function(g, x))
            }
            64 => {
                let settings = AdamW { beta1: f64::from(self.number()), ..AdamW::default() };
                let settings = if self.choices.one_in(2) { AdamW::default() } else { settings };
                let (lr, step) = (self.like(g, DType::F32, 0), self.like(g, DType::I32, 0));
                let scale = self.maybe();
                g.adamw_step(&[(x, y)], &settings, lr, step, scale)
            }
            65 => {
                let settings = Sgd {
                    momentum: f64::from(self.number()),
                    nesterov: self.choices.one_in(2),
                    weight_decay: f64::from(self.number()),
                };
                let (lr, scale) = (self.like(g, DType::F32, 0), self.maybe());
                g.sgd_step(&[(x, x)], &settings, lr, scale)
            }
            _ => {
                let axes = self.axes();
                let kind = self.choices.below(6);
                one(match kind {
                    0 => g.sum(x, &axes),
                    1 => g.sum_keep(x, &axes),
                    2 => g.mean(x, &axes),
                    3 => g.mean_keep(x, &axes),
                    4 => g.mean_all(x),
                    _ => g.sum_squares(x, &axes),
                })
            }
        }
    }
}

/// A method that makes one value.
fn one(made: Result<Var>) -> Result<Vec<Var>> {
    made.map(|var| vec![var])
}
