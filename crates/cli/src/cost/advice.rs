//! What to change to spend half: the bottleneck, and the positions, layers or batch that the prediction asks
//! for.

use super::parts::{Part, time};
use anyhow::Result;
use regard_inspect::price::Prediction;
use regard_models::Sizes;
use std::collections::BTreeSet;

/// A line for each thing that can be changed; `predicted` prices other sizes of the same model.
pub fn advice(
    prediction: &Prediction,
    parts: &[(String, Part)],
    sizes: Sizes,
    predicted: &dyn Fn(Sizes) -> Result<f64>,
) -> Result<Vec<String>> {
    let total = prediction.total;
    let mut lines = Vec::new();
    if let Some((name, part)) = parts.first() {
        let all: f64 = parts.iter().map(|(_, part)| part.predicted).sum();
        let share = part.predicted / all.max(1.0);
        let saved = match name.as_str() {
            name if name.contains("feed_forward") => {
                format!("half of its hidden width would save {:.0} %", 50.0 * share)
            }
            name if name.starts_with("head") && sizes.ids > 1 => {
                let kept = 1.0 / sizes.ids as f64;
                format!("scores of the last position alone would save {:.0} %", 100.0 * share * (1.0 - kept))
            }
            _ => format!("without it {:.0} % would be left", 100.0 * (1.0 - share)),
        };
        lines.push(format!("the bottleneck is {name}, {:.0} % of the time: {saved}", 100.0 * share));
    }
    if let Some((fewer, layers, left)) = fewer_layers(prediction) {
        lines.push(match fewer {
            Some(fewer) => format!("{fewer} of {layers} layers: about {}", time(left)),
            None => format!("layers alone do not do it: one of {layers} still takes about {}", time(left)),
        });
    }
    if sizes.ids > 1 {
        lines.push(match most_positions(total / 2.0, sizes, predicted)? {
            Some((tokens, ns)) => format!("{tokens} positions instead of {}: {}", sizes.ids, time(ns)),
            None => "positions alone do not do it: a single one takes more than half as long".into(),
        });
    }
    let more = Sizes { batch: 4 * sizes.batch, ..sizes };
    let ns = predicted(more)?;
    lines.push(format!(
        "four times the batch does not halve it, but takes {}: {} for each instead of {}",
        time(ns),
        time(ns / more.batch as f64),
        time(total / sizes.batch as f64)
    ));
    Ok(lines)
}

/// How many layers take at most half of the time, of how many, and what is left then, or with one if even one
/// takes more; none without layers.
fn fewer_layers(prediction: &Prediction) -> Option<(Option<usize>, usize, f64)> {
    let mut layers = BTreeSet::new();
    let (mut within, mut all) = (0.0, 0.0);
    for node in &prediction.nodes {
        all += node.nanoseconds;
        // `block.3` of `block.3.attention.linear`, `encoder.block.3` of an encoder-decoder.
        let parts: Vec<&str> = node.row.name.split('.').collect();
        if let Some(at) = parts.iter().position(|part| part.parse::<usize>().is_ok()) {
            layers.insert(parts[..=at].join("."));
            within += node.nanoseconds;
        }
    }
    let stretch = prediction.total / f64::max(all, 1.0);
    let each = stretch * within / layers.len().max(1) as f64;
    let outside = prediction.total - stretch * within;
    let kept = ((prediction.total / 2.0 - outside) / each.max(1.0)).floor();
    let kept = (kept >= 1.0).then_some(kept as usize);
    (layers.len() > 1).then(|| (kept, layers.len(), outside + kept.unwrap_or(1) as f64 * each))
}

/// The most positions that take at most so long, and how long.
fn most_positions(
    limit: f64,
    sizes: Sizes,
    predicted: &dyn Fn(Sizes) -> Result<f64>,
) -> Result<Option<(usize, f64)>> {
    let at = |tokens: usize| {
        let source = if sizes.source > 0 { tokens } else { 0 };
        predicted(Sizes { ids: tokens, source, ..sizes })
    };
    let first = at(1)?;
    if first > limit {
        return Ok(None);
    }
    // Times grow with positions, or nearly so; where they do not, the answer still takes at most so long.
    let (mut fits, mut found, mut too_many) = (1, first, sizes.ids);
    while fits + 1 < too_many {
        let middle = fits.midpoint(too_many);
        let ns = at(middle)?;
        if ns <= limit { (fits, found) = (middle, ns) } else { too_many = middle }
    }
    Ok(Some((fits, found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_positions_that_fit_are_found() {
        let sizes = Sizes { batch: 2, ids: 100, source: 100, ..Default::default() };
        let time = |sizes: Sizes| Ok(5.0 + sizes.ids as f64 + sizes.source as f64);
        assert_eq!(most_positions(205.0 / 2.0, sizes, &time).unwrap(), Some((48, 101.0)));
        assert_eq!(most_positions(7.0, sizes, &time).unwrap(), Some((1, 7.0)));
        assert_eq!(most_positions(6.0, sizes, &time).unwrap(), None);
    }
}
