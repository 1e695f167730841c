//! The frame of a page: one head, one style, the light and the dark. A page needs nothing else, neither
//! scripts nor a network, and fits a telephone.

use crate::palette;
use crate::text::escaped;
use std::fmt::Write;

const STYLE: &str = include_str!("page/style.css");

/// A part of a page: a table, wrong answers, a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Its heading, as plain text.
    pub title: String,
    /// Its content, as HTML. What comes from data must have gone through [`escaped`].
    pub html: String,
}

/// A whole page around a body; `style` is CSS of its own, after that of all pages.
///
/// ```
/// let page = regard_picture::page("A & B", ".own{color:var(--quiet)}", "<p class=\"own\">Said.</p>");
/// assert!(page.starts_with("<!doctype html>") && page.contains("<title>A &amp; B</title>"));
/// assert_eq!(regard_picture::check::fault(&page), None);
/// ```
pub fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{}</title>\n<style>{}{STYLE}{style}</style></head>\n<body>\n\
         {body}\n</body>\n</html>\n",
        escaped(title),
        palette::variables()
    )
}

/// A page of a title, a sentence below it, and sections.
pub fn document(title: &str, lead: &str, parts: &[Section]) -> String {
    let lead = format!("<h1>{}</h1><p class=\"quiet\">{}</p>", escaped(title), escaped(lead));
    page(title, "", &(lead + &sections(parts)))
}

/// Sections, each under its heading.
pub fn sections(sections: &[Section]) -> String {
    sections.iter().fold(String::new(), |mut out, section| {
        let _ = write!(out, "<h2>{}</h2>{}", escaped(&section.title), section.html);
        out
    })
}

/// Numbers that are seen first: what each is, and the number as text.
pub fn tiles(tiles: &[(String, String)]) -> String {
    let each = |(name, value): &(String, String)| {
        format!("<div><b>{}</b><span>{}</span></div>", escaped(value), escaped(name))
    };
    let all: String = tiles.iter().map(each).collect();
    if all.is_empty() { all } else { format!("<div class=\"tiles\">{all}</div>") }
}

/// Figures side by side, as many as there is room for.
pub fn side_by_side(figures: &str) -> String {
    format!("<div class=\"beside\">{figures}</div>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fault;

    #[test]
    fn a_document_has_its_sections_and_nothing_from_elsewhere() {
        let section = Section { title: "Curves <1>".into(), html: "<p>none</p>".into() };
        let page = document("A <title>", "Said & done.", &[section]);
        assert_eq!(fault(&page), None);
        assert!(page.contains("<h1>A &lt;title&gt;</h1><p class=\"quiet\">Said &amp; done.</p>"), "{page}");
        assert!(page.contains("<h2>Curves &lt;1&gt;</h2><p>none</p>"), "{page}");
        assert!(!page.contains("http") && !page.contains("<script") && !page.contains("src="), "{page}");
    }

    #[test]
    fn every_class_and_variable_has_its_rule() {
        let all = page("", "", "");
        for (name, ..) in palette::PAPER.iter().chain(&palette::SERIES) {
            assert_eq!(all.matches(&format!("--{name}:")).count(), 2, "{name} in the light and in the dark");
        }
        for used in STYLE.split("var(--").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(all.contains(&format!("--{used}:")), "{used}");
        }
        for class in [
            "line", "dashed", "point", "whisker", "bar", "band", "tick", "label", "grid", "axis", "ground",
            "more", "less", "strong", "key", "legend", "tiles", "beside", "scroll", "quiet",
        ] {
            assert!(STYLE.contains(&format!(".{class}")), "{class}");
        }
        assert_eq!(tiles(&[]), "");
        assert_eq!(fault(&tiles(&[("a<b".into(), "1".into())])), None);
    }
}
