//! The specification of batch norm.

use super::{BatchNorm, BatchNormBackward};
use crate::ReferenceCall;

pub fn run(op: &BatchNorm, call: &mut ReferenceCall<'_>) {
    let inputs = call.inputs;
    let x = inputs[0];
    let (rows, width) = (x.dims().rows(), x.dims().last_size());
    for c in 0..width {
        let (mut mean, mut variance) = (inputs[1].data()[c], inputs[2].data()[c]);
        if op.trains() {
            mean = (0..rows).map(|i| x.row(i)[c]).sum::<f64>() / rows as f64;
            call.count_flops(rows + 1);
            variance = (0..rows).map(|i| (x.row(i)[c] - mean).powi(2)).sum::<f64>() / rows as f64;
            call.count_flops(rows + 1);
            call.count_macs(rows);
            // running = (1 − momentum) · running + momentum · new, with the unbiased variance
            let momentum = op.spec.momentum as f64;
            let unbiased = variance * (rows as f64 / (rows as f64 - 1.0));
            call.outputs[3].data_mut()[c] = (1.0 - momentum) * inputs[1].data()[c] + momentum * mean;
            call.outputs[4].data_mut()[c] = (1.0 - momentum) * inputs[2].data()[c] + momentum * unbiased;
            call.count_macs(2);
            call.count_flops(3);
        }
        let rstd = 1.0 / (variance + op.spec.epsilon as f64).sqrt();
        call.count_flops(3);
        call.outputs[1].data_mut()[c] = mean;
        call.outputs[2].data_mut()[c] = rstd;
        let scale = op.scale_at().map_or(1.0, |at| inputs[at].data()[c]);
        let shift = op.shift_at().map_or(0.0, |at| inputs[at].data()[c]);
        for i in 0..rows {
            call.outputs[0].row_mut(i)[c] = (x.row(i)[c] - mean) * rstd * scale + shift;
            call.count_flops(2);
            match (op.scale, op.shift) {
                (true, true) => call.count_macs(1),
                (true, false) | (false, true) => call.count_flops(1),
                (false, false) => {}
            }
        }
    }
}

pub fn backward(op: &BatchNormBackward, call: &mut ReferenceCall<'_>) {
    let inputs = call.inputs;
    let (dy, x) = (inputs[0], inputs[1]);
    let (rows, width) = (x.dims().rows(), x.dims().last_size());
    for c in 0..width {
        let (mean, rstd) = (inputs[2].data()[c], inputs[3].data()[c]);
        let (mut sum, mut across) = (0.0, 0.0);
        let mut normed = vec![0.0; rows];
        for (i, normed) in normed.iter_mut().enumerate() {
            if op.trains() || op.shift {
                sum += dy.row(i)[c];
                call.count_flops(1);
            }
            if op.trains() || op.scale {
                *normed = (x.row(i)[c] - mean) * rstd;
                across += dy.row(i)[c] * *normed;
                call.count_flops(2);
                call.count_macs(1);
            }
        }
        // y = normed · scale + shift
        if let Some(at) = op.scale_at() {
            call.outputs[at].data_mut()[c] = across;
        }
        if let Some(at) = op.shift_at() {
            call.outputs[at].data_mut()[c] = sum;
        }
        let factor = if op.scale { rstd * inputs[4].data()[c] } else { rstd };
        call.count_flops(usize::from(op.scale));
        if !op.trains() {
            // The statistics are constants.
            for i in 0..rows {
                call.outputs[0].row_mut(i)[c] = factor * dy.row(i)[c];
                call.count_flops(1);
            }
            continue;
        }
        // normed = (x − μ) · rstd, where μ and rstd depend on every x of the channel
        let (common, across) = (sum / rows as f64, across / rows as f64);
        call.count_flops(2);
        for (i, normed) in normed.iter().enumerate() {
            call.outputs[0].row_mut(i)[c] = factor * (dy.row(i)[c] - common - normed * across);
            call.count_flops(2);
            call.count_macs(1);
        }
    }
}
