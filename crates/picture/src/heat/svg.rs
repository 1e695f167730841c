//! A heat map as an `svg` element, with the numbers written where there is room, and names or numbers beside
//! it.

use super::{Colours, Grid, Heat};
use crate::number::figure;
use crate::text::{escaped, marked_in_picture, shortened};
use std::fmt::Write;

const SIDE: f64 = 440.0;
/// The most cells along one side.
const MOST: usize = 96;
/// The most names along one side.
const MOST_NAMES: usize = 64;
/// The most characters of a name.
const NAME: usize = 12;
/// Fainter than this a colour is not seen.
const FAINTEST: f64 = 0.02;

/// Where things stand.
struct Place {
    left: f64,
    top: f64,
    cell: f64,
    named: bool,
}

impl Heat {
    /// The map as an `svg` element.
    pub fn svg(&self) -> String {
        let grid = self.thinned(MOST);
        let named = grid.width.max(grid.height) <= MOST_NAMES
            && !(self.row_names.is_empty() && self.column_names.is_empty());
        let (across, down) = (grid.width.max(1) as f64, grid.height.max(1) as f64);
        let largest = if self.colours == Colours::Share { 14.0 } else { 56.0 };
        let cell = (SIDE / across).min(SIDE * 0.75 / down).clamp(3.0, largest);
        let room = |names: &[String]| {
            8.0 + 6.6 * names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(NAME + 1) as f64
        };
        let label = |text: &str| if text.is_empty() { 0.0 } else { 16.0 };
        let (left, top) = match named {
            true => (room(&self.row_names), room(&self.column_names)),
            false => (28.0, 22.0),
        };
        let place = Place { left: left + label(&self.rows), top: top + label(&self.columns), cell, named };
        let (right, bottom) = (place.left + cell * across, place.top + cell * down);
        let mut out = format!(
            "<svg class=\"heat\" viewBox=\"0 0 {:.0} {:.0}\" style=\"max-width:{:.0}px\" role=\"img\" aria-label=\"{}\">\
             <rect class=\"ground\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            right + 8.0,
            bottom + 8.0,
            (right + 8.0) * 1.15,
            escaped(&self.title),
            place.left,
            place.top,
            right - place.left,
            bottom - place.top
        );
        self.cells(&mut out, &grid, &place);
        self.names(&mut out, &grid, &place);
        for (text, turned) in [(&self.columns, false), (&self.rows, true)] {
            if !text.is_empty() {
                let at = match turned {
                    true => {
                        format!("transform=\"translate(13 {:.1}) rotate(-90)\"", (place.top + bottom) / 2.0)
                    }
                    false => format!("x=\"{:.1}\" y=\"14\"", (place.left + right) / 2.0),
                };
                let text = marked_in_picture(text);
                let _ = write!(out, "<text class=\"label\" {at} text-anchor=\"middle\">{text}</text>");
            }
        }
        out.push_str("</svg>");
        out
    }

    fn cells(&self, out: &mut String, grid: &Grid, place: &Place) {
        let Place { cell, .. } = *place;
        let (most, written) = (self.most(), cell >= 30.0);
        for (at, &x) in grid.cells.iter().enumerate() {
            let (column, row) = (at % grid.width, at / grid.width);
            let (left, top) = (place.left + cell * column as f64, place.top + cell * row as f64);
            let strength = self.strength(x, most);
            // Of large maps only what can be seen is drawn: half of a causal one is empty.
            if strength < FAINTEST && !written {
                continue;
            }
            let class = if self.is_less(x) { "less" } else { "more" };
            let _ = write!(
                out,
                "<rect class=\"{class}\" fill-opacity=\"{:.3}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{cell:.1}\" \
                 height=\"{cell:.1}\"",
                0.92 * strength
            );
            match grid.whole {
                false => out.push_str("/>"),
                true => {
                    let _ = write!(out, "><title>{}</title></rect>", self.described(row, column, x));
                }
            }
            if written {
                let strong = if strength > 0.55 { " strong" } else { "" };
                let _ = write!(
                    out,
                    "<text class=\"number{strong}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"{:.1}\">{}</text>",
                    left + cell / 2.0,
                    top + cell / 2.0 + 4.0,
                    (cell / 3.6).min(12.5),
                    short(x)
                );
            }
        }
    }

    fn described(&self, row: usize, column: usize, x: f64) -> String {
        let name = |names: &[String], kind: &str, at: usize| match names.get(at) {
            Some(name) => escaped(&shortened(name, 40)),
            None => format!("{kind} {}", at + 1),
        };
        let (row, column) = (name(&self.row_names, "row", row), name(&self.column_names, "column", column));
        format!("{row}, {column}: {}", figure(x))
    }

    fn names(&self, out: &mut String, grid: &Grid, place: &Place) {
        let Place { left, top, cell, named } = *place;
        let every = |count: usize| if named { 1 } else { (count / 12).max(1) };
        let text = |names: &[String], at: usize| match named {
            true => names.get(at).map_or(String::new(), |name| escaped(&shortened(name, NAME))),
            false => (at + 1).to_string(),
        };
        // A thinned map has no numbers that would be those of its rows.
        if !grid.whole {
            return;
        }
        for column in (0..grid.width).step_by(every(grid.width)) {
            let at = left + cell * (column as f64 + 0.5);
            let place = match named {
                true => format!("transform=\"translate({:.1} {:.1}) rotate(-90)\"", at + 3.5, top - 4.0),
                false => format!("x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\"", top - 6.0),
            };
            let _ = write!(out, "<text class=\"tick\" {place}>{}</text>", text(&self.column_names, column));
        }
        for row in (0..grid.height).step_by(every(grid.height)) {
            let at = top + cell * (row as f64 + 0.5) + 4.0;
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{at:.1}\" text-anchor=\"end\">{}</text>",
                left - 5.0,
                text(&self.row_names, row)
            );
        }
    }
}

/// A number in the room of a cell; small ones keep their sign, and only nothing is a bare 0.
fn short(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    if !x.is_finite() {
        return figure(x);
    }
    let text = if x.abs() < 0.0095 {
        return if x < 0.0 { "−0".into() } else { "+0".into() };
    } else if x.abs() < 10.0 {
        format!("{x:.2}")
    } else if x.abs() < 1e4 {
        format!("{x:.0}")
    } else {
        format!("{x:.0e}")
    };
    let text = text.replace('-', "−");
    match text.strip_prefix("−0.").map(|rest| format!("−.{rest}")) {
        Some(text) => text,
        None => text.strip_prefix("0.").map_or(text.clone(), |rest| format!(".{rest}")),
    }
}
