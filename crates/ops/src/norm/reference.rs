//! The specification of the norms over the last axis.

use super::{Norm, NormBackward, NormKind, statistics};
use crate::ReferenceCall;

pub fn run(op: &Norm, call: &mut ReferenceCall<'_>) {
    let inputs = call.inputs;
    let width = inputs[0].dims().last_size();
    for i in 0..inputs[0].dims().rows() {
        let mut h = inputs[0].row(i).to_vec();
        if op.residual {
            for (h, r) in h.iter_mut().zip(inputs[1].row(i)) {
                *h += r;
                call.count_flops(1);
            }
        }
        if let Some(sum) = op.sum_at() {
            call.outputs[sum].row_mut(i).copy_from_slice(&h);
        }
        // What a product has gathered is counted here, as the mathematics has it.
        let known = op.statistics_at().map(|at| {
            let all = inputs[at].data();
            let parts = all.len() / inputs[0].dims().rows();
            statistics::read(op.kind, &all[i * parts..(i + 1) * parts], width)
        });
        if let Some(at) = op.mean_at() {
            let mean = known.map_or_else(|| h.iter().sum::<f64>() / width as f64, |(mean, _)| mean);
            call.count_flops(width + 1);
            for h in &mut h {
                *h -= mean;
                call.count_flops(1);
            }
            call.outputs[at].data_mut()[i] = mean;
        }
        let square = known.map_or_else(|| h.iter().map(|h| h * h).sum(), |(_, squares)| squares);
        call.count_macs(width);
        let rstd = 1.0 / (square / width as f64 + op.spec.epsilon as f64).sqrt();
        call.count_flops(4);
        call.outputs[op.rstd_at()].data_mut()[i] = rstd;
        for (c, h) in h.iter().enumerate() {
            let normed = h * rstd;
            call.count_flops(1);
            let scale = op.scale_at().map(|at| inputs[at].data()[c]);
            let shift = op.shift_at().map(|at| inputs[at].data()[c]);
            call.outputs[0].row_mut(i)[c] = normed * scale.unwrap_or(1.0) + shift.unwrap_or(0.0);
            match (op.scale, op.shift) {
                (true, true) => call.count_macs(1),
                (true, false) | (false, true) => call.count_flops(1),
                (false, false) => {}
            }
        }
    }
}

pub fn backward(op: &NormBackward, call: &mut ReferenceCall<'_>) {
    let inputs = call.inputs;
    let (dy, h) = (inputs[0], inputs[1]);
    let width = h.dims().last_size();
    for i in 0..h.dims().rows() {
        let rstd = inputs[op.rstd_at()].data()[i];
        let mean = op.mean_at().map(|at| inputs[at].data()[i]);
        let normed: Vec<f64> = h.row(i).iter().map(|h| (h - mean.unwrap_or(0.0)) * rstd).collect();
        call.count_flops(width * (1 + usize::from(mean.is_some())));
        // y = normed · scale + shift
        let mut d_normed = dy.row(i).to_vec();
        for c in 0..width {
            if let Some(at) = op.shift_at() {
                call.outputs[at].data_mut()[c] += d_normed[c];
                call.count_flops(1);
            }
            if let (Some(output), Some(input)) = (op.scale_at(), op.scale_input()) {
                call.outputs[output].data_mut()[c] += d_normed[c] * normed[c];
                call.count_macs(1);
                d_normed[c] *= inputs[input].data()[c];
                call.count_flops(1);
            }
        }
        // normed = (h − μ) · rstd, where μ and rstd depend on every h of the row
        let across = d_normed.iter().zip(&normed).map(|(d, n)| d * n).sum::<f64>() / width as f64;
        call.count_macs(width);
        call.count_flops(1);
        let mut common = 0.0;
        if op.kind == NormKind::Layer {
            common = d_normed.iter().sum::<f64>() / width as f64;
            call.count_flops(width + 1);
        }
        for c in 0..width {
            let mut dh = rstd * (d_normed[c] - common - normed[c] * across);
            call.count_macs(1);
            call.count_flops(1 + usize::from(op.kind == NormKind::Layer));
            if let Some(at) = op.stream_at() {
                dh += inputs[at].row(i)[c];
                call.count_flops(1);
            }
            call.outputs[0].row_mut(i)[c] = dh;
            if op.rounded.is_some() {
                call.outputs[1].row_mut(i)[c] = dh;
            }
        }
    }
}
