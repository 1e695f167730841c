//! The page itself: figures first, then curves, what the caller adds, settings and recipe.

use super::{drawn, over_steps};
use crate::metrics::History;
use crate::{Settings, State};
use regard_picture::{Section, Table, bytes, escaped, figure, grouped, side_by_side};

/// The whole page.
pub(super) fn page(
    name: &str,
    recipe: &str,
    settings: &Settings,
    state: &State,
    history: &History,
    sections: &[Section],
) -> String {
    let mut body = format!("<h1>{}</h1>", escaped(name));
    let epochs =
        if state.batch == 0 { state.epoch.to_string() } else { format!("{} and a part", state.epoch) };
    body += &format!(
        "<p class=\"quiet\">Step {}, epochs {epochs}, {} tokens.</p>",
        state.step,
        grouped(state.tokens)
    );
    body += &tiles(settings, state, history);
    body += &curves(history);
    body += &evaluations(history);
    body += &regard_picture::sections(sections);
    let facts = settings.facts().into_iter().map(|(name, text)| [name.replace('_', " "), text]);
    let facts = facts.fold(Table::default(), Table::row);
    body += &format!("<h2>Settings</h2>{}", facts.html(escaped));
    if !recipe.trim().is_empty() {
        body += &format!("<h2>Recipe</h2><pre>{}</pre>", escaped(recipe.trim_end()));
    }
    regard_picture::page(name, "", &body)
}

fn tiles(settings: &Settings, state: &State, history: &History) -> String {
    let mut tiles: Vec<(String, String)> = Vec::new();
    let mut tile = |name: &str, value: String| tiles.push((name.into(), value));
    if let Some(best) = state.best {
        tile(&format!("best {} (step {})", settings.goal.metric, state.best_step), figure(best));
    }
    if let Some(last) = history.evaluations.last() {
        last.metrics.iter().for_each(|(name, value)| tile(&format!("evaluation {name}"), figure(*value)));
    }
    if let Some(last) = history.steps.last() {
        tile("training loss", figure(last.loss));
        tile("learning rate", figure(last.rate));
        // The median: the first steps warm caches, and a checkpoint may wait for the disk.
        let mut speeds: Vec<f64> = history.steps.iter().map(|record| record.tokens_per_second).collect();
        speeds.sort_by(f64::total_cmp);
        tile("tokens per second", grouped(speeds[speeds.len() / 2] as u64));
        if let Some(memory) = history.steps.iter().filter_map(|record| record.memory).max() {
            tile("most memory", bytes(memory));
        }
    }
    regard_picture::tiles(&tiles)
}

fn curves(history: &History) -> String {
    let steps = |of: fn(&crate::StepRecord) -> f64| -> Vec<(f64, f64)> {
        history.steps.iter().map(|record| (record.step as f64, of(record))).collect()
    };
    let mut losses = over_steps("Loss").line("training", steps(|record| record.loss));
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in history.evaluations.iter().flat_map(|record| &record.metrics) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let metric = |name: &str| -> Vec<(f64, f64)> {
        let found = |record: &crate::EvaluationRecord| {
            let value = record.metrics.iter().find(|(known, _)| known == name);
            value.map(|(_, value)| (record.step as f64, *value))
        };
        history.evaluations.iter().filter_map(found).collect()
    };
    if names.contains(&"loss") {
        losses = losses.line("evaluation", metric("loss")).dotted();
    }
    let mut figures = drawn(&losses);
    for (index, name) in names.iter().filter(|name| **name != "loss").enumerate() {
        figures += &drawn(&over_steps(name).line("", metric(name)).dotted().in_colour(2 + index));
    }
    figures += &drawn(&over_steps("Learning rate").line("", steps(|record| record.rate)).in_colour(2));
    figures +=
        &drawn(&over_steps("Gradient norm").line("", steps(|record| record.gradient_norm)).in_colour(3));
    if figures.is_empty() { figures } else { format!("<h2>Curves</h2>{}", side_by_side(&figures)) }
}

/// The evaluations as a table, the newest first.
fn evaluations(history: &History) -> String {
    const MOST: usize = 40;
    let Some(last) = history.evaluations.last() else { return String::new() };
    let heads = std::iter::once("step").chain(last.metrics.iter().map(|(name, _)| &**name)).chain([""]);
    let mut table = Table::new(heads);
    for record in history.evaluations.iter().rev().take(MOST) {
        let values = record.metrics.iter().map(|(_, value)| figure(*value));
        let best = if record.best { "best so far" } else { "" };
        table = table.row(std::iter::once(record.step.to_string()).chain(values).chain([best.to_string()]));
    }
    let mut html = format!("<h2>Evaluations</h2>{}", table.html(escaped));
    let more = history.evaluations.len().saturating_sub(MOST);
    if more > 0 {
        html += &format!("<p class=\"quiet\">{more} earlier ones are in metrics.jsonl.</p>");
    }
    html
}

#[cfg(test)]
mod tests {
    use super::evaluations;
    use crate::{EvaluationRecord, History};

    #[test]
    fn a_long_history_says_where_the_rest_is() {
        let record =
            |step| EvaluationRecord { step, epoch: 1, metrics: vec![("loss".into(), 0.5)], best: false };
        let shown = |count| {
            evaluations(&History { evaluations: (1..=count).map(record).collect(), ..History::default() })
        };
        assert!(!shown(40).contains("metrics.jsonl"));
        assert!(shown(41).ends_with("<p class=\"quiet\">1 earlier ones are in metrics.jsonl.</p>"));
        assert_eq!(shown(0), "");
    }
}
