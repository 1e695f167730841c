//! Results that need a whole row: softmax and layer norm.

use super::Launch;
use crate::cuda::{Address, Arguments, Grid, Number, Source};

const THREADS: u32 = 256;
/// Up to this width a warp has a row, above it a block.
const NARROW: u32 = 1024;

/// The rows of a matrix and what they and the results are made of.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// How many.
    pub rows: u32,
    /// How long each is.
    pub width: u32,
    /// What they are made of.
    pub input: Number,
    /// What the results are made of.
    pub output: Number,
}

impl Rows {
    fn team(&self) -> u32 {
        if self.width <= NARROW { 32 } else { THREADS }
    }

    fn launch(&self, kernel: &'static str, arguments: Arguments) -> Launch {
        let grid = Grid::line(self.rows.div_ceil(THREADS / self.team()).max(1), THREADS);
        Launch { source: source(self.input, self.output, self.team()), kernel, grid, arguments }
    }

    /// `y = softmax(scale * x)` along each row.
    pub fn softmax(&self, y: Address, x: Address, scale: f32) -> Launch {
        self.launch(
            "softmax_rows",
            Arguments::new().with(y).with(x).with(self.rows).with(self.width).with(scale),
        )
    }

    /// `y = (x - mean) * kept * weight + bias` along each row, with mean and `kept = 1 / sqrt(variance +
    /// epsilon)` in f32.
    pub fn norm(
        &self,
        y: Address,
        [mean, kept]: [Address; 2],
        x: Address,
        [weight, bias]: [Address; 2],
        epsilon: f32,
    ) -> Launch {
        let arguments = Arguments::new().with(y).with(mean).with(kept).with(x).with(weight).with(bias);
        self.launch("norm_rows", arguments.with(self.rows).with(self.width).with(epsilon))
    }
}

fn source(input: Number, output: Number, team: u32) -> Source {
    let source = Source::new("rows.cu", include_str!("rows.cu")).define("TEAM", team);
    source.define("X", input.name()).define("Y", output.name())
}

pub(super) fn every_source() -> Vec<Source> {
    let numbers = [Number::F32, Number::Bf16];
    let mut all = Vec::new();
    for team in [32, THREADS] {
        for input in numbers {
            all.extend(numbers.map(|output| source(input, output, team)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_team() {
        let rows = |rows, width| Rows { rows, width, input: Number::F32, output: Number::Bf16 };
        let launch = rows(17, 1024).softmax(Address(1), Address(2), 0.5);
        assert_eq!(launch.grid, Grid::line(3, 256));
        assert_eq!(launch.arguments.layout(), [(0, 8), (8, 8), (16, 4), (20, 4), (24, 4)]);
        let launch = rows(17, 1025).norm(Address(1), [Address(2); 2], Address(3), [Address(4); 2], 1e-5);
        assert_eq!(launch.grid, Grid::line(17, 256));
        assert!(launch.source.defines.contains(&("TEAM".into(), "256".into())));
    }
}
