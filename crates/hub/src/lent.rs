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
                // Numbers come in blocks, most of them of one: whole blocks are read, and what is asked for is
                // taken out of them.
                let (numbers, width) = tensor.dtype.block();
                let blocks = range.start / numbers..range.end.div_ceil(numbers);
                let shape = [blocks.len() * numbers];
                let part = Tensor {
                    shape: &shape,
                    bytes: &bytes[blocks.start * width..blocks.end * width],
                    ..tensor
                };
                let read = |room: &mut [f32]| {
                    part.to_f32(room).unwrap_or_else(|_| unreachable!("the room is as long as the blocks"));
                };
                if shape[0] == out.len() {
                    read(out);
                } else {
                    let mut whole = vec![0.0; shape[0]];
                    read(&mut whole);
                    out.copy_from_slice(&whole[range.start - blocks.start * numbers..][..range.len()]);
                }
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
