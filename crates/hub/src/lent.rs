//! Weights that are only read, straight from the files: what a store is lent of a model that was opened.

use regard_data::names::{lies, part};
use regard_data::{Checkpoint, DType as Stored, Import, Map, Tensor};
use regard_graph::DType;
use regard_ops::Lent;
use std::ops::Range;
use std::sync::Arc;

/// One of our tensors where it lies in the files, and how it becomes ours. Both were compared with each other
/// before.
pub(crate) struct LentTensor {
    pub checkpoint: Arc<Checkpoint>,
    pub line: Import,
}

impl LentTensor {
    fn tensor(&self) -> Option<Tensor<'_>> {
        self.checkpoint.find(&self.line.theirs)
    }
}

impl Lent for LentTensor {
    fn read(&self, range: Range<usize>, out: &mut [f32]) {
        let Some(tensor) = self.tensor() else { return };
        part(&self.line, &tensor, range, out)
            .unwrap_or_else(|_| unreachable!("the table was compared with the files"));
    }

    fn lies(&self) -> Option<(DType, &[u8])> {
        let tensor = self.tensor()?;
        let dtype = match tensor.dtype {
            Stored::F32 => DType::F32,
            Stored::BF16 => DType::BF16,
            _ => return None,
        };
        Some((dtype, lies(&self.line, &tensor)?))
    }

    fn passed(&self, range: Range<usize>) {
        let Some(tensor) = self.tensor() else { return };
        let (numbers, width) = tensor.dtype.block();
        let bytes = match &self.line.map {
            Map::Same | Map::Reshaped => range.start / numbers * width..range.end.div_ceil(numbers) * width,
            // What lies elsewhere in theirs goes as a whole.
            _ => 0..tensor.bytes.len(),
        };
        self.checkpoint.passed(&self.line.theirs, bytes);
    }
}
