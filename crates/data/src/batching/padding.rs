//! Rows of different lengths as one grid, as the sources of training make them: on either side, with a mask,
//! targets and positions beside the tokens.

use crate::{Error, Field, Result};

/// What stands beside short rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    /// The token.
    pub id: u32,
    /// On which side of the row.
    pub side: Side,
    /// How long all rows become.
    pub length: Length,
}

/// A side of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Before its first token.
    Left,
    /// After its last.
    #[default]
    Right,
}

/// How long rows become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// As the longest of the batch.
    #[default]
    Longest,
    /// Always the same; longer rows are an error.
    Fixed(usize),
}

impl Padding {
    /// Padding on the right, to the longest of the batch.
    pub fn right(id: u32) -> Padding {
        Padding { id, side: Side::Right, length: Length::Longest }
    }

    /// Padding on the left, to the longest of the batch.
    pub fn left(id: u32) -> Padding {
        Padding { id, side: Side::Left, length: Length::Longest }
    }

    /// The same to a fixed length.
    pub fn to(self, length: usize) -> Padding {
        Padding { length: Length::Fixed(length), ..self }
    }

    /// The grid for rows of these lengths. `members` are the numbers of their examples, for errors.
    pub(crate) fn grid(&self, members: &[usize], lengths: Vec<usize>) -> Result<Grid> {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let width = match self.length {
            Length::Longest => longest.max(1),
            Length::Fixed(width) => width,
        };
        if let Some(row) = lengths.iter().position(|&length| length > width) {
            return Err(Error::invalid(
                format!("example {} has {} tokens, more than {width}", members[row], lengths[row]),
                "cut long examples, or pad to a greater length",
            ));
        }
        Ok(Grid { padding: *self, width, lengths })
    }
}

/// Where the rows of a batch lie.
pub(crate) struct Grid {
    padding: Padding,
    width: usize,
    lengths: Vec<usize>,
}

impl Grid {
    /// How many tokens it has, padding included.
    pub fn tokens(&self) -> u64 {
        (self.width * self.lengths.len()) as u64
    }

    /// Rows as a field, with `filler` beside them.
    fn filled<T: Clone, U>(
        &self,
        filler: T,
        rows: impl Iterator<Item = U>,
        put: impl Fn(&mut [T], U),
    ) -> Vec<T> {
        let mut values = vec![filler; self.width * self.lengths.len()];
        for ((out, row), &length) in values.chunks_exact_mut(self.width.max(1)).zip(rows).zip(&self.lengths) {
            let start = match self.padding.side {
                Side::Left => self.width - length,
                Side::Right => 0,
            };
            put(&mut out[start..start + length], row);
        }
        values
    }

    fn dims(&self) -> [usize; 2] {
        [self.lengths.len(), self.width]
    }

    /// A field of tokens.
    pub fn ids<'a>(
        &self,
        name: &'static str,
        rows: impl Iterator<Item = &'a [u32]> + Clone,
    ) -> Result<Field> {
        let given = rows.clone().flatten().copied();
        if let Some(id) = given.chain([self.padding.id]).find(|&id| id > i32::MAX as u32) {
            return Err(Error::invalid(
                format!("the token {id} is out of range"),
                "give ids that a vocabulary can have, below 2^31",
            ));
        }
        let values = self.filled(self.padding.id as i32, rows, |out, row| {
            out.iter_mut().zip(row).for_each(|(out, &id)| *out = id as i32);
        });
        Ok(Field::i32(name, &self.dims(), values))
    }

    /// A field of targets, ignored beside the rows.
    pub fn targets<'a>(&self, name: &'static str, rows: impl Iterator<Item = &'a [i32]>) -> Field {
        let values = self.filled(crate::corruption::IGNORE, rows, |out, row| out.copy_from_slice(row));
        Field::i32(name, &self.dims(), values)
    }

    /// A field that is true where there are tokens.
    pub fn mask(&self, name: &'static str) -> Field {
        Field::bools(name, &self.dims(), self.own())
    }

    /// True where there are tokens.
    fn own(&self) -> Vec<bool> {
        self.filled(false, self.lengths.iter(), |out, _| out.fill(true))
    }

    /// A field of positions, counted from the first token of a row; 0 beside it.
    pub fn positions(&self, name: &'static str) -> Field {
        let values = self.filled(0, self.lengths.iter(), |out, _| {
            out.iter_mut().enumerate().for_each(|(i, out)| *out = i as i32);
        });
        Field::i32(name, &self.dims(), values)
    }

    /// A field of the rows' own lengths.
    pub fn lengths(&self, name: &'static str) -> Field {
        let lengths = self.lengths.iter().map(|&length| length as i32).collect();
        Field::i32(name, &[self.lengths.len()], lengths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Values;
    use crate::corruption::IGNORE;

    const ROWS: [&[u32]; 3] = [&[5, 6], &[], &[7, 8, 9]];

    fn fields(padding: Padding) -> [Field; 5] {
        let grid = padding.grid(&[0, 1, 2], vec![2, 0, 3]).unwrap();
        let targets: [&[i32]; 3] = [&[15, 16], &[], &[17, 18, 19]];
        [
            grid.ids("ids", ROWS.into_iter()).unwrap(),
            grid.targets("labels", targets.into_iter()),
            grid.mask("mask"),
            grid.positions("position"),
            grid.lengths("lengths"),
        ]
    }

    #[test]
    fn right() {
        let [ids, targets, mask, positions, lengths] = fields(Padding::right(0));
        assert_eq!(ids, Field::i32("ids", &[3, 3], vec![5, 6, 0, 0, 0, 0, 7, 8, 9]));
        let i = IGNORE;
        assert_eq!(targets.values, Values::I32(vec![15, 16, i, i, i, i, 17, 18, 19]));
        let [t, f] = [true, false];
        assert_eq!(mask.values, Values::Bool(vec![t, t, f, f, f, f, t, t, t]));
        assert_eq!(positions.values, Values::I32(vec![0, 1, 0, 0, 0, 0, 0, 1, 2]));
        assert_eq!(lengths, Field::i32("lengths", &[3], vec![2, 0, 3]));
    }

    #[test]
    fn left_and_fixed() {
        let [ids, targets, mask, positions, _] = fields(Padding::left(1).to(4));
        assert_eq!(ids, Field::i32("ids", &[3, 4], vec![1, 1, 5, 6, 1, 1, 1, 1, 1, 7, 8, 9]));
        let i = IGNORE;
        assert_eq!(targets.values, Values::I32(vec![i, i, 15, 16, i, i, i, i, i, 17, 18, 19]));
        let [t, f] = [true, false];
        assert_eq!(mask.values, Values::Bool(vec![f, f, t, t, f, f, f, f, f, t, t, t]));
        assert_eq!(positions.values, Values::I32(vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2]));
    }

    #[test]
    fn a_batch_of_empty_rows_is_one_wide() {
        assert_eq!(Padding::right(0).grid(&[4], vec![0]).unwrap().dims(), [1, 1]);
        assert_eq!(Padding::right(0).grid(&[4], vec![0]).unwrap().tokens(), 1);
    }

    #[test]
    fn nonsense_is_refused() {
        let text = Padding::right(0).to(2).grid(&[3, 44], vec![1, 3]).err().unwrap().to_string();
        assert!(text.contains("example 44 has 3 tokens, more than 2; cut long examples"), "{text}");
        let grid = Padding::right(0).grid(&[3], vec![1]).unwrap();
        let text = grid.ids("ids", [&[3_000_000_000u32][..]].into_iter()).unwrap_err().to_string();
        assert!(text.contains("the token 3000000000 is out of range"), "{text}");
    }
}
