//! The specification of the product with a weight.

use super::{Linear, WeightLayout, activation};
use crate::ReferenceCall;
use regard_device::Activation;

pub fn run(op: &Linear, call: &mut ReferenceCall<'_>) {
    let (x, weight) = (call.operand(0, op.precision), call.operand(1, op.precision));
    let (n, k) = op.layout.sizes(weight.dims());
    for row in 0..x.dims().rows() {
        for j in 0..n {
            let mut z = 0.0;
            for i in 0..k {
                z += x.data()[row * k + i]
                    * match op.layout {
                        WeightLayout::OutIn => weight[[j, i]],
                        WeightLayout::InOut => weight[[i, j]],
                    };
            }
            call.count_macs(k);
            finish(op, call, (row, j), z);
        }
    }
}

/// What follows the sum of an output: bias, activation, derivative, residual.
pub fn finish(op: &Linear, call: &mut ReferenceCall<'_>, (row, j): (usize, usize), mut z: f64) {
    if let Some(bias) = op.bias_input() {
        z += call.inputs[bias].data()[j];
        call.count_flops(1);
    }
    let at = row * call.outputs[0].dims().last_size() + j;
    let mut y = activation::value(op.activation, z);
    call.count_flops(activation::value_flops(op.activation));
    if let Some(input) = op.derivative_input() {
        y = activation::backward(op.derivative, call.inputs[input].data()[at], y);
        call.count_flops(activation::backward_flops(op.derivative));
    }
    if let Some(residual) = op.residual_input() {
        y += call.inputs[residual].data()[at];
        call.count_flops(1);
    }
    call.outputs[0].data_mut()[at] = y;
    if op.activation != Activation::None {
        call.outputs[1].data_mut()[at] = z;
    }
}
