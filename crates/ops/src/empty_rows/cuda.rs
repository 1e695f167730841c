//! Counts on a card: each block what it sees, added to the result as an integer.

use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Arguments, Grid, Source};

pub fn list(call: &CudaCall<'_>) -> CudaList {
    let count = call.count(0);
    let mut list = CudaList::new();
    // Sums of integers do not depend on their order.
    list.clear(call.outputs[0], size_of::<i32>());
    let grid = Grid::line(count.div_ceil(256).min(1024) as u32, 256);
    let arguments = Arguments::new().with(call.outputs[0]).with(call.inputs[0]).with(count as u32);
    let source = Source::new("empty_rows/kernel.cu", include_str!("kernel.cu"));
    list.launch(Launch { source, kernel: "count_empty", grid, arguments });
    list
}
