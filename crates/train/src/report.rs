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
