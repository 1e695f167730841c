//! Views of matrices in memory: numbers, f32 or bf16, and strides.

use crate::cpu::convert::widen;
use half::bf16;

/// Numbers of either width, for reading.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// 32 bits.
    F32(&'a [f32]),
    /// 16 bits.
    Bf16(&'a [bf16]),
}

impl<'a> Data<'a> {
    /// Little-endian f32 as they lie in a file, if they are aligned and this machine has them so.
    pub fn of_f32_bytes(bytes: &'a [u8]) -> Option<Data<'a>> {
        // SAFETY: every bit pattern is an f32.
        match unsafe { bytes.align_to::<f32>() } {
            ([], numbers, []) if cfg!(target_endian = "little") => Some(Data::F32(numbers)),
            _ => None,
        }
    }

    /// The same of bf16.
    pub fn of_bf16_bytes(bytes: &'a [u8]) -> Option<Data<'a>> {
        // SAFETY: every bit pattern is a bf16.
        match unsafe { bytes.align_to::<bf16>() } {
            ([], numbers, []) if cfg!(target_endian = "little") => Some(Data::Bf16(numbers)),
            _ => None,
        }
    }

    /// The elements from `first` on.
    #[inline]
    pub(super) fn after(self, first: usize) -> Data<'a> {
        match self {
            Data::F32(x) => Data::F32(&x[first..]),
            Data::Bf16(x) => Data::Bf16(&x[first..]),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::F32(x) => x.len(),
            Data::Bf16(x) => x.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<&'a [f32]> for Data<'a> {
    fn from(x: &'a [f32]) -> Self {
        Data::F32(x)
    }
}

impl<'a> From<&'a [bf16]> for Data<'a> {
    fn from(x: &'a [bf16]) -> Self {
        Data::Bf16(x)
    }
}

/// Numbers of either width, for writing.
#[derive(Debug)]
pub enum DataMut<'a> {
    /// 32 bits.
    F32(&'a mut [f32]),
    /// 16 bits.
    Bf16(&'a mut [bf16]),
}

impl DataMut<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            DataMut::F32(x) => x.len(),
            DataMut::Bf16(x) => x.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<&'a mut [f32]> for DataMut<'a> {
    fn from(x: &'a mut [f32]) -> Self {
        DataMut::F32(x)
    }
}

impl<'a> From<&'a mut [bf16]> for DataMut<'a> {
    fn from(x: &'a mut [bf16]) -> Self {
        DataMut::Bf16(x)
    }
}

/// A matrix for reading: element (i, j) is at `i * row_stride + j * column_stride`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// The numbers.
    pub data: Data<'a>,
    /// From one row to the next, in elements.
    pub row_stride: usize,
    /// From one column to the next, in elements.
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Rows one after the other, `row_stride` elements apart.
    pub fn rows(data: impl Into<Data<'a>>, row_stride: usize) -> Self {
        Matrix { data: data.into(), row_stride, column_stride: 1 }
    }

    /// The transpose of the matrix whose rows are `row_stride` elements apart.
    pub fn transposed(data: impl Into<Data<'a>>, row_stride: usize) -> Self {
        Matrix { data: data.into(), row_stride: 1, column_stride: row_stride }
    }

    /// One element.
    #[inline]
    pub(super) fn at(&self, i: usize, j: usize) -> f32 {
        let place = i * self.row_stride + j * self.column_stride;
        match self.data {
            Data::F32(x) => x[place],
            Data::Bf16(x) => widen(x[place]),
        }
    }

    /// Panics unless all of a `rows` by `columns` matrix lies inside the data.
    pub(super) fn check(&self, rows: usize, columns: usize, what: &str) {
        let last = reach(rows, self.row_stride, columns, self.column_stride);
        assert!(
            last <= self.data.len(),
            "{what}: {rows} x {columns} with strides {} and {} needs {last} elements, got {}",
            self.row_stride,
            self.column_stride,
            self.data.len()
        );
    }
}

/// A matrix for writing, its rows contiguous and `row_stride` elements apart.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    /// The numbers.
    pub data: DataMut<'a>,
    /// From one row to the next, in elements.
    pub row_stride: usize,
}

impl<'a> MatrixMut<'a> {
    /// Rows one after the other, `row_stride` elements apart.
    pub fn rows(data: impl Into<DataMut<'a>>, row_stride: usize) -> Self {
        MatrixMut { data: data.into(), row_stride }
    }

    /// Panics unless a `rows` by `columns` matrix lies inside the data and its rows do not overlap.
    pub(super) fn check(&self, rows: usize, columns: usize, what: &str) {
        let last = reach(rows, self.row_stride, columns, 1);
        assert!(
            last <= self.data.len() && (rows <= 1 || self.row_stride >= columns),
            "{what}: {rows} x {columns} with row stride {} needs {last} elements, got {}",
            self.row_stride,
            self.data.len()
        );
    }
}

/// Elements up to and with the last one; `usize::MAX` where that does not fit a word.
fn reach(rows: usize, row_stride: usize, columns: usize, column_stride: usize) -> usize {
    if rows == 0 || columns == 0 {
        return 0;
    }
    let down = (rows - 1).checked_mul(row_stride);
    let across = (columns - 1).checked_mul(column_stride);
    let last = down.zip(across).and_then(|(down, across)| down.checked_add(across));
    last.map_or(usize::MAX, |last| last.saturating_add(1))
}
