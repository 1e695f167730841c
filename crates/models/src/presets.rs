//! The known sizes of decoders, as a table: each is another one with some fields of its own.

use crate::gpt::GptConfig;
use crate::positions::Positions;
use crate::variants::{Multipliers, SoftCaps};
use regard_graph::{Error, Result};
use regard_layers::{FeedForwardKind, HeadScale, NormKind, NormPlace};
use regard_ops::{AttentionKind, Pairing, RotarySpec, Stretch};

const ROTARY: RotarySpec = RotarySpec {
    base: 10_000.0,
    width: None,
    pairing: Pairing::Halves,
    inverse: false,
    stretch: None,
    scale: 1.0,
};

const LLAMA_3_2: RotarySpec = RotarySpec {
    base: 500_000.0,
    stretch: Some(Stretch::Turns { factor: 32.0, low: 1.0, high: 4.0, original: 8192.0 }),
    ..ROTARY
};

impl Default for GptConfig {
    /// [`GptConfig::SMALL`].
    fn default() -> Self {
        GptConfig::SMALL
    }
}

impl GptConfig {
    /// A small GPT for characters: LayerNorm, learned positions, exact GELU, a head of its own. 3.3 million
    /// parameters.
    pub const SMALL: GptConfig = GptConfig {
        layers: 4,
        heads: 8,
        groups: None,
        width: 256,
        head_width: None,
        hidden: None,
        context: 128,
        vocabulary: 256,
        positions: Positions::Learned,
        window: None,
        scale: HeadScale::Default,
        attention: AttentionKind::Soft,
        others: None,
        query_key_norm: None,
        norm: NormKind::Layer,
        place: NormPlace::Pre,
        epsilon: 1e-5,
        feed_forward: FeedForwardKind::Gelu,
        attention_bias: true,
        output_bias: None,
        feed_forward_bias: true,
        tied: false,
        head_bias: false,
        multipliers: Multipliers::ONE,
        caps: SoftCaps::NONE,
        dropout: 0.1,
        attention_dropout: None,
        hidden_dropout: None,
        std: 0.02,
    };

    /// GPT-2, 124 million parameters: GELU in its tanh form, tied head.
    pub const GPT2: GptConfig = GptConfig {
        layers: 12,
        heads: 12,
        width: 768,
        context: 1024,
        vocabulary: 50_257,
        feed_forward: FeedForwardKind::GeluTanh,
        tied: true,
        ..GptConfig::SMALL
    };

    /// minGPT's `gpt-mini`: as GPT-2, with a head of its own.
    pub const MINGPT: GptConfig =
        GptConfig { layers: 6, heads: 6, width: 192, tied: false, ..GptConfig::GPT2 };

    /// Llama 2 of 7 billion parameters: RMSNorm, rotary halves, gated SiLU, no biases, a head of its own.
    pub const LLAMA: GptConfig = GptConfig {
        layers: 32,
        heads: 32,
        width: 4096,
        hidden: Some(11_008),
        context: 4096,
        vocabulary: 32_000,
        positions: Positions::Rotary(ROTARY),
        norm: NormKind::Rms,
        feed_forward: FeedForwardKind::GatedSilu,
        attention_bias: false,
        feed_forward_bias: false,
        dropout: 0.0,
        ..GptConfig::SMALL
    };

    /// All presets by name.
    pub const PRESETS: [(&'static str, GptConfig); 12] = [
        ("small", GptConfig::SMALL),
        ("gpt-nano", GptConfig { layers: 3, heads: 3, width: 48, ..GptConfig::MINGPT }),
        ("gpt-micro", GptConfig { layers: 4, heads: 4, width: 128, ..GptConfig::MINGPT }),
        ("gpt-mini", GptConfig::MINGPT),
        ("gpt2", GptConfig::GPT2),
        ("gpt2-medium", GptConfig { layers: 24, heads: 16, width: 1024, ..GptConfig::GPT2 }),
        ("gpt2-large", GptConfig { layers: 36, heads: 20, width: 1280, ..GptConfig::GPT2 }),
        ("gpt2-xl", GptConfig { layers: 48, heads: 25, width: 1600, ..GptConfig::GPT2 }),
        ("llama-2-7b", GptConfig::LLAMA),
        (
            "llama-3.2-1b",
            GptConfig {
                layers: 16,
                groups: Some(8),
                width: 2048,
                hidden: Some(8192),
                context: 131_072,
                vocabulary: 128_256,
                positions: Positions::Rotary(LLAMA_3_2),
                tied: true,
                ..GptConfig::LLAMA
            },
        ),
        (
            "stories260K",
            GptConfig {
                layers: 5,
                heads: 8,
                groups: Some(4),
                width: 64,
                hidden: Some(172),
                context: 512,
                vocabulary: 512,
                ..GptConfig::STORIES
            },
        ),
        (
            "stories15M",
            GptConfig {
                layers: 6,
                heads: 6,
                width: 288,
                hidden: Some(768),
                context: 256,
                ..GptConfig::STORIES
            },
        ),
    ];

    /// llama2.c's models.
    const STORIES: GptConfig = GptConfig { tied: true, ..GptConfig::LLAMA };

    /// The preset of this name.
    pub fn preset(name: &str) -> Result<GptConfig> {
        let known = GptConfig::PRESETS.iter().find(|(known, _)| *known == name);
        known.map(|(_, config)| *config).ok_or_else(|| {
            Error::unknown("preset of a GPT", name, GptConfig::PRESETS.iter().map(|(known, _)| *known))
        })
    }
}
