//! Panels of the CPU's products, made from a weight in memory or straight from where it was lent: then in
//! parts, each of which is passed before the next one is read, so that a large weight is never there twice.

use crate::store::Numbered;
use regard_device::{Data, Level, Matrix, PANEL, Pool, pack_b, packed_b_bytes};
use regard_graph::{DType, Dims};
use regard_ops::{CopyKind, Lent};
use std::ops::Range;

/// Numbers of a part: some megabytes.
const PART: usize = 1 << 21;

/// Bytes of a copy of a weight of these sizes, where there is one.
pub(crate) fn copy_bytes(kind: CopyKind, dims: Dims) -> Option<usize> {
    let CopyKind::Panels { transposed, storage } = kind else { return None };
    let (rows, columns) = (dims.rows(), dims.last_size());
    let (k, n) = if transposed { (columns, rows) } else { (rows, columns) };
    Some(packed_b_bytes(k, n, storage))
}

/// Makes a copy of a weight. The product contracts the matrix's rows, or its columns when transposed.
pub(crate) fn make_copy(
    kind: CopyKind,
    dims: Dims,
    numbers: Numbered<'_>,
    out: &mut [u8],
    pool: &Pool,
    level: Level,
) {
    let CopyKind::Panels { transposed, storage } = kind else { return };
    let (rows, columns) = (dims.rows(), dims.last_size());
    let lent = match numbers {
        Numbered::Held(numbers) if transposed => {
            return pack_b(pool, level, Matrix::transposed(numbers, columns), columns, rows, storage, out);
        }
        Numbered::Held(numbers) => {
            return pack_b(pool, level, Matrix::rows(numbers, columns), rows, columns, storage, out);
        }
        Numbered::Lent(lent) => lent,
    };
    let mut read = Vec::new();
    if !transposed {
        let data = data_of(lent, 0..rows * columns, &mut read);
        pack_b(pool, level, Matrix::rows(data, columns), rows, columns, storage, out);
        return lent.passed(0..rows * columns);
    }
    // A panel is so many whole rows, and panels lie one after the other.
    let tall = (PART / columns.max(1) / PANEL).max(1) * PANEL;
    let each = packed_b_bytes(columns, tall, storage);
    for (part, first) in (0..rows).step_by(tall).enumerate() {
        let count = tall.min(rows - first);
        let range = first * columns..(first + count) * columns;
        let data = data_of(lent, range.clone(), &mut read);
        let out = &mut out[part * each..];
        pack_b(pool, level, Matrix::transposed(data, columns), columns, count, storage, out);
        lent.passed(range);
    }
}

/// Numbers of a range as they were lent: where they lie if that goes, else in `read`.
fn data_of<'a>(lent: &'a dyn Lent, range: Range<usize>, read: &'a mut Vec<f32>) -> Data<'a> {
    let lies = lent.lies().and_then(|(dtype, bytes)| {
        let bytes = bytes.get(range.start * dtype.bytes()..range.end * dtype.bytes())?;
        match dtype {
            DType::F32 => Data::of_f32_bytes(bytes),
            DType::BF16 => Data::of_bf16_bytes(bytes),
            DType::I32 | DType::Bool => None,
        }
    });
    lies.unwrap_or_else(|| {
        read.resize(range.len(), 0.0);
        lent.read(range, read);
        Data::F32(read)
    })
}
