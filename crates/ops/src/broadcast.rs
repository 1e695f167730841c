//! Broadcasting: shapes are aligned at the last axis; an axis of size 1, or one that is missing, is repeated.

use crate::Part;
use regard_graph::{Along, Dim, Dims, Error, MAX_RANK, Result, Shape};

/// The shape that two shapes broadcast to.
pub fn broadcast_shape(op: &str, names: [&str; 2], a: &Shape, b: &Shape) -> Result<Shape> {
    let rank = a.len().max(b.len());
    let axis_of = |shape: &Shape, axis: usize| {
        (axis + shape.len()).checked_sub(rank).map_or_else(|| Dim::from(1), |at| shape[at].clone())
    };
    let mut dims = Vec::new();
    for axis in 0..rank {
        let (x, y) = (axis_of(a, axis), axis_of(b, axis));
        dims.push(match (x.fixed(), y.fixed()) {
            _ if x == y => x,
            (Some(1), _) => y,
            (_, Some(1)) => x,
            _ => {
                return Err(Error::Shape {
                    op: op.into(),
                    operand: names[1].into(),
                    got: b.to_string(),
                    expected: format!("sizes equal to those of {a}, or 1"),
                    origin: format!("; {} is {a}, aligned at the last axis", names[0]),
                });
            }
        });
    }
    Ok(Shape::new(dims))
}

/// How an operand is walked while the result is: strides of 0 along repeated axes.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    strides: [usize; MAX_RANK],
    rank: usize,
    out: Dims,
}

impl Walk {
    /// The walk of an operand through a result.
    pub fn new(operand: Dims, out: Dims) -> Self {
        let own = operand.strides();
        let mut strides = [0; MAX_RANK];
        for axis in 0..operand.len() {
            if operand[axis] != 1 {
                strides[axis + out.len() - operand.len()] = own[axis];
            }
        }
        Walk { strides, rank: out.len(), out }
    }

    /// How far apart neighbours along each axis of the result lie in the operand; 0 where it is repeated.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.rank]
    }

    /// The operand's flat index for the result's flat index.
    pub fn flat(&self, flat: usize) -> usize {
        let at = self.out.coordinates(flat);
        (0..self.rank).map(|axis| at[axis] * self.strides[axis]).sum()
    }

    /// Loads part of one row of the result's shape from the operand: `at` is the operand's flat index for the
    /// row's first element, `from` the column where the part begins.
    pub fn load(&self, part: &Part<'_>, input: usize, at: usize, from: usize, into: &mut [f32]) {
        if self.rank > 0 && self.strides[self.rank - 1] == 1 {
            let start = at + from;
            part.load(input, start..start + into.len(), into);
        } else {
            let mut one = [0.0];
            part.load(input, at..at + 1, &mut one);
            into.fill(one[0]);
        }
    }

    /// The same for a slice of any type.
    pub fn pick<T: Copy>(&self, data: &[T], at: usize, from: usize, into: &mut [T]) {
        if self.rank > 0 && self.strides[self.rank - 1] == 1 {
            into.copy_from_slice(&data[at + from..at + from + into.len()]);
        } else {
            into.fill(data[at]);
        }
    }
}

/// Which coordinates of an operand matter to an element of the result.
pub fn broadcast_reach(operand: Dims, out: Dims) -> Vec<Along> {
    let missing = out.len() - operand.len();
    let along = |axis: usize| {
        if operand[axis] == out[axis + missing] { Along::Same(axis + missing) } else { Along::All }
    };
    (0..operand.len()).map(along).collect()
}

/// The relation the other way: an element of the small shape depends on all that repeat it.
pub fn reduce_reach(operand: Dims, out: Dims) -> Vec<Along> {
    let missing = operand.len() - out.len();
    let along = |axis: usize| match axis.checked_sub(missing) {
        Some(at) if out[at] == operand[axis] => Along::Same(at),
        _ => Along::All,
    };
    (0..operand.len()).map(along).collect()
}
