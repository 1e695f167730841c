//! Pictures and pages: charts, heat maps, tables, numbers as people write them, and the frame of a page.
//! Everything here is a pure function from numbers and texts to a string (or to the bytes of a PNG): no disk,
//! no network, no model.
//!
//! Pictures carry classes instead of colours; the one style of [`page()`] gives those their colours, in the
//! light and in the dark, so that lines can be told apart by everybody ([`palette`]).
//!
//! ```
//! use regard_picture::{Axis, Chart, escaped, page};
//!
//! let chart = Chart::new("Loss", Axis::new("step"), Axis::log("nats"))
//!     .line("training", [(1.0, 9.2), (2.0, 3.1), (3.0, 1.4)])
//!     .points("evaluation", [(3.0, 1.6)]);
//! let html = page("A run", "", &chart.captioned(escaped));
//! assert!(html.contains("<figcaption>Loss</figcaption><svg") && html.contains("evaluation</li>"));
//! ```

#![forbid(unsafe_code)]

mod axis;
mod chart;
pub mod check;
mod heat;
mod number;
mod page;
pub mod palette;
mod table;
mod text;

pub use axis::Axis;
pub use chart::{Chart, Mark, Measured, Point, Series};
pub use heat::{Colours, Heat, png};
pub use number::{bytes, figure, grouped};
pub use page::{Section, document, page, sections, side_by_side, tiles};
pub use table::Table;
pub use text::{escaped, marked};

/// How a text becomes a part of a page: [`escaped`] for what comes from data, [`marked`] for what we write
/// ourselves.
pub type Writing = fn(&str) -> String;

/// A picture.
#[derive(Clone, Debug)]
pub enum Picture {
    /// Lines, points, bands and bars over two axes.
    Chart(Chart),
    /// A grid of numbers as colours.
    Heat(Heat),
}

impl From<Chart> for Picture {
    fn from(chart: Chart) -> Self {
        Picture::Chart(chart)
    }
}

impl From<Heat> for Picture {
    fn from(heat: Heat) -> Self {
        Picture::Heat(heat)
    }
}

impl Picture {
    /// What it shows.
    pub fn title(&self) -> &str {
        match self {
            Picture::Chart(chart) => &chart.title,
            Picture::Heat(heat) => &heat.title,
        }
    }

    /// The picture as an `svg` element.
    pub fn svg(&self) -> String {
        match self {
            Picture::Chart(chart) => chart.svg(),
            Picture::Heat(heat) => heat.svg(),
        }
    }

    /// The picture under its title, with its legend.
    pub fn captioned(&self, text: Writing) -> String {
        match self {
            Picture::Chart(chart) => chart.captioned(text),
            Picture::Heat(heat) => heat.captioned(text),
        }
    }
}

/// A `figure` element.
fn framed(title: &str, svg: &str, legend: &str, text: Writing) -> String {
    format!("<figure><figcaption>{}</figcaption>{svg}{legend}</figure>", text(title))
}
