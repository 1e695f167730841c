//! Pictures with a class each, from bytes to normalised floats, shifted and mirrored by chance if asked.

use super::{Make, Plan};
use crate::corruption::IGNORE;
use crate::draws::Draws;
use crate::{Batch, Error, Field, Result, Source};
use std::sync::Arc;

/// Pictures with a class each: `pixels` \[B Ch Hh Ww\], `labels` \[B\].
pub struct Pictures {
    plan: Plan,
    dims: [usize; 3],
    make: Make<(Vec<u8>, i32)>,
    /// Mean and standard deviation of each channel.
    scale: Vec<[f32; 2]>,
    augmentation: Option<Augmentation>,
}

/// What chance does to pictures in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Augmentation {
    /// Of all draws.
    pub seed: u64,
    /// The most pixels by which a picture is moved in each direction; what comes in from outside is black.
    pub shift: usize,
    /// Whether half of them are mirrored, left to right.
    pub flip: bool,
}

impl Pictures {
    /// A source of pictures that lie one after the other, each channel by channel and row by row; `dims` are
    /// channels, height and width. Bytes become numbers from 0 to 1.
    pub fn new(
        plan: Plan,
        pixels: impl Into<Arc<[u8]>>,
        classes: impl Into<Arc<[i32]>>,
        dims: [usize; 3],
    ) -> Result<Pictures> {
        let (pixels, classes) = (pixels.into(), classes.into());
        let size = size_of_picture(dims);
        let fits = size.and_then(|size| size.checked_mul(classes.len())) == Some(pixels.len());
        if !fits || plan.examples() != classes.len() {
            return Err(Error::invalid(
                format!(
                    "{} bytes are not {} pictures of {dims:?} with {} classes",
                    pixels.len(),
                    plan.examples(),
                    classes.len()
                ),
                "give as many classes as there are pictures, and their channels, height and width",
            ));
        }
        let size = size.unwrap_or(0);
        let picture = move |example: usize| pixels[example * size..(example + 1) * size].to_vec();
        Pictures::from_fn(plan, dims, move |_, example| Ok((picture(example), classes[example])))
    }

    /// A source of the pictures and classes that `make` makes of (epoch, example), a pure function; for those
    /// that do not lie one after the other, or are only some of them. A class of -100 is ignored.
    pub fn from_fn(
        plan: Plan,
        dims: [usize; 3],
        make: impl Fn(u64, usize) -> Result<(Vec<u8>, i32)> + Send + Sync + 'static,
    ) -> Result<Pictures> {
        if size_of_picture(dims).is_none() {
            return Err(Error::invalid(
                format!("pictures of {dims:?} cannot be"),
                "give channels, height and width, each at least 1",
            ));
        }
        let scale = vec![[0.0, 1.0]; dims[0]];
        Ok(Pictures { plan, dims, make: Box::new(make), scale, augmentation: None })
    }

    /// Less `mean` and divided by `std`, both of numbers from 0 to 1 and one for each channel.
    pub fn normalised(mut self, mean: &[f32], std: &[f32]) -> Result<Pictures> {
        let good = |std: &f32| std.is_finite() && *std > 0.0;
        if mean.len() != self.dims[0] || std.len() != self.dims[0] || !std.iter().all(good) {
            return Err(Error::invalid(
                format!("{} channels cannot be normalised by {mean:?} and {std:?}", self.dims[0]),
                "give a mean and a positive standard deviation for each channel",
            ));
        }
        self.scale = mean.iter().zip(std).map(|(&mean, &std)| [mean, std]).collect();
        Ok(self)
    }

    /// Changed by chance, otherwise in every epoch.
    pub fn augmented(self, augmentation: Augmentation) -> Pictures {
        Pictures { augmentation: Some(augmentation), ..self }
    }

    /// One picture as floats.
    fn draw(&self, epoch: u64, example: usize, picture: &[u8], out: &mut [f32]) {
        let [_, height, width] = self.dims;
        let (mut down, mut right, mut flip) = (0, 0, false);
        if let Some(Augmentation { seed, shift, flip: may_flip }) = self.augmentation {
            let mut draws = Draws::new(seed, epoch, "pictures", example as u64);
            // Beyond its own size a picture is black altogether: nothing is gained by moving it further.
            let mut by = |size: usize| {
                let most = shift.min(size);
                draws.below(2 * most + 1) as isize - most as isize
            };
            (down, right) = (by(height), by(width));
            flip = may_flip && draws.below(2) == 1;
        }
        for (channel, plane) in out.chunks_exact_mut(height * width).enumerate() {
            let [mean, std] = self.scale[channel];
            for (i, out) in plane.iter_mut().enumerate() {
                let column = if flip { width - 1 - i % width } else { i % width };
                let from = ((i / width).checked_add_signed(down), column.checked_add_signed(right));
                let byte = match from {
                    (Some(y), Some(x)) if y < height && x < width => {
                        picture[(channel * height + y) * width + x]
                    }
                    _ => 0,
                };
                *out = (byte as f32 / 255.0 - mean) / std;
            }
        }
    }
}

/// How many bytes a picture has, if there can be one.
fn size_of_picture(dims: [usize; 3]) -> Option<usize> {
    dims.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim)).filter(|&size| size > 0)
}

impl Source for Pictures {
    fn batches(&self, epoch: u64) -> usize {
        self.plan.batches(epoch)
    }

    fn batch(&self, epoch: u64, index: usize) -> Result<Batch> {
        let members = self.plan.members(epoch, index)?;
        let [channels, height, width] = self.dims;
        let size = channels * height * width;
        let (mut image, mut classes) = (vec![0.0; members.len() * size], Vec::with_capacity(members.len()));
        for (&example, out) in members.iter().zip(image.chunks_exact_mut(size)) {
            let (picture, class) = (self.make)(epoch, example)?;
            if picture.len() != size {
                return Err(Error::invalid(
                    format!("picture {example} has {} bytes, not those of {:?}", picture.len(), self.dims),
                    "give all pictures the same channels, height and width",
                ));
            }
            self.draw(epoch, example, &picture, out);
            classes.push(class);
        }
        let targets = classes.iter().filter(|&&class| class != IGNORE).count() as u64;
        let fields = vec![
            Field::f32("pixels", &[members.len(), channels, height, width], image),
            Field::i32("labels", &[members.len()], classes),
        ];
        let examples = members.len() as u64;
        Ok(Batch { fields, targets, tokens: examples, examples })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Order;
    use super::super::purity::{check, ints};
    use super::*;
    use crate::Values;

    fn floats(batch: &Batch) -> Vec<f32> {
        match &batch.field("pixels").unwrap().values {
            Values::F32(values) => values.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn plan(examples: usize, size: usize) -> Plan {
        Plan::fixed(examples, size, Order::Sequential, false).unwrap()
    }

    #[test]
    fn bytes_become_normalised_floats() {
        let pixels = vec![0, 51, 102, 255, 255, 0, 0, 0];
        let plain = Pictures::new(plan(2, 2), pixels, vec![4, IGNORE], [2, 1, 2]).unwrap();
        let batch = &check(&plain)[0];
        assert_eq!(batch.field("pixels").unwrap().dims, [2, 2, 1, 2]);
        assert_eq!(floats(batch), [0.0, 0.2, 0.4, 1.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!((ints(batch, "labels"), batch.targets, batch.tokens), (vec![4, IGNORE], 1, 2));
        let normalised = plain.normalised(&[0.5, 0.0], &[0.5, 2.0]).unwrap();
        assert_eq!(floats(&normalised.batch(0, 0).unwrap()), [-1.0, -0.6, 0.2, 0.5, 1.0, -1.0, 0.0, 0.0]);
    }

    #[test]
    fn some_of_all_pictures() {
        let chosen = [3, 1, 4];
        let make = move |_, example: usize| Ok((vec![chosen[example]; 2], chosen[example] as i32));
        let source = Pictures::from_fn(plan(3, 2), [1, 1, 2], make).unwrap();
        let classes: Vec<i32> = check(&source).iter().flat_map(|batch| ints(batch, "labels")).collect();
        assert_eq!(classes, [3, 1, 4]);
    }

    #[test]
    fn pictures_move_and_turn_by_chance() {
        // One bright pixel in the middle of a row of five: where it comes out shows what was drawn.
        const N: usize = 4000;
        let one = [0, 0, 255, 0, 0, 0, 200, 0, 0, 0];
        let pixels: Vec<u8> = one.repeat(N);
        let source = Pictures::new(plan(N, 100), pixels, vec![0; N], [1, 2, 5]).unwrap();
        let source = source.augmented(Augmentation { seed: 5, shift: 1, flip: true });
        let (mut counts, mut flipped) = ([0u32; 10], 0u32);
        for batch in check(&source) {
            for picture in floats(&batch).chunks(10) {
                if let Some(place) = picture.iter().position(|&value| value == 1.0) {
                    counts[place] += 1;
                    // The dimmer pixel stands below and to the left, unless mirrored.
                    let dim = picture.iter().position(|&value| value > 0.5 && value < 1.0);
                    flipped += (dim == Some(place + 6)) as u32;
                }
            }
        }
        // Down by -1, 0 or 1: the bright pixel stays in its row, moves to the second or leaves. Right
        // likewise.
        let near = |count: u32, rate: f64| {
            let bound = 5.0 * (N as f64 * rate * (1.0 - rate)).sqrt();
            assert!((count as f64 - N as f64 * rate).abs() < bound, "{count} {rate} {counts:?}");
        };
        [1, 2, 3, 6, 7, 8].iter().for_each(|&place| near(counts[place], 1.0 / 9.0));
        assert_eq!([counts[0], counts[4], counts[5], counts[9]], [0; 4]);
        // The dimmer pixel shows beside it where both rows are seen (one in three), mirrored every other
        // time.
        near(flipped, 1.0 / 6.0);
        assert_ne!(source.batch(0, 0).unwrap(), source.batch(1, 0).unwrap());
    }

    #[test]
    fn nonsense_is_refused() {
        let text = Pictures::new(plan(2, 2), vec![0; 7], vec![1, 2], [1, 2, 2]).err().unwrap().to_string();
        assert!(text.contains("7 bytes are not 2 pictures of [1, 2, 2] with 2 classes"), "{text}");
        assert!(Pictures::new(plan(2, 2), vec![], vec![1, 2], [0, 2, 2]).is_err());
        let odd = |dims| Pictures::from_fn(plan(1, 1), dims, |_, _| Ok((vec![0; 3], 0)));
        let text = odd([1, 2, 2]).unwrap().batch(0, 0).unwrap_err().to_string();
        assert!(text.contains("picture 0 has 3 bytes, not those of [1, 2, 2]"), "{text}");
        let text = odd([1, usize::MAX, 2]).err().unwrap().to_string();
        assert!(text.contains("pictures of [1, 18446744073709551615, 2] cannot be"), "{text}");
        let one = Pictures::new(plan(1, 1), vec![0; 4], vec![1], [1, 2, 2]).unwrap();
        let text = one.normalised(&[0.0], &[0.0]).err().unwrap().to_string();
        assert!(text.contains("1 channels cannot be normalised by [0.0] and [0.0]"), "{text}");
    }
}
