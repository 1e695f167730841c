//! ViT (Dosovitskiy et al. 2021): images cut into patches, each a row of a linear layer, a class token in
//! front, learned positions, pre-norm blocks, a final norm, a head. DeiT has a second token, which a teacher
//! taught; DINOv2 scales what its blocks add. Letters: B batch, Ch channels, Hh and Ww height and width of
//! images, P patches, T = 1 + P or 2 + P, C width, L classes.

use crate::grid::interpolation;
use crate::mechanisms::Mechanisms;
use crate::positions::Positions;
use regard_graph::{Error, Graph, Init, Result, Var};
use regard_layers::{
    AbsolutePositions, AttentionConfig, Biases, BlockConfig, Context, FeedForwardConfig, FeedForwardKind,
    LinearConfig, LinearLayer, NormConfig, NormPlace, Parameter, Parameters, Stack, StackConfig,
};
use regard_ops::prelude::*;
use regard_ops::{CrossEntropyOptions, LinearOptions, MatmulOptions};

/// The settings of a ViT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VitConfig {
    /// Height and width of the images.
    pub image: [usize; 2],
    /// Height and width of a patch.
    pub patch: [usize; 2],
    /// Ch.
    pub channels: usize,
    /// How many blocks.
    pub layers: usize,
    /// H, heads of each attention; they share the width.
    pub heads: usize,
    /// C, width of the residual stream.
    pub width: usize,
    /// F, hidden width of the feed-forward parts.
    pub hidden: usize,
    /// What happens inside of the feed-forward parts.
    pub activation: FeedForwardKind,
    /// Whether query, key and value have biases.
    pub input_bias: bool,
    /// Whether patches know where they stand; without positions, their order means nothing.
    pub positions: bool,
    /// What the head reads.
    pub pooling: VitPooling,
    /// What stands on top.
    pub head: VitHead,
    /// Added to the variance in all norms.
    pub epsilon: f32,
    /// Probability with which activations are dropped in training.
    pub dropout: f32,
    /// Probability with which attention weights are dropped in training.
    pub attention_dropout: f32,
    /// Standard deviation of the weights at the beginning.
    pub std: f32,
    /// What its blocks are made of where that is not ViT's own.
    pub mechanisms: Mechanisms,
    /// Which of the ViTs it is.
    pub form: VitForm,
}

/// Which of the ViTs it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum VitForm {
    /// The first.
    #[default]
    Plain,
    /// Touvron et al. 2021: a distillation token behind the class token.
    Deit,
    /// Oquab et al. 2023: each channel of what a block's parts add is multiplied by a learned number.
    Dinov2 {
        /// What these numbers begin with.
        scale: f32,
        /// Rows and columns of patches that the positions were learned on, where images have others: they are
        /// interpolated.
        learned: Option<[usize; 2]>,
    },
}

impl VitForm {
    /// Tokens in front of the patches.
    pub fn tokens(self) -> usize {
        if self == VitForm::Deit { 2 } else { 1 }
    }
}

/// What the head reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VitPooling {
    /// The class token.
    #[default]
    Class,
    /// The mean of all patches, without the class token.
    Mean,
    /// Both, side by side: 2 C.
    ClassAndMean,
}

/// What stands on top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VitHead {
    /// Nothing.
    #[default]
    None,
    /// What is pooled, through a layer of this width with tanh: the pooler of a model without classes.
    Pooler(usize),
    /// Scores of this many classes, by a linear layer.
    Linear(usize),
    /// The mean of two linear layers' scores of this many classes: one reads the class token, the other the
    /// distillation token.
    Taught(usize),
    /// The same behind one hidden layer with tanh, as in pre-training.
    Mlp {
        /// Width of the hidden layer.
        hidden: usize,
        /// How many classes.
        classes: usize,
    },
}

/// Named sizes, for images of 224 by 224 and the 1000 classes of ImageNet.
pub const PRESETS: [(&str, VitConfig); 5] = [
    ("vit-tiny-16", sized(12, 3, 192, 16)),
    ("vit-small-16", sized(12, 6, 384, 16)),
    ("vit-base-16", sized(12, 12, 768, 16)),
    ("vit-base-32", sized(12, 12, 768, 32)),
    ("vit-large-16", sized(24, 16, 1024, 16)),
];

const fn sized(layers: usize, heads: usize, width: usize, patch: usize) -> VitConfig {
    VitConfig {
        image: [224, 224],
        patch: [patch, patch],
        channels: 3,
        layers,
        heads,
        width,
        hidden: 4 * width,
        activation: FeedForwardKind::Gelu,
        input_bias: true,
        positions: true,
        pooling: VitPooling::Class,
        head: VitHead::Linear(1000),
        epsilon: 1e-12,
        dropout: 0.0,
        attention_dropout: 0.0,
        std: 0.02,
        mechanisms: Mechanisms::NONE,
        form: VitForm::Plain,
    }
}

impl Default for VitConfig {
    /// ViT base with patches of 16 by 16, for ImageNet.
    fn default() -> Self {
        sized(12, 12, 768, 16)
    }
}

impl VitConfig {
    /// A named size of [`PRESETS`].
    pub fn preset(name: &str) -> Result<VitConfig> {
        match PRESETS.iter().find(|(known, _)| *known == name) {
            Some((_, config)) => Ok(*config),
            None => Err(Error::unknown("preset", name, PRESETS.iter().map(|(known, _)| *known))),
        }
    }

    /// The same without dropout: for everything but training.
    pub fn without_dropout(self) -> VitConfig {
        VitConfig { dropout: 0.0, attention_dropout: 0.0, ..self }
    }

    /// Rows and columns of patches.
    pub fn grid(&self) -> [usize; 2] {
        [self.image[0] / self.patch[0].max(1), self.image[1] / self.patch[1].max(1)]
    }

    /// Each of its blocks.
    fn block(&self) -> Result<BlockConfig> {
        let VitConfig { width, std, .. } = *self;
        let attention = AttentionConfig {
            biases: Biases { inputs: self.input_bias, output: true },
            dropout: self.attention_dropout,
            std,
            ..self.mechanisms.attention_of(width, self.heads)?
        };
        let feed_forward = FeedForwardConfig {
            width,
            hidden: self.hidden,
            kind: self.activation,
            bias: true,
            dropout: 0.0,
            std,
        };
        let norm = NormConfig { epsilon: self.epsilon, ..NormConfig::layer(width) };
        let (place, dropout) = (NormPlace::Pre, self.dropout);
        let mut block = BlockConfig { attention, cross: None, feed_forward, norm, place, dropout };
        self.mechanisms.apply(&mut block);
        Ok(block)
    }

    /// Rows and columns of patches that the positions are for.
    pub(crate) fn learned_grid(&self) -> [usize; 2] {
        match self.form {
            VitForm::Dinov2 { learned: Some(grid), .. } => grid,
            _ => self.grid(),
        }
    }

    fn check(&self) -> Result<()> {
        let nonsense = |what: String, advice: &str| Err(Error::invalid("vit", what, advice));
        let VitConfig { image, patch, channels, layers, heads, width, hidden, .. } = *self;
        let [[height, across], [p, q]] = [image, patch];
        if [height, across, p, q, channels, layers, heads, width, hidden].contains(&0) {
            return nonsense(format!("one of the sizes is 0: {self:?}"), "give every size at least 1");
        }
        if height % p != 0 || across % q != 0 {
            return nonsense(
                format!("images of {height} by {across} cannot be cut into patches of {p} by {q}"),
                "choose an image size that the patch divides",
            );
        }
        self.mechanisms.check("vit", false)?;
        if !width.is_multiple_of(heads) && self.mechanisms.head_width.is_none() {
            return nonsense(
                format!("a width of {width} cannot be shared by {heads} heads"),
                "choose a width that is a multiple of the heads",
            );
        }
        if !(self.std.is_finite() && self.std >= 0.0) {
            return nonsense(
                format!("the standard deviation of the weights is {}", self.std),
                "give a number that is not negative",
            );
        }
        for (name, probability) in [("dropout", self.dropout), ("attention_dropout", self.attention_dropout)]
        {
            if !(0.0..1.0).contains(&probability) {
                return nonsense(
                    format!("{name} is {probability}"),
                    "choose a probability from 0 up to, not including, 1",
                );
            }
        }
        if let VitHead::Linear(0)
        | VitHead::Taught(0)
        | VitHead::Pooler(0)
        | VitHead::Mlp { hidden: 0, .. }
        | VitHead::Mlp { classes: 0, .. } = self.head
        {
            return nonsense(format!("the head is {:?}", self.head), "give every size at least 1");
        }
        if matches!(self.head, VitHead::Taught(_)) && self.form != VitForm::Deit {
            return nonsense(
                "a head for a distillation token, which only the form Deit has".into(),
                "choose the head Linear, or the form Deit",
            );
        }
        Ok(())
    }
}

/// A ViT. All methods record; parameters are made in the store at the first use.
#[derive(Clone, Debug)]
pub struct Vit {
    config: VitConfig,
    parameters: Parameters,
    patches: LinearLayer,
    class_token: Parameter,
    distillation_token: Option<Parameter>,
    positions: AbsolutePositions,
    stack: Stack,
    head_hidden: Option<LinearLayer>,
    head: Option<LinearLayer>,
    taught: Option<LinearLayer>,
}

impl Vit {
    /// Declares the parameters, if the settings make sense.
    pub fn new(config: VitConfig) -> Result<Self> {
        config.check()?;
        let VitConfig { patch: [p, q], width, std, .. } = config;
        let mut parameters = Parameters::new();
        let linear = |parameters: &mut Parameters, name: &str, inputs: usize, outputs: usize| {
            let sizes = LinearConfig { inputs, outputs, bias: true, std };
            parameters.under(name, |parameters| LinearLayer::new(sizes, parameters))
        };
        let pixels = config.channels.saturating_mul(p).saturating_mul(q);
        let patches = linear(&mut parameters, "patch_embedding", pixels, width)?;
        let class_token = parameters.declare("class_token", [width], Init::Normal(std))?;
        let distillation_token = match config.form {
            VitForm::Deit => Some(parameters.declare("distillation_token", [width], Init::Normal(std))?),
            VitForm::Plain | VitForm::Dinov2 { .. } => None,
        };
        let [rows, columns] = config.learned_grid();
        let mechanisms = config.mechanisms;
        let own = if config.positions { Positions::Learned } else { Positions::None };
        let chosen = mechanisms.positions.unwrap_or(own);
        let most = rows.saturating_mul(columns).saturating_add(config.form.tokens());
        let (absolute, relative) = chosen.parts(width, most, std, true);
        let positions = parameters.under("position_embedding", |p| AbsolutePositions::new(absolute, p))?;
        let block = config.block()?;
        let final_norm = block.place.leaves_raw();
        let stack = StackConfig { layers: config.layers, block, final_norm, relative };
        let mut stack = Stack::new(stack, &mut parameters)?;
        if let VitForm::Dinov2 { scale, .. } = config.form {
            stack = stack.scaled(width, scale, &mut parameters)?;
        }
        let pooled = if config.pooling == VitPooling::ClassAndMean { 2 * width } else { width };
        let (mut head_hidden, mut head, mut taught) = (None, None, None);
        match config.head {
            VitHead::None => {}
            VitHead::Pooler(hidden) => head_hidden = Some(linear(&mut parameters, "pooler", pooled, hidden)?),
            VitHead::Linear(classes) => head = Some(linear(&mut parameters, "head", pooled, classes)?),
            VitHead::Taught(classes) => {
                head = Some(linear(&mut parameters, "head", pooled, classes)?);
                taught = Some(linear(&mut parameters, "taught", width, classes)?);
            }
            VitHead::Mlp { hidden, classes } => {
                head_hidden = Some(linear(&mut parameters, "head_hidden", pooled, hidden)?);
                head = Some(linear(&mut parameters, "head", hidden, classes)?);
            }
        }
        Ok(Vit {
            config,
            parameters,
            patches,
            class_token,
            distillation_token,
            positions,
            stack,
            head_hidden,
            head,
            taught,
        })
    }

    /// Its settings.
    pub fn config(&self) -> &VitConfig {
        &self.config
    }

    /// What it learns.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The class token and the patches after the final norm: B Ch Hh Ww -> B T C.
    pub fn hidden(&self, g: &mut Graph, image: Var) -> Result<Var> {
        let x = g.scope("embedding", |g| self.embed(g, image))?;
        let x = self.stack.forward(g, x, &Context::default(), None)?;
        g.tap("final_norm.stream", x)
    }

    /// Each patch through a linear layer, which is a convolution with the patch as its stride. B Ch Hh Ww ->
    /// B P C
    pub fn patch_embedding(&self, g: &mut Graph, image: Var) -> Result<Var> {
        let VitConfig { image: [height, width], channels, patch, .. } = self.config;
        g.check_operands("vit", &[image])?;
        let fits = match &g.shape(image)[..] {
            [_, own @ ..] => own.iter().map(|size| size.fixed()).eq([channels, height, width].map(Some)),
            [] => false,
        };
        if !fits {
            return Err(Error::Shape {
                op: "vit".into(),
                operand: "image".into(),
                got: g.shape(image).to_string(),
                expected: format!("[B Ch Hh Ww] = [B {channels} {height} {width}]"),
                origin: "; resize the images, or make a model for their size and interpolate its positions"
                    .into(),
            });
        }
        let patches = g.patches(image, patch)?; // B P (Ch p q)
        self.patches.forward_with(
            g,
            patches,
            LinearOptions { output: Some(DType::F32), ..Default::default() },
        )
    }

    /// B Ch Hh Ww -> B T C
    fn embed(&self, g: &mut Graph, image: Var) -> Result<Var> {
        let patches = self.patch_embedding(g, image)?;
        let one = g.slice(patches, 1, 0, 1)?; // B 1 C: the shape that a token takes
        let mut rows = Vec::new();
        for token in [Some(&self.class_token), self.distillation_token.as_ref()].into_iter().flatten() {
            let token = token.var(g)?;
            rows.push(g.broadcast_to(token, one)?);
        }
        rows.push(patches);
        let x = g.concat(&rows, 1)?;
        let x = self.placed(g, x)?;
        let x = g.tap("stream", x)?;
        g.dropout(x, self.config.dropout)
    }

    /// B T C -> B T C, with the positions of the grid that the images have.
    fn placed(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let (from, to) = (self.config.learned_grid(), self.config.grid());
        let AbsolutePositions::Learned(table) = &self.positions else {
            return self.positions.forward(g, x, None);
        };
        if from == to {
            return self.positions.forward(g, x, None);
        }
        let (table, tokens) = (table.var(g)?, self.config.form.tokens());
        let [had, has] = [from, to].map(|[rows, columns]| rows * columns);
        let front = g.slice(table, 0, 0, tokens)?;
        let patches = g.slice(table, 0, tokens, had)?;
        let matrix = g.constant(DType::F32, [has, had], &interpolation(from, to))?;
        let options = MatmulOptions { output: Some(DType::F32), ..Default::default() };
        let moved = g.matmul(matrix, patches, options)?; // P′ P, P C -> P′ C
        let table = g.concat(&[front, moved], 0)?;
        g.add_position(x, table, None)
    }

    /// What the head reads: B Ch Hh Ww -> B C.
    pub fn pooled(&self, g: &mut Graph, image: Var) -> Result<Var> {
        let x = self.hidden(g, image)?;
        self.pooled_of(g, x)
    }

    fn pooled_of(&self, g: &mut Graph, x: Var) -> Result<Var> {
        g.scope("pooling", |g| match self.config.pooling {
            VitPooling::Class => self.token(g, x, 0),
            VitPooling::Mean => self.mean(g, x),
            VitPooling::ClassAndMean => {
                let class = self.token(g, x, 0)?;
                let mean = self.mean(g, x)?;
                g.concat(&[class, mean], 1)
            }
        })
    }

    /// One of the tokens in front: B T C -> B C
    fn token(&self, g: &mut Graph, x: Var, at: usize) -> Result<Var> {
        let [b, _, c] = g.dims(x, "B T C")?;
        let token = g.slice(x, 1, at, 1)?;
        g.reshape(token, shape![b, c])
    }

    /// The mean of the patches: B T C -> B C
    fn mean(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let [_, t, _] = g.dims(x, "B T C")?;
        let patches = g.slice_last(x, 1, t.bound() - self.config.form.tokens())?; // T is fixed by the image
        g.mean(patches, &[1])
    }

    /// What the pooler makes of hidden states, for a model that has one: B T C -> B F.
    pub(crate) fn pooler_of(&self, g: &mut Graph, x: Var) -> Result<Option<Var>> {
        let (VitHead::Pooler(_), Some(pooler)) = (self.config.head, &self.head_hidden) else {
            return Ok(None);
        };
        let x = self.pooled_of(g, x)?;
        g.scope("pooler", |g| {
            let y = pooler.forward(g, x)?;
            let y = g.tanh(y)?;
            g.tap("pooled", y).map(Some)
        })
    }

    /// The scores of the classes: B Ch Hh Ww -> B L.
    pub fn logits(&self, g: &mut Graph, image: Var) -> Result<Var> {
        let x = self.hidden(g, image)?;
        self.logits_of(g, x)
    }

    /// The same of hidden states: B T C -> B L.
    pub(crate) fn logits_of(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let (read, head) = self.before_scores(g, x)?;
        g.scope("head", |g| {
            let scores = head.forward_f32(g, read)?;
            let Some(taught) = &self.taught else { return Ok(scores) };
            let token = self.token(g, x, 1)?;
            let others = taught.forward_f32(g, token)?;
            let both = g.add(scores, others)?;
            g.scale(both, 0.5)
        })
    }

    /// The sum of the losses of all targets (i32 `[B]`) times `scale`, a single number. Targets of −100 are
    /// ignored.
    pub fn loss(&self, g: &mut Graph, image: Var, targets: Var, scale: Var) -> Result<Var> {
        self.loss_with(g, image, targets, scale, CrossEntropyOptions::default())
    }

    /// The same with settings of its own, such as smoothed targets.
    pub fn loss_with(
        &self,
        g: &mut Graph,
        image: Var,
        targets: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        if self.taught.is_some() {
            return Err(Error::invalid(
                "vit",
                "two heads that were taught apart have no loss in common",
                "train one with the head Linear",
            ));
        }
        let x = self.hidden(g, image)?;
        let (x, head) = self.before_scores(g, x)?;
        let (weight, bias) = (head.weight(g)?, head.bias(g)?);
        let losses = g.scope("head", |g| g.linear_cross_entropy(x, weight, bias, targets, scale, options))?;
        Ok(losses.loss)
    }

    /// What the last product of the head takes, and that product.
    fn before_scores(&self, g: &mut Graph, x: Var) -> Result<(Var, &LinearLayer)> {
        let Some(head) = &self.head else {
            return Err(Error::invalid(
                "vit",
                format!("a model with the head {:?} has no scores", self.config.head),
                "make it with the head Linear, Taught or Mlp",
            ));
        };
        let x = self.pooled_of(g, x)?;
        let x = match &self.head_hidden {
            None => x,
            Some(hidden) => g.scope("head", |g| {
                let y = hidden.forward(g, x)?;
                g.tanh(y)
            })?,
        };
        Ok((x, head))
    }
}
