//! `report.html`: a run on one page that needs nothing else, neither scripts nor a network. Written whole, again at every
//! checkpoint.

mod curves;
mod page;

use crate::metrics::History;
use crate::{Result, RunFolder, Settings, State};
use regard_data::whole;
use std::io::Write;

/// A part of the report that the caller adds: a table, wrong answers, a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Its heading, as plain text.
    pub title: String,
    /// Its content, as HTML. What comes from data must have gone through [`escape`].
    pub html: String,
}

/// Plain text as HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

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

/// A page of several runs, or of none: a title, a sentence below it, sections.
pub fn document(title: &str, lead: &str, sections: &[Section]) -> String {
    let mut body = format!("<h1>{}</h1><p class=\"lead\">{}</p>", escape(title), escape(lead));
    for section in sections {
        body += &format!("<h2>{}</h2>{}", escape(&section.title), section.html);
    }
    page::document(title, &body)
}

/// The losses of several runs over their steps, as figures side by side.
pub fn loss_curves(figures: &[(&str, Vec<(&str, &History)>)]) -> String {
    let figures: String = figures.iter().map(|(title, runs)| page::losses(title, runs)).collect();
    format!("<div class=\"curves\">{figures}</div>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StepRecord;

    #[test]
    fn a_document_has_its_sections_and_nothing_from_elsewhere() {
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
        let page = document("A <title>", "Said.", &[Section { title: "Curves".into(), html }]);
        assert!(page.contains("<h1>A &lt;title&gt;</h1>") && page.contains("<h2>Curves</h2>"), "{page}");
        assert_eq!(page.matches("<figure>").count(), 1, "a figure without points is left out");
        assert!(page.contains("one &amp; only") && !page.contains("http"), "{page}");
    }
}
