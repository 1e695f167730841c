//! Several heat maps in one PNG, each under a few figures.

use super::{Grid, Heat};
use crate::palette;
use image::{ImageFormat, Rgb, RgbImage};
use std::io::Cursor;

/// The most cells along one side of a map, before it is thinned out.
const MOST: usize = 512;
const MARGIN: u32 = 10;
const LABEL: u32 = 16;

/// Heat maps in one picture, `across` of them in a line, each under its label. A label is made of digits,
/// `.`, `-` and `x`; what else it has leaves a gap.
///
/// ```
/// use regard_picture::{Colours, Heat, png};
///
/// let heat = Heat::new("", "", "", 2, [1.0, 0.0, 0.5, 0.5], Colours::Share);
/// assert!(png([("1.0".to_string(), heat)], 1).starts_with(b"\x89PNG"));
/// ```
pub fn png(maps: impl IntoIterator<Item = (String, Heat)>, across: usize) -> Vec<u8> {
    // Thinned and coloured one by one: the maps of a large model together are larger than what is seen of
    // them.
    let maps: Vec<(String, Grid, Vec<Rgb<u8>>)> = maps
        .into_iter()
        .map(|(label, heat)| {
            let (grid, most) = (heat.thinned(MOST), heat.most());
            let colour = |&x: &f64| Rgb(palette::mixed(heat.strength(x, most), heat.is_less(x)));
            let colours = grid.cells.iter().map(colour).collect();
            (label, grid, colours)
        })
        .collect();
    let most = |of: fn(&Grid) -> usize| maps.iter().map(|(_, grid, _)| of(grid)).max().unwrap_or(1).max(1);
    let (height, width) = (most(|grid| grid.height), most(|grid| grid.width));
    // As large as it has to be to be seen, and no larger than pages are.
    let wanted = if maps.len() == 1 { 640 } else { 176 };
    let scale = (wanted / height.max(width)).clamp(1, 32) as u32;
    let (tall, wide) = (height as u32 * scale, (width as u32 * scale).max(60));
    let across = across.clamp(1, maps.len().max(1)) as u32;
    let down = (maps.len() as u32).div_ceil(across).max(1);
    let size = (MARGIN + across * (wide + MARGIN), MARGIN + down * (tall + LABEL + MARGIN));
    let mut picture = RgbImage::from_pixel(size.0, size.1, Rgb([255, 255, 255]));
    for (at, (text, grid, colours)) in maps.iter().enumerate() {
        let left = MARGIN + at as u32 % across * (wide + MARGIN);
        let top = MARGIN + at as u32 / across * (tall + LABEL + MARGIN);
        label(&mut picture, left, top, text);
        let top = top + LABEL;
        for y in 0..grid.height as u32 * scale {
            for x in 0..grid.width as u32 * scale {
                let cell = (y / scale) as usize * grid.width + (x / scale) as usize;
                picture.put_pixel(left + x, top + y, colours[cell]);
            }
        }
    }
    let mut bytes = Cursor::new(Vec::new());
    // Writing to memory can only fail for want of it.
    let written = picture.write_to(&mut bytes, ImageFormat::Png);
    written.unwrap_or_else(|error| unreachable!("a picture in memory: {error}"));
    bytes.into_inner()
}

/// Figures of three by five dots, twice as large.
fn label(picture: &mut RgbImage, left: u32, top: u32, text: &str) {
    const FIGURES: [(char, [u8; 5]); 13] = [
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
        ('-', [0, 0, 7, 0, 0]),
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
