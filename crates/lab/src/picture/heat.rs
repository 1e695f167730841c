//! Heat maps: a grid of numbers as colours, with the numbers written where there is room.

use super::{escaped, figure, marked_in_picture};
use std::fmt::Write;

/// What the colours run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// From nothing to the largest.
    Rising,
    /// Two colours, for more and for less than nothing.
    Signed,
}

/// A heat map.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What it shows.
    pub title: String,
    /// What runs down.
    pub rows: String,
    /// What runs across.
    pub columns: String,
    /// How many columns.
    pub width: usize,
    /// The numbers, row by row.
    pub numbers: Vec<f64>,
    /// What the colours run over.
    pub colours: Colours,
}

const SIDE: f64 = 440.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 38.0;

impl Heat {
    /// A heat map of rows of numbers.
    pub fn new(
        title: impl Into<String>,
        rows: impl Into<String>,
        columns: impl Into<String>,
        width: usize,
        numbers: impl Into<Vec<f64>>,
        colours: Colours,
    ) -> Self {
        let numbers = numbers.into();
        Heat { title: title.into(), rows: rows.into(), columns: columns.into(), width, numbers, colours }
    }

    pub(super) fn svg(&self) -> String {
        let width = self.width.max(1);
        let height = self.numbers.len().div_ceil(width).max(1);
        let cell = (SIDE / width as f64).min(SIDE * 0.75 / height as f64).clamp(3.0, 56.0);
        let (right, bottom) = (LEFT + cell * width as f64, TOP + cell * height as f64);
        let most =
            self.numbers.iter().fold(0.0f64, |most, x| if x.is_finite() { most.max(x.abs()) } else { most });
        let written = cell >= 30.0;
        let mut out = format!(
            "<svg class=\"heat\" viewBox=\"0 0 {:.0} {:.0}\" style=\"max-width:{:.0}px\" role=\"img\" aria-label=\"{}\">",
            right + 8.0,
            bottom + 8.0,
            (right + 8.0) * 1.15,
            escaped(&self.title)
        );
        for (at, &x) in self.numbers.iter().enumerate() {
            let (column, row) = (at % width, at / width);
            let (left, top) = (LEFT + cell * column as f64, TOP + cell * row as f64);
            let strength = if most > 0.0 { (x.abs() / most).min(1.0) } else { 0.0 };
            let class = if x < 0.0 && self.colours == Colours::Signed { "less" } else { "more" };
            let _ = write!(
                out,
                "<rect class=\"cell\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{cell:.1}\" height=\"{cell:.1}\"/><rect \
                 class=\"{class}\" fill-opacity=\"{:.3}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{cell:.1}\" \
                 height=\"{cell:.1}\"><title>row {row}, column {column}: {}</title></rect>",
                0.92 * strength,
                figure(x)
            );
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
        let every = |count: usize| (count / 12).max(1);
        for column in (0..width).step_by(every(width)) {
            let at = LEFT + cell * (column as f64 + 0.5);
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                TOP - 6.0,
                column + 1
            );
        }
        for row in (0..height).step_by(every(height)) {
            let at = TOP + cell * (row as f64 + 0.5) + 4.0;
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{}\" y=\"{at:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 5.0,
                row + 1
            );
        }
        let _ = write!(
            out,
            "<text class=\"label\" x=\"{:.1}\" y=\"14\" text-anchor=\"middle\">{}</text><text class=\"label\" \
             transform=\"translate(13 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text></svg>",
            (LEFT + right) / 2.0,
            marked_in_picture(&self.columns),
            (TOP + bottom) / 2.0,
            marked_in_picture(&self.rows)
        );
        out
    }
}

/// A number in the room of a cell; small ones keep their sign, and only nothing is a bare 0.
fn short(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    let text = if x.abs() < 0.0095 {
        return if x < 0.0 { "−0".into() } else { "+0".into() };
    } else if x.abs() < 10.0 {
        format!("{x:.2}")
    } else {
        format!("{x:.0}")
    };
    let text = text.replace('-', "−");
    text.replace("0.", ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_cell() {
        let heat = Heat::new("ΔA", "key", "query", 3, [0.1, -0.2, 0.0, 1.0, 0.5, 0.25], Colours::Signed);
        let svg = heat.svg();
        assert_eq!(svg.matches("class=\"cell\"").count(), 6);
        assert_eq!(svg.matches("class=\"less\"").count(), 1);
        assert!(svg.contains(">−.20<") && svg.contains(">1.00<"), "{svg}");
    }
}
