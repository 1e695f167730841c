//! Sums of columns in a fixed order.

use super::Launch;
use crate::cuda::{Address, Arguments, Grid, Number, Source};

/// Rows that one block sums. Part of the result: another number is another order of sums.
const PART: u32 = 128;
const WIDE: u32 = 64;
const TALL: u32 = 4;

/// The columns of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// How long each is.
    pub rows: u32,
    /// How many.
    pub width: u32,
    /// What they are made of.
    pub input: Number,
}

impl Columns {
    /// The bytes that the launches need for the sums of parts.
    pub fn scratch(&self) -> usize {
        self.parts() as usize * self.width as usize * size_of::<f32>()
    }

    fn parts(&self) -> u32 {
        self.rows.div_ceil(PART).max(1)
    }

    /// `sums[c]`, in f32, of `x[r][c]` over all rows.
    pub fn sums(&self, sums: Address, x: Address, scratch: Address) -> [Launch; 2] {
        let (parts, width) = (self.parts(), self.width);
        let arguments = Arguments::new().with(scratch).with(x).with(self.rows).with(width);
        let grid =
            Grid { blocks: [width.div_ceil(WIDE).max(1), parts, 1], threads: [WIDE, TALL, 1], shared: 0 };
        let part = Launch { source: source(self.input), kernel: "sum_parts", grid, arguments };
        let arguments = Arguments::new().with(sums).with(scratch).with(parts).with(width);
        let grid = Grid::line(width.div_ceil(256).max(1), 256);
        [part, Launch { source: source(self.input), kernel: "join_parts", grid, arguments }]
    }
}

fn source(input: Number) -> Source {
    Source::new("columns.cu", include_str!("columns.cu")).define("PART", PART).define("X", input.name())
}

pub(super) fn every_source() -> Vec<Source> {
    vec![source(Number::F32), source(Number::Bf16)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_rows() {
        let columns = Columns { rows: 129, width: 65, input: Number::F32 };
        assert_eq!(columns.scratch(), 2 * 65 * 4);
        let [part, join] = columns.sums(Address(1), Address(2), Address(3));
        assert_eq!((part.grid.blocks, part.grid.threads), ([2, 2, 1], [64, 4, 1]));
        assert_eq!(join.grid, Grid::line(1, 256));
        assert_eq!(Columns { rows: 0, width: 1, input: Number::F32 }.scratch(), 4);
    }
}
