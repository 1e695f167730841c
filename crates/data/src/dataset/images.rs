//! Images of one size with a class each, as bytes in the order (channel, y, x): from folders of PNG and JPEG
//! files, one folder for each class, or from the packed files of MNIST and CIFAR.

use super::{Labels, file};
use crate::error::{listed, shown_path, shown_text};
use crate::{Error, Result};
use image::imageops::{FilterType, resize};
use image::{DynamicImage, ImageReader};
use std::fs;
use std::path::{Path, PathBuf};

/// Images of one size, and the class of each.
#[derive(Clone, Debug)]
pub struct Images {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: usize,
    pub(super) pixels: Vec<u8>,
    pub(super) classes: Vec<usize>,
    pub(super) labels: Labels,
}

/// How a folder of images is read.
#[derive(Clone, Debug, Default)]
pub struct FolderOptions {
    /// Reads brightness alone, one channel, instead of red, green and blue.
    pub grey: bool,
    /// Width and height to which all images are brought. Without it, all must have the same.
    pub size: Option<(usize, usize)>,
    /// The labels of the training set. Without them, the names of the folders are the labels.
    pub labels: Option<Labels>,
}

/// No side of an image may be longer: a header of a few bytes can claim any size.
const LONGEST_SIDE: u32 = 1 << 14;

impl Images {
    /// Reads a folder that has a folder of PNG and JPEG files for each class.
    pub fn folder(path: impl AsRef<Path>, options: &FolderOptions) -> Result<Images> {
        let path = path.as_ref();
        let found = classes(path)?;
        let labels = match &options.labels {
            Some(labels) => labels.clone(),
            None => Labels::of(found.iter().map(|(name, _)| name))
                .map_err(|error| Error::file(path, error.to_string(), "make one folder for each class"))?,
        };
        if options.size.is_some_and(|(w, h)| w.min(h) == 0 || w.max(h) > LONGEST_SIDE as usize) {
            let what = format!("images cannot be brought to {:?}", options.size.unwrap_or_default());
            return Err(Error::invalid(what, format!("give sides from 1 to {LONGEST_SIDE}")));
        }
        let channels = if options.grey { 1 } else { 3 };
        let mut all =
            Images { width: 0, height: 0, channels, pixels: Vec::new(), classes: Vec::new(), labels };
        let mut first: Option<&PathBuf> = None;
        for (name, files) in &found {
            let class = all.labels.class(name).map_err(|error| {
                Error::file(
                    &path.join(name),
                    format!("is no class of the training set: {error}"),
                    "rename it",
                )
            })?;
            for file in files {
                let (width, height) = all.append(file, options)?;
                let first = *first.get_or_insert(file);
                if (all.width, all.height) != (width, height) {
                    let what = format!(
                        "is {width}x{height}, expected {}x{} as {}",
                        all.width,
                        all.height,
                        shown_path(first)
                    );
                    return Err(Error::file(file, what, "give a size to which all images are brought"));
                }
                all.classes.push(class);
            }
        }
        Ok(all)
    }

    /// Appends the pixels of a file. The first one sets the size.
    fn append(&mut self, path: &Path, options: &FolderOptions) -> Result<(usize, usize)> {
        let image = decode(path)?;
        let (width, height) = options.size.unwrap_or((image.width() as usize, image.height() as usize));
        if self.classes.is_empty() {
            (self.width, self.height) = (width, height);
        }
        let form = ImageForm { width, height, grey: options.grey, resample: Resample::default() };
        append(&mut self.pixels, &image, form);
        Ok((width, height))
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// False: no images are an error when they are read.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// The width of each, in pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The height of each, in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// 1 for brightness, 3 for red, green and blue.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The bytes of an image in the order (channel, y, x). Panics where there is none, as a slice does.
    pub fn pixels(&self, index: usize) -> &[u8] {
        let size = self.channels * self.height * self.width;
        &self.pixels[index * size..(index + 1) * size]
    }

    /// The class of an image. Panics where there is none, as a slice does.
    pub fn label(&self, index: usize) -> usize {
        self.classes[index]
    }

    /// The names of the classes.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }
}

/// The form to which a single picture is brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageForm {
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
    /// Brightness alone, one channel, instead of red, green and blue.
    pub grey: bool,
    /// How a picture of another size is brought to this one.
    pub resample: Resample,
}

/// How pictures are brought to another size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resample {
    /// Not at all: one of another size is refused.
    Never,
    /// By straight lines between pixels, the mean of several where the picture shrinks.
    #[default]
    Bilinear,
    /// By the cubic curves of Catmull and Rom.
    Bicubic,
    /// By Lanczos' window of three.
    Lanczos,
}

impl Resample {
    fn filter(self) -> FilterType {
        match self {
            Resample::Never | Resample::Bilinear => FilterType::Triangle,
            Resample::Bicubic => FilterType::CatmullRom,
            Resample::Lanczos => FilterType::Lanczos3,
        }
    }
}

/// The bytes of a PNG or JPEG file in the order (channel, y, x), brought to a form.
pub fn read_image(path: impl AsRef<Path>, form: ImageForm) -> Result<Vec<u8>> {
    let ImageForm { width, height, resample, .. } = form;
    let path = path.as_ref();
    let image = decode(path)?;
    let own = (image.width() as usize, image.height() as usize);
    if resample == Resample::Never && own != (width, height) {
        let what = format!("is {}x{}, the model takes {width}x{height} and no other", own.0, own.1);
        return Err(Error::file(path, what, "bring it to that size"));
    }
    let mut pixels = Vec::new();
    append(&mut pixels, &image, form);
    Ok(pixels)
}

/// How large a picture is made before its middle is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// So high and so wide.
    Size {
        /// In pixels.
        height: usize,
        /// In pixels.
        width: usize,
    },
    /// Its shorter edge becomes so long, and the longer one in step.
    ShorterEdge(usize),
}

/// The most pixels that a picture is made before its middle is taken.
const MOST_BEFORE: usize = 1 << 28;

/// The middle of a PNG or JPEG file, as high and wide as the form says, after the whole was brought to a size
/// if one is given. Where there is not enough of it, it is black.
pub fn read_middle(path: impl AsRef<Path>, form: ImageForm, before: Option<Before>) -> Result<Vec<u8>> {
    let path = path.as_ref();
    let image = decode(path)?;
    let (own_width, own_height) = (image.width() as usize, image.height() as usize);
    let (width, height) = match before {
        None => (own_width, own_height),
        Some(Before::Size { height, width }) => (width, height),
        Some(Before::ShorterEdge(edge)) => {
            let shorter = own_width.min(own_height).max(1);
            let scaled = |side: usize| side.saturating_mul(edge) / shorter;
            (scaled(own_width), scaled(own_height))
        }
    };
    if width.saturating_mul(height) > MOST_BEFORE {
        let what = format!("is {own_width}x{own_height}, and would have to be made {width}x{height} first");
        return Err(Error::file(path, what, "cut it to what matters"));
    }
    let mut whole = Vec::new();
    append(&mut whole, &image, ImageForm { width, height, ..form });
    // Where the middle begins, in a picture that may be smaller.
    let begin = |whole: usize, part: usize| match whole >= part {
        true => ((whole - part) / 2) as isize,
        false => -(((part - whole) / 2) as isize),
    };
    let (top, left) = (begin(height, form.height), begin(width, form.width));
    let inside = |at: usize, begin: isize, most: usize| at.checked_add_signed(begin).filter(|&at| at < most);
    let channels = if form.grey { 1 } else { 3 };
    let mut pixels = Vec::with_capacity(channels * form.height * form.width);
    for plane in whole.chunks((width * height).max(1)).take(channels) {
        for y in (0..form.height).map(|y| inside(y, top, height)) {
            for x in (0..form.width).map(|x| inside(x, left, width)) {
                pixels.push(y.zip(x).map_or(0, |(y, x)| plane[y * width + x]));
            }
        }
    }
    Ok(pixels)
}

/// Appends the bytes of a picture, brought to a form.
fn append(pixels: &mut Vec<u8>, image: &DynamicImage, form: ImageForm) {
    let (w, h) = (form.width as u32, form.height as u32);
    let (other, filter) = ((image.width(), image.height()) != (w, h), form.resample.filter());
    let bytes = match (form.grey, other) {
        (true, false) => image.to_luma8().into_raw(),
        (true, true) => resize(&image.to_luma8(), w, h, filter).into_raw(),
        (false, false) => image.to_rgb8().into_raw(),
        (false, true) => resize(&image.to_rgb8(), w, h, filter).into_raw(),
    };
    let channels = if form.grey { 1 } else { 3 };
    for channel in 0..channels {
        pixels.extend(bytes.iter().skip(channel).step_by(channels));
    }
}

/// The folders of a folder, each with its images; both sorted by name.
fn classes(path: &Path) -> Result<Vec<(String, Vec<PathBuf>)>> {
    let known = fs::metadata(path).map_err(|error| file::missing(path, error))?;
    if !known.is_dir() {
        return Err(Error::file(path, "is a file, expected a folder", "name the folder of the classes"));
    }
    let mut found = Vec::new();
    for folder in sorted(path)? {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !folder.is_dir() || name.starts_with('.') {
            continue;
        }
        let files: Vec<PathBuf> = sorted(&folder)?.into_iter().filter(|file| is_image(file)).collect();
        if files.is_empty() {
            let what = "has no .png, .jpg or .jpeg file";
            return Err(Error::file(&folder, what, "each class needs images: add some or remove the folder"));
        }
        found.push((name, files));
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::file(path, "has no folders", "make one folder for each class")),
    }
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)
        .and_then(|items| items.map(|item| item.map(|item| item.path())).collect::<Result<Vec<_>, _>>())
        .map_err(|e| Error::io("list", folder, e))?;
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !hidden && path.is_file() && matches!(ending.as_deref(), Some("png" | "jpg" | "jpeg"))
}

/// Decodes a file; what it is is told by its first bytes, not by its name.
fn decode(path: &Path) -> Result<DynamicImage> {
    file::known(path)?;
    let mut reader = ImageReader::open(path)
        .and_then(|reader| reader.with_guessed_format())
        .map_err(|e| Error::io("read", path, e))?;
    let mut limits = image::Limits::default();
    (limits.max_image_width, limits.max_image_height) = (Some(LONGEST_SIDE), Some(LONGEST_SIDE));
    reader.limits(limits);
    reader.decode().map_err(|error| {
        let what = format!("cannot be decoded: {}", shown_text(&error.to_string()));
        Error::file(path, what, "replace it by a PNG or JPEG file, or remove it")
    })
}

/// Labels that are the numbers up to the largest class.
pub(super) fn numbered(path: &Path, classes: &[usize]) -> Result<Labels> {
    let most = classes.iter().max().map_or(0, |&class| class + 1);
    let names: Vec<String> = (0..most).map(|class| class.to_string()).collect();
    let shown = listed(&names);
    Labels::in_order(names).map_err(|_| {
        let what = format!("has no classes but {shown}");
        Error::file(path, what, "a classifier needs at least two: take another file")
    })
}
