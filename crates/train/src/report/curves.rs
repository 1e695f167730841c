//! Curves as inline SVG: a few lines over steps, with a frame of round numbers.

use super::escape;

/// One line of a curve.
pub(super) struct Line {
    /// What it is, for the legend.
    pub name: String,
    /// (step, value), in order of steps.
    pub points: Vec<(f64, f64)>,
    /// Which of the page's colours.
    pub colour: usize,
    /// Marked points are few: each is drawn.
    pub marked: bool,
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 30.0;
/// More points than pixels would only be bytes.
const MOST: usize = 600;

/// A figure with a heading and a legend; nothing where no line has a point.
pub(super) fn figure(title: &str, lines: &[Line]) -> String {
    let finite = |line: &Line| line.points.iter().copied().filter(|(_, y)| y.is_finite()).collect::<Vec<_>>();
    let all: Vec<Vec<(f64, f64)>> = lines.iter().map(finite).collect();
    let points = || all.iter().flatten();
    if points().next().is_none() {
        return String::new();
    }
    let range = |of: fn(&(f64, f64)) -> f64| {
        points().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    };
    let (x_low, x_high) = widened(range(|p| p.0));
    let (y_low, y_high) = widened(range(|p| p.1));
    let x_at = |x: f64| LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT);
    let y_at = |y: f64| HEIGHT - BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM);

    let mut svg = format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(title),
        escape(title)
    );
    for tick in ticks(y_low, y_high) {
        let y = y_at(tick);
        svg += &format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
            WIDTH - RIGHT
        );
        svg += &format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            short(tick)
        );
    }
    for tick in ticks(x_low, x_high) {
        let (x, y) = (x_at(tick), HEIGHT - BOTTOM + 18.0);
        svg += &format!("<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", short(tick));
    }
    for (line, points) in lines.iter().zip(&all) {
        let drawn: Vec<String> =
            thinned(points).iter().map(|&(x, y)| format!("{:.1},{:.1}", x_at(x), y_at(y))).collect();
        svg += &format!("<polyline class=\"c{}\" points=\"{}\"/>", line.colour, drawn.join(" "));
        if line.marked || points.len() == 1 {
            for &(x, y) in thinned(points).iter() {
                let text = format!("{}: {} at step {x}", escape(&line.name), short(y));
                svg += &format!(
                    "<circle class=\"c{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{text}</title></circle>",
                    line.colour,
                    x_at(x),
                    y_at(y)
                );
            }
        }
    }
    svg += "</svg>";
    if lines.len() > 1 {
        svg += "<p class=\"legend\">";
        for line in lines {
            svg += &format!("<span class=\"c{}\"></span>{} ", line.colour, escape(&line.name));
        }
        svg += "</p>";
    }
    svg + "</figure>"
}

/// A range with some height, even for a constant.
fn widened((low, high): (f64, f64)) -> (f64, f64) {
    if high - low > 1e-12 * high.abs().max(low.abs()).max(1e-300) {
        return (low, high);
    }
    let half = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
    (low - half, high + half)
}

/// About five round numbers in a range.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|&s| s >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (first..).map(|i| i as f64 * step).take_while(|&x| x <= high + 1e-9 * step).take(12).collect()
}

/// At most [`MOST`] points: the mean of each stretch, at its middle, so that noise does not vanish nor run away.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MOST {
        return points.to_vec();
    }
    let mean = |part: &[(f64, f64)]| {
        let n = part.len() as f64;
        (part.iter().map(|p| p.0).sum::<f64>() / n, part.iter().map(|p| p.1).sum::<f64>() / n)
    };
    points.chunks(points.len().div_ceil(MOST)).map(mean).collect()
}

/// A number in few characters.
pub(super) fn short(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e6).contains(&size) {
        return format!("{x:.1e}").replace(".0e", "e");
    }
    let digits = if size >= 1000.0 {
        0
    } else if size >= 10.0 {
        2
    } else {
        4
    };
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(0.9, 3.1).first(), Some(&1.0));
        assert!(ticks(1e-5, 1.1e-5).len() >= 3);
        assert_eq!(
            [short(0.0), short(1234.5), short(0.25), short(3e-5), short(12.34)],
            ["0", "1234", "0.25", "3e-5", "12.34"]
        );
    }

    #[test]
    fn a_curve_of_anything_is_a_picture_or_nothing() {
        let line = |points: Vec<(f64, f64)>| Line { name: "a<b".into(), points, colour: 0, marked: true };
        assert_eq!(figure("x", &[line(vec![])]), "");
        assert_eq!(figure("x", &[line(vec![(1.0, f64::NAN)])]), "");
        for points in [
            vec![(1.0, 0.0)],
            vec![(1.0, 5.0), (2.0, 5.0)],
            (0..5000).map(|i| (i.into(), f64::from(i % 7))).collect(),
        ] {
            let svg = figure("x", &[line(points)]);
            assert!(svg.contains("<polyline") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
            assert!(svg.len() < 100_000);
        }
    }
}
