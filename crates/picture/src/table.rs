//! Tables, for a page and for a terminal.

use crate::Writing;
use std::fmt::Write;

/// A table.
///
/// ```
/// use regard_picture::{Table, escaped};
///
/// let table = Table::new(["", "right"]).row(["always a", "5.0 %"]).row(["a & b", "82.5 %"]);
/// assert_eq!(table.text(), "           right\nalways a   5.0 %\na & b     82.5 %\n");
/// assert!(table.html(escaped).contains("<td>a &amp; b</td><td class=\"n\">82.5 %</td>"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The heads of its columns; none for a table without.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        Table { columns: columns.into_iter().map(Into::into).collect(), rows: vec![] }
    }

    /// With one more row.
    pub fn row<S: Into<String>>(mut self, cells: impl IntoIterator<Item = S>) -> Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }

    /// The table as HTML, in a box that scrolls when it is too wide. Cells with numbers have the class `n`.
    pub fn html(&self, text: Writing) -> String {
        let mut out = String::from("<div class=\"scroll\"><table>");
        if !self.columns.is_empty() {
            let heads: String = self.columns.iter().map(|head| format!("<th>{}</th>", text(head))).collect();
            let _ = write!(out, "<tr>{heads}</tr>");
        }
        for row in &self.rows {
            out.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                // Without heads above, those at the side say what a row is.
                let tag = if self.columns.is_empty() && column == 0 { "th" } else { "td" };
                let class = if is_number(cell) { " class=\"n\"" } else { "" };
                let _ = write!(out, "<{tag}{class}>{}</{tag}>", text(cell));
            }
            out.push_str("</tr>");
        }
        out.push_str("</table></div>");
        out
    }

    /// The table in lines of a terminal: the first column and words to the left, numbers to the right.
    pub fn text(&self) -> String {
        let lines = || std::iter::once(&self.columns).filter(|heads| !heads.is_empty()).chain(&self.rows);
        let count = lines().map(Vec::len).max().unwrap_or(0);
        let cell = |line: &Vec<String>, column: usize| line.get(column).cloned().unwrap_or_default();
        let width = |column: usize| lines().map(|line| cell(line, column).chars().count()).max().unwrap_or(0);
        let numbers = |column: usize| {
            column > 0 && self.rows.iter().map(|row| cell(row, column)).all(|c| c.is_empty() || is_number(&c))
        };
        let kinds: Vec<(usize, bool)> = (0..count).map(|column| (width(column), numbers(column))).collect();
        let written = |line: &Vec<String>| {
            let cells = kinds.iter().enumerate().map(|(column, &(width, number))| {
                let cell = cell(line, column);
                if number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
        };
        lines().map(written).collect()
    }
}

/// Whether a cell holds a number, or the dash in the place of one. A sentence may begin with a number and is
/// none.
fn is_number(cell: &str) -> bool {
    let digits = cell.trim_start_matches(['−', '-', '+', '.']);
    cell == "–" || digits.starts_with(|c: char| c.is_ascii_digit()) && cell.chars().count() <= 24
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fault;
    use crate::{escaped, marked};

    #[test]
    fn words_stand_left_and_numbers_right() {
        let table = Table::new(["what", "loss", "line"]).row(["é", "–", "b"]).row(["longer", "−0.25", ""]);
        assert_eq!(table.text(), "what     loss  line\né           –  b\nlonger  −0.25\n");
        assert_eq!(Table::default().text(), "");
        let uneven = Table::new(["a"]).row(["1", "2"]).row(Vec::<String>::new());
        assert_eq!(uneven.text(), "a\n1  2\n\n");
    }

    #[test]
    fn cells_are_written_as_asked() {
        let table = Table::new(["a_b<"]).row(["x_1"]);
        assert!(table.html(escaped).contains("<th>a_b&lt;</th>"));
        assert!(table.html(marked).contains("<td>x<sub>1</sub></td>"));
        assert_eq!(fault(&table.html(marked)), None);
        let facts = Table::default().row(["batch", "32"]);
        assert!(
            facts.html(escaped).contains("<th>batch</th><td class=\"n\">32</td>"),
            "{}",
            facts.html(escaped)
        );
    }
}
