//! Maxima on a card: a thread, a warp or a block has a window, as it lies and as long as it is.

use super::Window;
use super::backward::outside_of;
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::{Launch, merged};
use regard_device::cuda::{Address, Arguments, Grid, Source};
use regard_graph::{Dims, MAX_RANK};

/// Dense windows up to this length have a warp, longer ones a block.
const NARROW: usize = 1024;
/// From so many windows on, each that is not dense has a thread.
const MANY: usize = 256;

fn source(x: &str, y: &str) -> Source {
    Source::new("reduce_max/kernel.cu", include_str!("kernel.cu")).define("X", x).define("Y", y)
}

/// Rank, dimensions and strides as `kernel.cu` reads them, the innermost first.
fn walk(shape: &[usize], strides: &[usize]) -> [u32; 1 + 2 * MAX_RANK] {
    let (dims, strides) = merged(shape, &[&strides[..shape.len()]]);
    let mut walk = [0; 1 + 2 * MAX_RANK];
    walk[0] = dims.len() as u32;
    for (i, (dim, stride)) in dims.iter().rev().zip(strides[0].iter().rev()).enumerate() {
        (walk[1 + i], walk[1 + MAX_RANK + i]) = (*dim as u32, *stride as u32);
    }
    walk
}

pub fn forward(call: &CudaCall<'_>) -> CudaList {
    let (x, out) = (call.call.inputs[0], call.call.outputs[0]);
    let window = Window::new(x, out);
    let (windows, count) = (out.count(), window.dims.count());
    let [most, index] = [0, 1].map(|output| match call.used(output) {
        true => call.outputs[output],
        false => Address(0),
    });
    let (kernel, grid) = match () {
        _ if window.contiguous && count <= NARROW => {
            ("max_by_warp", Grid::line(windows.div_ceil(8) as u32, 256))
        }
        _ if window.contiguous || windows < MANY => ("max_by_block", Grid::line(windows as u32, 256)),
        _ => ("max_by_thread", CudaCall::threads(windows)),
    };
    let arguments = Arguments::new().with_each([most, index, call.inputs[0]]);
    let arguments = arguments.with(walk(&out, &window.strides)).with(walk(&window.dims, &window.strides));
    let arguments = arguments.with_each([windows as u32, count as u32]);
    let source = source(call.type_of(0), "f32");
    let mut list = CudaList::new();
    list.launch(Launch { source, kernel, grid, arguments });
    list
}

pub fn backward(call: &CudaCall<'_>) -> CudaList {
    let (dx, dy) = (call.call.outputs[0], call.call.inputs[0]);
    let window = Window::new(dx, dy);
    let count = window.dims.count();
    // Along axes of size 1 nothing is stepped over: of each axis one of the two walks has a stride.
    let along = |dims: Dims| {
        let mut strides = dims.strides();
        (0..dims.len()).filter(|&axis| dims[axis] == 1).for_each(|axis| strides[axis] = 0);
        walk(&dx, &strides)
    };
    let arguments = Arguments::new().with_each([call.outputs[0], call.inputs[0], call.inputs[1]]);
    let arguments = arguments.with_each([call.fault, call.stop]).with(along(dy)).with(along(window.dims));
    let arguments = arguments.with_each([dx.count() as u32, count as u32]);
    let source = source(call.type_of(0), call.out_type_of(0));
    let mut list = CudaList::new();
    let grid = CudaCall::threads(dx.count());
    list.launch(Launch { source, kernel: "max_gradient", grid, arguments });
    list.on_fault(move |j, index| outside_of(j as usize, index.into(), count));
    list
}
