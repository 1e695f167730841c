//! Mutants: what a broken backward would give instead of a gradient. A limit that lets one of them pass
//! judges nothing; [`super::Case::cpu`] refuses such a bound, and `regard-conformance` has a table of all.

use super::judge::Limit;
use super::largest;
use regard_ops::Array;
use std::ops::Range;

/// One way in which a gradient is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// All zero.
    Zeroed,
    /// With its sign turned.
    Turned,
    /// Two percent too large.
    Scaled,
    /// One row (along the last axis) left out.
    Row,
    /// Up to eight rows by eight columns left out, at the end, where the last tile of a kernel lies.
    Tile,
}

/// Rows and columns of the tile that is left out.
const TILE: usize = 8;

/// Of the largest number: what is smaller is zero but for the rounding of f64.
const ZERO: f64 = 1e-9;

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 5] = [Mutant::Zeroed, Mutant::Turned, Mutant::Scaled, Mutant::Row, Mutant::Tile];

    /// What it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            Mutant::Zeroed => "zeroed",
            Mutant::Turned => "sign turned",
            Mutant::Scaled => "times 1.02",
            Mutant::Row => "a row left out",
            Mutant::Tile => "a tile left out",
        }
    }

    /// The mutant of a gradient. What is left out is wanted; nothing if there is nothing of the kind (of
    /// zeros nothing can be left out).
    pub fn of(self, got: &Array, want: &Array) -> Option<Array> {
        let mut mutant = got.clone();
        let wanted = Wanted::new(want);
        let last = wanted.last()?;
        match self {
            Mutant::Zeroed => mutant.data_mut().fill(0.0),
            Mutant::Turned => mutant.data_mut().iter_mut().for_each(|x| *x = -*x),
            Mutant::Scaled => mutant.data_mut().iter_mut().for_each(|x| *x *= 1.02),
            Mutant::Row => {
                let (row, width) = (wanted.middling()?, wanted.width);
                mutant.data_mut()[row * width..(row + 1) * width].fill(0.0);
            }
            Mutant::Tile => {
                for row in (last + 1).saturating_sub(TILE)..=last {
                    mutant.data_mut()[row * wanted.width..][wanted.columns.clone()].fill(0.0);
                }
            }
        }
        Some(mutant)
    }

    /// The mutants of a result that a limit lets pass.
    pub fn passing(limit: &Limit, got: &Array, want: &Array) -> Vec<Mutant> {
        let passes = |mutant: &Mutant| {
            mutant.of(got, want).is_some_and(|broken| limit.objection(&broken, want).is_none())
        };
        Mutant::ALL.into_iter().filter(passes).collect()
    }
}

/// Where a wanted result is not zero.
struct Wanted<'a> {
    rows: std::slice::Chunks<'a, f64>,
    width: usize,
    /// The last columns, of which tiles are left out.
    columns: Range<usize>,
    zero: f64,
}

impl<'a> Wanted<'a> {
    fn new(want: &'a Array) -> Self {
        let width = want.dims().last().copied().unwrap_or(1).max(1);
        let columns = width.saturating_sub(TILE)..width;
        Wanted { rows: want.data().chunks(width), width, columns, zero: ZERO * largest(want.data()) }
    }

    /// The last row that is not zero in the last columns.
    fn last(&self) -> Option<usize> {
        self.rows.clone().rposition(|row| largest(&row[self.columns.clone()]) > self.zero)
    }

    /// Of the rows that are not zero, the one of middling size: neither the easiest to miss nor to notice.
    fn middling(&self) -> Option<usize> {
        let mut sizes: Vec<(f64, usize)> =
            self.rows.clone().map(largest).zip(0..).filter(|(size, _)| *size > self.zero).collect();
        sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
        sizes.get(sizes.len() / 2).map(|&(_, row)| row)
    }
}

#[cfg(test)]
mod tests {
    use super::Mutant;
    use crate::check::Limit;
    use regard_ops::Array;

    fn array() -> Array {
        Array::new(&[4, 2], vec![3.0, 0.0, 1.0, -2.0, 0.0, 0.0, -7.0, 4.0]).unwrap()
    }

    #[test]
    fn each_is_another_array() {
        let broken = |mutant: Mutant| mutant.of(&array(), &array()).unwrap().data().to_vec();
        assert_eq!(broken(Mutant::Zeroed), [0.0; 8]);
        assert_eq!(broken(Mutant::Turned), [-3.0, 0.0, -1.0, 2.0, 0.0, 0.0, 7.0, -4.0]);
        assert_eq!(broken(Mutant::Scaled)[..2], [3.06, 0.0]);
        assert_eq!(broken(Mutant::Row), [0.0, 0.0, 1.0, -2.0, 0.0, 0.0, -7.0, 4.0]);
        assert_eq!(broken(Mutant::Tile), [0.0; 8]);
        let long = Array::new(&[10, 10], vec![1.0; 100]).unwrap();
        let left: f64 = Mutant::Tile.of(&long, &long).unwrap().data().iter().sum();
        assert_eq!(left, 36.0);
        let zeros = Array::new(&[2], vec![0.0; 2]).unwrap();
        assert!(Mutant::ALL.iter().all(|mutant| mutant.of(&zeros, &zeros).is_none()));
    }

    #[test]
    fn a_limit_of_the_size_of_the_result_lets_them_pass() {
        let (limit, loose) = (Limit::relative(0.02), Limit { relative: 1e-6, noise: 2000.0, scatter: 0.0 });
        assert_eq!(Mutant::passing(&limit, &array(), &array()), []);
        assert_eq!(Mutant::passing(&loose, &array(), &array()), Mutant::ALL);
    }
}
