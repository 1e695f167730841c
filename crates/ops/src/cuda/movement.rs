//! Numbers that only move: joining, cutting, slices, patches, turned axes.

use super::CudaList;
use regard_device::cuda::Address;
use regard_device::cuda::kernels::movement::{Moved, Movement};

impl CudaList {
    /// Copies a box of numbers of so many bytes each: where it goes and where it comes from, each with the
    /// distances between neighbours along every dimension.
    pub fn movement(
        &mut self,
        shape: &[usize],
        bytes: usize,
        to: (Address, &[usize]),
        from: (Address, &[usize]),
    ) {
        let rank = shape.len();
        let sides = ((to.0, &to.1[..rank]), (from.0, &from.1[..rank]));
        match (Movement { shape, bytes, to: sides.0, from: sides.1 }).plan() {
            Moved::Nothing => {}
            Moved::Bytes(bytes) => self.copy(to.0, from.0, bytes),
            Moved::Launch(launch) => self.launch(launch),
        }
    }
}
