//! How pictures become what a model of images takes, as `preprocessor_config.json` of transformers says it:
//! brought to the model's size, or to another of which the middle is taken, bytes scaled, each channel
//! normed. What the file asks for and is not done here is refused.

use crate::{Error, Result};
use regard_data::dataset::{Before, ImageForm, Resample, read_image, read_middle};
use regard_data::folder::read_json;
use regard_models::Pixels;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The file that says how pixels are scaled, as transformers names it.
const FILE: &str = "preprocessor_config.json";

/// How pixels of 0 to 1 are normed: those of each channel minus its mean, divided by its deviation.
#[derive(Clone, Debug, PartialEq)]
pub struct PixelScale {
    /// The mean of each channel.
    pub mean: Vec<f32>,
    /// The standard deviation of each channel.
    pub std: Vec<f32>,
    /// How a picture is brought to the size that the model takes.
    pub resample: Resample,
    /// The middle that is taken of it, if it is not brought to that size as a whole.
    pub middle: Option<Middle>,
}

/// The middle of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Middle {
    /// How large the picture is made first; as it is, if not given.
    pub before: Option<Before>,
    /// In pixels.
    pub height: usize,
    /// In pixels.
    pub width: usize,
}

/// Processors of transformers that take the middle of pictures, and whose size is that of the shorter edge
/// where it is one number.
const BY_THE_EDGE: [&str; 2] = ["BitImageProcessor", "CLIPImageProcessor"];

impl PixelScale {
    /// By mean and deviation, pictures of other sizes brought to the model's by straight lines.
    pub fn new(mean: Vec<f32>, std: Vec<f32>) -> PixelScale {
        PixelScale { mean, std, resample: Resample::default(), middle: None }
    }

    /// What the file in a folder asks for; of 0 to 1, to −1 to 1, where there is none.
    pub(crate) fn open(folder: &Path, pixels: Pixels) -> Result<PixelScale> {
        let path = folder.join(FILE);
        let usual = vec![0.5; pixels.channels];
        if !path.is_file() {
            return Ok(PixelScale::new(usual.clone(), usual));
        }
        let file = Asked { fields: read_json(&path)?, path };
        file.refuse_what_is_not_done()?;
        let middle = file.middle(pixels)?;
        let resample = file.resample()?;
        let (mean, std) = match file.truth("do_normalize", true)? {
            true => (
                file.channels("image_mean", &usual, f64::is_finite)?,
                file.channels("image_std", &usual, |x| x.is_finite() && x > 0.0)?,
            ),
            false => (vec![0.0; pixels.channels], vec![1.0; pixels.channels]),
        };
        // (byte · factor − mean) / std in terms of byte / 255.
        let factor = 255.0 * file.factor()?;
        let scaled = |numbers: Vec<f32>| match (factor - 1.0).abs() < 1e-9 {
            true => numbers,
            false => numbers.into_iter().map(|x| (f64::from(x) / factor) as f32).collect(),
        };
        Ok(PixelScale { mean: scaled(mean), std: scaled(std), resample, middle })
    }

    /// Height and width of the pictures that the file in a folder makes, if it says.
    pub(crate) fn asked_size(folder: &Path) -> Result<Option<[usize; 2]>> {
        let path = folder.join(FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let file = Asked { fields: read_json(&path)?, path };
        match file.truth("do_center_crop", file.crops())? {
            true => Ok(file.pair("crop_size")),
            false if file.truth("do_resize", true)? => Ok(file.pair("size")),
            false => Ok(None),
        }
    }

    /// A PNG or JPEG file as a model of such pixels takes it: brought to its size, scaled and normed, `[Ch Hh
    /// Ww]`.
    pub fn read(&self, path: &Path, pixels: Pixels) -> Result<Vec<f32>> {
        let Pixels { channels, height, width } = pixels;
        let form = ImageForm { width, height, grey: channels == 1, resample: self.resample };
        let bytes = match self.middle {
            None => read_image(path, form)?,
            Some(middle) => read_middle(path, form, middle.before)?,
        };
        let plane = (width * height).max(1);
        let normed = |(at, byte): (usize, u8)| {
            let channel = at / plane;
            (f32::from(byte) / 255.0 - self.mean[channel]) / self.std[channel]
        };
        Ok(bytes.into_iter().enumerate().map(normed).collect())
    }

    /// The file that says the same.
    pub(crate) fn file(&self) -> (&'static str, Value) {
        let resample = match self.resample {
            Resample::Lanczos => 1,
            Resample::Never | Resample::Bilinear => 2,
            Resample::Bicubic => 3,
        };
        let mut text = json!({ "do_rescale": true, "rescale_factor": 1.0 / 255.0, "do_normalize": true,
            "image_mean": self.mean, "image_std": self.std });
        if self.resample != Resample::default() {
            text["do_resize"] = json!(self.resample != Resample::Never);
            text["resample"] = json!(resample);
        }
        if let Some(Middle { before, height, width }) = self.middle {
            text["do_center_crop"] = json!(true);
            text["crop_size"] = json!({ "height": height, "width": width });
            text["do_resize"] = json!(before.is_some());
            text["resample"] = json!(resample);
            text["size"] = match before {
                None => Value::Null,
                Some(Before::ShorterEdge(edge)) => json!({ "shortest_edge": edge }),
                Some(Before::Size { height, width }) => json!({ "height": height, "width": width }),
            };
        }
        (FILE, text)
    }
}

/// The fields of the file.
struct Asked {
    path: PathBuf,
    fields: Value,
}

impl Asked {
    fn wrong(&self, name: &str, expected: impl Into<String>) -> Error {
        Error::File {
            path: self.path.display().to_string(),
            what: format!("`{name}` is {}, expected {}", self.fields[name], expected.into()),
            advice: "put the file of this model there".into(),
        }
    }

    fn not_done(&self, name: &str, advice: impl Into<String>) -> Error {
        Error::File {
            path: self.path.display().to_string(),
            what: format!("`{name}` is {}, which is not done here", self.fields[name]),
            advice: advice.into(),
        }
    }

    fn truth(&self, name: &str, usual: bool) -> Result<bool> {
        match &self.fields[name] {
            Value::Null => Ok(usual),
            value => value.as_bool().ok_or_else(|| self.wrong(name, "true or false")),
        }
    }

    /// What a byte is multiplied by.
    fn factor(&self) -> Result<f64> {
        let name = "rescale_factor";
        match (self.truth("do_rescale", true)?, &self.fields[name]) {
            (false, _) => Ok(1.0),
            (true, Value::Null) => Ok(1.0 / 255.0),
            (true, value) => match value.as_f64().filter(|x| x.is_finite() && *x > 0.0) {
                Some(factor) => Ok(factor),
                None => Err(self.wrong(name, "a number above 0")),
            },
        }
    }

    /// A number for each channel.
    fn channels(&self, name: &str, usual: &[f32], allowed: impl Fn(f64) -> bool) -> Result<Vec<f32>> {
        let all: Option<Vec<f64>> = match &self.fields[name] {
            Value::Null => return Ok(usual.to_vec()),
            value => value.as_array().and_then(|all| all.iter().map(Value::as_f64).collect()),
        };
        match all.filter(|all| all.len() == usual.len() && all.iter().all(|&x| allowed(x))) {
            Some(all) => Ok(all.into_iter().map(|x| x as f32).collect()),
            None => Err(self.wrong(name, format!("a number for each of the {} channels", usual.len()))),
        }
    }

    /// The numbers are those of Python's imaging library.
    fn resample(&self) -> Result<Resample> {
        if !self.truth("do_resize", true)? {
            return Ok(Resample::Never);
        }
        match (&self.fields["resample"], self.fields["resample"].as_u64()) {
            (Value::Null, _) | (_, Some(2)) => Ok(Resample::Bilinear),
            (_, Some(1)) => Ok(Resample::Lanczos),
            (_, Some(3)) => Ok(Resample::Bicubic),
            _ => {
                Err(self
                    .not_done("resample", "what can be done is 1 (Lanczos), 2 (bilinear) and 3 (bicubic)"))
            }
        }
    }

    fn refuse_what_is_not_done(&self) -> Result<()> {
        for name in ["do_flip_channel_order", "do_pad"] {
            if self.truth(name, false)? {
                let advice = "give the model pictures that were prepared so, and set it to false";
                return Err(self.not_done(name, advice));
            }
        }
        // What a processor does where its file is silent, only ViT's is known here.
        let kind = self.kind();
        let known = kind.is_empty() || kind.starts_with("ViT");
        let needed =
            ["do_resize", "do_center_crop", "size", "crop_size", "resample", "image_mean", "image_std"];
        match needed.into_iter().find(|name| !known && self.fields[name].is_null()) {
            None => Ok(()),
            Some(name) => Err(Error::File {
                path: self.path.display().to_string(),
                what: format!("it is one of a {kind}, and does not say `{name}`"),
                advice: "put the file of this model there, with all of its settings".into(),
            }),
        }
    }

    /// Which processor the file is for.
    fn kind(&self) -> &str {
        let named = ["image_processor_type", "feature_extractor_type"].map(|name| self.fields[name].as_str());
        named.into_iter().flatten().next().unwrap_or("")
    }

    /// Whether the processor takes the middle where its file does not say.
    fn crops(&self) -> bool {
        self.kind().starts_with("DeiT") || BY_THE_EDGE.iter().any(|kind| self.kind().starts_with(kind))
    }

    /// Height and width, as a number, a pair, or by name.
    fn pair(&self, name: &str) -> Option<[usize; 2]> {
        let size = &self.fields[name];
        let both = |a: &Value, b: &Value| Some([a.as_u64()? as usize, b.as_u64()? as usize]);
        match size {
            Value::Number(_) => both(size, size),
            Value::Array(pair) if pair.len() == 2 => both(&pair[0], &pair[1]),
            _ => both(&size["height"], &size["width"]),
        }
    }

    /// The middle that is taken, if the file asks for one; what it asks for must come to the model's size.
    fn middle(&self, pixels: Pixels) -> Result<Option<Middle>> {
        let Pixels { height, width, .. } = pixels;
        let own = format!("that of the model, height {height} and width {width}");
        let (resizes, size) = (self.truth("do_resize", true)?, &self.fields["size"]);
        if !self.truth("do_center_crop", self.crops())? {
            if size.is_null() || !resizes {
                return Ok(None);
            }
            return match self.pair("size") {
                Some(asked) if asked == [height, width] => Ok(None),
                Some(_) => Err(self.wrong("size", own)),
                None => Err(self.not_done(
                    "size",
                    "without `do_center_crop`, only one height and one width for all pictures can be used",
                )),
            };
        }
        if self.pair("crop_size") != Some([height, width]) {
            return Err(self.wrong("crop_size", own));
        }
        let by_edge = BY_THE_EDGE.iter().any(|kind| self.kind().starts_with(kind));
        let edge = match size {
            Value::Number(edge) if by_edge => edge.as_u64(),
            _ if size["longest_edge"].is_null() => size["shortest_edge"].as_u64(),
            _ => None,
        };
        let before = match (resizes, edge, self.pair("size")) {
            (false, _, _) => None,
            (true, Some(edge), _) => Some(Before::ShorterEdge(edge as usize)),
            (true, None, Some([height, width])) => Some(Before::Size { height, width }),
            (true, None, None) => {
                return Err(
                    self.not_done("size", "what can be done is a height and a width, or a `shortest_edge`")
                );
            }
        };
        Ok(Some(Middle { before, height, width }))
    }
}
