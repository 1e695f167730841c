//! The specification of the product with a weight of integers. Scales and quotients are f32 operations, which
//! every machine rounds alike: an integer is part of the meaning, and must not depend on the width of an
//! intermediate number. What the integers stand for is multiplied and summed in f64.

use super::{BLOCK, Rounding};
use crate::linear::fused::FusedLinear;
use crate::linear::reference::{finish, gather};
use crate::{ReferenceCall, WeightLayout};
use half::f16;

pub fn run(op: &FusedLinear, rounding: Rounding, call: &mut ReferenceCall<'_>) {
    let layout = op.linear().layout;
    let (x, weight) = (call.inputs[0], call.inputs[1]);
    let (n, k) = layout.sizes(weight.dims());
    let rows: Vec<Vec<f64>> = (0..x.dims().rows()).map(|row| x.data()[row * k..][..k].to_vec()).collect();
    let rows: Vec<Vec<f64>> = match rounding {
        Rounding::Outputs => rows,
        Rounding::Blocks8 | Rounding::Blocks4 => rows.iter().map(|row| blocks(row, of_x)).collect(),
    };
    for j in 0..n {
        let weights: Vec<f64> = (0..k)
            .map(|i| match layout {
                WeightLayout::OutIn => weight[[j, i]],
                WeightLayout::InOut => weight[[i, j]],
            })
            .collect();
        let weights = match rounding {
            Rounding::Outputs => of_output(&weights),
            Rounding::Blocks8 => blocks(&weights, eight_bits),
            Rounding::Blocks4 => blocks(&weights, four_bits),
        };
        for (row, x) in rows.iter().enumerate() {
            let z: f64 = x.iter().zip(&weights).map(|(x, w)| x * w).sum();
            call.count_macs(k);
            match rounding {
                Rounding::Outputs => call.count_flops(1),
                // A scale of the weight times one of x, and that times the sum of the block; m once more.
                Rounding::Blocks8 => call.count_flops(2 * k.div_ceil(BLOCK)),
                Rounding::Blocks4 => call.count_flops(3 * k.div_ceil(BLOCK)),
            }
            finish(op, call, (row, j), z);
        }
    }
    gather(op, call);
}

/// Numbers block by block, as what they are rounded to.
fn blocks(numbers: &[f64], round: impl Fn(&[f32]) -> Vec<f64>) -> Vec<f64> {
    let narrow = |block: &[f64]| block.iter().map(|&x| x as f32).collect::<Vec<_>>();
    numbers.chunks(BLOCK).flat_map(|block| round(&narrow(block))).collect()
}

fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().map(|x| x.abs()).fold(0.0, f32::max)
}

/// The integers of w / scale, times the scale.
fn of_output(weights: &[f64]) -> Vec<f64> {
    let weights: Vec<f32> = weights.iter().map(|&w| w as f32).collect();
    let scale = largest(&weights) / 127.0;
    let integer =
        |w: f32| if scale == 0.0 { 0.0 } else { (w / scale).round_ties_even().clamp(-127.0, 127.0) };
    weights.iter().map(|&w| f64::from(integer(w)) * f64::from(scale)).collect()
}

/// A block of x: the largest number becomes 127. What is next to nothing is nothing.
fn of_x(x: &[f32]) -> Vec<f64> {
    let most = largest(x);
    if most < 2f32.powi(-100) {
        return vec![0.0; x.len()];
    }
    let factor = 127.0 / most;
    x.iter().map(|x| f64::from((x * factor).round_ties_even()) * f64::from(most / 127.0)).collect()
}

/// A block of a weight, with a scale that an f16 holds.
fn eight_bits(weights: &[f32]) -> Vec<f64> {
    in_steps(weights, largest(weights) / 127.0, 0.0, -127.0, 127.0)
}

/// The same with the least of them, which an f16 holds as well.
fn four_bits(weights: &[f32]) -> Vec<f64> {
    let least = weights.iter().copied().fold(f32::INFINITY, f32::min);
    let most = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    in_steps(weights, (most - least) / 15.0, f16::from_f32(least).to_f32(), 0.0, 15.0)
}

/// Steps of an f16 from `from` on: the nearest of those between the `first` and the `last`.
fn in_steps(weights: &[f32], step: f32, from: f32, first: f32, last: f32) -> Vec<f64> {
    let step = f16::from_f32(step).to_f32();
    let factor = if step > 0.0 { 1.0 / step } else { 0.0 };
    let integer = |w: f32| ((w - from) * factor).round_ties_even().clamp(first, last);
    weights.iter().map(|&w| f64::from(integer(w)) * f64::from(step) + f64::from(from)).collect()
}
