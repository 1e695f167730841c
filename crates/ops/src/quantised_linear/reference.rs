//! The specification of the product with a weight of integers. Scale and quotient are f32 divisions, which
//! every machine rounds alike: an integer is part of the meaning, and must not depend on the width of an
//! intermediate number.

use crate::linear::fused::FusedLinear;
use crate::linear::reference::{finish, gather};
use crate::{ReferenceCall, WeightLayout};

pub fn run(op: &FusedLinear, call: &mut ReferenceCall<'_>) {
    let layout = op.linear().layout;
    let (x, weight) = (call.inputs[0], call.inputs[1]);
    let (n, k) = layout.sizes(weight.dims());
    let weight = |j: usize, i: usize| match layout {
        WeightLayout::OutIn => weight[[j, i]] as f32,
        WeightLayout::InOut => weight[[i, j]] as f32,
    };
    for j in 0..n {
        let most = (0..k).map(|i| weight(j, i).abs()).fold(0.0, f32::max);
        let scale = most / 127.0;
        let integer = |i: usize| match scale {
            0.0 => 0.0,
            _ => f64::from((weight(j, i) / scale).round_ties_even().clamp(-127.0, 127.0)),
        };
        for row in 0..x.dims().rows() {
            let mut z: f64 = (0..k).map(|i| x.data()[row * k + i] * integer(i)).sum();
            call.count_macs(k);
            z *= f64::from(scale);
            call.count_flops(1);
            finish(op, call, (row, j), z);
        }
    }
    gather(op, call);
}
