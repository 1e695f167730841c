//! Kernels that prove the whole way from a source to a result, and the patterns that the kernels of ops
//! follow: an element at a time ([`map`]), a box of numbers from place to place ([`movement`]), a row at a
//! time ([`rows`]), columns in a fixed order ([`columns`]), random numbers.
//!
//! Each gives [`Launch`]es, which are made without a card: what to compile, the grid, the arguments.

pub mod columns;
pub mod map;
pub mod movement;
pub mod rows;

use super::{Address, Arguments, Grid, Source};

/// What every kernel includes.
pub const PRELUDE: &str = include_str!("prelude.cuh");

/// One launch, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// What to compile.
    pub source: Source,
    /// The kernel in it.
    pub kernel: &'static str,
    /// The shape of the launch.
    pub grid: Grid,
    /// The arguments.
    pub arguments: Arguments,
}

/// The bits that an operation draws for channels `0..count` of one position.
pub fn draw(
    bits: Address,
    [seed, step, name_hash]: [u64; 3],
    [example, position]: [u32; 2],
    count: u32,
) -> Launch {
    let arguments = Arguments::new()
        .with(bits)
        .with(seed)
        .with(step)
        .with(name_hash)
        .with(example)
        .with(position)
        .with(count);
    let grid = Grid::line(count.div_ceil(4).div_ceil(256).max(1), 256);
    Launch { source: Source::new("random.cu", include_str!("random.cu")), kernel: "draw", grid, arguments }
}

/// A shape with those dimensions joined that lie one behind the other by all of some strides, and these
/// strides along what is left. Dimensions of one element are left out.
pub fn merged(shape: &[usize], strides: &[&[usize]]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut dims: Vec<usize> = Vec::new();
    let mut kept: Vec<Vec<usize>> = vec![Vec::new(); strides.len()];
    for (axis, &size) in shape.iter().enumerate().filter(|(_, size)| **size != 1) {
        let steps = strides.iter().map(|strides| {
            assert_eq!(strides.len(), shape.len(), "strides for a shape of rank {}", shape.len());
            strides[axis]
        });
        let joins = steps.clone().zip(&kept).all(|(step, kept)| kept.last() == Some(&(step * size)));
        match dims.last_mut() {
            Some(last) if joins => {
                *last *= size;
                steps.zip(&mut kept).for_each(|(step, kept)| kept[dims.len() - 1] = step);
            }
            _ => {
                dims.push(size);
                steps.zip(&mut kept).for_each(|(step, kept)| kept.push(step));
            }
        }
    }
    (dims, kept)
}

/// Every source in every variant that these kernels have, to be compiled where there is no card.
pub fn every_source() -> Vec<Source> {
    let mut all = vec![draw(Address(0), [0; 3], [0; 2], 1).source];
    all.extend(map::every_source());
    all.extend(movement::every_source());
    all.extend(rows::every_source());
    all.extend(columns::every_source());
    all
}
