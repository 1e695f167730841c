//! The page of `regard look`: one file with everything inside, readable on a phone as on a desk.

use super::Seen;
use regard_inspect::picture::{escaped, svg};
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2330;--quiet:#667085;--page:#fbfbfc;--card:#fff;--line:#e2e5ea;--map:#08306b;--ground:#f4f6fa}\
@media(prefers-color-scheme:dark){:root{--ink:#e7eaf0;--quiet:#9aa4b5;--page:#12151b;--card:#1a1f28;--line:#2c333f;--map:#9cc4ff;--ground:#212835}}\
*{box-sizing:border-box}body{margin:0;padding:16px;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}\
main{max-width:1180px;margin:auto}h1{font-size:1.25rem;margin:.2em 0}h2{font-size:1.02rem;margin:1.6em 0 .5em}\
p{margin:.3em 0 .8em;color:var(--quiet)}.text{color:var(--ink);word-spacing:.15em;overflow-wrap:anywhere}\
.maps{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,260px),1fr));gap:12px}\
figure{margin:0;padding:10px;background:var(--card);border:1px solid var(--line);border-radius:8px;min-width:0}\
figcaption{font-size:.84rem;color:var(--quiet);margin-bottom:6px}figcaption b{color:var(--ink)}\
.scroll{overflow-x:auto}svg{display:block;max-width:100%;height:auto}svg rect{fill:var(--map)}svg rect.ground{fill:var(--ground)}\
svg text{font:10.5px ui-monospace,monospace;fill:var(--quiet)}";

/// The page.
pub fn page(seen: &Seen, family: &str, path: &str) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{family}: who attends to whom</title><style>{STYLE}\
         </style></head><body><main><h1>Who attends to whom</h1><p>{}, {}</p>",
        escaped(family),
        escaped(path)
    );
    for (title, labels) in ["Text", "Target"].iter().zip(&seen.labels) {
        if !labels.is_empty() {
            let words: Vec<String> = labels.iter().take(400).map(|label| escaped(label)).collect();
            let more = if labels.len() > 400 { " …" } else { "" };
            let _ = write!(
                out,
                "<p>{title}, {} tokens: <span class=\"text\">{}{more}</span></p>",
                labels.len(),
                words.join(" ")
            );
        }
    }
    out.push_str("<p>Rows ask, columns are asked. The darker a cell, the more weight: the colour goes with its square root.</p>");
    let mut attention = "";
    for map in &seen.maps {
        if map.attention != attention {
            if !attention.is_empty() {
                out.push_str("</div>");
            }
            attention = &map.attention;
            let cross = if map.cross { ", to another stream" } else { "" };
            let _ = write!(out, "<h2>{}{cross}</h2><div class=\"maps\">", escaped(attention));
        }
        let (own, keys) = seen.streams(map);
        let metrics = map.metrics(&seen.ids[own]);
        let mut told = vec![format!("entropy {:.2}", metrics.entropy), format!("first {:.2}", metrics.first)];
        for (name, number) in [
            ("distance", metrics.distance),
            ("previous", metrics.previous),
            ("self", metrics.own),
            ("copy", metrics.copy),
        ] {
            told.extend(number.map(|number| format!("{name} {number:.2}")));
        }
        let _ = write!(
            out,
            "<figure><figcaption><b>head {}</b> · {}</figcaption><div class=\"scroll\">{}</div></figure>",
            map.head,
            told.join(" · "),
            svg(map, &seen.labels[own], &seen.labels[keys])
        );
    }
    if !attention.is_empty() {
        out.push_str("</div>");
    }
    out.push_str("</main></body></html>\n");
    out
}
