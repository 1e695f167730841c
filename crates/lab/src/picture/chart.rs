//! Charts: lines for theories, points with intervals for what was measured, bars for shares.

use super::axis::{Axis, Fitted};
use super::{escaped, figure, marked_in_picture};
use std::fmt::Write;

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
}

/// A chart.
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
}

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 48.0;
/// How many colours the page's style has.
const COLOURS: usize = 6;

impl Chart {
    /// An empty chart.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Chart { title: title.into(), x, y, series: vec![] }
    }

    fn with(mut self, name: impl Into<String>, mark: Mark, points: Vec<Point>) -> Self {
        self.series.push(Series { name: name.into(), mark, points, colour: None });
        self
    }

    /// With a line.
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

    /// With estimates: points with intervals.
    pub fn estimates(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, crate::statistics::Estimate)>,
    ) -> Self {
        let each = |(x, e): (f64, crate::statistics::Estimate)| Point {
            x,
            y: e.value,
            interval: Some((e.low, e.high)),
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

    pub(super) fn legend(&self) -> Vec<(String, String)> {
        let kind = |mark| match mark {
            Mark::Line => "line",
            Mark::Dashed => "dashed",
            Mark::Points => "point",
            Mark::Bars => "bar",
        };
        let class = |(i, s): (usize, &Series)| {
            (format!("s{} {}", s.colour.unwrap_or(i) % COLOURS, kind(s.mark)), s.name.clone())
        };
        self.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()).map(class).collect()
    }

    pub(super) fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let bars = self.series.iter().any(|series| series.mark == Mark::Bars);
        let ends = |p: &Point| [p.y, p.interval.map_or(p.y, |i| i.0), p.interval.map_or(p.y, |i| i.1)];
        let x = self.x.fitted(all().map(|p| p.x));
        let floor = (bars && !self.y.log).then_some(0.0);
        let y = self.y.fitted(all().flat_map(ends).chain(floor));
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escaped(&self.title)
        );
        self.frame(&mut out, &x, &y);
        let place = Place { x: &x, y: &y };
        let bar_series = self.series.iter().filter(|s| s.mark == Mark::Bars).count().max(1);
        let mut bar_index = 0;
        for (index, series) in self.series.iter().enumerate() {
            let class = format!("s{}", series.colour.unwrap_or(index) % COLOURS);
            match series.mark {
                Mark::Line => place.line(&mut out, &format!("{class} line"), &series.points),
                Mark::Dashed => place.line(&mut out, &format!("{class} line dashed"), &series.points),
                Mark::Points => place.points(&mut out, &class, &series.points),
                Mark::Bars => {
                    place.bars(&mut out, &class, &series.points, bar_index, bar_series);
                    bar_index += 1;
                }
            }
        }
        out.push_str("</svg>");
        out
    }

    fn frame(&self, out: &mut String, x: &Fitted, y: &Fitted) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (at, text) in y.ticks(5) {
            let Some(place) = y.at(at) else { continue };
            let line = bottom - place * (bottom - TOP);
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {line:.1}H{right}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                line + 4.0,
                escaped(&text)
            );
        }
        let ticks = x.ticks(7);
        // Names may be long: where they would meet, they are turned.
        let longest = ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let crowded = longest as f64 * 7.0 > (right - LEFT) / ticks.len().max(1) as f64;
        for (at, text) in ticks {
            let Some(place) = x.at(at) else { continue };
            let (column, below) = (LEFT + place * (right - LEFT), bottom + 17.0);
            let anchor = match crowded {
                true => format!("text-anchor=\"end\" transform=\"rotate(-28 {column:.1} {below:.1})\""),
                false => "text-anchor=\"middle\"".to_string(),
            };
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{column:.1} {TOP}V{bottom}\"/><text class=\"tick\" x=\"{column:.1}\" \
                 y=\"{below:.1}\" {anchor}>{}</text>",
                escaped(&text)
            );
        }
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/><text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{}</text><text class=\"label\" transform=\"translate(14 {:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 7.0,
            marked_in_picture(&self.x.label),
            (TOP + bottom) / 2.0,
            marked_in_picture(&self.y.label)
        );
    }
}

fn plain(points: impl IntoIterator<Item = (f64, f64)>) -> Vec<Point> {
    points.into_iter().map(|(x, y)| Point { x, y, interval: None }).collect()
}

/// Where numbers fall on the picture.
struct Place<'a> {
    x: &'a Fitted,
    y: &'a Fitted,
}

impl Place<'_> {
    fn across(&self, x: f64) -> Option<f64> {
        Some(LEFT + self.x.at(x)? * (WIDTH - RIGHT - LEFT))
    }

    fn up(&self, y: f64) -> Option<f64> {
        Some(HEIGHT - BOTTOM - self.y.at(y)? * (HEIGHT - BOTTOM - TOP))
    }

    fn line(&self, out: &mut String, class: &str, points: &[Point]) {
        let places: Vec<String> = points
            .iter()
            .filter_map(|p| Some(format!("{:.1} {:.1}", self.across(p.x)?, self.up(p.y)?)))
            .collect();
        if !places.is_empty() {
            let _ = write!(out, "<path class=\"{class}\" d=\"M{}\"/>", places.join("L"));
        }
    }

    fn points(&self, out: &mut String, class: &str, points: &[Point]) {
        for p in points {
            let (Some(x), Some(y)) = (self.across(p.x), self.up(p.y)) else { continue };
            if let Some((low, high)) = p.interval {
                let bottom = self.up(low).unwrap_or(HEIGHT - BOTTOM);
                let top = self.up(high).unwrap_or(y);
                let (left, right) = (x - 4.0, x + 4.0);
                let _ = write!(
                    out,
                    "<path class=\"{class} whisker\" d=\"M{x:.1} {bottom:.1}V{top:.1}M{left:.1} {bottom:.1}H{right:.1}M{left:.1} \
                     {top:.1}H{right:.1}\"/>"
                );
            }
            let _ = write!(
                out,
                "<circle class=\"{class} point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\"><title>{}, {}</title></circle>",
                figure(p.x),
                figure(p.y)
            );
        }
    }

    fn bars(&self, out: &mut String, class: &str, points: &[Point], index: usize, of: usize) {
        let places: Vec<f64> = points.iter().filter_map(|p| self.across(p.x)).collect();
        let gaps = places.windows(2).map(|pair| (pair[1] - pair[0]).abs());
        let room = gaps.fold(60.0 * of as f64, f64::min);
        let width = (room * 0.86 / of as f64).max(1.0);
        let floor = self.up(0.0).unwrap_or(HEIGHT - BOTTOM);
        for p in points {
            let (Some(x), Some(y)) = (self.across(p.x), self.up(p.y)) else { continue };
            let left = x + (index as f64 - of as f64 / 2.0) * width;
            let _ = write!(
                out,
                "<rect class=\"{class} bar\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"><title>{}, \
                 {}</title></rect>",
                y.min(floor),
                (y - floor).abs(),
                figure(p.x),
                figure(p.y)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Estimate;

    #[test]
    fn a_chart_draws_what_it_is_given() {
        let chart = Chart::new("Width < 3", Axis::new("d"), Axis::log("σ"))
            .line("theory", [(0.0, 1.0), (1.0, 10.0)])
            .estimates("measured", [(0.5, Estimate { value: 3.0, low: 2.0, high: 4.0 })])
            .bars("share", [(0.0, 2.0), (1.0, f64::NAN)]);
        let svg = chart.svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
        assert!(svg.contains("Width &lt; 3") && !svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 1);
        assert_eq!(svg.matches("whisker").count(), 1);
        assert_eq!(svg.matches("<rect").count(), 1);
        assert_eq!(chart.legend()[1], ("s1 point".to_string(), "measured".to_string()));
    }
}
