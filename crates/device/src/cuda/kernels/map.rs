//! One result for each element of a shape: every elementwise op, with broadcast and turned operands.

use super::Launch;
use crate::cuda::{Address, Arguments, Grid, Number, Source};

const THREADS: u32 = 256;
const PER_THREAD: u32 = 8;
const MOST_INPUTS: usize = 4;
const MOST_RANK: usize = 6;

/// An elementwise function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// An expression of `x0` to `x3` and of `s.v[0]` to `s.v[3]`, with the functions of the prelude.
    pub body: String,
    /// What the operands are made of, at most four.
    pub inputs: Vec<Number>,
    /// What the result is made of.
    pub output: Number,
}

/// An operand: where it is, and how far apart neighbours along each dimension of the result lie; 0 where it
/// is broadcast.
#[derive(Clone, Debug)]
pub struct Input {
    /// Where it begins.
    pub at: Address,
    /// In numbers, one for each dimension of the result.
    pub strides: Vec<usize>,
}

impl Map {
    fn source(&self, rank: usize) -> Source {
        let mut source = Source::new("map.cu", include_str!("map.cu"))
            .define("MAP_BODY", &self.body)
            .define("MAP_INPUTS", self.inputs.len())
            .define("MAP_RANK", rank)
            .define("Y", self.output.name());
        for i in 0..MOST_INPUTS {
            source = source.define(format!("X{i}"), self.inputs.get(i).unwrap_or(&Number::F32).name());
        }
        source
    }

    /// The launch for a result of this shape, dense from `output` on. Panics when operands and shape do not
    /// fit together, or have 2^31 elements.
    pub fn launch(&self, shape: &[usize], inputs: &[Input], scalars: [f32; 4], output: Address) -> Launch {
        assert!(
            inputs.len() == self.inputs.len() && inputs.len() <= MOST_INPUTS,
            "{} operands",
            inputs.len()
        );
        let count: usize = shape.iter().product();
        assert!(count < 1 << 31, "{count} elements");
        let count = count as u32;
        let mut at = [Address(0); MOST_INPUTS];
        inputs.iter().zip(&mut at).for_each(|(input, at)| *at = input.at);
        let (dims, strides) = merged(shape, inputs);
        let arguments = Arguments::new().with(output).with(at).with(scalars);
        let flat = dims.len() <= 1 && strides.iter().all(|strides| strides.iter().all(|&stride| stride == 1));
        // Vectors of 16 bytes need addresses that are aligned to them.
        if flat && inputs.iter().map(|input| input.at).chain([output]).all(|at| at.0 % 16 == 0) {
            let grid = Grid::line(count.div_ceil(THREADS * PER_THREAD).max(1), THREADS);
            return Launch {
                source: self.source(1),
                kernel: "map_flat",
                grid,
                arguments: arguments.with(count),
            };
        }
        assert!(dims.len() <= MOST_RANK, "{} dimensions that cannot be merged", dims.len());
        let mut shape = [1u32; MOST_RANK * (1 + MOST_INPUTS)];
        shape[..dims.len()].copy_from_slice(&dims);
        for (i, strides) in strides.iter().enumerate() {
            let begin = MOST_RANK * (1 + i);
            shape[begin..begin + strides.len()].copy_from_slice(strides);
        }
        let grid = Grid::line(count.div_ceil(THREADS).max(1), THREADS);
        let source = self.source(dims.len().max(1));
        Launch { source, kernel: "map_strided", grid, arguments: arguments.with(shape).with(count) }
    }
}

/// The dimensions with those joined that lie one behind the other in every operand, and the strides along
/// them.
fn merged(shape: &[usize], inputs: &[Input]) -> (Vec<u32>, Vec<Vec<u32>>) {
    let mut dims: Vec<u32> = Vec::new();
    let mut strides: Vec<Vec<u32>> = vec![Vec::new(); inputs.len()];
    for (d, &size) in shape.iter().enumerate().filter(|(_, size)| **size != 1) {
        let step = |input: &Input| {
            assert_eq!(input.strides.len(), shape.len(), "strides for a shape of rank {}", shape.len());
            input.strides[d] as u32
        };
        let size = size as u32;
        let joins = !dims.is_empty()
            && inputs.iter().zip(&strides).all(|(input, outer)| outer[outer.len() - 1] == step(input) * size);
        if joins {
            *dims.last_mut().expect("not the first") *= size;
            inputs
                .iter()
                .zip(&mut strides)
                .for_each(|(input, s)| *s.last_mut().expect("not the first") = step(input));
        } else {
            dims.push(size);
            inputs.iter().zip(&mut strides).for_each(|(input, s)| s.push(step(input)));
        }
    }
    (dims, strides)
}

/// The variants that are compiled without a card: each number, one to four operands, the least rank and the
/// most.
pub(super) fn every_source() -> Vec<Source> {
    let bodies =
        ["gelu_erf(x0) + s.v[0]", "x0 * x1", "relu(x0) + x1 * silu(x2)", "gelu_tanh(x0) + x1 * x2 + x3"];
    let mut all = Vec::new();
    for (i, body) in bodies.iter().enumerate() {
        let map = |input, output| Map { body: body.to_string(), inputs: vec![input; i + 1], output };
        all.push(map(Number::F32, Number::F32).source(1));
        all.push(map(Number::Bf16, Number::Bf16).source(MOST_RANK));
    }
    all.push(Map { body: "x0".into(), inputs: vec![Number::Bf16], output: Number::F32 }.source(MOST_RANK));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add() -> Map {
        Map { body: "x0 + x1".into(), inputs: vec![Number::F32, Number::Bf16], output: Number::F32 }
    }

    fn input(at: u64, strides: &[usize]) -> Input {
        Input { at: Address(at), strides: strides.to_vec() }
    }

    #[test]
    fn dense_operands_are_one_line() {
        let launch = add().launch(
            &[3, 1, 1000],
            &[input(256, &[1000, 7, 1]), input(512, &[1000, 0, 1])],
            [0.0; 4],
            Address(1024),
        );
        assert_eq!((launch.kernel, launch.grid), ("map_flat", Grid::line(2, 256)));
        assert_eq!(launch.arguments.layout(), [(0, 8), (8, 32), (40, 16), (56, 4)]);
        assert_eq!(launch.arguments.bytes()[56..], 3000u32.to_le_bytes());
    }

    #[test]
    fn an_unaligned_operand_is_read_one_by_one() {
        let launch = add().launch(&[3000], &[input(256, &[1]), input(514, &[1])], [0.0; 4], Address(1024));
        assert_eq!((launch.kernel, launch.grid), ("map_strided", Grid::line(12, 256)));
    }

    #[test]
    fn a_broadcast_keeps_the_dimensions_that_it_needs() {
        // B T C + C: rows join, the channel stays.
        let (dims, strides) = merged(&[2, 3, 4], &[input(0, &[12, 4, 1]), input(0, &[0, 0, 1])]);
        assert_eq!((dims, strides), (vec![6, 4], vec![vec![4, 1], vec![0, 1]]));
        // A turned operand keeps both.
        let (dims, strides) = merged(&[3, 4], &[input(0, &[1, 3])]);
        assert_eq!((dims, strides), (vec![3, 4], vec![vec![1, 3]]));
        // One number for all.
        let (dims, strides) = merged(&[3, 4], &[input(0, &[0, 0])]);
        assert_eq!((dims, strides), (vec![12], vec![vec![0]]));
        // No dimensions at all.
        assert_eq!(merged(&[1, 1], &[input(0, &[5, 5])]), (vec![], vec![vec![]]));
        let launch =
            add().launch(&[2, 3, 4], &[input(0, &[12, 4, 1]), input(0, &[0, 0, 1])], [0.0; 4], Address(0));
        assert_eq!(launch.kernel, "map_strided");
        assert!(launch.source.defines.contains(&("MAP_RANK".into(), "2".into())));
    }
}
