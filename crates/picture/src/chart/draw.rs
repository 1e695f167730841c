//! A chart as an `svg` element: frame and ticks, then each series.

use super::{Chart, Mark, Point, Series};
use crate::axis::Fitted;
use crate::number::figure;
use crate::text::{escaped, marked_in_picture};
use std::fmt::Write;

/// More points of a line than pixels would only be bytes.
const MOST: usize = 600;

impl Chart {
    /// The chart as an `svg` element.
    pub fn svg(&self) -> String {
        let place = Place::new(self);
        let mut out = format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
            place.width,
            place.height,
            escaped(&self.title)
        );
        self.frame(&mut out, &place);
        let of = self.series.iter().filter(|series| series.mark == Mark::Bars).count().max(1);
        let mut bars = 0;
        for (index, series) in self.series.iter().enumerate() {
            let class = series.class(index);
            match series.mark {
                Mark::Line => place.line(&mut out, &class, "line", series),
                Mark::Dashed => place.line(&mut out, &class, "line dashed", series),
                Mark::Points => place.points(&mut out, &class, &series.name, &series.points),
                Mark::Band => place.band(&mut out, &class, &series.points),
                Mark::Bars => {
                    place.bars(&mut out, &class, series, bars, of);
                    bars += 1;
                }
            }
        }
        out.push_str("</svg>");
        out
    }

    fn frame(&self, out: &mut String, place: &Place) {
        let Place { left, right, top, bottom, .. } = *place;
        for (at, text) in &place.y_ticks {
            let Some(line) = place.up(*at) else { continue };
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{left:.1} {line:.1}H{right}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                left - 6.0,
                line + 4.0,
                escaped(text)
            );
        }
        let ticks = place.x.ticks(7);
        // Names may be long: where they would meet, they are turned.
        let longest = ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let crowded = longest as f64 * 7.0 > (right - left) / ticks.len().max(1) as f64;
        for (at, text) in ticks {
            let Some(column) = place.across(at) else { continue };
            let below = bottom + 17.0;
            let anchor = match crowded {
                true => format!("text-anchor=\"end\" transform=\"rotate(-28 {column:.1} {below:.1})\""),
                false => "text-anchor=\"middle\"".to_string(),
            };
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{column:.1} {top}V{bottom}\"/><text class=\"tick\" x=\"{column:.1}\" \
                 y=\"{below:.1}\" {anchor}>{}</text>",
                escaped(&text)
            );
        }
        let _ = write!(out, "<path class=\"axis\" d=\"M{left:.1} {top}V{bottom}H{right}\"/>");
        if !self.x.label.is_empty() {
            let _ = write!(
                out,
                "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                (left + right) / 2.0,
                place.height - 7.0,
                marked_in_picture(&self.x.label)
            );
        }
        if !self.y.label.is_empty() {
            let _ = write!(
                out,
                "<text class=\"label\" transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                (top + bottom) / 2.0,
                marked_in_picture(&self.y.label)
            );
        }
    }
}

/// Where numbers fall on the picture.
struct Place {
    x: Fitted,
    y: Fitted,
    y_ticks: Vec<(f64, String)>,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Place {
    fn new(chart: &Chart) -> Place {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let bars = || chart.series.iter().filter(|series| series.mark == Mark::Bars);
        let ends = |p: &Point| [p.y, p.interval.map_or(p.y, |i| i.0), p.interval.map_or(p.y, |i| i.1)];
        let floor = (bars().next().is_some() && !chart.y.log).then_some(0.0);
        // The first and the last bar need room for their halves.
        let edges = bars().flat_map(|series| {
            let half = if chart.x.log { 0.0 } else { least_gap(&series.points) / 2.0 };
            series.points.iter().flat_map(move |p| [p.x - half, p.x + half])
        });
        let x = chart.x.fitted(points().map(|p| p.x).chain(edges));
        let y = chart.y.fitted(points().flat_map(ends).chain(floor));
        let (width, height) = if chart.small { (420.0, 220.0) } else { (520.0, 320.0) };
        let y_ticks = y.ticks(5);
        let longest = y_ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let named = |label: &str, room: f64| if label.is_empty() { 0.0 } else { room };
        let left = (7.2 * longest as f64 + 12.0).clamp(54.0, 150.0) + named(&chart.y.label, 24.0);
        let bottom = height - 30.0 - named(&chart.x.label, 18.0);
        Place { x, y, y_ticks, width, height, left, right: width - 14.0, top: 10.0, bottom }
    }

    fn across(&self, x: f64) -> Option<f64> {
        Some(self.left + self.x.at(x)? * (self.right - self.left))
    }

    fn up(&self, y: f64) -> Option<f64> {
        Some(self.bottom - self.y.at(y)? * (self.bottom - self.top))
    }

    fn line(&self, out: &mut String, class: &str, kind: &str, series: &Series) {
        let many = series.points.len() > MOST;
        let points = if many { stretches(&series.points) } else { series.points.clone() };
        if many {
            self.band(out, class, &points);
        }
        let mut path = String::new();
        let mut drawn = false;
        for p in &points {
            match self.across(p.x).zip(self.up(p.y)) {
                Some((x, y)) => {
                    let _ = write!(path, "{}{x:.1} {y:.1}", if drawn { 'L' } else { 'M' });
                    // A stretch of one point has no length, and would not be seen.
                    if !drawn {
                        path.push_str("h.1");
                    }
                    drawn = true;
                }
                None => drawn = false,
            }
        }
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"{class} {kind}\" d=\"{path}\"/>");
        }
        if series.dotted || series.points.len() == 1 {
            self.points(out, class, &series.name, &points);
        }
    }

    fn band(&self, out: &mut String, class: &str, points: &[Point]) {
        let ends: Vec<(f64, f64, f64)> = points
            .iter()
            .filter_map(|p| {
                let (low, high) = p.interval?;
                Some((self.across(p.x)?, self.up(low)?, self.up(high)?))
            })
            .collect();
        let there = ends.iter().map(|(x, _, high)| format!("{x:.1} {high:.1}"));
        let back = ends.iter().rev().map(|(x, low, _)| format!("{x:.1} {low:.1}"));
        let outline: Vec<String> = there.chain(back).collect();
        if !outline.is_empty() {
            let _ = write!(out, "<path class=\"{class} band\" d=\"M{}Z\"/>", outline.join("L"));
        }
    }

    fn points(&self, out: &mut String, class: &str, name: &str, points: &[Point]) {
        for p in points {
            let (Some(x), Some(y)) = (self.across(p.x), self.up(p.y)) else { continue };
            if let Some((low, high)) = p.interval {
                let bottom = self.up(low).unwrap_or(self.bottom);
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
                "<circle class=\"{class} point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\"><title>{}</title></circle>",
                described(name, p)
            );
        }
    }

    fn bars(&self, out: &mut String, class: &str, series: &Series, index: usize, of: usize) {
        let places: Vec<f64> = series.points.iter().filter_map(|p| self.across(p.x)).collect();
        let gaps = places.windows(2).map(|pair| (pair[1] - pair[0]).abs());
        let room = gaps.fold(60.0 * of as f64, f64::min);
        let width = (room * 0.86 / of as f64).max(1.0);
        let floor = self.up(0.0).unwrap_or(self.bottom);
        for p in &series.points {
            let (Some(x), Some(y)) = (self.across(p.x), self.up(p.y)) else { continue };
            let left = x + (index as f64 - of as f64 / 2.0) * width;
            let _ = write!(
                out,
                "<rect class=\"{class} bar\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"><title>{}\
                 </title></rect>",
                y.min(floor),
                (y - floor).abs(),
                described(&series.name, p)
            );
        }
    }
}

/// What is said of a point when somebody points at it.
fn described(name: &str, p: &Point) -> String {
    let numbers = format!("{}, {}", figure(p.x), figure(p.y));
    if name.is_empty() { numbers } else { format!("{}: {numbers}", escaped(name)) }
}

/// The least distance between neighbours; 0 for a single point.
fn least_gap(points: &[Point]) -> f64 {
    let gaps = points.windows(2).map(|pair| (pair[1].x - pair[0].x).abs());
    gaps.filter(|gap| gap.is_finite()).reduce(f64::min).unwrap_or(0.0)
}

/// At most [`MOST`] points: the mean of each stretch at its middle, so that noise does not run away, in the
/// interval from the least to the most, so that it does not vanish.
fn stretches(points: &[Point]) -> Vec<Point> {
    let one = |part: &[Point]| {
        let shown: Vec<&Point> = part.iter().filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
        let n = shown.len() as f64;
        let low = shown.iter().map(|p| p.y).fold(f64::INFINITY, f64::min);
        let high = shown.iter().map(|p| p.y).fold(f64::NEG_INFINITY, f64::max);
        Point {
            x: shown.iter().map(|p| p.x / n).sum(),
            y: if shown.is_empty() { f64::NAN } else { shown.iter().map(|p| p.y / n).sum() },
            interval: (!shown.is_empty()).then_some((low, high)),
        }
    };
    points.chunks(points.len().div_ceil(MOST)).map(one).collect()
}
