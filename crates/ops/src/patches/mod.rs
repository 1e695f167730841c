//! Non-overlapping patches of images as rows, and back: image `[B Ch Hh Ww]` ↔ `[B P K]` with P =
//! (Hh/p)·(Ww/q) patches, row by row, and K = Ch·p·q numbers in each, in the order (channel, y, x). A linear
//! layer on the rows equals a convolution of stride (p, q) with PyTorch's weight layout.

mod cpu;
mod cuda;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// Cuts images into patches.
#[derive(Clone, Copy, Debug)]
pub struct Patches {
    /// Height p and width q of a patch.
    pub patch: [usize; 2],
}

/// Puts patches together to images.
#[derive(Clone, Debug)]
pub struct JoinPatches {
    /// Height p and width q of a patch.
    pub patch: [usize; 2],
    /// Channels Ch, height Hh and width Ww of the images.
    pub image: [Dim; 3],
}

/// Records movements between images and patches.
pub trait PatchesOps {
    /// Cuts images into patches of height p and width q. image `[B Ch Hh Ww]` → `[B P K]`.
    fn patches(&mut self, image: Var, patch: [usize; 2]) -> Result<Var>;

    /// Puts patches together: x `[B P K]` → `[B Ch Hh Ww]`, the inverse of `patches`.
    fn join_patches(&mut self, x: Var, patch: [usize; 2], image: [Dim; 3]) -> Result<Var>;
}

impl PatchesOps for Graph {
    fn patches(&mut self, image: Var, patch: [usize; 2]) -> Result<Var> {
        self.apply_one(Patches { patch }, &[image])
    }

    fn join_patches(&mut self, x: Var, patch: [usize; 2], image: [Dim; 3]) -> Result<Var> {
        self.apply_one(JoinPatches { patch, image }, &[x])
    }
}

/// P and K of images with these channels, height and width.
fn rows_of(op: &str, [p, q]: [usize; 2], image: [&Dim; 3]) -> Result<[Dim; 2]> {
    let [channels, height, width] = image;
    let (Some(down), Some(across)) = (height.divided_by(&p.into()), width.divided_by(&q.into())) else {
        return Err(Error::invalid(
            op,
            format!("images of Hh={height} by Ww={width} cannot be cut into patches of {p} by {q}"),
            "resize or pad the images so that the patch divides them",
        ));
    };
    Ok([down.times(&across), channels.times(&p.saturating_mul(q).into())])
}

/// The sizes of one call.
#[derive(Clone, Copy)]
struct Geometry {
    channels: usize,
    height: usize,
    width: usize,
    patch: [usize; 2],
}

impl Geometry {
    fn new(image: Dims, patch: [usize; 2]) -> Self {
        Geometry { channels: image[1], height: image[2], width: image[3], patch }
    }

    /// The patch and the place in it of an element of an image.
    fn place(&self, channel: usize, y: usize, x: usize) -> (usize, usize) {
        let [p, q] = self.patch;
        (y / p * (self.width / q) + x / q, (channel * p + y % p) * q + x % q)
    }

    /// Numbers of one patch.
    fn row(&self) -> usize {
        self.channels * self.patch[0] * self.patch[1]
    }

    /// Patches of one image.
    fn count(&self) -> usize {
        (self.height / self.patch[0]) * (self.width / self.patch[1])
    }

    /// Calls `pair(image's flat index, patches' flat index)` for every element of a batch.
    fn each(&self, batch: usize, mut pair: impl FnMut(usize, usize)) {
        for b in 0..batch {
            for channel in 0..self.channels {
                for y in 0..self.height {
                    for x in 0..self.width {
                        let (row, place) = self.place(channel, y, x);
                        let image = ((b * self.channels + channel) * self.height + y) * self.width + x;
                        pair(image, (b * self.count() + row) * self.row() + place);
                    }
                }
            }
        }
    }
}

impl Op for Patches {
    fn name(&self) -> &'static str {
        "patches"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("patch", format!("{} by {}", self.patch[0], self.patch[1]))]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["image"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("patches", "image", inputs[0].dtype)?;
        let mut letters = Letters::new("patches");
        letters.bind("image", &inputs[0].shape, "B Ch Hh Ww")?;
        let shape = &inputs[0].shape;
        let [count, row] = rows_of("patches", self.patch, [&shape[1], &shape[2], &shape[3]])?;
        Ok(vec![Fact::new(shape![&shape[0], count, row], inputs[0].dtype)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        // Every element moved to one place; its gradient moves back.
        let shape = g.shape(tape.inputs[0]).clone();
        let image = [shape[1].clone(), shape[2].clone(), shape[3].clone()];
        Ok(vec![Some(g.join_patches(dy, self.patch, image)?)])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        let geometry = Geometry::new(call.inputs[0], self.patch);
        let [p, q] = self.patch;
        let across = geometry.width / q;
        let places = || (0..geometry.count()).flat_map(|row| (0..geometry.row()).map(move |k| (row, k)));
        let channels = (0..geometry.row()).map(|k| vec![k / (p * q)]).collect();
        let ys = places().map(|(row, k)| vec![row / across * p + k / q % p]).collect();
        let xs = places().map(|(row, k)| vec![row % across * q + k % q]).collect();
        Relation::Axes(vec![
            Along::Same(0),
            Along::Listed { axes: vec![2], lists: channels },
            Along::Listed { axes: vec![1, 2], lists: ys },
            Along::Listed { axes: vec![1, 2], lists: xs },
        ])
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::own(call, output).with(0, 0, 0)
    }
}

impl Kernels for Patches {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let image = call.inputs[0];
        let out = call.outputs[0].data_mut();
        Geometry::new(image.dims(), self.patch)
            .each(image.dims()[0], |from, to| out[to] = image.data()[from]);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(call, Geometry::new(call.dims(0), self.patch), call.dims(0)[0], cpu::Direction::Cut);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        let image = call.call.inputs[0];
        Ok(cuda::list(call, Geometry::new(image, self.patch), image[0], cpu::Direction::Cut))
    }
}

impl Op for JoinPatches {
    fn name(&self) -> &'static str {
        "join_patches"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("patch", format!("{} by {}", self.patch[0], self.patch[1]))]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("join_patches", "x", inputs[0].dtype)?;
        let [channels, height, width] = &self.image;
        let [count, row] = rows_of("join_patches", self.patch, [channels, height, width])?;
        let mut letters = Letters::new("join_patches");
        letters.bind("image", &shape![count, row], "P K")?;
        letters.bind("x", &inputs[0].shape, "B P K")?;
        Ok(vec![Fact::new(shape![&inputs[0].shape[0], channels, height, width], inputs[0].dtype)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        Ok(vec![Some(g.patches(dy, self.patch)?)])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        let geometry = Geometry::new(call.outputs[0], self.patch);
        let (height, width) = (geometry.height, geometry.width);
        let places = |channel: usize| {
            (0..height).flat_map(move |y| (0..width).map(move |x| geometry.place(channel, y, x)))
        };
        let rows = places(0).map(|(row, _)| vec![row]).collect();
        let within = (0..geometry.channels).flat_map(places).map(|(_, place)| vec![place]).collect();
        Relation::Axes(vec![
            Along::Same(0),
            Along::Listed { axes: vec![2, 3], lists: rows },
            Along::Listed { axes: vec![1, 2, 3], lists: within },
        ])
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::own(call, output).with(0, 0, 0)
    }
}

impl Kernels for JoinPatches {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0];
        let geometry = Geometry::new(call.outputs[0].dims(), self.patch);
        let out = call.outputs[0].data_mut();
        geometry.each(x.dims()[0], |to, from| out[to] = x.data()[from]);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let geometry = Geometry::new(call.out_dims(0), self.patch);
        cpu::run(call, geometry, call.out_dims(0)[0], cpu::Direction::Join);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        let image = call.call.outputs[0];
        Ok(cuda::list(call, Geometry::new(image, self.patch), image[0], cpu::Direction::Join))
    }
}
