//! Masks from elsewhere. Ours are of one convention, true = may attend; each other one has a type of its own,
//! so that a mask whose convention is not said does not compile.
//!
//! ```compile_fail
//! let mask: regard_layers::KeepMask = vec![true, false].into(); // true = what?
//! ```

use regard_graph::{Error, Result};

/// True where a key may be attended to: what the ops take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepMask(pub Vec<bool>);

/// True where a key is to be *ignored*: PyTorch's `key_padding_mask`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoreMask(pub Vec<bool>);

/// 0 where a key may be attended to, −∞ (or a very large negative number) where it is to be ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct AdditiveMask(pub Vec<f32>);

/// The least magnitude that an additive mask may use for "ignore": no score comes near it.
const IGNORED: f32 = -1e4;

impl From<IgnoreMask> for KeepMask {
    fn from(ignore: IgnoreMask) -> Self {
        KeepMask(ignore.0.into_iter().map(|ignored| !ignored).collect())
    }
}

impl TryFrom<AdditiveMask> for KeepMask {
    type Error = Error;

    fn try_from(additive: AdditiveMask) -> Result<Self> {
        let keep = |(at, &x): (usize, &f32)| match x {
            0.0 => Ok(true),
            x if x <= IGNORED => Ok(false),
            x => Err(Error::invalid(
                "mask",
                format!("element {at} of an additive mask is {x}"),
                "an additive mask has 0 for keys to attend to and −∞ for keys to ignore; a mask of ones and zeros is a \
                 KeepMask, one that is true for padding an IgnoreMask; scores are shifted by a dense bias",
            )),
        };
        Ok(KeepMask(additive.0.iter().enumerate().map(keep).collect::<Result<_>>()?))
    }
}

impl KeepMask {
    /// Rows of `length` keys, of which the first few count: right padding.
    pub fn from_lengths(lengths: &[usize], length: usize) -> Result<Self> {
        KeepMask::from_padding(lengths, length, |at, own| at < own)
    }

    /// Rows of `length` keys, of which the last few count: left padding.
    pub fn from_lengths_at_end(lengths: &[usize], length: usize) -> Result<Self> {
        KeepMask::from_padding(lengths, length, |at, own| at >= length - own)
    }

    fn from_padding(lengths: &[usize], length: usize, keep: impl Fn(usize, usize) -> bool) -> Result<Self> {
        if let Some(row) = lengths.iter().position(|&own| own > length) {
            return Err(Error::invalid(
                "mask",
                format!("row {row} is {} long, the mask has {length} keys", lengths[row]),
                "give a mask as long as the longest row",
            ));
        }
        Ok(KeepMask(
            lengths
                .iter()
                .flat_map(|&own| (0..length).map(move |at| (at, own)))
                .map(|(at, own)| keep(at, own))
                .collect(),
        ))
    }

    /// The positions of tokens, counted from the first that is kept; 0 for padding. Rows of `length` keys.
    pub fn positions(&self, length: usize) -> Vec<i32> {
        let row = |row: &[bool]| {
            let mut next = 0;
            row.iter()
                .map(|&kept| {
                    if kept {
                        next += 1;
                        next - 1
                    } else {
                        0
                    }
                })
                .collect::<Vec<i32>>()
        };
        self.0.chunks(length.max(1)).flat_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conventions_turn_into_ours() {
        let keep = KeepMask(vec![true, true, false, true, false, false]);
        assert_eq!(KeepMask::from(IgnoreMask(vec![false, false, true, false, true, true])), keep);
        let additive = AdditiveMask(vec![0.0, -0.0, f32::NEG_INFINITY, 0.0, f32::MIN, -1e9]);
        assert_eq!(KeepMask::try_from(additive).unwrap(), keep);
        assert_eq!(
            KeepMask::from_lengths(&[2, 1], 3).unwrap(),
            KeepMask(vec![true, true, false, true, false, false])
        );
        let left = KeepMask::from_lengths_at_end(&[2, 1], 3).unwrap();
        assert_eq!(left, KeepMask(vec![false, true, true, false, false, true]));
        assert_eq!(left.positions(3), [0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn doubtful_masks_are_refused() {
        let error = KeepMask::try_from(AdditiveMask(vec![0.0, 1.0])).unwrap_err().to_string();
        assert!(
            error.starts_with("mask: element 1 of an additive mask is 1; an additive mask has 0 for keys"),
            "{error}"
        );
        assert_eq!(
            KeepMask::from_lengths(&[1, 4], 3).unwrap_err().to_string(),
            "mask: row 1 is 4 long, the mask has 3 keys; give a mask as long as the longest row"
        );
        assert_eq!(
            KeepMask::from_lengths_at_end(&[4], 3).unwrap_err().to_string(),
            "mask: row 0 is 4 long, the mask has 3 keys; give a mask as long as the longest row"
        );
    }
}
