//! What was seen, written for people and as JSON.

use super::Seen;
use anyhow::Result;
use regard_inspect::look::Map;
use serde_json::{Value, json};
use std::io::Write;

/// The most tokens of a map in characters.
const MOST_CHARACTERS: usize = 40;
/// The most maps in characters.
const MOST_MAPS: usize = 4;

/// A token in quotes, without what paints terminals.
pub fn visible(text: &str) -> String {
    format!("\"{}\"", text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>())
}

/// Heads in numbers, a line for each.
pub fn write_heads(out: &mut impl Write, seen: &Seen) -> Result<()> {
    let widest = seen.maps.iter().map(|map| map.attention.len()).max().unwrap_or(0);
    writeln!(out, "{:<widest$}  head  entropy  distance  previous   self  first   copy", "Heads in numbers")?;
    for map in &seen.maps {
        let metrics = map.metrics(&seen.ids[seen.streams(map).0]);
        let shown = |x: Option<f64>| x.map_or("–".into(), |x| format!("{x:.3}"));
        writeln!(
            out,
            "{:<widest$}  {:>4}  {:>7.3}  {:>8}  {:>8}  {:>5}  {:>5.3}  {:>5}",
            map.attention,
            map.head,
            metrics.entropy,
            metrics.distance.map_or("–".into(), |x| format!("{x:.2}")),
            shown(metrics.previous),
            shown(metrics.own),
            metrics.first,
            shown(metrics.copy)
        )?;
    }
    Ok(())
}

/// Small maps in characters.
pub fn write_maps(out: &mut impl Write, seen: &Seen) -> Result<()> {
    if seen.maps.len() > MOST_MAPS {
        writeln!(out, "\nChoose --layer and --head to see a map here, --png or --html to see all of them.")?;
        return Ok(());
    }
    for map in &seen.maps {
        if map.keys > MOST_CHARACTERS || map.rows.len() > MOST_CHARACTERS {
            writeln!(
                out,
                "\n{} keys are too many for a map here; write one with --png or --html.",
                map.keys
            )?;
            return Ok(());
        }
        let (own, _) = seen.streams(map);
        let label = |row: usize| seen.labels[own].get(row).cloned().unwrap_or_default();
        let widest = map.rows.iter().map(|&row| label(row).chars().count()).max().unwrap_or(0);
        writeln!(
            out,
            "\n{}, head {}: rows ask, columns are asked; · from 0.01, ░ 0.05, ▒ 0.15, ▓ 0.35, █ 0.65",
            map.attention, map.head
        )?;
        for (line, &row) in map.heat(&[], &[]).characters().iter().zip(&map.rows) {
            writeln!(out, "  {row:>3} {:<widest$} |{line}|", label(row))?;
        }
    }
    Ok(())
}

/// The keys of chosen rows.
pub fn write_rows(out: &mut impl Write, seen: &Seen, wanted: &[usize], count: usize) -> Result<()> {
    for &row in wanted {
        writeln!(out, "\nPosition {row}")?;
        for map in &seen.maps {
            let Some(at) = map.rows.iter().position(|&own| own == row) else { continue };
            let (_, keys) = seen.streams(map);
            let shown: Vec<String> = map
                .top(at, count)
                .into_iter()
                .map(|(key, weight)| {
                    let label = seen.labels[keys].get(key).map_or(String::new(), |label| visible(label));
                    format!("{weight:.3} {label}@{key}")
                })
                .collect();
            writeln!(out, "  {} head {}: {}", map.attention, map.head, shown.join(", "))?;
        }
    }
    Ok(())
}

/// A head as JSON.
pub fn head_json(map: &Map, seen: &Seen, wanted: &[usize], count: usize) -> Value {
    let metrics = map.metrics(&seen.ids[seen.streams(map).0]);
    let small = map.rows.len() <= MOST_CHARACTERS && map.keys <= MOST_CHARACTERS;
    let rows: Vec<&[f32]> = (0..map.rows.len()).filter(|_| small).map(|at| map.row(at)).collect();
    let top: Vec<Value> = wanted
        .iter()
        .filter_map(|row| map.rows.iter().position(|own| own == row).map(|at| (row, at)))
        .map(|(row, at)| json!({ "row": row, "top": map.top(at, count) }))
        .collect();
    json!({
        "attention": map.attention, "head": map.head, "cross": map.cross, "keys": map.keys, "rows": map.rows,
        "entropy": metrics.entropy, "first": metrics.first, "distance": metrics.distance, "self": metrics.own,
        "previous": metrics.previous, "copy": metrics.copy, "weights": rows, "top": top,
    })
}
