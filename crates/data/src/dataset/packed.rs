//! Packed images: the idx files of MNIST and the binary files of CIFAR, plain or compressed by gzip. Sizes in
//! a header are compared with the file before anything is allocated for them.

use super::file::Reading;
use super::images::{Images, numbered};
use super::labels::Labels;
use crate::error::shown_path;
use crate::{Error, Result};
use std::path::Path;

/// Which of its two labels an image of CIFAR-100 is learned by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cifar100 {
    /// A hundred classes.
    Fine,
    /// Twenty groups of five.
    Coarse,
}

const CIFAR_SIDE: usize = 32;
const CIFAR_PIXELS: usize = 3 * CIFAR_SIDE * CIFAR_SIDE;
/// Twenty times the largest official file.
const CIFAR_MOST: u64 = 1_000_000 * (CIFAR_PIXELS as u64 + 2);
const CIFAR_10: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

impl Images {
    /// Reads a file of images and one of labels in the idx format of MNIST. The classes are named by their
    /// numbers.
    pub fn idx(images: impl AsRef<Path>, labels: impl AsRef<Path>) -> Result<Images> {
        let (images, labels) = (images.as_ref(), labels.as_ref());
        let mut reading = Reading::open(images)?;
        let [count, height, width] = sizes(images, &mut reading)?;
        let bytes = count.checked_mul(height).and_then(|n| n.checked_mul(width)).unwrap_or(u64::MAX);
        let pixels = reading.take(bytes, &format!("{count} images of {width}x{height}"))?;
        reading.end()?;
        let mut reading = Reading::open(labels)?;
        let [named] = sizes(labels, &mut reading)?;
        if named != count {
            let what = format!("has {named} labels, but {} has {count} images", shown_path(images));
            return Err(Error::file(labels, what, "take two files that belong together"));
        }
        let classes: Vec<usize> =
            reading.take(named, &format!("{named} labels"))?.into_iter().map(usize::from).collect();
        reading.end()?;
        let labels = numbered(labels, &classes)?;
        let (width, height) = (width as usize, height as usize);
        Ok(Images { width, height, channels: 1, pixels, classes, labels })
    }

    /// Reads binary files of CIFAR-10: of each image its class, then 32x32 bytes of red, green and blue.
    pub fn cifar10<P: AsRef<Path>>(paths: &[P]) -> Result<Images> {
        let labels = Labels::in_order(CIFAR_10)?;
        cifar(paths, labels, 1, 0)
    }

    /// Reads binary files of CIFAR-100: of each image its group, its class, then as in CIFAR-10. The classes
    /// are named by their numbers.
    pub fn cifar100<P: AsRef<Path>>(paths: &[P], by: Cifar100) -> Result<Images> {
        let (classes, place) = match by {
            Cifar100::Coarse => (20, 0),
            Cifar100::Fine => (100, 1),
        };
        cifar(paths, Labels::in_order((0..classes).map(|class: usize| class.to_string()))?, 2, place)
    }
}

/// Records of `front` labels and an image each; the label at `place` is the class.
fn cifar<P: AsRef<Path>>(paths: &[P], labels: Labels, front: usize, place: usize) -> Result<Images> {
    if paths.is_empty() {
        return Err(Error::invalid("no file of images is named", "name at least one"));
    }
    let (width, height) = (CIFAR_SIDE, CIFAR_SIDE);
    let mut all = Images { width, height, channels: 3, pixels: Vec::new(), classes: Vec::new(), labels };
    for path in paths {
        let path = path.as_ref();
        let what = format!("{front} for the class and {CIFAR_PIXELS} for the pixels of each image");
        let records = Reading::open(path)?.records(front + CIFAR_PIXELS, CIFAR_MOST, &what)?;
        for (i, record) in records.chunks_exact(front + CIFAR_PIXELS).enumerate() {
            let class = usize::from(record[place]);
            if class >= all.labels.len() {
                let what =
                    format!("image {} has the class {class}, expected below {}", i + 1, all.labels.len());
                let advice = "it is damaged or another format: copy or download it again";
                return Err(Error::file(path, what, advice));
            }
            all.classes.push(class);
            all.pixels.extend_from_slice(&record[front..]);
        }
    }
    Ok(all)
}

/// The header of an idx file: two zeros, 8 for bytes, how many sizes, the sizes.
fn sizes<const N: usize>(path: &Path, reading: &mut Reading) -> Result<[u64; N]> {
    let magic = reading.take(4, "an idx header")?;
    let expected = [0, 0, 8, N as u8];
    if magic != expected {
        let what = match (magic.as_slice(), N) {
            ([0, 0, 8, 1], 3) => "holds labels, expected images".to_owned(),
            ([0, 0, 8, 3], 1) => "holds images, expected labels".to_owned(),
            _ => {
                format!("begins with the bytes {magic:02x?}, expected {expected:02x?}, an idx file of bytes")
            }
        };
        return Err(Error::file(path, what, "name the file of images first, then that of labels"));
    }
    let mut sizes = [0; N];
    for size in &mut sizes {
        let bytes = reading.take(4, "an idx header")?;
        *size = bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        if *size == 0 {
            return Err(Error::file(
                path,
                "says that a size is 0",
                "it is damaged: copy or download it again",
            ));
        }
    }
    Ok(sizes)
}
