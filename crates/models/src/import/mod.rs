//! Foreign checkpoints: for each family a table from our names to theirs, and their config.json to ours and back.
//! Reading files is not done here.

pub mod bert;
mod encoder;
pub mod gpt2;
pub mod json;
pub mod llama;
pub mod mingpt;
pub mod native;
pub mod t5;
pub mod transformer;
pub mod vit;

use regard_graph::{Error, Result};

/// One of our parameters and where it stands in a foreign checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Our dotted name.
    pub ours: String,
    /// Their name.
    pub theirs: String,
    /// How their tensor becomes ours.
    pub map: Map,
}

impl Import {
    /// From theirs to ours.
    pub fn new(ours: impl Into<String>, theirs: impl Into<String>, map: Map) -> Self {
        Import { ours: ours.into(), theirs: theirs.into(), map }
    }
}

/// How a foreign tensor becomes one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// As it is.
    Same,
    /// Rows become columns.
    Transposed,
    /// Part `index` of `parts` equal parts along the first axis: PyTorch's fused projections.
    Split {
        /// Which part.
        index: usize,
        /// How many there are.
        parts: usize,
    },
    /// Part `index` of `parts` equal parts along the last axis, then transposed: GPT-2's fused `c_attn`.
    SplitTransposed {
        /// Which part.
        index: usize,
        /// How many there are.
        parts: usize,
    },
    /// Under another shape, the elements in the same order.
    Reshaped,
}

impl Map {
    /// Our numbers from theirs. A vector is its own transpose.
    pub fn apply(&self, shape: &[usize], numbers: &[f32]) -> Result<Vec<f32>> {
        let refuse = |what: String| {
            Err(Error::invalid("import", what, "check that the file belongs to the model of its config"))
        };
        if shape.iter().product::<usize>() != numbers.len() {
            return refuse(format!("{} numbers for a tensor of shape {shape:?}", numbers.len()));
        }
        if shape.len() > 2 && matches!(self, Map::Transposed | Map::SplitTransposed { .. }) {
            return refuse(format!("a tensor of shape {shape:?} where a matrix was to be transposed"));
        }
        let width = shape.last().copied().unwrap_or(1);
        let rows = if shape.len() < 2 { 1 } else { shape[0] };
        Ok(match *self {
            Map::Same | Map::Reshaped => numbers.to_vec(),
            Map::Transposed => transposed(numbers, rows, 0..width, width),
            Map::Split { index, parts } => {
                if index >= parts || shape.is_empty() || !shape[0].is_multiple_of(parts) {
                    return refuse(format!("part {index} of {parts} of a tensor of shape {shape:?}"));
                }
                let count = numbers.len() / parts;
                numbers[index * count..][..count].to_vec()
            }
            Map::SplitTransposed { index, parts } => {
                if index >= parts || width % parts != 0 {
                    return refuse(format!("part {index} of {parts} of a tensor of shape {shape:?}"));
                }
                let part = width / parts;
                transposed(numbers, rows, index * part..(index + 1) * part, width)
            }
        })
    }
}

/// Some columns of a matrix, as rows.
fn transposed(numbers: &[f32], rows: usize, columns: std::ops::Range<usize>, width: usize) -> Vec<f32> {
    columns.flat_map(|column| (0..rows).map(move |row| numbers[row * width + column])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_become_ours() {
        let numbers: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let apply = |map: Map, shape: &[usize]| map.apply(shape, &numbers).unwrap();
        assert_eq!(apply(Map::Same, &[2, 6]), numbers);
        assert_eq!(apply(Map::Transposed, &[2, 6]), [0., 6., 1., 7., 2., 8., 3., 9., 4., 10., 5., 11.]);
        assert_eq!(apply(Map::Transposed, &[12]), numbers, "a vector is its own transpose");
        assert_eq!(apply(Map::Split { index: 1, parts: 3 }, &[6, 2]), [4., 5., 6., 7.]);
        assert_eq!(apply(Map::SplitTransposed { index: 1, parts: 3 }, &[2, 6]), [2., 8., 3., 9.]);
        assert_eq!(apply(Map::SplitTransposed { index: 2, parts: 3 }, &[12]), [8., 9., 10., 11.]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let text = |map: Map, shape: &[usize]| map.apply(shape, &[0.0; 8]).unwrap_err().to_string();
        let advice = "check that the file belongs to the model of its config";
        assert_eq!(
            text(Map::Same, &[3, 3]),
            format!("import: 8 numbers for a tensor of shape [3, 3]; {advice}")
        );
        assert_eq!(
            text(Map::Split { index: 1, parts: 3 }, &[8]),
            format!("import: part 1 of 3 of a tensor of shape [8]; {advice}")
        );
        assert_eq!(
            text(Map::SplitTransposed { index: 0, parts: 3 }, &[2, 4]),
            format!("import: part 0 of 3 of a tensor of shape [2, 4]; {advice}")
        );
        assert_eq!(
            text(Map::Transposed, &[2, 2, 2]),
            format!("import: a tensor of shape [2, 2, 2] where a matrix was to be transposed; {advice}")
        );
    }
}
