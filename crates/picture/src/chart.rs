//! Charts: lines for theories and for what happens over time, points with intervals for what was measured,
//! bands for what lies between, bars for shares.

mod draw;

use crate::{Axis, Writing, framed, palette};

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line.
    Line,
    /// A broken line: a bound, a limit, another theory.
    Dashed,
    /// Points, with their intervals.
    Points,
    /// Bars from 0.
    Bars,
    /// The area between the ends of the intervals.
    Band,
}

/// A number with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The number.
    pub value: f64,
    /// Where its interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

/// A point, with an interval if it was sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// The interval of y.
    pub interval: Option<(f64, f64)>,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend; without one it is not listed there.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Its points.
    pub points: Vec<Point>,
    /// Which of the colours, where two series belong together; otherwise its place among the series.
    pub colour: Option<usize>,
    /// Whether each point of a line is drawn as well: few points, each of which says something.
    pub dotted: bool,
}

/// A chart.
///
/// ```
/// use regard_picture::{Axis, Chart};
///
/// let squares = (0..9).map(|n| (n.into(), (n * n).into()));
/// let svg = Chart::new("Growth", Axis::new("n"), Axis::new("")).line("n²", squares).svg();
/// assert!(svg.starts_with("<svg") && svg.contains("s0 line"));
/// ```
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// One of several that stand side by side.
    pub small: bool,
}

impl Chart {
    /// An empty chart.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Chart { title: title.into(), x, y, series: vec![], small: false }
    }

    fn with(mut self, name: impl Into<String>, mark: Mark, points: Vec<Point>) -> Self {
        self.series.push(Series { name: name.into(), mark, points, colour: None, dotted: false });
        self
    }

    /// With a line. It has a gap where a number cannot be shown; one of very many points is drawn as the mean
    /// of each stretch, in the band between the least and the most of that stretch.
    pub fn line(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name, Mark::Line, plain(points))
    }

    /// With a broken line.
    pub fn dashed(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name, Mark::Dashed, plain(points))
    }

    /// With points.
    pub fn points(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name, Mark::Points, plain(points))
    }

    /// With bars.
    pub fn bars(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name, Mark::Bars, plain(points))
    }

    /// With a band: x, where it begins, where it ends.
    pub fn band(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        let each = |(x, low, high): (f64, f64, f64)| Point {
            x,
            y: 0.5 * low + 0.5 * high,
            interval: Some((low, high)),
        };
        self.with(name, Mark::Band, points.into_iter().map(each).collect())
    }

    /// With estimates: points with intervals.
    pub fn estimates<M: Into<Measured>>(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, M)>,
    ) -> Self {
        let each = |(x, measured): (f64, M)| {
            let Measured { value, low, high } = measured.into();
            Point { x, y: value, interval: Some((low, high)) }
        };
        self.with(name, Mark::Points, points.into_iter().map(each).collect())
    }

    /// The last series in the colour of another, counted from 0.
    pub fn in_colour(mut self, colour: usize) -> Self {
        if let Some(series) = self.series.last_mut() {
            series.colour = Some(colour);
        }
        self
    }

    /// The last line with each of its points.
    pub fn dotted(mut self) -> Self {
        if let Some(series) = self.series.last_mut() {
            series.dotted = true;
        }
        self
    }

    /// In the size of one of several side by side.
    pub fn small(mut self) -> Self {
        self.small = true;
        self
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        let shown = |axis: &Axis, x: f64| x.is_finite() && (!axis.log || x > 0.0);
        let mut points = self.series.iter().flat_map(|series| &series.points);
        !points.any(|point| shown(&self.x, point.x) && shown(&self.y, point.y))
    }

    /// What the colours mean: the classes of each key, and its name.
    pub fn legend(&self) -> Vec<(String, &str)> {
        let named = self.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty());
        named
            .map(|(index, series)| (format!("{} {}", series.class(index), series.kind()), &*series.name))
            .collect()
    }

    /// The chart under its title, with its legend.
    pub fn captioned(&self, text: Writing) -> String {
        let keys = self.legend().into_iter();
        let keys: String = keys
            .map(|(class, name)| format!("<li><i class=\"key {class}\"></i>{}</li>", text(name)))
            .collect();
        let legend = if keys.is_empty() { keys } else { format!("<ul class=\"legend\">{keys}</ul>") };
        framed(&self.title, &self.svg(), &legend, text)
    }
}

impl Series {
    /// The class of its colour.
    fn class(&self, index: usize) -> String {
        format!("s{}", self.colour.unwrap_or(index) % palette::SERIES.len())
    }

    /// The class of its mark.
    fn kind(&self) -> &'static str {
        match self.mark {
            Mark::Line => "line",
            Mark::Dashed => "dashed",
            Mark::Points => "point",
            Mark::Bars => "bar",
            Mark::Band => "band",
        }
    }
}

fn plain(points: impl IntoIterator<Item = (f64, f64)>) -> Vec<Point> {
    points.into_iter().map(|(x, y)| Point { x, y, interval: None }).collect()
}

#[cfg(test)]
mod tests;
