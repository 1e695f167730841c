//! Layers of two kinds as transformers spells them: a list `layer_types` of `sliding_attention` and
//! `full_attention`, or a rule in older configs.

use super::super::json::Fields;
use crate::gpt::GptConfig;
use crate::positions::Positions;
use crate::variants::{LayerSet, OtherLayers};
use regard_graph::Result;
use regard_ops::RotarySpec;
use serde_json::Value;

/// The two words.
const KINDS: [(&str, bool); 2] = [("sliding_attention", true), ("full_attention", false)];

/// Which layers see through a window: as `layer_types` has it, or else by a rule.
pub fn sliding(fields: &Fields<'_>, layers: usize, rule: impl Fn(usize) -> bool) -> Result<Vec<bool>> {
    let Some(given) = fields.texts("layer_types")? else { return Ok((0..layers).map(rule).collect()) };
    if given.len() != layers {
        return Err(fields.wrong(
            format!("`layer_types` has {} entries, for {layers} layers", given.len()),
            "give one for each layer",
        ));
    }
    given
        .into_iter()
        .map(|kind| {
            let known = KINDS.iter().find(|(word, _)| *word == kind);
            known
                .map(|(_, slides)| *slides)
                .ok_or_else(|| fields.unknown("layer_types", kind, &[KINDS[0].0, KINDS[1].0]))
        })
        .collect()
}

/// Puts windows, and how layers turn, into a config: `wide` for layers without a window, `near` for those
/// with one. If all are of one kind, there are no others.
pub fn settle(
    config: &mut GptConfig,
    slides: &[bool],
    window: Option<usize>,
    [wide, near]: [Option<RotarySpec>; 2],
) -> Result<()> {
    let same = window.is_none() && wide == near;
    config.others = None;
    if same || !slides.contains(&true) {
        config.window = None;
        config.positions = wide.map_or(config.positions, Positions::Rotary);
    } else if !slides.contains(&false) {
        config.window = window;
        config.positions = near.map_or(config.positions, Positions::Rotary);
    } else {
        config.window = None;
        config.positions = wide.map_or(config.positions, Positions::Rotary);
        let layers = LayerSet::of(slides.len(), |layer| slides[layer])?;
        config.others = Some(OtherLayers { layers, window, rotary: near });
    }
    Ok(())
}

/// `layer_types` of a model whose layers differ in their windows, and the one window that they have; none if
/// there is more than one.
pub fn types(config: &GptConfig) -> Option<(Value, Option<usize>)> {
    let windows: Vec<Option<usize>> = (0..config.layers).map(|layer| config.window_of(layer)).collect();
    let window = windows.iter().copied().flatten().next();
    if windows.iter().flatten().any(|other| Some(*other) != window) {
        return None;
    }
    let word = |window: &Option<usize>| if window.is_some() { KINDS[0].0 } else { KINDS[1].0 };
    Some((windows.iter().map(word).collect::<Vec<_>>().into(), window))
}
