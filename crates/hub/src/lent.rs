//! Weights that are only read, straight from the files: what a store is lent of a model that was opened.

use regard_data::names::{lies, one};
use regard_data::{Checkpoint, DType as Stored, Import, Tensor};
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
        match lies(&self.line, &tensor) {
            Some(bytes) => {
                let width = tensor.dtype.bytes();
                let shape = [range.len()];
                let part =
                    Tensor { shape: &shape, bytes: &bytes[range.start * width..range.end * width], ..tensor };
                part.to_f32(out).unwrap_or_else(|_| unreachable!("the room is as long as the range"));
            }
            // What is turned on the way is turned as a whole.
            None => {
                let all = one(&self.line, &tensor);
                let all = all.unwrap_or_else(|_| unreachable!("the table was compared with the files"));
                out.copy_from_slice(&all[range]);
            }
        }
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

    fn passed(&self) {
        self.checkpoint.passed(&self.line.theirs);
    }
}
