//! Patches are a box of six dimensions that lies in two ways.

use super::Geometry;
use super::cpu::Direction;
use crate::{CudaCall, CudaList};

pub fn list(call: &CudaCall<'_>, geometry: Geometry, batch: usize, direction: Direction) -> CudaList {
    let Geometry { channels, height, width, patch: [p, q] } = geometry;
    // Of each dimension: its size, and how far apart its neighbours lie in images and among patches.
    let image = [height * width, p * width, width, q, 1];
    let [channel, down, y, across, x] = [
        (channels, image[0], p * q),
        (height / p, image[1], width / q * geometry.row()),
        (p, image[2], q),
        (width / q, image[3], geometry.row()),
        (q, image[4], 1),
    ];
    let example = (batch, channels * height * width, geometry.count() * geometry.row());
    // Results are written in their own order.
    let all = match direction {
        Direction::Cut => [example, down, across, channel, y, x],
        Direction::Join => [example, channel, down, y, across, x],
    };
    let (shape, images, patches) = (all.map(|d| d.0), all.map(|d| d.1), all.map(|d| d.2));
    let (to, from) = match direction {
        Direction::Cut => (&patches, &images),
        Direction::Join => (&images, &patches),
    };
    let mut list = CudaList::new();
    list.movement(&shape, call.bytes(0), (call.outputs[0], to), (call.inputs[0], from));
    list
}
