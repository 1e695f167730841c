//! What only some decoders have, in our own words: rotary positions with their stretches, layers of a second
//! kind, multipliers and soft caps. Said where it departs from what GPT-2 and Llama have.

use super::json::Fields;
use crate::gpt::GptConfig;
use crate::mechanisms::{PAIRINGS, decimal, spelled};
use crate::variants::{LayerSet, Multipliers, OtherLayers, SoftCaps};
use regard_graph::Result;
use regard_layers::NormSpan;
use regard_ops::{RotarySpec, Stretch};
use serde_json::{Map, Value, json};

const SPANS: [(&str, NormSpan); 2] = [("head", NormSpan::Head), ("width", NormSpan::Width)];

/// Rotary positions.
pub fn rotary_to_json(spec: &RotarySpec) -> Value {
    let stretch = spec.stretch.map(|stretch| match stretch {
        Stretch::Turns { factor, low, high, original } => {
            json!({"factor": factor, "low": low, "high": high, "original": original})
        }
        Stretch::Linear { factor } => json!({"kind": "linear", "factor": factor}),
        Stretch::Dynamic { factor } => json!({"kind": "dynamic", "factor": factor}),
        Stretch::Yarn { factor, fast, slow, original, whole } => json!({
            "kind": "yarn", "factor": factor, "fast": fast, "slow": slow, "original": original, "whole": whole,
        }),
    });
    let pairing = spelled(spec.pairing, &PAIRINGS);
    let mut words = json!({"base": spec.base, "width": spec.width, "pairing": pairing, "stretch": stretch});
    if spec.scale != 1.0 {
        words["scale"] = spec.scale.into();
    }
    words
}

/// Rotary positions, as they were written.
pub fn rotary_from_json(rotary: &Fields<'_>) -> Result<RotarySpec> {
    let stretch = match rotary.inner("stretch")? {
        None => None,
        Some(stretch) => Some(stretch_of(&stretch)?),
    };
    Ok(RotarySpec {
        base: number(rotary, "base")?,
        width: rotary.size_or_none("width")?,
        pairing: word(rotary, "pairing", &PAIRINGS)?,
        inverse: false,
        stretch,
        scale: rotary.number("scale")?.unwrap_or(1.0),
    })
}

fn stretch_of(stretch: &Fields<'_>) -> Result<Stretch> {
    let factor = number(stretch, "factor")?;
    Ok(match stretch.text("kind")? {
        None => Stretch::Turns {
            factor,
            low: number(stretch, "low")?,
            high: number(stretch, "high")?,
            original: number(stretch, "original")?,
        },
        Some("linear") => Stretch::Linear { factor },
        Some("dynamic") => Stretch::Dynamic { factor },
        Some("yarn") => Stretch::Yarn {
            factor,
            fast: number(stretch, "fast")?,
            slow: number(stretch, "slow")?,
            original: number(stretch, "original")?,
            whole: stretch.truth("whole")?.unwrap_or(true),
        },
        Some(other) => return Err(stretch.unknown("kind", other, &["linear", "dynamic", "yarn"])),
    })
}

/// Adds what departs.
pub fn write(config: &GptConfig, words: &mut Map<String, Value>) {
    let mut put = |name: &str, departs: bool, value: Value| {
        if departs {
            words.insert(name.into(), value);
        }
    };
    if let Some(OtherLayers { layers, window, rotary }) = config.others {
        let layers: Vec<usize> = layers.iter().collect();
        let rotary = rotary.map(|spec| rotary_to_json(&spec));
        put("others", true, json!({"layers": layers, "window": window, "rotary": rotary}));
    }
    if let Some(span) = config.query_key_norm {
        put("query_key_norm", true, spelled(span, &SPANS).into());
    }
    put("output_bias", config.output_bias.is_some(), config.output_bias.into());
    put("head_bias", config.head_bias, true.into());
    let Multipliers { embedding, residual, logits } = config.multipliers;
    let multipliers =
        json!({"embedding": decimal(embedding), "residual": decimal(residual), "logits": decimal(logits)});
    put("multipliers", config.multipliers != Multipliers::ONE, multipliers);
    let SoftCaps { scores, logits } = config.caps;
    let caps = json!({"scores": scores.map(decimal), "logits": logits.map(decimal)});
    put("caps", config.caps != SoftCaps::NONE, caps);
}

/// Reads what departs into a config.
pub fn read(fields: &Fields<'_>, config: &mut GptConfig) -> Result<()> {
    if let Some(others) = fields.inner("others")? {
        let listed = others.sizes("layers")?.unwrap_or_default();
        config.others = Some(OtherLayers {
            layers: LayerSet::of(config.layers, |layer| listed.contains(&layer))?,
            window: others.size_or_none("window")?,
            rotary: match others.inner("rotary")? {
                Some(rotary) => Some(rotary_from_json(&rotary)?),
                None => None,
            },
        });
    }
    config.query_key_norm = match fields.given("query_key_norm") {
        true => Some(word(fields, "query_key_norm", &SPANS)?),
        false => None,
    };
    config.output_bias = fields.truth("output_bias")?;
    config.head_bias = fields.truth("head_bias")?.unwrap_or(false);
    if let Some(by) = fields.inner("multipliers")? {
        config.multipliers = Multipliers {
            embedding: number(&by, "embedding")? as f32,
            residual: number(&by, "residual")? as f32,
            logits: number(&by, "logits")? as f32,
        };
    }
    if let Some(caps) = fields.inner("caps")? {
        let cap = |name: &str| Ok::<_, regard_graph::Error>(caps.number(name)?.map(|cap| cap as f32));
        config.caps = SoftCaps { scores: cap("scores")?, logits: cap("logits")? };
    }
    Ok(())
}

/// A number that must be there.
pub(super) fn number(fields: &Fields<'_>, name: &str) -> Result<f64> {
    fields.number(name)?.ok_or_else(|| absent(fields, name))
}

/// The meaning of a word that must be there.
pub(super) fn word<T: Copy>(fields: &Fields<'_>, name: &str, words: &[(&str, T)]) -> Result<T> {
    let text = fields.text(name)?.ok_or_else(|| absent(fields, name))?;
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| fields.unknown(name, text, &known))
}

/// That a field is not there.
pub(super) fn absent(fields: &Fields<'_>, name: &str) -> regard_graph::Error {
    fields.wrong(format!("the config has no `{name}`"), "give the whole config.json of the model")
}

#[cfg(test)]
mod tests {
    use super::super::native::{gpt_from_json, gpt_to_json};
    use super::*;
    use crate::positions::Positions;
    use regard_ops::Pairing;

    #[test]
    fn what_departs_comes_back() {
        let plain = RotarySpec { pairing: Pairing::Interleaved, ..RotarySpec::default() };
        let layers = LayerSet::of(4, |layer| layer % 3 == 1).unwrap();
        let yarn = Stretch::Yarn { factor: 4.0, fast: 32.0, slow: 1.0, original: 64.0, whole: false };
        let all = [
            GptConfig {
                others: Some(OtherLayers { layers, window: Some(7), rotary: None }),
                query_key_norm: Some(NormSpan::Width),
                output_bias: Some(false),
                multipliers: Multipliers { embedding: 12.0, residual: 0.22, logits: 0.125 },
                ..GptConfig::SMALL
            },
            GptConfig {
                positions: Positions::Rotary(RotarySpec { stretch: Some(yarn), scale: 1.25, ..plain }),
                others: Some(OtherLayers { layers, window: None, rotary: Some(plain) }),
                query_key_norm: Some(NormSpan::Head),
                head_bias: true,
                caps: SoftCaps { scores: Some(50.0), logits: Some(30.0) },
                ..GptConfig::SMALL
            },
        ];
        for config in all {
            let written = gpt_to_json(&config);
            assert_eq!(gpt_from_json(&written).unwrap(), config, "{written}");
        }
        for stretch in [Stretch::Linear { factor: 2.0 }, Stretch::Dynamic { factor: 3.0 }] {
            let spec = RotarySpec { stretch: Some(stretch), ..plain };
            let config = GptConfig { positions: Positions::Rotary(spec), ..GptConfig::SMALL };
            assert_eq!(gpt_from_json(&gpt_to_json(&config)).unwrap(), config);
        }
        let mut strange = gpt_to_json(&all[1]);
        strange["rotary"]["stretch"]["kind"] = "elastic".into();
        assert_eq!(
            gpt_from_json(&strange).unwrap_err().to_string(),
            "regard-gpt: `kind` is `elastic`; what can be imported is `linear`, `dynamic`, `yarn`"
        );
    }
}
