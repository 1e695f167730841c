//! Moves q neighbouring elements at a time, a line of an image to a task; one body for both directions.

#![allow(unsafe_code)]

use super::Geometry;
use crate::CpuCall;
use regard_device::Disjoint;
use regard_graph::DType;

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From images to patches.
    Cut,
    /// From patches to images.
    Join,
}

pub fn run(call: &CpuCall<'_>, geometry: Geometry, batch: usize, direction: Direction) {
    // SAFETY: the result is taken once, and overlaps no operand.
    unsafe {
        match call.dtype(0) {
            DType::BF16 => copy(call, geometry, batch, direction, call.bf16(0), call.out_bf16(0)),
            _ => copy(call, geometry, batch, direction, call.f32(0), call.out_f32(0)),
        }
    }
}

fn copy<T: Copy + Send + Sync>(
    call: &CpuCall<'_>,
    geometry: Geometry,
    batch: usize,
    direction: Direction,
    from: &[T],
    to: &mut [T],
) {
    let (to, q) = (Disjoint::new(to), geometry.patch[1]);
    call.rows(batch * geometry.channels * geometry.height, geometry.width, |own, _| {
        let line = own.first();
        let (b, rest) =
            (line / (geometry.channels * geometry.height), line % (geometry.channels * geometry.height));
        let (channel, y) = (rest / geometry.height, rest % geometry.height);
        for x in (0..geometry.width).step_by(q) {
            let (row, place) = geometry.place(channel, y, x);
            let image = line * geometry.width + x;
            let patches = (b * geometry.count() + row) * geometry.row() + place;
            let (source, target) = match direction {
                Direction::Cut => (image, patches),
                Direction::Join => (patches, image),
            };
            // SAFETY: an element of an image and its place among the patches belong to one line, so to one
            // task.
            let into = unsafe { to.range(target..target + q) };
            into.copy_from_slice(&from[source..source + q]);
        }
    });
}
