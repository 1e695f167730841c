//! The specification of the product with a weight.

use super::{Linear, WeightLayout, activation};
use crate::ReferenceCall;
use regard_device::Activation;

pub fn run(op: &Linear, call: &mut ReferenceCall<'_>) {
    let (x, weight) = (call.operand(0, op.precision), call.operand(1, op.precision));
    let (n, k) = op.layout.sizes(weight.dims());
    let bias = op.bias_input().map(|input| call.inputs[input]);
    let residual = op.residual_input().map(|input| call.inputs[input]);
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
            if let Some(bias) = bias {
                z += bias.data()[j];
                call.count_flops(1);
            }
            let mut y = activation::value(op.activation, z);
            call.count_flops(activation::value_flops(op.activation));
            if let Some(residual) = residual {
                y += residual.data()[row * n + j];
                call.count_flops(1);
            }
            call.outputs[0].data_mut()[row * n + j] = y;
            if op.activation != Activation::None {
                call.outputs[1].data_mut()[row * n + j] = z;
            }
        }
    }
}
