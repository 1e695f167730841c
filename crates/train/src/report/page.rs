//! The page itself: figures first, then curves, what the caller adds, settings and recipe.

use super::curves::{Line, figure, short};
use super::{Section, escape};
use crate::metrics::History;
use crate::{Settings, State};

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1d2530;--paper:#fbfaf7;--card:#fff;--line:#e3e0d8;--soft:#6b7280;
--c0:#2563a8;--c1:#c2561a;--c2:#3a7d44;--c3:#8a4f9e;--c4:#a88a1b;--c5:#4b8a96}
@media (prefers-color-scheme:dark){:root{--ink:#e6e6e3;--paper:#15181d;--card:#1d2127;--line:#333941;--soft:#9aa3ad;
--c0:#6aa5e8;--c1:#ee8f57;--c2:#7fc389;--c3:#c48fd6;--c4:#d8bd55;--c5:#86c3cf}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1.2rem 1rem 3rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
h1{font-size:1.6rem;margin:.2rem 0 .2rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2rem 0 .6rem}
.lead{color:var(--soft);margin:0 0 1.2rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.7rem}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.6rem .8rem}
.tiles b{display:block;font-size:1.3rem;font-variant-numeric:tabular-nums}.tiles span{color:var(--soft);font-size:.85rem}
.curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(24rem,100%),1fr));gap:.8rem}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.7rem .8rem}
figcaption{font-weight:600;margin-bottom:.2rem}svg{width:100%;height:auto;display:block}
svg text{font-size:13px;fill:var(--soft);font-variant-numeric:tabular-nums}.grid{stroke:var(--line);stroke-width:1}
polyline{fill:none;stroke-width:1.8;stroke-linejoin:round}
.legend{margin:.2rem 0 0;font-size:.85rem;color:var(--soft)}
.legend span{display:inline-block;width:.8rem;height:.8rem;border-radius:.2rem;margin:0 .35rem 0 .6rem;vertical-align:-.1rem}
polyline.c0{stroke:var(--c0)}circle.c0{fill:var(--c0)}span.c0{background:var(--c0)}
polyline.c1{stroke:var(--c1)}circle.c1{fill:var(--c1)}span.c1{background:var(--c1)}
polyline.c2{stroke:var(--c2)}circle.c2{fill:var(--c2)}span.c2{background:var(--c2)}
polyline.c3{stroke:var(--c3)}circle.c3{fill:var(--c3)}span.c3{background:var(--c3)}
polyline.c4{stroke:var(--c4)}circle.c4{fill:var(--c4)}span.c4{background:var(--c4)}
polyline.c5{stroke:var(--c5)}circle.c5{fill:var(--c5)}span.c5{background:var(--c5)}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);
vertical-align:top;overflow-wrap:anywhere}th{color:var(--soft);font-weight:500;overflow-wrap:normal}.numbers td{font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}pre{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.8rem;overflow-x:auto;
font-size:.85rem;line-height:1.4}";

/// The whole page.
pub(super) fn page(
    name: &str,
    recipe: &str,
    settings: &Settings,
    state: &State,
    history: &History,
    sections: &[Section],
) -> String {
    let mut body = format!("<h1>{}</h1>", escape(name));
    let epochs =
        if state.batch == 0 { state.epoch.to_string() } else { format!("{} and a part", state.epoch) };
    body += &format!(
        "<p class=\"lead\">Step {}, epochs {epochs}, {} tokens.</p>",
        state.step,
        grouped(state.tokens)
    );
    body += &tiles(settings, state, history);
    body += &curves(history);
    body += &evaluations(history);
    for section in sections {
        body += &format!("<h2>{}</h2>{}", escape(&section.title), section.html);
    }
    body += "<h2>Settings</h2><table>";
    for (name, text) in settings.facts() {
        body += &format!("<tr><th>{}</th><td>{}</td></tr>", escape(&name.replace('_', " ")), escape(&text));
    }
    body += "</table>";
    if !recipe.trim().is_empty() {
        body += &format!("<h2>Recipe</h2><pre>{}</pre>", escape(recipe.trim_end()));
    }
    document(name, &body)
}

/// A page of this title around what it says.
pub(super) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{}</title>\
         <style>{STYLE}</style></head><body>{body}</body></html>\n",
        escape(title)
    )
}

/// The losses of several runs in one figure.
pub(super) fn losses(title: &str, runs: &[(&str, &History)]) -> String {
    let line = |(index, (name, history)): (usize, &(&str, &History))| Line {
        name: (*name).into(),
        points: history.steps.iter().map(|record| (record.step as f64, record.loss)).collect(),
        colour: index % 6,
        marked: false,
    };
    figure(title, &runs.iter().enumerate().map(line).collect::<Vec<_>>())
}

fn tiles(settings: &Settings, state: &State, history: &History) -> String {
    let mut tiles = String::new();
    let mut tile = |name: &str, value: String| {
        tiles += &format!("<div><b>{}</b><span>{}</span></div>", escape(&value), escape(name));
    };
    if let Some(best) = state.best {
        tile(&format!("best {} (step {})", settings.goal.metric, state.best_step), short(best));
    }
    if let Some(last) = history.evaluations.last() {
        last.metrics.iter().for_each(|(name, value)| tile(&format!("evaluation {name}"), short(*value)));
    }
    if let Some(last) = history.steps.last() {
        tile("training loss", short(last.loss));
        tile("learning rate", short(last.rate));
        // The median: the first steps warm caches, and a checkpoint may wait for the disk.
        let mut speeds: Vec<f64> = history.steps.iter().map(|record| record.tokens_per_second).collect();
        speeds.sort_by(f64::total_cmp);
        tile("tokens per second", grouped(speeds[speeds.len() / 2] as u64));
        if let Some(memory) = history.steps.iter().filter_map(|record| record.memory).max() {
            tile("most memory", crate::predict::bytes(memory));
        }
    }
    if tiles.is_empty() { tiles } else { format!("<div class=\"tiles\">{tiles}</div>") }
}

fn curves(history: &History) -> String {
    let steps = |of: fn(&crate::StepRecord) -> f64| -> Vec<(f64, f64)> {
        history.steps.iter().map(|record| (record.step as f64, of(record))).collect()
    };
    let line = |name: &str, points, colour, marked| Line { name: name.into(), points, colour, marked };
    let mut losses = vec![line("training", steps(|record| record.loss), 0, false)];
    let mut figures = String::new();
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
        losses.push(line("evaluation", metric("loss"), 1, true));
    }
    figures += &figure("Loss", &losses);
    for (index, name) in names.iter().filter(|name| **name != "loss").enumerate() {
        figures += &figure(name, &[line(name, metric(name), 2 + index % 4, true)]);
    }
    figures += &figure("Learning rate", &[line("learning rate", steps(|record| record.rate), 2, false)]);
    figures +=
        &figure("Gradient norm", &[line("gradient norm", steps(|record| record.gradient_norm), 3, false)]);
    if figures.is_empty() { figures } else { format!("<h2>Curves</h2><div class=\"curves\">{figures}</div>") }
}

/// The evaluations as a table, the newest first.
fn evaluations(history: &History) -> String {
    const MOST: usize = 40;
    let Some(last) = history.evaluations.last() else { return String::new() };
    let mut table =
        String::from("<h2>Evaluations</h2><div class=\"wide\"><table class=\"numbers\"><tr><th>step</th>");
    last.metrics.iter().for_each(|(name, _)| table += &format!("<th>{}</th>", escape(name)));
    table += "<th></th></tr>";
    for record in history.evaluations.iter().rev().take(MOST) {
        table += &format!("<tr><td>{}</td>", record.step);
        record.metrics.iter().for_each(|(_, value)| table += &format!("<td>{}</td>", short(*value)));
        table += if record.best { "<td>best so far</td></tr>" } else { "<td></td></tr>" };
    }
    table += "</table></div>";
    let more = history.evaluations.len().saturating_sub(MOST);
    if more > 0 {
        table += &format!("<p class=\"lead\">{more} earlier ones are in metrics.jsonl.</p>");
    }
    table
}

/// 1234567 as 1,234,567.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn numbers_are_grouped_in_threes() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
