//! Rotary positions as transformers spells them: `rope_parameters` in newer configs, `rope_theta` and
//! `rope_scaling` in older ones, and some families with words of their own. Both are read; the newer is
//! written.

use super::super::json::Fields;
use regard_graph::Result;
use regard_ops::{Pairing, RotarySpec, Stretch};
use serde_json::{Value, json};

/// What a family calls its rotary positions, and has where its config says nothing.
#[derive(Clone, Copy, Debug)]
pub struct RopeWords {
    /// The base, beside `rope_parameters`.
    pub base: &'static str,
    /// The base, where nothing is said.
    pub usual_base: f64,
    /// For families whose heads turn in part: the share, beside `rope_parameters`, and where nothing is said.
    pub share: Option<(&'static str, f64)>,
    /// Which kinds of `rope_type` the family has.
    pub kinds: &'static [&'static str],
}

/// All kinds that there are.
pub const KINDS: [&str; 5] = ["default", "linear", "dynamic", "yarn", "llama3"];

impl RopeWords {
    /// Llama's.
    pub const PLAIN: RopeWords =
        RopeWords { base: "rope_theta", usual_base: 10_000.0, share: None, kinds: &KINDS };
}

/// The words that an object of rotary settings may have. Others change numbers in ways that we do not know.
const KNOWN: [&str; 15] = [
    "rope_theta",
    "rope_type",
    "type",
    "partial_rotary_factor",
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "low_freq_factor",
    "high_freq_factor",
    "finetuned",
];

/// How queries and keys of heads of this width turn in a model of this context.
pub fn read(fields: &Fields<'_>, words: &RopeWords, head_width: usize, context: usize) -> Result<RotarySpec> {
    let (newer, older) = (fields.inner("rope_parameters")?, fields.inner("rope_scaling")?);
    if newer.is_some() && older.is_some() {
        return Err(fields.wrong(
            "both `rope_parameters` and `rope_scaling` are given",
            "they say the same in newer and older words: leave one out",
        ));
    }
    let outer = fields.number(words.base)?;
    let share = match words.share {
        Some((name, usual)) => Some(fields.number(name)?.unwrap_or(usual)),
        None => None,
    };
    let usual = Usual { base: outer, fallback: words.usual_base, share, head_width, context };
    settings(fields, newer.or(older), words, &usual)
}

/// What counts where an object of rotary settings says nothing.
pub struct Usual {
    /// The base that stands beside the object, if one does.
    pub base: Option<f64>,
    /// The family's own.
    pub fallback: f64,
    /// The share of a head that turns, in families whose heads turn in part.
    pub share: Option<f64>,
    /// D.
    pub head_width: usize,
    /// The most positions.
    pub context: usize,
}

/// The settings of one object, if there is one.
pub fn settings(
    fields: &Fields<'_>,
    object: Option<Fields<'_>>,
    words: &RopeWords,
    usual: &Usual,
) -> Result<RotarySpec> {
    let Usual { base: outer, fallback, head_width, context, .. } = *usual;
    let Some(object) = object else {
        let base = outer.unwrap_or(fallback);
        return Ok(RotarySpec { base, width: turning(usual.share, head_width), ..plain() });
    };
    let kind = kind_of(&object)?;
    if !words.kinds.contains(&kind) {
        return Err(object.unknown("rope_type", kind, words.kinds));
    }
    if let Some(strange) = object.names().find(|name| !KNOWN.contains(name) && object.given(name)) {
        return Err(fields.wrong(
            format!("the settings of rotary positions have `{strange}`"),
            format!("what can be imported is {}", words.kinds.join(", ")),
        ));
    }
    let inner = object.number("rope_theta")?;
    if let (Some(inner), Some(outer)) = (inner, outer)
        && inner != outer
    {
        return Err(fields.wrong(
            format!("`{}` is {outer}, and {inner} in `rope_parameters`", words.base),
            "make them the same, or leave one out",
        ));
    }
    let share = match (usual.share, object.number("partial_rotary_factor")?) {
        (None, Some(share)) if share != 1.0 => {
            return Err(fields.wrong(
                format!("`partial_rotary_factor` is {share}"),
                "heads of this family turn as a whole: leave it out",
            ));
        }
        (None, _) => None,
        (usual, own) => own.or(usual),
    };
    let spec = RotarySpec {
        base: inner.or(outer).unwrap_or(fallback),
        width: turning(share, head_width),
        ..plain()
    };
    stretched(&object, kind, spec, context)
}

/// What a `rope_type` is called; configs of 2023 say `type`.
fn kind_of<'a>(object: &Fields<'a>) -> Result<&'a str> {
    let kind = match object.text("rope_type")? {
        Some(kind) => Some(kind),
        None => object.text("type")?,
    };
    Ok(kind.unwrap_or("default"))
}

/// Puts the stretch of a kind into a spec.
fn stretched(object: &Fields<'_>, kind: &str, spec: RotarySpec, context: usize) -> Result<RotarySpec> {
    let number = |name: &str| {
        object.number(name)?.ok_or_else(|| {
            object.wrong(format!("rope_type `{kind}` has no `{name}`"), "give the whole config.json")
        })
    };
    let original = object.number("original_max_position_embeddings")?.unwrap_or(context as f64);
    let (stretch, scale) = match kind {
        "linear" => (Some(Stretch::Linear { factor: number("factor")? }), 1.0),
        "dynamic" => (Some(Stretch::Dynamic { factor: number("factor")? }), 1.0),
        "llama3" => {
            let factor = number("factor")?;
            let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
            (Some(Stretch::Turns { factor, low, high, original }), 1.0)
        }
        "yarn" => {
            let factor = object.number("factor")?.unwrap_or(context as f64 / original);
            // Zero means the usual here, as in transformers.
            let turns = |given: Option<f64>, usual: f64| given.filter(|turns| *turns != 0.0).unwrap_or(usual);
            let (fast, slow) = (object.number("beta_fast")?, object.number("beta_slow")?);
            let whole = object.truth("truncate")?.unwrap_or(true);
            let stretch =
                Stretch::Yarn { factor, fast: turns(fast, 32.0), slow: turns(slow, 1.0), original, whole };
            (Some(stretch), yarn_scale(object, factor)?)
        }
        _ => (None, 1.0),
    };
    Ok(RotarySpec { stretch, scale, ..spec })
}

/// What YaRN multiplies turned channels by, unless it is said: 0.1 ln factor + 1, or a quotient of two such.
fn yarn_scale(object: &Fields<'_>, factor: f64) -> Result<f64> {
    let of = |share: f64| if factor <= 1.0 { 1.0 } else { 0.1 * share * factor.ln() + 1.0 };
    if let Some(given) = object.number("attention_factor")? {
        return Ok(given);
    }
    let share = |name: &str| Ok(object.number(name)?.filter(|share| *share != 0.0));
    Ok(match (share("mscale")?, share("mscale_all_dim")?) {
        (Some(above), Some(below)) => of(above) / of(below),
        _ => of(1.0),
    })
}

/// `rope_parameters` of heads of this width; none where no config says such a thing.
pub fn write(spec: &RotarySpec, words: &RopeWords, head_width: usize) -> Option<Value> {
    if spec.pairing != Pairing::Halves || spec.inverse {
        return None;
    }
    let mut object = match spec.stretch {
        None => json!({ "rope_type": "default" }),
        Some(Stretch::Linear { factor }) => json!({ "rope_type": "linear", "factor": factor }),
        Some(Stretch::Dynamic { factor }) => json!({ "rope_type": "dynamic", "factor": factor }),
        Some(Stretch::Turns { factor, low, high, original }) => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original as u64,
        }),
        Some(Stretch::Yarn { factor, fast, slow, original, whole }) => json!({
            "rope_type": "yarn",
            "factor": factor,
            "beta_fast": fast,
            "beta_slow": slow,
            "original_max_position_embeddings": original as u64,
            "truncate": whole,
            "attention_factor": spec.scale,
        }),
    };
    object["rope_theta"] = spec.base.into();
    if words.share.is_some() {
        object["partial_rotary_factor"] = share_of(spec.width.unwrap_or(head_width), head_width).into();
    }
    Some(object)
}

fn plain() -> RotarySpec {
    RotarySpec { pairing: Pairing::Halves, ..RotarySpec::default() }
}

/// How many channels of a head turn; none if all do.
fn turning(share: Option<f64>, head_width: usize) -> Option<usize> {
    share.map(|share| (head_width as f64 * share) as usize).filter(|&width| width != head_width)
}

/// The share of a head that comes out as this many channels when it is multiplied and cut.
fn share_of(width: usize, head_width: usize) -> f64 {
    let share = width as f64 / head_width.max(1) as f64;
    match turning(Some(share), head_width).unwrap_or(head_width) == width {
        true => share,
        false => (width as f64 + 0.5) / head_width as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_heads_come_out_as_they_went_in() {
        for head in 1..200 {
            for width in 1..=head {
                let share = share_of(width, head);
                assert_eq!(turning(Some(share), head).unwrap_or(head), width, "{width} of {head}");
            }
        }
    }
}
