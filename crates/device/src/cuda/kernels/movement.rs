//! Numbers moved from one place to another without looking at them: joining, cutting, slices, patches, turned
//! axes.

use super::Launch;
use crate::cuda::{Address, Arguments, Grid, Source};

const THREADS: usize = 256;
const MOST_RANK: usize = 6;
/// Two axes change places by tiles if both are at least so long.
const WORTH_TURNING: usize = 8;
const TILE: usize = 32;

/// A box of numbers, and how it lies on both sides.
#[derive(Clone, Debug)]
pub struct Movement<'a> {
    /// Its dimensions, from the outermost to the innermost.
    pub shape: &'a [usize],
    /// Bytes of a number: 1, 2 or 4.
    pub bytes: usize,
    /// Where it goes, and how far apart neighbours along each dimension lie there, in numbers.
    pub to: (Address, &'a [usize]),
    /// Where it comes from, likewise; 0 where it is repeated.
    pub from: (Address, &'a [usize]),
}

/// What a movement comes down to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Nothing to do.
    Nothing,
    /// So many bytes one behind the other on both sides.
    Bytes(usize),
    /// A kernel.
    Launch(Launch),
}

impl Movement<'_> {
    /// What there is to do. Panics at 2^31 numbers.
    pub fn plan(&self) -> Moved {
        let count: usize = self.shape.iter().product();
        assert!(count < 1 << 31, "{count} elements");
        if count == 0 {
            return Moved::Nothing;
        }
        let (dims, strides) = super::merged(self.shape, &[self.to.1, self.from.1]);
        assert!(dims.len() <= MOST_RANK, "{} dimensions that cannot be merged", dims.len());
        let [to, from] = [&strides[0], &strides[1]];
        let dense = |strides: &Vec<usize>| strides.last().is_none_or(|&stride| stride == 1);
        if dims.len() <= 1 && dense(to) && dense(from) {
            return Moved::Bytes(count * self.bytes);
        }
        Moved::Launch(self.turned(&dims, to, from).unwrap_or_else(|| self.copied(&dims, to, from)))
    }

    /// One word to a thread: the widest word that suits addresses and strides where rows are dense on both
    /// sides.
    fn copied(&self, dims: &[usize], to: &[usize], from: &[usize]) -> Launch {
        let inner = dims.len() - 1;
        let mut word = self.bytes;
        let (mut dims, mut to, mut from) = (dims.to_vec(), to.to_vec(), from.to_vec());
        if to[inner] == 1 && from[inner] == 1 {
            let fits = |word: &usize| {
                let lengths = to[..inner].iter().chain(&from[..inner]).chain([&dims[inner]]);
                lengths.into_iter().all(|length| (length * self.bytes).is_multiple_of(*word))
                    && [self.to.0, self.from.0].iter().all(|at| at.0.is_multiple_of(*word as u64))
            };
            word = [16, 8, 4, 2, 1].into_iter().find(fits).unwrap_or(1);
            let in_words = |length: &mut usize| *length = *length * self.bytes / word;
            in_words(&mut dims[inner]);
            to[..inner].iter_mut().chain(&mut from[..inner]).for_each(in_words);
        }
        let kernel = match word {
            1 => "move_1",
            2 => "move_2",
            4 => "move_4",
            8 => "move_8",
            _ => "move_16",
        };
        let count: usize = dims.iter().product();
        let arguments = Arguments::new().with(self.to.0).with(self.from.0).with(table(&dims, &to, &from));
        let grid = Grid::line(count.div_ceil(THREADS) as u32, THREADS as u32);
        Launch { source: source(), kernel, grid, arguments: arguments.with(count as u32) }
    }

    /// By tiles, where another axis than the one that is dense here is dense there.
    fn turned(&self, dims: &[usize], to: &[usize], from: &[usize]) -> Option<Launch> {
        let long = |axis: &usize| dims[*axis] >= WORTH_TURNING;
        let b = (0..dims.len()).find(|&axis| to[axis] == 1).filter(long)?;
        let a = (0..dims.len()).find(|&axis| from[axis] == 1).filter(long)?;
        if a == b {
            return None;
        }
        let kernel = match self.bytes {
            1 => "turn_1",
            2 => "turn_2",
            _ => "turn_4",
        };
        let others = |numbers: &[usize]| {
            let kept = numbers.iter().enumerate().filter(|(axis, _)| ![a, b].contains(axis));
            kept.map(|(_, &number)| number).collect::<Vec<usize>>()
        };
        let tiles = dims[a].div_ceil(TILE) * dims[b].div_ceil(TILE);
        let blocks = tiles * others(dims).iter().product::<usize>();
        let turn = [dims[a], to[a], dims[b], from[b]].map(|number| number as u32);
        let arguments = Arguments::new().with(self.to.0).with(self.from.0).with(turn);
        let arguments = arguments.with(table(&others(dims), &others(to), &others(from)));
        let grid = Grid { blocks: [blocks as u32, 1, 1], threads: [TILE as u32, 8, 1], shared: 0 };
        Some(Launch { source: source(), kernel, grid, arguments })
    }
}

/// Rank, dimensions and strides as `movement.cu` reads them, the innermost first.
fn table(dims: &[usize], to: &[usize], from: &[usize]) -> [u32; 1 + 3 * MOST_RANK] {
    let mut table = [0; 1 + 3 * MOST_RANK];
    table[0] = dims.len() as u32;
    for (row, numbers) in [dims, to, from].into_iter().enumerate() {
        let places = &mut table[1 + row * MOST_RANK..][..MOST_RANK];
        places.iter_mut().zip(numbers.iter().rev()).for_each(|(place, &number)| *place = number as u32);
    }
    table
}

fn source() -> Source {
    Source::new("movement.cu", include_str!("movement.cu"))
}

pub(super) fn every_source() -> Vec<Source> {
    vec![source()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(shape: &[usize], bytes: usize, to: (u64, &[usize]), from: (u64, &[usize])) -> Moved {
        Movement { shape, bytes, to: (Address(to.0), to.1), from: (Address(from.0), from.1) }.plan()
    }

    fn kernel(moved: &Moved) -> (&'static str, [u32; 3]) {
        match moved {
            Moved::Launch(launch) => (launch.kernel, launch.grid.blocks),
            _ => panic!("{moved:?}"),
        }
    }

    #[test]
    fn dense_on_both_sides_is_a_copy() {
        assert_eq!(plan(&[2, 3, 4], 4, (0, &[12, 4, 1]), (64, &[12, 4, 1])), Moved::Bytes(96));
        assert_eq!(plan(&[], 2, (0, &[]), (64, &[])), Moved::Bytes(2));
        assert_eq!(plan(&[1, 1], 1, (0, &[9, 9]), (64, &[5, 5])), Moved::Bytes(1));
        assert_eq!(plan(&[2, 0], 4, (0, &[1, 1]), (64, &[1, 1])), Moved::Nothing);
    }

    #[test]
    fn rows_go_by_the_widest_word_that_fits() {
        // 3 rows of 8 bf16 out of rows of 24: 16 bytes at a time.
        assert_eq!(kernel(&plan(&[3, 8], 2, (0, &[8, 1]), (64, &[24, 1]))), ("move_16", [1, 1, 1]));
        // They begin 8 bytes further on.
        assert_eq!(kernel(&plan(&[3, 8], 2, (0, &[8, 1]), (72, &[24, 1]))).0, "move_8");
        // Rows of 7 numbers.
        assert_eq!(kernel(&plan(&[3, 7], 2, (0, &[7, 1]), (64, &[24, 1]))).0, "move_2");
        assert_eq!(kernel(&plan(&[3, 7], 4, (0, &[7, 1]), (64, &[24, 1]))).0, "move_4");
        assert_eq!(kernel(&plan(&[3, 7], 1, (0, &[7, 1]), (64, &[24, 1]))).0, "move_1");
        // One number repeated.
        assert_eq!(kernel(&plan(&[600], 4, (0, &[1]), (64, &[0]))), ("move_4", [3, 1, 1]));
    }

    #[test]
    fn turned_axes_go_by_tiles() {
        // [2, 40, 70] from [2, 70, 40].
        let moved = plan(&[2, 40, 70], 4, (0, &[2800, 70, 1]), (64, &[2800, 1, 40]));
        assert_eq!(kernel(&moved), ("turn_4", [2 * 2 * 3, 1, 1]));
        // Short axes are not worth it, and heads that move as a whole are rows.
        assert_eq!(kernel(&plan(&[40, 7], 4, (0, &[7, 1]), (64, &[1, 40]))).0, "move_4");
        let heads = plan(&[2, 12, 50, 64], 2, (0, &[38400, 3200, 64, 1]), (64, &[38400, 64, 768, 1]));
        assert_eq!(kernel(&heads).0, "move_16");
    }
}
