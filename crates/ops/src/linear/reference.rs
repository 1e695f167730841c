//! The specification of the product with a weight.

use super::fused::FusedLinear;
use super::{WeightLayout, activation};
use crate::ReferenceCall;
use crate::norm::statistics;

pub fn run(op: &FusedLinear, call: &mut ReferenceCall<'_>) {
    let linear = op.linear();
    let (x, weight) = (call.operand(0, linear.precision), call.operand(1, linear.precision));
    let (n, k) = linear.layout.sizes(weight.dims());
    for row in 0..x.dims().rows() {
        for j in 0..n {
            let mut z = 0.0;
            for i in 0..k {
                z += x.data()[row * k + i]
                    * match linear.layout {
                        WeightLayout::OutIn => weight[[j, i]],
                        WeightLayout::InOut => weight[[i, j]],
                    };
            }
            call.count_macs(k);
            finish(op, call, (row, j), z);
        }
    }
    gather(op, call);
}

/// What is noted of the rows of y once they are whole.
pub fn gather(op: &FusedLinear, call: &mut ReferenceCall<'_>) {
    let (Some(kind), Some(at)) = (op.statistics, op.statistics_at()) else { return };
    for row in 0..call.outputs[0].dims().rows() {
        let found = statistics::gathered(kind, call.outputs[0].row(row));
        call.outputs[at].data_mut()[row * found.len()..][..found.len()].copy_from_slice(&found);
    }
}

/// What follows the sum of an output: bias, activation, derivative, residual.
pub fn finish(op: &FusedLinear, call: &mut ReferenceCall<'_>, (row, j): (usize, usize), mut z: f64) {
    let linear = op.linear();
    if let Some(bias) = linear.bias_input() {
        z += call.inputs[bias].data()[j];
        call.count_flops(1);
    }
    let at = row * call.outputs[0].dims().last_size() + j;
    let (mut y, operations) = activation::value(linear.activation, z);
    call.count_flops(operations);
    if let (Some(derivative), Some(input)) = (op.derivative, op.z_input()) {
        let (dz, operations) = activation::backward(derivative, call.inputs[input].data()[at], y);
        y = dz;
        call.count_flops(operations);
    }
    if let Some(residual) = linear.residual_input() {
        y += call.inputs[residual].data()[at];
        call.count_flops(1);
    }
    call.outputs[0].data_mut()[at] = y;
    if let Some(output) = linear.z_at() {
        call.outputs[output].data_mut()[at] = z;
    }
}
