//! One result, or two, for each element of a shape: every elementwise op, with broadcast and turned operands.

use super::Launch;
use crate::cuda::{Address, Arguments, Grid, Source};

const THREADS: u32 = 256;
const PER_THREAD: usize = 8;
const MOST_INPUTS: usize = 4;
const MOST_RANK: usize = 6;

/// An elementwise function. Types are those of `prelude.cuh`: f32, bf16, i32, u8 (booleans).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// An expression of `x0` to `x3` and of `s.v[0]` to `s.v[3]`, with the functions of the prelude.
    pub body: String,
    /// What the operands are made of, at most four.
    pub inputs: Vec<&'static str>,
    /// What the result is made of.
    pub output: &'static str,
    /// A second result: its expression, and what it is made of.
    pub second: Option<(String, &'static str)>,
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

/// Where the results of a map go, and what else it touches; `Address(0)` where there is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effects {
    /// The results, dense. Those of a map with one result are never left out.
    pub results: [Address; 2],
    /// `e.fault` and `e.stop` of an expression that can find a fault.
    pub fault: Address,
    /// See `fault`.
    pub stop: Address,
    /// A word that keeps everything as it is when it is not 0.
    pub halt: Address,
}

impl Map {
    /// A function with one result.
    pub fn new(body: impl Into<String>, inputs: &[&'static str], output: &'static str) -> Map {
        Map { body: body.into(), inputs: inputs.to_vec(), output, second: None }
    }

    fn source(&self) -> Source {
        let mut source = Source::new("map.cu", include_str!("map.cu"))
            .define("MAP_BODY", &self.body)
            .define("MAP_INPUTS", self.inputs.len())
            .define("Y0", self.output)
            .define("Y1", self.second.as_ref().map_or("f32", |second| second.1));
        if let Some((body, _)) = &self.second {
            source = source.define("MAP_SECOND", body);
        }
        for i in 0..MOST_INPUTS {
            source = source.define(format!("X{i}"), self.inputs.get(i).unwrap_or(&"f32"));
        }
        source
    }

    /// The launch for a result of this shape, dense from `output` on.
    pub fn launch(&self, shape: &[usize], inputs: &[Input], scalars: [f32; 4], output: Address) -> Launch {
        let results = [output, Address(0)];
        self.launch_with(shape, inputs, scalars, Effects { results, ..Effects::default() })
    }

    /// The launch for results of this shape. Panics when operands and shape do not fit together, or have 2^31
    /// elements.
    pub fn launch_with(
        &self,
        shape: &[usize],
        inputs: &[Input],
        scalars: [f32; 4],
        effects: Effects,
    ) -> Launch {
        assert!(
            inputs.len() == self.inputs.len() && inputs.len() <= MOST_INPUTS,
            "{} operands",
            inputs.len()
        );
        let count: usize = shape.iter().product();
        assert!(count < 1 << 31, "{count} elements");
        let mut at = [Address(0); MOST_INPUTS];
        inputs.iter().zip(&mut at).for_each(|(input, at)| *at = input.at);
        let Effects { results, fault, stop, halt } = effects;
        let arguments = Arguments::new().with(results).with(at).with(scalars).with([fault, stop, halt]);
        let (dims, strides) = merged(shape, inputs);
        // Vectors of 16 bytes need addresses that are aligned to them.
        let aligned = inputs.iter().map(|input| input.at).chain(results).all(|at| at.0 % 16 == 0);
        let flat = dims.len() <= 1 && strides.iter().all(|strides| strides.iter().all(|&stride| stride == 1));
        let line = |per_thread: usize| {
            Grid::line(count.div_ceil(THREADS as usize * per_thread).max(1) as u32, THREADS)
        };
        let source = self.source();
        if flat && aligned {
            let arguments = arguments.with(count as u32);
            return Launch { source, kernel: "map_flat", grid: line(PER_THREAD), arguments };
        }
        assert!(dims.len() <= MOST_RANK, "{} dimensions that cannot be merged", dims.len());
        let arguments = arguments.with(table(&dims, &strides)).with(count as u32);
        match aligned && in_runs(&dims, &strides) {
            true => Launch { source, kernel: "map_runs", grid: line(PER_THREAD), arguments },
            false => Launch { source, kernel: "map_strided", grid: line(1), arguments },
        }
    }
}

/// Whether eight neighbours of the results are eight neighbours, or one number, of every operand, wherever
/// they begin.
fn in_runs(dims: &[usize], strides: &[Vec<usize>]) -> bool {
    let Some((inner, outer)) = dims.split_last() else { return false };
    let runs = |strides: &Vec<usize>| match strides[outer.len()] {
        0 => true,
        1 => strides[..outer.len()].iter().all(|stride| stride.is_multiple_of(PER_THREAD)),
        _ => false,
    };
    inner.is_multiple_of(PER_THREAD) && strides.iter().all(runs)
}

/// Rank, dimensions and strides as `map.cu` reads them, the innermost first.
fn table(dims: &[usize], strides: &[Vec<usize>]) -> [u32; 1 + MOST_RANK * (1 + MOST_INPUTS)] {
    let mut table = [0; 1 + MOST_RANK * (1 + MOST_INPUTS)];
    table[0] = dims.len() as u32;
    for (row, numbers) in std::iter::once(dims).chain(strides.iter().map(Vec::as_slice)).enumerate() {
        let places = &mut table[1 + row * MOST_RANK..][..MOST_RANK];
        places.iter_mut().zip(numbers.iter().rev()).for_each(|(place, &number)| *place = number as u32);
    }
    table
}

/// The dimensions with those joined that lie one behind the other in every operand, and the strides along
/// them.
fn merged(shape: &[usize], inputs: &[Input]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let strides = inputs.iter().map(|input| input.strides.as_slice()).collect::<Vec<_>>();
    super::merged(shape, &strides)
}

/// The variants that are compiled without a card: each number, none to four operands, one result and two.
pub(super) fn every_source() -> Vec<Source> {
    let bodies =
        ["gelu_erf(x0) + s.v[0]", "x0 * x1", "relu(x0) + x1 * silu(x2)", "gelu_tanh(x0) + x1 * x2 + x3"];
    let mut all =
        vec![Map::new("s.v[0]", &[], "bf16").source(), Map::new("f32(x0)", &["i32"], "f32").source()];
    for (i, body) in bodies.iter().enumerate() {
        for number in ["f32", "bf16"] {
            all.push(Map::new(*body, &vec![number; i + 1], number).source());
        }
    }
    all.push(Map::new("x0", &["bf16"], "f32").source());
    all.push(Map::new("x0 < x1", &["i32", "i32"], "u8").source());
    all.push(Map::new("x0 ? x1 : x2", &["u8", "f32", "bf16"], "f32").source());
    let second = Some(("x2 * gelu_erf(x0)".into(), "bf16"));
    all.push(Map { second, ..Map::new("x2 * x1 * gelu_erf_slope(x0)", &["bf16"; 3], "bf16") }.source());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add() -> Map {
        Map::new("x0 + x1", &["f32", "bf16"], "f32")
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
        assert_eq!(launch.arguments.layout(), [(0, 16), (16, 32), (48, 16), (64, 24), (88, 4)]);
        assert_eq!(launch.arguments.bytes()[88..], 3000u32.to_le_bytes());
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
        let shape = &launch.arguments.bytes()[88..];
        let word = |i: usize| u32::from_le_bytes(shape[4 * i..][..4].try_into().unwrap());
        // Rank, then dimensions and strides from the innermost outwards.
        assert_eq!([0, 1, 2, 7, 8, 13, 14].map(word), [2, 4, 6, 1, 4, 1, 0]);
    }

    #[test]
    fn rows_of_a_multiple_of_eight_go_eight_at_a_time() {
        let kernel = |shape: &[usize], a: &[usize], b: &[usize]| {
            add().launch(shape, &[input(0, a), input(0, b)], [0.0; 4], Address(0)).kernel
        };
        assert_eq!(kernel(&[6, 16], &[16, 1], &[0, 1]), "map_runs");
        assert_eq!(kernel(&[6, 16], &[16, 1], &[1, 0]), "map_runs");
        assert_eq!(kernel(&[6, 12], &[12, 1], &[0, 1]), "map_strided");
        // Runs that do not begin at multiples of eight.
        assert_eq!(kernel(&[6, 16], &[17, 1], &[0, 1]), "map_strided");
        // A turned operand.
        assert_eq!(kernel(&[16, 16], &[16, 1], &[1, 16]), "map_strided");
    }
}
