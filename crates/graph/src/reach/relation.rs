//! Carries dependence through one op: values as grids of cells, each cell with a set of source cells, and
//! the relation of the op between the cells of an input and those of an output.

use super::{Along, Grain, Relation};
use crate::{DType, Dims, MAX_RANK};
use std::borrow::Cow;

/// How a value is cut into cells: by its leading axes; what is behind them is one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    pub dims: Dims,
    /// How many leading axes tell cells apart.
    pub axes: usize,
}

impl Grid {
    /// The last axis of a float value is a feature axis; ids, positions and masks have none.
    pub fn new(dims: Dims, dtype: DType, grain: Grain) -> Grid {
        let axes = match grain {
            Grain::Position if dtype.is_float() => dims.len().saturating_sub(1),
            _ => dims.len(),
        };
        Grid { dims, axes }
    }

    pub fn cells(&self) -> usize {
        self.dims[..self.axes].iter().fold(1, |product, &size| product.saturating_mul(size))
    }

    /// How many elements one cell has.
    fn width(&self) -> usize {
        self.dims[self.axes..].iter().product()
    }

    /// The distance in cells between neighbours along each axis; 0 for an axis within the cells.
    fn strides(&self) -> [usize; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        let mut stride = 1;
        for axis in (0..self.axes).rev() {
            strides[axis] = stride;
            stride *= self.dims[axis];
        }
        strides
    }

    pub fn coordinates(&self, mut cell: usize) -> [usize; MAX_RANK] {
        let mut at = [0; MAX_RANK];
        for axis in (0..self.axes).rev() {
            at[axis] = cell % self.dims[axis];
            cell /= self.dims[axis];
        }
        at
    }
}

/// A set of source cells for each cell of a value.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    words: usize,
    rows: Vec<u64>,
}

impl Bits {
    pub fn empty(cells: usize, sources: usize) -> Bits {
        let words = sources.div_ceil(64);
        Bits { words, rows: vec![0; cells * words] }
    }

    pub fn cells(&self) -> usize {
        self.rows.len().checked_div(self.words).unwrap_or(0)
    }

    pub fn row(&self, cell: usize) -> &[u64] {
        &self.rows[cell * self.words..][..self.words]
    }

    fn row_mut(&mut self, cell: usize) -> &mut [u64] {
        &mut self.rows[cell * self.words..][..self.words]
    }

    pub fn insert(&mut self, cell: usize, source: usize) {
        self.row_mut(cell)[source / 64] |= 1 << (source % 64);
    }

    pub fn contains(&self, cell: usize, source: usize) -> bool {
        self.row(cell)[source / 64] >> (source % 64) & 1 == 1
    }

    /// The source cells of one cell, in order.
    pub fn members(&self, cell: usize) -> impl Iterator<Item = usize> + '_ {
        self.row(cell).iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(index * 64 + bit)
            })
        })
    }
}

fn unite(into: &mut [u64], from: &[u64]) {
    for (a, b) in into.iter_mut().zip(from) {
        *a |= b;
    }
}

/// Adds to the cells of an output what they depend on through one input. The error says what is wrong with
/// the relation.
pub(super) fn carry(
    relation: &Relation,
    (input, from): (&Grid, &Bits),
    (output, to): (&Grid, &mut Bits),
) -> Result<(), String> {
    if input.dims.count() == 0 || output.dims.count() == 0 {
        return Ok(());
    }
    match relation {
        Relation::Nothing => {}
        Relation::Everything => {
            let mut all = vec![0; from.words];
            (0..input.cells()).for_each(|cell| unite(&mut all, from.row(cell)));
            (0..output.cells()).for_each(|cell| unite(to.row_mut(cell), &all));
        }
        Relation::Same => {
            if input.dims.count() != output.dims.count() {
                return Err(format!("`Same` between {} and {}", input.dims, output.dims));
            }
            let (wide_in, wide_out) = (input.width(), output.width());
            if wide_in == wide_out {
                unite(&mut to.rows, &from.rows);
                return Ok(());
            }
            for cell in 0..output.cells() {
                let (first, last) = (cell * wide_out / wide_in, ((cell + 1) * wide_out - 1) / wide_in);
                (first..=last).for_each(|source| unite(to.row_mut(cell), from.row(source)));
            }
        }
        Relation::Axes(alongs) => axes(alongs, (input, from), (output, to))?,
    }
    Ok(())
}

/// Which coordinates along one axis of the input matter, for each combination of some axes of the output.
struct Picks<'a> {
    axes: Vec<usize>,
    lists: Vec<Cow<'a, [usize]>>,
}

fn axes(
    alongs: &[Along],
    (input, from): (&Grid, &Bits),
    (output, to): (&Grid, &mut Bits),
) -> Result<(), String> {
    if alongs.len() != input.dims.len() {
        return Err(format!("{} entries for the {} axes of the input", alongs.len(), input.dims.len()));
    }
    let mut picks = Vec::new();
    for (axis, along) in alongs.iter().enumerate() {
        let mut pick = picks_of(along, input.dims[axis], output)?;
        if axis >= input.axes {
            // Within a cell it only matters whether there is any.
            for list in &mut pick.lists {
                *list = if list.is_empty() { Cow::Borrowed(&[]) } else { Cow::Borrowed(&[0]) };
            }
        }
        picks.push(pick);
    }
    // Output cells that agree on the axes that matter have the same set: unite once for all of them.
    let matters: Vec<usize> =
        (0..output.axes).filter(|axis| picks.iter().any(|pick| pick.axes.contains(axis))).collect();
    let combinations: usize = matters.iter().map(|&axis| output.dims[axis]).product();
    let strides = input.strides();
    let mut at = [0; MAX_RANK];
    let mut united = Bits { words: from.words, rows: vec![0; combinations * from.words] };
    for combination in 0..combinations {
        decompose(combination, &matters, output, &mut at);
        let lists: Vec<&[usize]> =
            picks.iter().map(|pick| &*pick.lists[compose(&at, &pick.axes, output)]).collect();
        gather(&lists, &strides, 0, from, united.row_mut(combination));
    }
    for cell in 0..output.cells() {
        let at = output.coordinates(cell);
        unite(to.row_mut(cell), united.row(compose(&at, &matters, output)));
    }
    Ok(())
}

/// Unites the cells at all combinations of the listed coordinates.
fn gather(lists: &[&[usize]], strides: &[usize], cell: usize, from: &Bits, into: &mut [u64]) {
    let Some((list, rest)) = lists.split_first() else {
        return unite(into, from.row(cell));
    };
    for &coordinate in *list {
        gather(rest, &strides[1..], cell + coordinate * strides[0], from, into);
    }
}

fn compose(at: &[usize; MAX_RANK], axes: &[usize], grid: &Grid) -> usize {
    axes.iter().fold(0, |index, &axis| index * grid.dims[axis] + at[axis])
}

fn decompose(mut index: usize, axes: &[usize], grid: &Grid, at: &mut [usize; MAX_RANK]) {
    for &axis in axes.iter().rev() {
        at[axis] = index % grid.dims[axis];
        index /= grid.dims[axis];
    }
}

fn picks_of<'a>(along: &'a Along, size: usize, output: &Grid) -> Result<Picks<'a>, String> {
    let axis_of = |axis: usize| match output.dims.get(axis) {
        Some(&size) => Ok(size),
        None => Err(format!("axis {axis} of an output that has {}", output.dims.len())),
    };
    match along {
        Along::All => Ok(Picks { axes: Vec::new(), lists: vec![(0..size).collect()] }),
        Along::Same(axis) => {
            let there = axis_of(*axis)?;
            if size != there && size != 1 {
                return Err(format!("`Same` between axes of {size} and {there}"));
            }
            let lists = (0..there).map(|at| Cow::Owned(vec![at.min(size - 1)])).collect();
            Ok(collapse(vec![*axis], lists, output))
        }
        Along::Shifted { axis, by } => {
            let shifted = |at: usize| at.checked_add_signed(*by).filter(|&at| at < size);
            let lists =
                (0..axis_of(*axis)?).map(|at| Cow::Owned(shifted(at).into_iter().collect())).collect();
            Ok(collapse(vec![*axis], lists, output))
        }
        Along::Listed { axes, lists } => {
            let mut combinations = 1;
            for &axis in axes {
                combinations *= axis_of(axis)?;
            }
            if lists.len() != combinations {
                return Err(format!("{} lists for {combinations} combinations", lists.len()));
            }
            if let Some(&beyond) = lists.iter().flatten().find(|&&coordinate| coordinate >= size) {
                return Err(format!("coordinate {beyond} on an axis of {size}"));
            }
            let lists = lists.iter().map(|list| Cow::Borrowed(list.as_slice())).collect();
            Ok(collapse(axes.clone(), lists, output))
        }
    }
}

/// Axes that lie within the cells of the output cannot select: their lists are united.
fn collapse<'a>(axes: Vec<usize>, lists: Vec<Cow<'a, [usize]>>, output: &Grid) -> Picks<'a> {
    let kept: Vec<usize> = axes.iter().copied().filter(|&axis| axis < output.axes).collect();
    if kept.len() == axes.len() {
        return Picks { axes, lists };
    }
    let combinations: usize = kept.iter().map(|&axis| output.dims[axis]).product();
    let mut united: Vec<Vec<usize>> = vec![Vec::new(); combinations];
    let mut at = [0; MAX_RANK];
    for (index, list) in lists.iter().enumerate() {
        decompose(index, &axes, output, &mut at);
        united[compose(&at, &kept, output)].extend_from_slice(list);
    }
    for list in &mut united {
        list.sort_unstable();
        list.dedup();
    }
    Picks { axes: kept, lists: united.into_iter().map(Cow::Owned).collect() }
}
