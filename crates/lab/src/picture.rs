//! Pictures as plain SVG: charts with lines, points with intervals and bars, and heat maps. They carry classes instead of
//! colours, so that a page shows them in the light and in the dark.

mod axis;
mod chart;
mod heat;

pub use axis::Axis;
pub use chart::{Chart, Mark, Point, Series};
pub use heat::{Colours, Heat};

/// A picture.
#[derive(Clone, Debug)]
pub enum Picture {
    /// Lines, points and bars over two axes.
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

    /// What the colours mean: the class of a mark, whether it is a line, and its name.
    pub fn legend(&self) -> Vec<(String, String)> {
        match self {
            Picture::Chart(chart) => chart.legend(),
            Picture::Heat(_) => vec![],
        }
    }
}

/// A number for people: four digits, a power of ten where it is far from 1.
pub fn figure(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    if !x.is_finite() {
        return match (x.is_nan(), x > 0.0) {
            (true, _) => "NaN".into(),
            (_, true) => "∞".into(),
            (_, false) => "−∞".into(),
        };
    }
    let size = x.abs().log10().floor();
    let text = if (-4.0..5.0).contains(&size) {
        let decimals = (3.0 - size).max(0.0) as usize;
        let text = format!("{x:.decimals$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
    } else {
        let text = format!("{x:.3e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
    };
    text.replace('-', "−")
}

/// Text as it may stand in a page, with what follows `_` and `^` set low and high: `a_max`, `e^β`, `e^(−t)`. What stands
/// between two backticks is code, as it is.
pub fn marked(text: &str) -> String {
    let plain = |text: &str| {
        set(
            text,
            |inner, low| if low { format!("<sub>{inner}</sub>") } else { format!("<sup>{inner}</sup>") },
        )
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, code, after)) = rest
        .split_once('`')
        .and_then(|(before, rest)| rest.split_once('`').map(|(code, after)| (before, code, after)))
    {
        out += &plain(before);
        out += &format!("<code>{}</code>", escaped(code));
        rest = after;
    }
    out + &plain(rest)
}

/// The same inside of a picture, which knows no low and high but can move.
pub(crate) fn marked_in_picture(text: &str) -> String {
    set(text, |inner, low| {
        let (there, back) = if low { (3, -3) } else { (-4, 4) };
        format!(
            "<tspan dy=\"{there}\" font-size=\"80%\">{inner}</tspan><tspan dy=\"{back}\">\u{200b}</tspan>"
        )
    })
}

fn set(text: &str, tag: impl Fn(&str, bool) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['_', '^']) {
        let low = rest[at..].starts_with('_');
        let after = &rest[at + 1..];
        let closing = match after.chars().next() {
            Some('(') => after.find(')'),
            Some('{') => after.find('}'),
            _ => None,
        };
        let plain = after.find(|c: char| !c.is_alphanumeric()).unwrap_or(after.len());
        let (inner, length) = match closing {
            Some(end) => (&after[1..end], end + 1),
            None => (&after[..plain], plain),
        };
        out.push_str(&escaped(&rest[..at]));
        // A sign with nothing behind it is only a sign.
        match inner.is_empty() {
            true => out.push_str(&rest[at..at + 1]),
            false => out.push_str(&tag(&escaped(inner), low)),
        }
        rest = &after[length..];
    }
    out + &escaped(rest)
}

/// Text as it may stand in a page.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_and_high_letters() {
        assert_eq!(marked("a_max < e^(−t)/n"), "a<sub>max</sub> &lt; e<sup>−t</sup>/n");
        assert_eq!(marked("softargmax_β(KᵀQ), Σ_{i∈S}"), "softargmax<sub>β</sub>(KᵀQ), Σ<sub>i∈S</sub>");
        assert_eq!(marked("_ and ^ alone, open_("), "_ and ^ alone, open_(");
        assert_eq!(marked("`a_b <` x_1 ` end"), "<code>a_b &lt;</code> x<sub>1</sub> ` end");
        assert!(marked_in_picture("‖J‖_F").contains(">F</tspan>"));
    }

    #[test]
    fn figures_are_short() {
        let cases = [
            (0.0, "0"),
            (0.001835, "0.001835"),
            (-2.5, "−2.5"),
            (1234.0, "1234"),
            (2.5e-9, "2.5e−9"),
            (123456.0, "1.235e5"),
            (f64::NEG_INFINITY, "−∞"),
            (1.0, "1"),
            (100.0, "100"),
        ];
        for (x, text) in cases {
            assert_eq!(figure(x), text);
        }
    }
}
