//! Faults that sizes alone show: the card is told, so that they reach whoever runs the program as the others
//! do.

use super::{CudaCall, CudaList};
use crate::Fault;
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Arguments, Grid, Source};

impl CudaList {
    /// Says this fault in every run, and stops what outlives the run from being changed by what follows.
    pub(crate) fn tell(&mut self, call: &CudaCall<'_>, fault: Fault) {
        self.launch(Launch {
            source: Source::new("cuda/fault.cu", include_str!("fault.cu")),
            kernel: "tell",
            grid: Grid::line(1, 32),
            arguments: Arguments::new().with(call.fault).with(call.stop),
        });
        self.on_fault(move |_, _| fault.clone());
    }
}
