//! What a caller says about an attention: typed, with defaults, so that `Attention::default()` is plain
//! softmax attention and every other kind is one field away.

use regard_graph::Var;

/// How an attention is to be done. `Attention { dropout: 0.1, ..Attention::causal() }` reads as it is meant.
#[derive(Clone, Debug, Default)]
pub struct Attention {
    /// β, by which q·k is multiplied.
    pub scale: AttentionScale,
    /// A soft cap of the scaled scores: β·q·k becomes cap · tanh(β·q·k / cap), before bias and masks.
    pub cap: Option<f32>,
    /// Which keys a query may attend to.
    pub mask: AttentionMask,
    /// The position of each query, i32 [B T]; without it, the index t.
    pub query_position: Option<Var>,
    /// The position of each key, i32 [B S]; without it, the index s.
    pub key_position: Option<Var>,
    /// i32 [B S]: key and value of (b, s) come from this row of the key/value batch, whose size may then
    /// differ from B. Beam search reorders caches with it instead of copying them.
    pub key_row: Option<Var>,
    /// What is added to the scaled scores.
    pub bias: AttentionBias,
    /// How weights are made from scores.
    pub kind: AttentionKind,
    /// The probability with which a weight is dropped after the softmax; those kept grow by 1/(1−p).
    ///
    /// Whether a weight is dropped depends on seed, step, the op's dotted name, the example's index in the
    /// global batch, the query's position, the head and the key's position (modulo 2²²), and on nothing else.
    pub dropout: f32,
}

impl Attention {
    /// Each query attends to keys at its own position and before.
    pub fn causal() -> Self {
        Attention { mask: AttentionMask { causal: true, ..Default::default() }, ..Default::default() }
    }
}

/// β: by what q·k is multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AttentionScale {
    /// 1/√D.
    #[default]
    Default,
    /// This number for all heads.
    Constant(f32),
    /// One number for each head, f32 `[H]`, with a gradient.
    Parameter(Var),
}

/// Which keys a query may attend to: where all given parts hold. True means *may attend*.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionMask {
    /// The key's position is at most the query's.
    pub causal: bool,
    /// The key's position is near the query's.
    pub window: Option<Window>,
    /// `s < key_lengths[b]`, i32 `[B]`.
    pub key_lengths: Option<Var>,
    /// key_mask[b, s], bool [B S].
    pub key_mask: Option<Var>,
    /// explicit[b, h, t, s], bool [B|1 H|1 T S].
    pub explicit: Option<Var>,
}

/// Keys at positions from `before` before the query's to `after` after it, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How far back a key may lie.
    pub before: usize,
    /// How far ahead.
    pub after: usize,
}

/// What is added to the scaled scores. Distances are key position − query position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AttentionBias {
    /// Nothing.
    #[default]
    None,
    /// T5's relative buckets: one number for each bucket and head.
    Buckets {
        /// f32 [R H], R buckets.
        table: Var,
        /// Half of the buckets are for keys ahead; otherwise all keys ahead share bucket 0.
        bidirectional: bool,
        /// From this distance on, all keys share the last bucket.
        max_distance: usize,
    },
    /// −slope · |distance|.
    Alibi {
        /// f32 `[H]`.
        slopes: Var,
    },
    /// One number for each distance, clipped to ±R, and head.
    Clipped {
        /// f32 [2R+1 H]; row R is distance 0.
        table: Var,
    },
    /// One number for each pair: f32 [B|1 H|1 T S].
    Dense(Var),
}

/// How weights are made from scores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AttentionKind {
    /// The softmax.
    #[default]
    Soft,
    /// All weight on the key with the largest score, the lowest index among equals. No gradient to scores.
    Hard,
    /// Forward as [`AttentionKind::Hard`]; the scores get the gradient that the softmax would give them, the
    /// values that of the hard weights.
    StraightThrough,
    /// softmax((score + noise) / temperature), the noise drawn from Gumbel's distribution.
    Gumbel {
        /// Above 0.
        temperature: f32,
        /// Straight-through: all weight on the largest noisy score, the gradient of the soft ones.
        hard: bool,
    },
}

impl AttentionKind {
    /// True if all weight is on one key.
    pub fn is_hard(self) -> bool {
        !matches!(self, AttentionKind::Soft | AttentionKind::Gumbel { hard: false, .. })
    }

    /// What noisy scores are divided by.
    pub(crate) fn temperature(self) -> Option<f32> {
        match self {
            AttentionKind::Gumbel { temperature, .. } => Some(temperature),
            _ => None,
        }
    }
}

/// What an attention gives.
#[derive(Clone, Copy, Debug)]
pub struct Attended {
    /// The mixed values, [B T H E], in the query's dtype. 0 in a row without any allowed key.
    pub y: Var,
    /// The natural logarithm of the sum of the exponentials of each row's final scores (with bias, noise and
    /// temperature; before dropout), f32 [B T H]; −∞ in a row without any allowed key.
    pub lse: Var,
    /// The chosen key of each row for the hard kinds, i32 [B T H]; −1 where there is none.
    pub choice: Var,
}
