//! Rows moved by index: the check of indices, the relations, and the sum of rows that meet at one index.
//! Shared by embedding, add_position, gather and scatter_add.

pub mod cpu;
pub mod cuda;

use crate::Fault;
use regard_graph::{Along, Dims};

/// What indices point into.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The op that asks.
    pub op: &'static str,
    /// The operand that holds the indices.
    pub operand: &'static str,
    /// The letter of the axis that they point into.
    pub letter: &'static str,
    /// Its size.
    pub size: usize,
    /// What to do about an index outside.
    pub advice: &'static str,
}

/// Finds the first index outside of its axis.
pub fn check_indices(
    target: Target,
    dims: Dims,
    indices: impl Iterator<Item = i64>,
) -> std::result::Result<(), Fault> {
    let outside =
        |&(_, index): &(usize, i64)| usize::try_from(index).map_or(true, |index| index >= target.size);
    indices.enumerate().find(outside).map_or(Ok(()), |(at, index)| Err(outside_of(target, dims, at, index)))
}

/// What to say of an index outside of its axis, at a place of the operand that holds the indices.
pub fn outside_of(target: Target, dims: Dims, at: usize, index: i64) -> Fault {
    let place = Dims::new(&dims.coordinates(at)[..dims.len()]).map_or(String::new(), |at| at.to_string());
    let Target { op, operand, letter, size, advice } = target;
    Fault { op, what: format!("{operand}{place} is {index}, outside of {letter}={size}"), advice }
}

/// For each index, the one coordinate that it points to; `None` where the indices are not known.
pub fn pointed(indices: Option<&[i64]>, size: usize) -> Option<Vec<Vec<usize>>> {
    let inside =
        |&index: &i64| usize::try_from(index).ok().filter(|&index| index < size).into_iter().collect();
    indices.map(|indices| indices.iter().map(inside).collect())
}

/// For each coordinate of the axis, the places whose index points to it, group by group.
pub fn pointing(indices: Option<&[i64]>, groups: usize, size: usize) -> Option<Vec<Vec<usize>>> {
    let indices = indices?;
    let count = indices.len() / groups.max(1);
    let mut lists = vec![Vec::new(); groups * size];
    for (place, &index) in indices.iter().enumerate() {
        if let Some(index) = usize::try_from(index).ok().filter(|&index| index < size) {
            lists[place / count * size + index].push(place % count);
        }
    }
    Some(lists)
}

/// Lists that depend on some axes of the output, or every coordinate where nothing is known.
pub fn listed(axes: &[usize], lists: Option<Vec<Vec<usize>>>) -> Along {
    lists.map_or(Along::All, |lists| Along::Listed { axes: axes.to_vec(), lists })
}
