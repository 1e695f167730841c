//! Shows an image to a ViT and says which class it sees.
//!
//!     cargo run --release -p regard --example 06_vit_forward
//!     cargo run --release -p regard --example 06_vit_forward path/to/vit-base-patch16-224 picture.ppm
//!
//! Without paths it takes a small ViT with random weights and a picture made here. A picture is a PPM file
//! (`P6`, 8 bits: `convert picture.jpg picture.ppm`), resized to what the model was trained on.

use regard::hub::{self, Batch, Images};
use regard::models::{Pixels, Registry};
use regard::prelude::*;
use std::path::Path;

/// Red, green and blue from 0 to 1, row by row.
struct Picture {
    height: usize,
    width: usize,
    pixels: Vec<[f32; 3]>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/parity/vit/model");
    let opened =
        hub::open(arguments.next().unwrap_or_else(|| small.display().to_string()), &Registry::standard())?;
    let Some(pixels) = opened.model.reads().pixels else { return Err("not a model of images".into()) };
    let Pixels { channels, height, width } = pixels;
    if channels != 3 {
        return Err(format!("the model takes {channels} channels, a picture has 3").into());
    }
    let picture = match arguments.next() {
        Some(path) => read_ppm(&std::fs::read(path)?)?,
        None => sunset(height, width),
    };

    // From pixels to what the model was trained on: its size, planes instead of pixels, and from -1 to 1.
    let mut pixels = vec![0.0; 3 * height * width];
    for (cell, value) in pixels.iter_mut().enumerate() {
        let (plane, y, x) = (cell / (height * width), cell / width % height, cell % width);
        *value =
            2.0 * picture.at((y as f32 + 0.5) / height as f32, (x as f32 + 0.5) / width as f32)[plane] - 1.0;
    }
    let mut store = Store::new(0);
    opened.load_into(&mut store)?;
    let images = Batch::images(Images { shape: vec![1, 3, height, width], pixels });
    let answers = hub::forward(&*opened.model, &mut store, &Cpu::new()?, &images, &[])?;
    let Some(logits) = answers.iter().find(|answer| answer.name == "logits") else {
        return Err("the model has no head with classes".into());
    };

    let best = logits.numbers.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let sum: f32 = logits.numbers.iter().map(|x| (x - best).exp()).sum();
    let mut order: Vec<usize> = (0..logits.numbers.len()).collect();
    order.sort_by(|&a, &b| logits.numbers[b].total_cmp(&logits.numbers[a]));
    for class in order.into_iter().take(3) {
        let label = opened.config["id2label"][class.to_string()].as_str().unwrap_or("a class without a name");
        println!("{:>5.1} %  {label}", 100.0 * (logits.numbers[class] - best).exp() / sum);
    }
    assert!(sum.is_finite() && sum >= 1.0);
    Ok(())
}

impl Picture {
    /// The colour at a place from 0 to 1 both ways, mixed from the four pixels around it.
    fn at(&self, y: f32, x: f32) -> [f32; 3] {
        let place = |part: f32, size: usize| {
            let at = (part * size as f32 - 0.5).clamp(0.0, (size - 1) as f32);
            (at as usize, (at as usize + 1).min(size - 1), at.fract())
        };
        let (top, bottom, down) = place(y, self.height);
        let (left, right, along) = place(x, self.width);
        let pixel = |y: usize, x: usize| self.pixels[y * self.width + x];
        std::array::from_fn(|c| {
            let above = pixel(top, left)[c] * (1.0 - along) + pixel(top, right)[c] * along;
            let below = pixel(bottom, left)[c] * (1.0 - along) + pixel(bottom, right)[c] * along;
            above * (1.0 - down) + below * down
        })
    }
}

/// A picture of our own: a bright disc over a dark sea.
fn sunset(height: usize, width: usize) -> Picture {
    let pixel = |cell: usize| {
        let (y, x) = ((cell / width) as f32 / height as f32, (cell % width) as f32 / width as f32);
        let disc = (y - 0.5).hypot(x - 0.5) < 0.25;
        if y > 0.6 {
            [0.0, 0.1, 0.3]
        } else if disc {
            [1.0, 0.8, 0.2]
        } else {
            [0.9 - 0.5 * y, 0.3, 0.2]
        }
    };
    Picture { height, width, pixels: (0..height * width).map(pixel).collect() }
}

/// A binary PPM: `P6`, width, height, 255, then three bytes for each pixel. `#` begins a comment.
fn read_ppm(file: &[u8]) -> Result<Picture, String> {
    let mut at = 0;
    let mut word = || {
        while let Some(byte) = file.get(at) {
            match byte {
                b'#' => at += file[at..].iter().take_while(|&&b| b != b'\n').count(),
                _ if byte.is_ascii_whitespace() => at += 1,
                _ => break,
            }
        }
        let begin = at;
        at += file[at..].iter().take_while(|b| !b.is_ascii_whitespace()).count();
        std::str::from_utf8(&file[begin..at]).unwrap_or("")
    };
    let head = [word(), word(), word(), word()];
    let size = |text: &str| text.parse().ok().filter(|&size| (1..=1 << 16).contains(&size));
    let ["P6", width, height, "255"] = head else {
        return Err(
            "no binary PPM of 8 bits; convert the picture with `convert picture.jpg picture.ppm`".into()
        );
    };
    let (Some(width), Some(height)) = (size(width), size(height)) else {
        return Err(format!("a picture of {width} by {height} pixels"));
    };
    let bytes = file.get(at + 1..).unwrap_or(&[]);
    if bytes.len() < 3 * width * height {
        return Err(format!("the picture is cut short: {} bytes of {}", bytes.len(), 3 * width * height));
    }
    let pixels = bytes.chunks_exact(3).take(width * height);
    let pixels = pixels.map(|p| std::array::from_fn(|c| f32::from(p[c]) / 255.0)).collect();
    Ok(Picture { height, width, pixels })
}
