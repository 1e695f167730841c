//! `report.html`: a run on one page. Written whole, at every checkpoint on the way and once at the end, there
//! by who knows most: the loop, or a caller that examines the result first
//! ([`Run::reported_by_caller`](crate::Run::reported_by_caller)).

mod page;

use crate::metrics::History;
use crate::{Result, RunFolder, Settings, State};
use regard_data::whole;
use regard_picture::{Axis, Chart, Section, escaped, side_by_side};
use std::io::Write;

/// Writes the report of a folder.
pub fn write(
    folder: &RunFolder,
    settings: &Settings,
    state: &State,
    history: &History,
    sections: &[Section],
) -> Result<()> {
    let name = folder.path().file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy());
    let page = page::page(&name, folder.recipe(), settings, state, history, sections);
    Ok(whole::write(folder.report(), |file| file.write_all(page.as_bytes()))?)
}

/// The losses of several runs over their steps, as figures side by side.
pub fn loss_curves(figures: &[(&str, Vec<(&str, &History)>)]) -> String {
    let figure = |(title, runs): &(&str, Vec<(&str, &History)>)| {
        let chart = runs.iter().fold(over_steps(title), |chart, (name, history)| {
            let losses = history.steps.iter().map(|record| (record.step as f64, record.loss));
            chart.line(*name, losses)
        });
        drawn(&chart)
    };
    side_by_side(&figures.iter().map(figure).collect::<String>())
}

/// A chart of something over steps.
fn over_steps(title: &str) -> Chart {
    Chart::new(title, Axis::new("step"), Axis::new("")).small()
}

/// A chart as a figure; nothing where there is nothing to draw.
fn drawn(chart: &Chart) -> String {
    if chart.is_empty() { String::new() } else { chart.captioned(escaped) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StepRecord;

    #[test]
    fn losses_of_several_runs_share_a_figure() {
        let step = |step, loss| StepRecord {
            mean_loss: None,
            step,
            epoch: 0,
            loss,
            rate: 0.1,
            gradient_norm: 1.0,
            tokens: 1,
            tokens_per_second: 1.0,
            memory: None,
        };
        let history = History { steps: vec![step(1, 2.0), step(2, 1.0)], evaluations: Vec::new() };
        let html = loss_curves(&[
            ("Reading", vec![("one & only", &history), ("another", &history)]),
            ("Nothing", Vec::new()),
        ]);
        assert_eq!(regard_picture::check::fault(&html), None);
        assert_eq!(html.matches("<figure>").count(), 1, "a figure without points is left out");
        assert!(html.contains("one &amp; only") && !html.contains("http"), "{html}");
    }
}
