//! The mechanisms that blocks can be made of, set the same way in every family: how order is told, how
//! attention weighs, which norm stands where, what happens inside of the feed-forward parts. They are read
//! once, from the keys of a recipe, which are also the words of our own `config.json`; a family takes what it
//! can have, and says why not the rest.

use crate::family::Dropout;
use crate::keys::{Expected, Key, ModelKeys};
use crate::positions::{Positions, check_positions};
use regard_graph::{Error, Result};
use regard_layers::{
    AttentionConfig, Biases, BlockConfig, FeedForwardKind, HeadScale, NormConfig, NormKind, NormPlace,
};
use regard_ops::{AttentionKind, Pairing, RotarySpec};
use serde_json::Value;

/// Words for activations.
pub const ACTIVATIONS: [(&str, FeedForwardKind); 6] = [
    ("relu", FeedForwardKind::Relu),
    ("gelu", FeedForwardKind::Gelu),
    ("gelu-tanh", FeedForwardKind::GeluTanh),
    ("silu", FeedForwardKind::Silu),
    ("gated-silu", FeedForwardKind::GatedSilu),
    ("gated-gelu", FeedForwardKind::GatedGelu),
];
/// Words for norms.
pub const NORMS: [(&str, NormKind); 4] = [
    ("layer", NormKind::Layer),
    ("rms", NormKind::Rms),
    ("rms-above-one", NormKind::RmsAboveOne),
    ("batch", NormKind::Batch),
];
/// Words for where norms stand.
pub const PLACES: [(&str, NormPlace); 6] = [
    ("pre", NormPlace::Pre),
    ("post", NormPlace::Post),
    ("sandwich", NormPlace::Sandwich),
    ("output", NormPlace::Output),
    ("parallel", NormPlace::Parallel),
    ("parallel-shared", NormPlace::ParallelShared),
];
/// Words for the pairs of channels that rotary positions turn.
pub const PAIRINGS: [(&str, Pairing); 2] =
    [("halves", Pairing::Halves), ("interleaved", Pairing::Interleaved)];
const POSITIONS: [&str; 7] = ["none", "learned", "sinusoidal", "rotary", "alibi", "buckets", "clipped"];
const ATTENTIONS: [&str; 5] = ["soft", "hard", "straight-through", "gumbel", "gumbel-straight-through"];

/// T5's, where a recipe does not say.
const BUCKETS: usize = 32;
const MAX_DISTANCE: usize = 128;
/// Distances of a table of their own, where a recipe does not say.
const REACH: usize = 16;

/// What blocks are made of, as far as it departs from what their family has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mechanisms {
    /// How order is told.
    pub positions: Option<Positions>,
    /// How many keys a position of a decoder sees, its own among them.
    pub window: Option<usize>,
    /// G, key/value heads that the heads share.
    pub groups: Option<usize>,
    /// D.
    pub head_width: Option<usize>,
    /// β, by which scores are multiplied.
    pub scale: Option<HeadScale>,
    /// Soft, hard, straight-through or Gumbel.
    pub attention: Option<AttentionKind>,
    /// The norm.
    pub norm: Option<NormKind>,
    /// Where it stands.
    pub place: Option<NormPlace>,
    /// What it adds to the variance.
    pub epsilon: Option<f32>,
    /// What happens inside of the feed-forward parts.
    pub activation: Option<FeedForwardKind>,
    /// Whether the projections of attention have biases.
    pub attention_bias: Option<bool>,
    /// Whether the layers of the feed-forward parts have biases.
    pub feed_forward_bias: Option<bool>,
    /// Probability of dropping attention weights in training.
    pub attention_dropout: Option<f32>,
    /// Probability of dropping hidden activations in training.
    pub hidden_dropout: Option<f32>,
}

const PAIRING_WORDS: [&str; 2] = names(&PAIRINGS);
const NORM_WORDS: [&str; 4] = names(&NORMS);
const PLACE_WORDS: [&str; 6] = names(&PLACES);
const ACTIVATION_WORDS: [&str; 6] = names(&ACTIVATIONS);

/// The words of a table.
pub const fn names<const N: usize, T: Copy>(words: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = words[at].0;
        at += 1;
    }
    names
}

/// The word for a meaning.
pub fn spelled<T: PartialEq>(value: T, words: &[(&'static str, T)]) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

/// The keys of mechanisms, in recipes and in our own `config.json`.
pub const KEYS: [Key; 21] = [
    Key::new("positions", Expected::Word(&POSITIONS), "how order is told"),
    Key::new("rotary_base", Expected::Number, "of rotary positions: the longest wave, in steps of 2π"),
    Key::new(
        "rotary_width",
        Expected::Size,
        "of rotary positions: channels of a head that turn [default: all]",
    ),
    Key::new(
        "rotary_pairing",
        Expected::Word(&PAIRING_WORDS),
        "of rotary positions: which channels turn together",
    ),
    Key::new("buckets", Expected::Size, "of positions by buckets: how many there are"),
    Key::new("max_distance", Expected::Size, "of positions by buckets: where the last one begins"),
    Key::new("reach", Expected::Size, "of clipped positions: the largest distance with a number of its own"),
    Key::new("window", Expected::Size, "how many keys a position sees, its own among them"),
    Key::new("groups", Expected::Size, "key/value heads that the heads share"),
    Key::new("head_width", Expected::Size, "the width of a head [default: heads share the width]"),
    Key::new(
        "scale",
        Expected::NumberOrWord(&["default", "learned"]),
        "β: 1/√D, a number, or one that each head learns",
    ),
    Key::new("attention", Expected::Word(&ATTENTIONS), "how attention weighs"),
    Key::new("temperature", Expected::Number, "of gumbel attention: what noisy scores are divided by"),
    Key::new("norm", Expected::Word(&NORM_WORDS), "which norm"),
    Key::new("norm_place", Expected::Word(&PLACE_WORDS), "where norms stand, and what the parts read"),
    Key::new("epsilon", Expected::Number, "what norms add to the variance"),
    Key::new(
        "activation",
        Expected::Word(&ACTIVATION_WORDS),
        "what happens inside of the feed-forward parts",
    ),
    Key::new("attention_bias", Expected::Truth, "whether the projections of attention have biases"),
    Key::new(
        "feed_forward_bias",
        Expected::Truth,
        "whether the layers of the feed-forward parts have biases",
    ),
    Key::new(
        "attention_dropout",
        Expected::Number,
        "kept in config.json: recipes have train.attention_dropout",
    ),
    Key::new("hidden_dropout", Expected::Number, "kept in config.json: recipes have train.hidden_dropout"),
];

/// Those that a recipe may give; dropout belongs to its training.
pub fn recipe_keys() -> impl Iterator<Item = Key> {
    KEYS.into_iter().filter(|key| !key.name.ends_with("dropout"))
}

impl Mechanisms {
    /// Nothing departs.
    pub const NONE: Mechanisms = Mechanisms {
        positions: None,
        window: None,
        groups: None,
        head_width: None,
        scale: None,
        attention: None,
        norm: None,
        place: None,
        epsilon: None,
        activation: None,
        attention_bias: None,
        feed_forward_bias: None,
        attention_dropout: None,
        hidden_dropout: None,
    };

    /// Those that keys ask for. A key that has no effect beside the others is refused.
    pub fn from_keys(keys: &ModelKeys) -> Result<Mechanisms> {
        let lost = |key: &str, needs: &str| {
            let what = format!("`{key}` is given without {needs}");
            Err(Error::invalid("model", what, format!("give {needs}, or leave `{key}` out")))
        };
        let positions = keys.text("positions");
        for (kind, own) in [
            ("rotary", &["rotary_base", "rotary_width", "rotary_pairing"][..]),
            ("buckets", &["buckets", "max_distance"]),
            ("clipped", &["reach"]),
        ] {
            if let Some(key) = own.iter().find(|key| positions != Some(kind) && keys.has(key)) {
                return lost(key, &format!("positions = \"{kind}\""));
            }
        }
        let gumbel = keys.text("attention").is_some_and(|kind| kind.starts_with("gumbel"));
        if keys.has("temperature") && !gumbel {
            return lost("temperature", "attention = \"gumbel\"");
        }
        let temperature = keys.number("temperature").unwrap_or(1.0);
        Ok(Mechanisms {
            positions: match positions {
                None => None,
                Some("rotary") => {
                    let plain = RotarySpec::default();
                    Some(Positions::Rotary(RotarySpec {
                        base: keys.number("rotary_base").map_or(plain.base, f64::from),
                        width: keys.size("rotary_width"),
                        pairing: keys.word("rotary_pairing", &PAIRINGS)?.unwrap_or(plain.pairing),
                        ..plain
                    }))
                }
                Some("buckets") => Some(Positions::Buckets {
                    buckets: keys.size("buckets").unwrap_or(BUCKETS),
                    max_distance: keys.size("max_distance").unwrap_or(MAX_DISTANCE),
                }),
                Some("clipped") => Some(Positions::Clipped { reach: keys.size("reach").unwrap_or(REACH) }),
                Some("learned") => Some(Positions::Learned),
                Some("sinusoidal") => Some(Positions::Sinusoidal),
                Some("alibi") => Some(Positions::Alibi),
                Some("none") => Some(Positions::None),
                Some(other) => return Err(Error::unknown("kind of positions", other, POSITIONS)),
            },
            window: keys.size("window"),
            groups: keys.size("groups"),
            head_width: keys.size("head_width"),
            scale: match (keys.text("scale"), keys.number("scale")) {
                (Some("default"), _) => Some(HeadScale::Default),
                (Some("learned"), _) => Some(HeadScale::Learned),
                (Some(other), _) => return Err(Error::unknown("scale", other, ["default", "learned"])),
                (None, number) => number.map(HeadScale::Constant),
            },
            attention: match keys.text("attention") {
                None => None,
                Some("soft") => Some(AttentionKind::Soft),
                Some("hard") => Some(AttentionKind::Hard),
                Some("straight-through") => Some(AttentionKind::StraightThrough),
                Some("gumbel") => Some(AttentionKind::Gumbel { temperature, hard: false }),
                Some("gumbel-straight-through") => Some(AttentionKind::Gumbel { temperature, hard: true }),
                Some(other) => return Err(Error::unknown("kind of attention", other, ATTENTIONS)),
            },
            norm: keys.word("norm", &NORMS)?,
            place: keys.word("norm_place", &PLACES)?,
            epsilon: keys.number("epsilon"),
            activation: keys.word("activation", &ACTIVATIONS)?,
            attention_bias: keys.truth("attention_bias"),
            feed_forward_bias: keys.truth("feed_forward_bias"),
            attention_dropout: keys.number("attention_dropout"),
            hidden_dropout: keys.number("hidden_dropout"),
        })
    }

    /// The keys that ask for these.
    pub fn to_keys(&self) -> ModelKeys {
        let mut keys = ModelKeys::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                keys = std::mem::take(&mut keys).with(name, value);
            }
        };
        match self.positions {
            None => {}
            Some(Positions::None) => put("positions", Some("none".into())),
            Some(Positions::Learned) => put("positions", Some("learned".into())),
            Some(Positions::Sinusoidal) => put("positions", Some("sinusoidal".into())),
            Some(Positions::Alibi) => put("positions", Some("alibi".into())),
            Some(Positions::Rotary(spec)) => {
                put("positions", Some("rotary".into()));
                put("rotary_base", Some(spec.base.into()));
                put("rotary_width", spec.width.map(Value::from));
                put("rotary_pairing", Some(spelled(spec.pairing, &PAIRINGS).into()));
            }
            Some(Positions::Buckets { buckets, max_distance }) => {
                put("positions", Some("buckets".into()));
                put("buckets", Some(buckets.into()));
                put("max_distance", Some(max_distance.into()));
            }
            Some(Positions::Clipped { reach }) => {
                put("positions", Some("clipped".into()));
                put("reach", Some(reach.into()));
            }
        }
        put("window", self.window.map(Value::from));
        put("groups", self.groups.map(Value::from));
        put("head_width", self.head_width.map(Value::from));
        put(
            "scale",
            self.scale.map(|scale| match scale {
                HeadScale::Default => "default".into(),
                HeadScale::Learned => "learned".into(),
                HeadScale::Constant(beta) => decimal(beta).into(),
            }),
        );
        put(
            "attention",
            self.attention.map(|kind| {
                Value::from(match kind {
                    AttentionKind::Soft => "soft",
                    AttentionKind::Hard => "hard",
                    AttentionKind::StraightThrough => "straight-through",
                    AttentionKind::Gumbel { hard: false, .. } => "gumbel",
                    AttentionKind::Gumbel { hard: true, .. } => "gumbel-straight-through",
                })
            }),
        );
        if let Some(AttentionKind::Gumbel { temperature, .. }) = self.attention {
            put("temperature", Some(decimal(temperature).into()));
        }
        put("norm", self.norm.map(|norm| spelled(norm, &NORMS).into()));
        put("norm_place", self.place.map(|place| spelled(place, &PLACES).into()));
        put("epsilon", self.epsilon.map(|epsilon| decimal(epsilon).into()));
        put("activation", self.activation.map(|kind| spelled(kind, &ACTIVATIONS).into()));
        put("attention_bias", self.attention_bias.map(Value::from));
        put("feed_forward_bias", self.feed_forward_bias.map(Value::from));
        put("attention_dropout", self.attention_dropout.map(|dropout| decimal(dropout).into()));
        put("hidden_dropout", self.hidden_dropout.map(|dropout| decimal(dropout).into()));
        keys
    }

    /// Whether blocks are as their family has them, so that its own software reads them. Dropout acts in
    /// training alone.
    pub fn are_the_family_s(&self) -> bool {
        Mechanisms { attention_dropout: None, hidden_dropout: None, ..*self } == Mechanisms::default()
    }

    /// The same with the dropout of attention weights and of hidden activations.
    pub fn with_dropout(self, dropout: Dropout) -> Mechanisms {
        Mechanisms { attention_dropout: dropout.attention, hidden_dropout: dropout.hidden, ..self }
    }

    /// The usual attention, whose heads share the width unless they have one of their own.
    pub fn attention_of(&self, width: usize, heads: usize) -> Result<AttentionConfig> {
        match self.head_width {
            None => AttentionConfig::new(width, heads),
            Some(own) => {
                let shared = AttentionConfig::new(own.saturating_mul(heads), heads)?;
                Ok(AttentionConfig { width, ..shared })
            }
        }
    }

    /// The norm of a family with these in place.
    pub fn norm_of(&self, norm: NormConfig) -> NormConfig {
        NormConfig {
            kind: self.norm.unwrap_or(norm.kind),
            epsilon: self.epsilon.unwrap_or(norm.epsilon),
            shift: norm.shift || self.norm.is_some_and(|kind| !kind.is_rms()),
            ..norm
        }
    }

    /// Puts them into a block of the family.
    pub fn apply(&self, block: &mut BlockConfig) {
        for attention in [Some(&mut block.attention), block.cross.as_mut()].into_iter().flatten() {
            let head_width = self.head_width.unwrap_or(attention.head_width);
            attention.groups = self.groups.unwrap_or(attention.groups);
            (attention.head_width, attention.value_width) = (head_width, head_width);
            attention.scale = self.scale.unwrap_or(attention.scale);
            attention.kind = self.attention.unwrap_or(attention.kind);
            attention.dropout = self.attention_dropout.unwrap_or(attention.dropout);
            if let Some(bias) = self.attention_bias {
                attention.biases = Biases { inputs: bias, output: bias };
            }
        }
        block.norm = self.norm_of(block.norm);
        block.place = self.place.unwrap_or(block.place);
        block.feed_forward.kind = self.activation.unwrap_or(block.feed_forward.kind);
        block.feed_forward.bias = self.feed_forward_bias.unwrap_or(block.feed_forward.bias);
        block.feed_forward.dropout = self.hidden_dropout.unwrap_or(block.feed_forward.dropout);
    }

    /// Refuses what makes no sense in any family, and in a family whose positions do not see later ones.
    pub fn check(&self, family: &str, causal: bool) -> Result<()> {
        let wrong = |what: String, advice: &str| Err(Error::invalid(family, what, advice));
        if causal && self.norm == Some(NormKind::Batch) {
            return wrong("BatchNorm mixes later positions into earlier ones".into(), "choose layer or rms");
        }
        if let Some(window) = self.window.filter(|_| !causal) {
            return wrong(
                format!("a window of {window} in a model whose positions all see each other"),
                "leave the window out: it is for decoders",
            );
        }
        for (name, size) in
            [("window", self.window), ("groups", self.groups), ("head_width", self.head_width)]
        {
            if size == Some(0) {
                return wrong(format!("{name} is 0"), "give every size at least 1");
            }
        }
        check_positions(family, self.positions.unwrap_or(Positions::None), !causal)?;
        if let Some(kind) = self.attention {
            check_attention(family, kind)?;
        }
        if let Some(scale) = self.scale {
            check_scale(family, scale)?;
        }
        check_dropouts(
            family,
            &[
                ("attention_dropout", self.attention_dropout.unwrap_or(0.0)),
                ("hidden_dropout", self.hidden_dropout.unwrap_or(0.0)),
            ],
        )
    }
}

/// Refuses a β that is no number.
pub(crate) fn check_scale(family: &str, scale: HeadScale) -> Result<()> {
    match scale {
        HeadScale::Constant(beta) if !beta.is_finite() => {
            Err(Error::invalid(family, format!("the scale of scores is {beta}"), "give a finite number"))
        }
        _ => Ok(()),
    }
}

/// Refuses a temperature that cannot divide.
pub(crate) fn check_attention(family: &str, kind: AttentionKind) -> Result<()> {
    match kind {
        AttentionKind::Gumbel { temperature, .. } if !(temperature > 0.0 && temperature.is_finite()) => {
            Err(Error::invalid(family, format!("the temperature is {temperature}"), "give a number above 0"))
        }
        _ => Ok(()),
    }
}

/// Refuses what is no probability.
pub(crate) fn check_dropouts(family: &str, dropouts: &[(&str, f32)]) -> Result<()> {
    match dropouts.iter().find(|(_, dropout)| !(0.0..1.0).contains(dropout)) {
        None => Ok(()),
        Some((name, dropout)) => Err(Error::invalid(
            family,
            format!("{name} is {dropout}"),
            "choose a probability from 0 up to, not including, 1",
        )),
    }
}

/// 1e-5 as f32 is 9.99999974e-6 as f64: the shortest decimal that reads back the same is what was meant.
pub(crate) fn decimal(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_mechanisms_are_the_same() {
        let all = [
            ModelKeys::new(),
            ModelKeys::new().with("positions", "none").with("scale", "learned").with("attention", "hard"),
            ModelKeys::new().with("positions", "learned").with("scale", "default").with("attention", "soft"),
            ModelKeys::new()
                .with("positions", "sinusoidal")
                .with("scale", 0.3)
                .with("attention", "straight-through"),
            ModelKeys::new()
                .with("positions", "rotary")
                .with("rotary_base", 500.0)
                .with("rotary_width", 4)
                .with("rotary_pairing", "interleaved"),
            ModelKeys::new().with("positions", "alibi").with("attention", "gumbel").with("temperature", 0.7),
            ModelKeys::new()
                .with("positions", "buckets")
                .with("buckets", 8)
                .with("max_distance", 20)
                .with("attention", "gumbel-straight-through")
                .with("temperature", 2.0),
            ModelKeys::new().with("positions", "clipped").with("reach", 5).with("norm", "batch"),
            ModelKeys::new()
                .with("norm", "rms")
                .with("norm_place", "post")
                .with("epsilon", 1e-5)
                .with("activation", "gated-silu")
                .with("attention_bias", false)
                .with("feed_forward_bias", true)
                .with("window", 4)
                .with("groups", 2)
                .with("head_width", 8)
                .with("attention_dropout", 0.2)
                .with("hidden_dropout", 0.1),
        ];
        for keys in all {
            keys.check("gpt", &KEYS, &|_| false).unwrap();
            let mechanisms = Mechanisms::from_keys(&keys).unwrap();
            assert_eq!(mechanisms.to_keys(), keys);
            assert_eq!(mechanisms.are_the_family_s(), keys == ModelKeys::new());
        }
    }

    #[test]
    fn what_would_have_no_effect_or_make_no_sense_is_refused() {
        let text = |keys: ModelKeys| Mechanisms::from_keys(&keys).unwrap_err().to_string();
        assert_eq!(
            text(ModelKeys::new().with("reach", 5)),
            "model: `reach` is given without positions = \"clipped\"; give positions = \"clipped\", or leave `reach` out"
        );
        assert_eq!(
            text(ModelKeys::new().with("temperature", 0.5).with("attention", "hard")),
            "model: `temperature` is given without attention = \"gumbel\"; give attention = \"gumbel\", or leave \
             `temperature` out"
        );
        let refused =
            |mechanisms: Mechanisms, causal: bool| mechanisms.check("gpt", causal).unwrap_err().to_string();
        let none = Mechanisms::default();
        assert_eq!(
            refused(Mechanisms { norm: Some(NormKind::Batch), ..none }, true),
            "gpt: BatchNorm mixes later positions into earlier ones; choose layer or rms"
        );
        Mechanisms { norm: Some(NormKind::Batch), ..none }.check("bert", false).unwrap();
        assert!(refused(Mechanisms { window: Some(3), ..none }, false).contains("it is for decoders"));
        let odd = Positions::Buckets { buckets: 5, max_distance: 9 };
        assert!(
            refused(Mechanisms { positions: Some(odd), ..none }, false).contains("5 buckets of distances")
        );
        let near = Positions::Buckets { buckets: 32, max_distance: 8 };
        assert!(
            refused(Mechanisms { positions: Some(near), ..none }, true)
                .contains("choose a max_distance above 16")
        );
        let cold = AttentionKind::Gumbel { temperature: 0.0, hard: false };
        assert!(refused(Mechanisms { attention: Some(cold), ..none }, true).contains("the temperature is 0"));
        assert_eq!(
            none.attention_of(7, 2).unwrap_err().to_string(),
            "attention: a width of 7 cannot be shared by 2 heads; choose a width that is a multiple of the heads, or set \
             head_width and value_width"
        );
        assert_eq!(Mechanisms { head_width: Some(3), ..none }.attention_of(7, 2).unwrap().head_width, 3);
        let endless = Some(HeadScale::Constant(f32::INFINITY));
        assert!(refused(Mechanisms { scale: endless, ..none }, true).contains("give a finite number"));
    }
}
