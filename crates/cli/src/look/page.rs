//! The page of `regard look`: one file with everything inside, readable on a phone as on a desk.

use super::Seen;
use regard_picture::escaped;
use std::fmt::Write;

/// Maps are many and small: more of them side by side than figures elsewhere, and a wider page for them.
const STYLE: &str = "body{max-width:74rem}.text{word-spacing:.15em;overflow-wrap:anywhere}\
.beside{grid-template-columns:repeat(auto-fill,minmax(min(100%,16rem),1fr))}figcaption{font-size:.84rem;font-weight:400}";

/// The page.
pub fn page(seen: &Seen, family: &str, path: &str) -> String {
    let mut out =
        format!("<h1>Who attends to whom</h1><p class=\"quiet\">{}, {}</p>", escaped(family), escaped(path));
    for (title, labels) in ["Text", "Target"].iter().zip(&seen.labels) {
        if !labels.is_empty() {
            let words: Vec<String> = labels.iter().take(400).map(|label| escaped(label)).collect();
            let more = if labels.len() > 400 { " …" } else { "" };
            let _ = write!(
                out,
                "<p class=\"quiet\">{title}, {} tokens: <span class=\"text\">{}{more}</span></p>",
                labels.len(),
                words.join(" ")
            );
        }
    }
    out.push_str("<p class=\"quiet\">Rows ask, columns are asked. The stronger a cell, the more weight: the colour goes with its square root.</p>");
    let mut attention = "";
    for map in &seen.maps {
        if map.attention != attention {
            if !attention.is_empty() {
                out.push_str("</div>");
            }
            attention = &map.attention;
            let cross = if map.cross { ", to another stream" } else { "" };
            let _ = write!(out, "<h2>{}{cross}</h2><div class=\"beside\">", escaped(attention));
        }
        let (own, keys) = seen.streams(map);
        let metrics = map.metrics(&seen.ids[own]);
        let mut shown =
            vec![format!("entropy {:.2}", metrics.entropy), format!("first {:.2}", metrics.first)];
        for (name, number) in [
            ("distance", metrics.distance),
            ("previous", metrics.previous),
            ("self", metrics.own),
            ("copy", metrics.copy),
        ] {
            shown.extend(number.map(|number| format!("{name} {number:.2}")));
        }
        let _ = write!(
            out,
            "<figure><figcaption><b>head {}</b> · {}</figcaption>{}</figure>",
            map.head,
            shown.join(" · "),
            map.heat(&seen.labels[own], &seen.labels[keys]).svg()
        );
    }
    if !attention.is_empty() {
        out.push_str("</div>");
    }
    regard_picture::page(&format!("{family}: who attends to whom"), STYLE, &out)
}
