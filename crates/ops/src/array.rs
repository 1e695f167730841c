//! Dense f64 arrays: what the reference engine computes with, and what it gives back. Integers and booleans
//! are held as f64 too (every i32 is exact), so that a specification is plain arithmetic.

use half::bf16;
use regard_graph::Dims;
use std::ops::{Index, IndexMut};

/// A dense, row-major array of f64.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    dims: Dims,
    data: Vec<f64>,
}

impl Array {
    /// From its shape and elements; `None` if their number differs or there are too many axes.
    pub fn new(dims: &[usize], data: Vec<f64>) -> Option<Self> {
        let dims = Dims::new(dims)?;
        (dims.count() == data.len()).then_some(Array { dims, data })
    }

    /// All zeros.
    pub fn zeros(dims: Dims) -> Self {
        Array { dims, data: vec![0.0; dims.count()] }
    }

    /// A single number.
    pub fn scalar(number: f64) -> Self {
        Array { dims: Dims::new(&[]).unwrap_or_else(|| unreachable!()), data: vec![number] }
    }

    /// The shape.
    pub fn dims(&self) -> Dims {
        self.dims
    }

    /// The elements, row-major.
    pub fn data(&self) -> &[f64] {
        &self.data
    }

    /// The elements, row-major, to be written.
    pub fn data_mut(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// Row `i` of the array seen as rows of its last axis.
    pub fn row(&self, i: usize) -> &[f64] {
        let width = self.dims.last_size();
        &self.data[i * width..(i + 1) * width]
    }

    /// Row `i`, to be written.
    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        let width = self.dims.last_size();
        &mut self.data[i * width..(i + 1) * width]
    }

    /// The same elements under another shape of equal count.
    pub fn reshaped(&self, dims: Dims) -> Array {
        assert_eq!(self.dims.count(), dims.count(), "reshape {} to {}", self.dims, dims);
        Array { dims, data: self.data.clone() }
    }

    /// Each element rounded to bf16.
    pub fn rounded(&self) -> Array {
        Array { dims: self.dims, data: self.data.iter().map(|&x| round_bf16(x)).collect() }
    }

    fn flat(&self, at: &[usize]) -> usize {
        debug_assert_eq!(at.len(), self.dims.len());
        at.iter().zip(self.dims.iter()).fold(0, |flat, (&i, &size)| {
            debug_assert!(i < size, "index {at:?} in {}", self.dims);
            flat * size + i
        })
    }
}

impl<const N: usize> Index<[usize; N]> for Array {
    type Output = f64;
    fn index(&self, at: [usize; N]) -> &f64 {
        &self.data[self.flat(&at)]
    }
}

impl<const N: usize> IndexMut<[usize; N]> for Array {
    fn index_mut(&mut self, at: [usize; N]) -> &mut f64 {
        let flat = self.flat(&at);
        &mut self.data[flat]
    }
}

/// A number as bf16 holds it. It goes through f32 first, as the values of the fast engines do.
pub fn round_bf16(x: f64) -> f64 {
    bf16::from_f32(x as f32).to_f64()
}
