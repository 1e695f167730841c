//! Predicted and measured times put together by part of the model and by op, and the table that shows them.

use anyhow::Result;
use regard::graph::Pass;
use regard_inspect::price::{Clocked, Priced};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

/// Work and time of something with a name.
#[derive(Clone, Default)]
pub struct Part {
    pub macs: u64,
    pub bytes: u64,
    pub predicted: f64,
    pub measured: f64,
}

/// `block.*.attention` for `block.3.attention.linear#2`: all layers together.
pub fn part_of(name: &str, pass: Pass) -> String {
    let mut parts: Vec<&str> = name.split('.').collect();
    parts.pop();
    let shown: Vec<&str> =
        parts.iter().map(|part| if part.parse::<usize>().is_ok() { "*" } else { part }).take(4).collect();
    let shown = if shown.is_empty() { "outside of parts".to_string() } else { shown.join(".") };
    match pass {
        Pass::Forward => shown,
        Pass::Recompute => format!("{shown} (again)"),
        Pass::Backward => format!("{shown} (backward)"),
    }
}

/// Sums by a name, the largest first.
pub fn grouped(
    priced: &[Priced],
    measured: Option<&Clocked>,
    name: impl Fn(&Priced) -> String,
) -> Vec<(String, Part)> {
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    for node in priced {
        let part = parts.entry(name(node)).or_default();
        let work = node.row.cost;
        part.macs += work.macs;
        part.bytes += work.read + work.written;
        part.predicted += node.nanoseconds;
        part.measured +=
            measured.and_then(|clocked| clocked.nodes.get(&node.row.node)).copied().unwrap_or(0.0);
    }
    let mut parts: Vec<(String, Part)> = parts.into_iter().collect();
    parts.sort_by(|a, b| b.1.predicted.total_cmp(&a.1.predicted));
    parts
}

/// Writes parts below each other.
pub fn table(out: &mut impl Write, title: &str, parts: &[(String, Part)], measured: bool) -> Result<()> {
    let total: f64 = parts.iter().map(|(_, part)| part.predicted).sum();
    let widest = parts.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(title.len());
    write!(
        out,
        "\n{title:<widest$}  {:>13}  {:>10}  {:>12}  {:>6}",
        "multiply-adds", "moved", "predicted", "share"
    )?;
    writeln!(out, "{}", if measured { format!("  {:>12}", "measured") } else { String::new() })?;
    for (name, part) in parts {
        write!(
            out,
            "{name:<widest$}  {:>13}  {:>10}  {:>12}  {:>5.1}%",
            counted(part.macs),
            format!("{}B", counted(part.bytes)),
            time(part.predicted),
            100.0 * part.predicted / total
        )?;
        writeln!(out, "{}", if measured { format!("  {:>12}", time(part.measured)) } else { String::new() })?;
    }
    Ok(())
}

/// A part as JSON.
pub fn part_json(name: &str, part: &Part, measured: bool) -> Value {
    json!({
        "name": name, "multiply_adds": part.macs, "bytes": part.bytes, "predicted_ms": part.predicted / 1e6,
        "measured_ms": measured.then_some(part.measured / 1e6),
    })
}

/// 1.2 G, 34 k.
fn counted(count: u64) -> String {
    let count = count as f64;
    match count {
        x if x >= 1e12 => format!("{:.1} T", x / 1e12),
        x if x >= 1e9 => format!("{:.1} G", x / 1e9),
        x if x >= 1e6 => format!("{:.1} M", x / 1e6),
        x if x >= 1e3 => format!("{:.1} k", x / 1e3),
        x => format!("{x} "),
    }
}

/// 1.2 ms, 34.5 µs.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        x if x >= 1e9 => format!("{:.2} s", x / 1e9),
        x if x >= 1e6 => format!("{:.2} ms", x / 1e6),
        x => format!("{:.1} µs", x / 1e3),
    }
}
