//! Text on its way into a page or a picture.

/// Text as it may stand in HTML and SVG, between tags and in attributes. Characters that neither may contain
/// become `�`.
///
/// ```
/// use regard_picture::escaped;
///
/// assert_eq!(escaped("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
/// ```
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Text of our own, with what follows `_` and `^` set low and high: `a_max`, `e^β`, `e^(−t)`. What stands
/// between two backticks is code, as it is.
///
/// ```
/// use regard_picture::marked;
///
/// assert_eq!(marked("a_max < `b_c`"), "a<sub>max</sub> &lt; <code>b_c</code>");
/// ```
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

/// A label in the room of `most` characters, without what would break its line.
pub(crate) fn shortened(label: &str, most: usize) -> String {
    let mut short: String =
        label.chars().take(most).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if label.chars().nth(most).is_some() {
        short.push('…');
    }
    short
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
    fn nothing_gets_out_of_a_text() {
        assert_eq!(escaped("<script>'&'"), "&lt;script&gt;&#39;&amp;&#39;");
        assert_eq!(escaped("a\u{0}b\u{1b}c\u{ffff}\nd"), "a\u{fffd}b\u{fffd}c\u{fffd}\nd");
        assert_eq!(shortened("ab\ncd", 4), "ab\u{fffd}c…");
        assert_eq!(shortened("abcd", 4), "abcd");
    }
}
