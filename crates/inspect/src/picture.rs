//! Maps of attention as pictures: a PNG with all of them side by side, and one map as SVG. White is nothing, the darkest blue
//! is all of the weight; the scale is the square root, for most weights are small.

use crate::look::Map;
use image::{ImageFormat, Rgb, RgbImage};
use std::fmt::Write;
use std::io::Cursor;

/// The most cells along one side of a map, before it is thinned out: in a picture, and in a page.
const MOST: usize = 512;
const MOST_IN_PAGE: usize = 96;
const MARGIN: u32 = 10;
const LABEL: u32 = 16;

/// The colour of a weight.
fn colour(weight: f32) -> [u8; 3] {
    let strength = weight.clamp(0.0, 1.0).sqrt();
    let mix = |from: f32, to: f32| (from + (to - from) * strength).round() as u8;
    [mix(250.0, 8.0), mix(250.0, 48.0), mix(252.0, 107.0)]
}

/// A grid of weights, thinned out to a size that can be seen: each cell is the largest of those it stands for.
fn grid(map: &Map, most: usize) -> (usize, usize, Vec<f32>) {
    let (rows, keys) = (map.rows.len(), map.keys);
    let (height, width) = (rows.min(most), keys.min(most));
    let mut cells = vec![0f32; height * width];
    for row in 0..rows {
        for (s, &w) in map.row(row).iter().enumerate() {
            let at = row * height / rows * width + s * width / keys;
            cells[at] = cells[at].max(w);
        }
    }
    (height, width, cells)
}

/// All maps in one picture, `across` of them in a line, each under its layer and head.
pub fn png(maps: &[Map], across: usize) -> Vec<u8> {
    let grids: Vec<(usize, usize, Vec<f32>)> = maps.iter().map(|map| grid(map, MOST)).collect();
    let largest = grids.iter().map(|(height, width, _)| *height.max(width)).max().unwrap_or(1).max(1);
    // As large as it has to be to be seen, and no larger than pages are.
    let wanted = if maps.len() == 1 { 640 } else { 176 };
    let scale = (wanted / largest).clamp(1, 32) as u32;
    let tall = grids.iter().map(|(height, ..)| *height).max().unwrap_or(1) as u32 * scale;
    let wide = (grids.iter().map(|(_, width, _)| *width).max().unwrap_or(1) as u32 * scale).max(60);
    let across = across.clamp(1, maps.len().max(1)) as u32;
    let down = (maps.len() as u32).div_ceil(across).max(1);
    let size = (MARGIN + across * (wide + MARGIN), MARGIN + down * (tall + LABEL + MARGIN));
    let mut picture = RgbImage::from_pixel(size.0, size.1, Rgb([255, 255, 255]));
    for (at, (map, (height, width, cells))) in maps.iter().zip(&grids).enumerate() {
        let left = MARGIN + at as u32 % across * (wide + MARGIN);
        let top = MARGIN + at as u32 / across * (tall + LABEL + MARGIN);
        label(&mut picture, left, top, &numbered(map));
        let top = top + LABEL;
        for y in 0..*height as u32 * scale {
            for x in 0..*width as u32 * scale {
                let weight = cells[(y / scale) as usize * width + (x / scale) as usize];
                picture.put_pixel(left + x, top + y, Rgb(colour(weight)));
            }
        }
    }
    let mut bytes = Cursor::new(Vec::new());
    // Writing to memory can only fail for want of it.
    let written = picture.write_to(&mut bytes, ImageFormat::Png);
    written.unwrap_or_else(|error| unreachable!("a picture in memory: {error}"));
    bytes.into_inner()
}

/// Block and head as numbers: `3.11`; cross-attention has an x in front.
fn numbered(map: &Map) -> String {
    let layer = map.attention.split('.').find(|part| part.parse::<usize>().is_ok()).unwrap_or("");
    let cross = if map.cross { "x" } else { "" };
    format!("{cross}{layer}.{}", map.head)
}

/// Figures of three by five dots, twice as large.
fn label(picture: &mut RgbImage, left: u32, top: u32, text: &str) {
    const FIGURES: [(char, [u8; 5]); 12] = [
        ('0', [7, 5, 5, 5, 7]),
        ('1', [2, 6, 2, 2, 7]),
        ('2', [7, 1, 7, 4, 7]),
        ('3', [7, 1, 7, 1, 7]),
        ('4', [5, 5, 7, 1, 1]),
        ('5', [7, 4, 7, 1, 7]),
        ('6', [7, 4, 7, 5, 7]),
        ('7', [7, 1, 2, 2, 2]),
        ('8', [7, 5, 7, 5, 7]),
        ('9', [7, 5, 7, 1, 7]),
        ('.', [0, 0, 0, 0, 2]),
        ('x', [0, 5, 2, 5, 0]),
    ];
    for (place, c) in text.chars().enumerate() {
        let Some((_, lines)) = FIGURES.iter().find(|(known, _)| *known == c) else { continue };
        for (y, line) in lines.iter().enumerate() {
            for x in (0..3).filter(|x| line & (4 >> x) != 0) {
                let (x, y) = (left + place as u32 * 8 + 2 * x, top + 2 * y as u32);
                for (x, y) in [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)] {
                    if x < picture.width() && y < picture.height() {
                        picture.put_pixel(x, y, Rgb([70, 76, 90]));
                    }
                }
            }
        }
    }
}

/// The most keys that are drawn cell by cell.
pub const MOST_CELLS: usize = 64;

/// One map as SVG. A short text has its tokens beside it and a title for each cell; a long one is thinned out.
pub fn svg(map: &Map, queries: &[String], keys: &[String]) -> String {
    let (height, width, cells) = grid(map, MOST_IN_PAGE);
    let named = map.rows.len() <= MOST_CELLS && map.keys <= MOST_CELLS;
    let cell = if named { 14.0 } else { (420.0 / height.max(width) as f64).clamp(1.0, 8.0) };
    let longest =
        |labels: &[String]| labels.iter().map(|text| text.chars().count()).max().unwrap_or(0).min(12);
    let (left, top) = match named {
        true => (8.0 + 6.4 * longest(queries) as f64, 8.0 + 6.4 * longest(keys) as f64),
        false => (4.0, 4.0),
    };
    let (right, bottom) = (left + cell * width as f64 + 2.0, top + cell * height as f64 + 2.0);
    let mut out = format!(
        "<svg viewBox=\"0 0 {right:.0} {bottom:.0}\" width=\"{right:.0}\" role=\"img\" aria-label=\"{} head {}\">",
        escaped(&map.attention),
        map.head
    );
    let _ = write!(
        out,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{:.1}\" height=\"{:.1}\" class=\"ground\"/>",
        cell * width as f64,
        cell * height as f64
    );
    for y in 0..height {
        for x in 0..width {
            let weight = cells[y * width + x];
            if weight < 0.005 {
                continue;
            }
            let (at, below) = (left + cell * x as f64, top + cell * y as f64);
            let _ = write!(
                out,
                "<rect x=\"{at:.1}\" y=\"{below:.1}\" width=\"{cell:.1}\" height=\"{cell:.1}\" fill-opacity=\"{:.2}\"",
                weight.clamp(0.0, 1.0).sqrt()
            );
            match named {
                true => {
                    let name =
                        |labels: &[String], at: usize| labels.get(at).map_or(String::new(), |l| escaped(l));
                    let (query, key) = (name(queries, map.rows[y]), name(keys, x));
                    let _ = write!(out, "><title>{query} to {key}: {weight:.3}</title></rect>");
                }
                false => out.push_str("/>"),
            }
        }
    }
    if named {
        for (y, &row) in map.rows.iter().enumerate() {
            let text = queries.get(row).map_or(String::new(), |label| escaped(&short(label)));
            let at = top + cell * (y as f64 + 0.75);
            let _ =
                write!(out, "<text x=\"{:.1}\" y=\"{at:.1}\" text-anchor=\"end\">{text}</text>", left - 4.0);
        }
        for (x, label) in keys.iter().enumerate().take(width) {
            let at = left + cell * (x as f64 + 0.75);
            let text = escaped(&short(label));
            let _ = write!(
                out,
                "<text transform=\"translate({at:.1} {:.1}) rotate(-90)\">{text}</text>",
                top - 4.0
            );
        }
    }
    out.push_str("</svg>");
    out
}

/// A label in the room that it has.
fn short(label: &str) -> String {
    match label.char_indices().nth(12) {
        Some((at, _)) => format!("{}…", &label[..at]),
        None => label.into(),
    }
}

/// Text as it stands in a page.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
