//! The language of recipes: every table and key, with its meaning and its default. Nothing here knows how a
//! model is made or data is read; a key that does not exist, or a value of another type, is refused where it
//! stands.
//!
//! Paths are relative to the directory in which the command runs, in recipes as in overrides.

mod overrides;
mod read;

pub(crate) use read::checked;

use regard_models::ModelKeys;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a recipe asks for, with all overrides in place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// What the run is called; the name of the file if not given.
    pub name: String,
    /// What is learned.
    pub task: Kind,
    /// From this number weights, order and dropout are drawn.
    pub seed: u64,
    /// The model.
    pub model: ModelRecipe,
    /// How text becomes numbers.
    pub tokenizer: TokenizerRecipe,
    /// What it is trained and examined on.
    pub data: DataRecipe,
    /// How it is trained.
    pub train: TrainRecipe,
    /// How it is examined.
    pub evaluate: EvaluateRecipe,
    /// What it starts from.
    pub from: FromRecipe,
    /// Low-rank adapters that learn instead of the model's own weights.
    #[serde(skip_serializing_if = "AdaptRecipe::is_none")]
    pub adapt: AdaptRecipe,
    /// Stages, one after the other, each from the weights of the one before; none for a run of one stage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stage: Vec<StageRecipe>,
}

/// The tables that a stage takes over from the recipe where it says nothing.
const COMMON: [&str; 4] = ["data", "train", "evaluate", "from"];

/// One stage: what it does not say is as in the recipe's own tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StageRecipe {
    /// What the stage is called, as its folder is.
    pub name: String,
    /// What it is trained and examined on.
    pub data: DataRecipe,
    /// How it is trained.
    pub train: TrainRecipe,
    /// How it is examined.
    pub evaluate: EvaluateRecipe,
    /// What it starts from besides the stage before.
    pub from: FromRecipe,
}

impl Kind {
    /// As recipes and models name it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Language => "language",
            Kind::Classify => "classify",
            Kind::Masked => "masked",
            Kind::Translate => "translate",
            Kind::Images => "images",
            Kind::Contrast => "contrast",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Kind> {
        [Kind::Language, Kind::Classify, Kind::Masked, Kind::Translate, Kind::Images, Kind::Contrast]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// What is learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The next token.
    #[default]
    Language,
    /// The class of a text.
    Classify,
    /// Tokens that were masked.
    Masked,
    /// One text from another.
    Translate,
    /// The class of an image.
    Images,
    /// Vectors of texts, by comparison: of two texts that belong together, the second among all of a batch.
    Contrast,
}

/// `[model]`: a family and its keys. Which keys there are is the family's to say: see
/// [`regard_models::Family::keys`]. What is not given is as in the preset, and where there is no preset, as
/// in the family's smallest sensible model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelRecipe {
    /// A family of the registry: `gpt`, `bert`, or one of one's own.
    pub family: String,
    /// Its keys.
    #[serde(flatten)]
    #[schemars(skip)]
    pub keys: BTreeMap<String, toml::Value>,
}

impl Default for ModelRecipe {
    fn default() -> Self {
        ModelRecipe { family: "gpt".into(), keys: BTreeMap::new() }
    }
}

impl ModelRecipe {
    /// Its keys as families read them.
    pub fn keys(&self) -> ModelKeys {
        let json = |value: &toml::Value| serde_json::to_value(value).unwrap_or_default();
        self.keys.iter().map(|(name, value)| (name.clone(), json(value))).collect()
    }

    /// The most positions, where they are given: examples are cut to them.
    pub fn context(&self) -> Option<usize> {
        self.keys().size("context")
    }
}

/// `[tokenizer]`: how text becomes numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerRecipe {
    /// `characters`, `bytes`, `bpe`, `wordpiece`, `unigram` or `file`. A model that is not made anew brings
    /// its own.
    pub kind: TokenizerKind,
    /// The `tokenizer.json` of kind `file`.
    pub path: Option<PathBuf>,
    /// How many tokens `bpe`, `wordpiece` and `unigram` learn from the training text, at most.
    pub vocabulary: usize,
    /// Whether text is made lower case first, by `wordpiece`.
    pub lowercase: bool,
}

impl Default for TokenizerRecipe {
    fn default() -> Self {
        TokenizerRecipe { kind: TokenizerKind::Characters, path: None, vocabulary: 8000, lowercase: false }
    }
}

/// The kinds of tokenizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TokenizerKind {
    /// One token for each character of the training text.
    #[default]
    Characters,
    /// One for each byte.
    Bytes,
    /// Byte pairs, learned from the training text.
    Bpe,
    /// Pieces of words, learned from the training text.
    Wordpiece,
    /// Likely pieces, learned from the training text.
    Unigram,
    /// A `tokenizer.json`.
    File,
}

/// `[data]`: what the model is trained and examined on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DataRecipe {
    /// `text`, `biographies`, `classes`, `pairs`, `couples`, `chats`, `mnist` or `cifar`.
    pub kind: DataKind,
    /// What examples of `biographies` look like: `spans`, `questions`, `both` in every epoch, or `reading`.
    pub form: FormRecipe,
    /// Biographies: in which part of the lines the span that is taken out is a fact (a name, a place, a date)
    /// instead of any.
    pub salient: f64,
    /// Biographies: whether lines are cut to a random length before a span is taken out, as in the course.
    pub cut: bool,
    /// Biographies: in how many wordings each question to learn from is put; 1 as it stands.
    pub wordings: usize,
    /// Training files: text, lines of `sentence TAB class`, the source side of pairs, a folder of MNIST,
    /// batches of CIFAR.
    pub train: Vec<PathBuf>,
    /// The target side of pairs.
    pub train_target: Vec<PathBuf>,
    /// The columns of the text and of its class, by the names that the first line gives them. If not given:
    /// the first two columns of files without such a line, and of JSON the cells that are called so, `text`
    /// and `label`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Files to examine with.
    pub evaluate: Vec<PathBuf>,
    /// The target side of pairs.
    pub evaluate_target: Vec<PathBuf>,
    /// The lines that are read before any question, one for each person.
    pub text: Option<PathBuf>,
    /// Questions without answers, to be answered into a file.
    pub test: Option<PathBuf>,
    /// The fraction of the training data that is withheld: the end of a text, a drawn part of lines. Where
    /// there are files to examine with, too, the best epoch is chosen on what is withheld, and these are
    /// examined once, at the end.
    pub hold_out: f64,
    /// Only so many of the first training examples; 0 for all.
    pub limit: usize,
    /// How many people the generated biographies have; how many invented conversations there are.
    pub people: usize,
    /// Conversations: a chat template, where it is not to be the one beside the model that the run starts
    /// from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PathBuf>,
    /// Whether the order changes from epoch to epoch.
    pub shuffle: bool,
    /// Biographies: how many tokens every row is padded to; as many as the longest of its batch has if not
    /// given. For schedules that count padding.
    pub pad_to: Option<usize>,
    /// Reading: the share of examples whose answer is exchanged for another, in the line as well; a half if
    /// not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<f64>,
    /// Images: by how many pixels they are shifted at most.
    pub shift: usize,
    /// Images: whether they are mirrored now and then.
    pub flip: bool,
}

impl Default for DataRecipe {
    fn default() -> Self {
        DataRecipe {
            kind: DataKind::Text,
            form: FormRecipe::Questions,
            salient: 0.0,
            cut: true,
            wordings: 1,
            train: Vec::new(),
            train_target: Vec::new(),
            columns: Vec::new(),
            evaluate: Vec::new(),
            evaluate_target: Vec::new(),
            text: None,
            test: None,
            hold_out: 0.0,
            limit: 0,
            people: 400,
            template: None,
            shuffle: true,
            pad_to: None,
            exchange: None,
            shift: 0,
            flip: false,
        }
    }
}

/// The kinds of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataKind {
    /// Running text.
    #[default]
    Text,
    /// Lines about people, and questions about their birth places; generated where no files are given.
    Biographies,
    /// Lines of `sentence TAB class`.
    Classes,
    /// Two files, line by line.
    Pairs,
    /// Two texts that belong together on each line: `text TAB text`, JSON lines with `anchor` and `positive`,
    /// or two files, line by line.
    Couples,
    /// Conversations, JSON lines with `messages`, or `prompt` and `completion`; invented where no files are
    /// given. Only what the model says is learned.
    Chats,
    /// Digits of 28 by 28 pixels, idx files.
    Mnist,
    /// Images of 32 by 32 pixels in colour.
    Cifar,
}

/// What examples of biographies look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FormRecipe {
    /// Lines of the text, a span of each moved to its end.
    Spans,
    /// Questions with answers; only the answers count.
    #[default]
    Questions,
    /// Lines and questions, in every epoch.
    Both,
    /// The same, with the line about the person before each question.
    Reading,
}

/// `[train]`: how the model is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrainRecipe {
    /// `adamw` or `sgd`.
    pub optimizer: OptimizerRecipe,
    /// The highest learning rate.
    pub lr: f64,
    /// Decay of AdamW's two moments.
    pub betas: [f64; 2],
    /// What AdamW adds to the root of the second moment.
    pub epsilon: f64,
    /// The momentum of SGD.
    pub momentum: f64,
    /// Decay of weights towards zero.
    pub weight_decay: f64,
    /// What decays, unless a group says otherwise.
    pub decay: DecayRecipe,
    /// The largest norm of all gradients together; 0 for no bound.
    pub clip: f64,
    /// How the learning rate goes after the warm-up.
    pub schedule: ScheduleRecipe,
    /// Steps over which the learning rate rises.
    pub warmup_steps: u64,
    /// Tokens over which it rises, padding counted; instead of steps.
    pub warmup_tokens: u64,
    /// Tokens after which it has come down; the whole run if not given.
    pub decay_tokens: Option<u64>,
    /// What is left of it at the end, as a fraction.
    pub floor: f64,
    /// Examples of one step; the most of them where `batch_tokens` is given.
    pub batch: usize,
    /// Pairs: tokens of one step, padding counted, on the longer of the two sides. Pairs of about the same
    /// length then share a step.
    pub batch_tokens: Option<usize>,
    /// Examples that are run at a time; as many as the batch has if not given.
    pub micro_batch: Option<usize>,
    /// How often the training data is gone through.
    pub epochs: u64,
    /// How many steps to take; instead of epochs.
    pub steps: Option<u64>,
    /// `f32` or `bf16`.
    pub precision: PrecisionRecipe,
    /// Probability with which activations are dropped.
    pub dropout: f32,
    /// The same for attention weights; as `dropout` if not given.
    pub attention_dropout: Option<f32>,
    /// The same for hidden activations of the feed-forward parts; as the family has it if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_dropout: Option<f32>,
    /// What cosines are divided by, where vectors are learned by comparison; 0.05 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// How much of a target is spread over all classes.
    pub label_smoothing: f32,
    /// Steps between examinations; once an epoch if not given.
    pub evaluate_every: Option<u64>,
    /// Steps between checkpoints; if not given, at every examination, or once an epoch where there is none.
    pub checkpoint_every: Option<u64>,
    /// Steps between lines of metrics; each step has one if not given. In between nothing is read, so that a
    /// card is not waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_every: Option<u64>,
    /// Examinations without a better result after which the run ends; never if not given.
    pub patience: Option<u64>,
    /// Parameters by name that are trained in another way; the first that fits counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRecipe>,
}

impl Default for TrainRecipe {
    fn default() -> Self {
        TrainRecipe {
            optimizer: OptimizerRecipe::Adamw,
            lr: 1e-3,
            betas: [0.9, 0.95],
            epsilon: 1e-8,
            momentum: 0.9,
            weight_decay: 0.1,
            decay: DecayRecipe::Matrices,
            clip: 1.0,
            schedule: ScheduleRecipe::Cosine,
            warmup_steps: 0,
            warmup_tokens: 0,
            decay_tokens: None,
            floor: 0.1,
            batch: 32,
            batch_tokens: None,
            micro_batch: None,
            epochs: 1,
            steps: None,
            precision: PrecisionRecipe::F32,
            dropout: 0.1,
            attention_dropout: None,
            hidden_dropout: None,
            temperature: None,
            label_smoothing: 0.0,
            evaluate_every: None,
            checkpoint_every: None,
            log_every: None,
            patience: None,
            groups: Vec::new(),
        }
    }
}

/// Parameters that are trained in another way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupRecipe {
    /// Names, with `*` for anything: `block.0.*`, `*embedding*`.
    pub pattern: String,
    /// What the learning rate is multiplied by; 0 freezes.
    pub lr: Option<f64>,
    /// Their decay.
    pub weight_decay: Option<f64>,
}

/// The optimizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerRecipe {
    /// Adam with decoupled weight decay.
    #[default]
    Adamw,
    /// Gradient descent with momentum.
    Sgd,
}

/// What decays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecayRecipe {
    /// What has two axes or more: no biases, no norms.
    #[default]
    Matrices,
    /// All but biases; norms decay, too.
    NotBiases,
    /// All parameters.
    Everything,
}

/// How the learning rate goes after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleRecipe {
    /// It stays.
    Constant,
    /// It comes down in a straight line.
    Linear,
    /// It comes down in half a wave.
    #[default]
    Cosine,
    /// It falls with the root of time: half of it is left at four times the warm-up.
    InverseRoot,
}

/// How products are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrecisionRecipe {
    /// In f32.
    #[default]
    F32,
    /// Operands in bf16, sums in f32.
    Bf16,
}

/// `[evaluate]`: how the model is examined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluateRecipe {
    /// Examples at a time; as many as in training if not given.
    pub batch: Option<usize>,
    /// Beams of translations.
    pub beams: usize,
    /// The most tokens of an answer or a translation.
    pub most: usize,
    /// Whether a simple method is measured on the same data, to be shown beside the result.
    pub baseline: bool,
}

impl Default for EvaluateRecipe {
    fn default() -> Self {
        EvaluateRecipe { batch: None, beams: 4, most: 64, baseline: true }
    }
}

/// `[adapt]`: low-rank adapters (LoRA) on some linear layers of the model that `[from]` names. They alone
/// learn, with parts that the model does not have yet, such as the head of a classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdaptRecipe {
    /// The rank of the adapters; 0 for none, and for a model that learns as a whole.
    pub rank: usize,
    /// What they add is multiplied by alpha / rank.
    pub alpha: f32,
    /// Whether it is alpha / √rank instead (rsLoRA).
    pub by_root: bool,
    /// Probability with which elements of what they read are dropped.
    pub dropout: f32,
    /// Which linear layers, by the end of their names, with `*` for anything: `attention.query`; queries and
    /// values of all attention if not given.
    pub target: Vec<String>,
}

impl Default for AdaptRecipe {
    fn default() -> Self {
        AdaptRecipe { rank: 0, alpha: 16.0, by_root: false, dropout: 0.0, target: Vec::new() }
    }
}

impl AdaptRecipe {
    /// Whether it asks for nothing.
    pub fn is_none(&self) -> bool {
        *self == AdaptRecipe::default()
    }
}

/// `[from]`: what the model starts from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FromRecipe {
    /// A model's folder, a name in a local Hugging Face cache, or the folder of a run. Its settings and its
    /// tokenizer come along; `[model]` then has only what should differ.
    pub model: Option<String>,
    /// Names of parameters that are not trained, with `*` for anything.
    pub freeze: Vec<String>,
}
