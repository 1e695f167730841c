//! Heat maps: a grid of numbers as colours, in a page, as a PNG, or in characters.

mod png;
mod svg;

pub use png::png;

use crate::{Writing, framed};

/// What the colours run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// From nothing to the largest.
    Rising,
    /// Two colours, for more and for less than nothing.
    Signed,
    /// Shares of 1, most of which are small: the colour goes with the square root.
    Share,
}

/// A heat map.
///
/// ```
/// use regard_picture::{Colours, Heat};
///
/// let heat = Heat::new("Attention", "query", "key", 2, [1.0, 0.0, 0.3, 0.7], Colours::Share);
/// assert_eq!(heat.characters(), ["██  ", "▒▒██"]);
/// ```
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
    /// The names of the rows, in the place of their numbers.
    pub row_names: Vec<String>,
    /// The names of the columns, in the place of their numbers.
    pub column_names: Vec<String>,
}

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
        Heat {
            title: title.into(),
            rows: rows.into(),
            columns: columns.into(),
            width: width.max(1),
            numbers: numbers.into(),
            colours,
            row_names: vec![],
            column_names: vec![],
        }
    }

    /// With names beside rows and columns.
    pub fn named(mut self, rows: Vec<String>, columns: Vec<String>) -> Self {
        (self.row_names, self.column_names) = (rows, columns);
        self
    }

    /// The map under its title.
    pub fn captioned(&self, text: Writing) -> String {
        framed(&self.title, &self.svg(), "", text)
    }

    /// A small map in characters, a line for each row, two characters for each number: from 0.01 of the whole
    /// on `·`, then `░` from 0.05, `▒` from 0.15, `▓` from 0.35, `█` from 0.65.
    pub fn characters(&self) -> Vec<String> {
        const SHADES: [(f64, char); 5] = [(0.65, '█'), (0.35, '▓'), (0.15, '▒'), (0.05, '░'), (0.01, '·')];
        let most = self.most();
        let shade = |x: &f64| {
            SHADES.iter().find(|(from, _)| x.abs() / most >= *from).map_or(' ', |(_, shade)| *shade)
        };
        self.numbers
            .chunks(self.width.max(1))
            .map(|row| row.iter().flat_map(|x| [shade(x); 2]).collect())
            .collect()
    }

    /// What the strongest colour stands for.
    fn most(&self) -> f64 {
        match self.colours {
            Colours::Share => 1.0,
            _ => {
                let sizes = self.numbers.iter().filter(|x| x.is_finite()).map(|x| x.abs());
                sizes.fold(0.0, f64::max).max(f64::MIN_POSITIVE)
            }
        }
    }

    /// How strong the colour of a number is, from 0 to 1.
    fn strength(&self, x: f64, most: f64) -> f64 {
        let share = if x.is_nan() { 0.0 } else { (x.abs() / most).min(1.0) };
        if self.colours == Colours::Share { share.sqrt() } else { share }
    }

    /// Whether a number has the colour of less than nothing.
    fn is_less(&self, x: f64) -> bool {
        x < 0.0 && self.colours == Colours::Signed
    }

    /// The numbers with at most so many cells along each side: each is the one of those it stands for that is
    /// farthest from 0.
    fn thinned(&self, most: usize) -> Grid {
        let columns = self.width.max(1);
        let rows = self.numbers.len().div_ceil(columns);
        let (height, width) = (rows.min(most), columns.min(most));
        let mut cells = vec![0f64; height * width];
        for (at, &x) in self.numbers.iter().enumerate() {
            let cell = &mut cells[at / columns * height / rows * width + at % columns * width / columns];
            if x.abs() > cell.abs() {
                *cell = x;
            }
        }
        Grid { height, width, cells, whole: (height, width) == (rows, columns) }
    }
}

/// The cells that are drawn.
struct Grid {
    height: usize,
    width: usize,
    cells: Vec<f64>,
    /// One cell for each number.
    whole: bool,
}

#[cfg(test)]
mod tests;
