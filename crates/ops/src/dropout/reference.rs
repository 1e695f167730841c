//! The specification of dropout: one draw for each element.

use super::{Dropout, place};
use crate::{ReferenceCall, stream_of};

pub fn run(op: &Dropout, call: &mut ReferenceCall<'_>) {
    let x = call.inputs[0];
    let random: Vec<i32> = call.inputs[1].data().iter().map(|&x| x as i32).collect();
    let (stream, first) = stream_of(&random, &op.stream);
    let (dims, rest) = (x.dims(), Dropout::rest(&x.dims()));
    let width = dims.last_size();
    for i in 0..dims.count() {
        let (row, channel) = (i / width, i % width);
        let position = call.inputs.get(2);
        let given = position.map(|position| |flat: usize| position.data()[flat] as i32);
        let (example, at) = place(&dims, rest, row, given);
        let bits = stream.bits(first.wrapping_add(example), at, channel as u32);
        let kept = u64::from(bits) >= op.threshold();
        call.outputs[0].data_mut()[i] = if kept { x.data()[i] * op.scale() } else { 0.0 };
        call.count_flops(2);
    }
}
