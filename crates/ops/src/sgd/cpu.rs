//! SGD in one pass: every operand is loaded once, every result stored over its own state.

use super::SgdStep;
use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::multiversion;

/// The numbers of one step.
#[derive(Clone, Copy)]
struct Numbers {
    scale: f32,
    weight_decay: f32,
    momentum: f32,
    nesterov: bool,
    lr: f32,
}

pub fn run(op: &SgdStep, call: &CpuCall<'_>) {
    let settings = op.settings;
    let scale = if op.scaled { call.f32(op.lr() + 1)[0] } else { 1.0 };
    if !scale.is_finite() {
        return; // no step: the results are the states, where they are
    }
    let numbers = Numbers {
        scale,
        weight_decay: settings.weight_decay as f32,
        momentum: settings.momentum as f32,
        nesterov: settings.nesterov,
        lr: call.f32(op.lr())[0],
    };
    call.chunks(call.dims(0).count(), |part| {
        let range = part.items();
        let n = range.len();
        let [mut p, mut g, mut kept] = [[0.0; CHUNK]; 3];
        let (p, g, kept) = (&mut p[..n], &mut g[..n], &mut kept[..n]);
        part.load(0, range.clone(), p);
        part.load(1, range.clone(), g);
        if settings.has_momentum() {
            part.load(2, range.clone(), kept);
        }
        // Without momentum the direction is 0·0 + g: the same kernel.
        update(call.level, numbers, p, g, kept);
        if call.wants(0) {
            part.store(0, range.clone(), p);
        }
        if settings.has_momentum() && call.wants(1) {
            part.store(1, range, kept);
        }
    });
}

multiversion! {
    fn update(numbers: Numbers, p: &mut [f32], g: &[f32], kept: &mut [f32]) {
        let Numbers { scale, weight_decay, momentum, nesterov, lr } = numbers;
        let ahead = if nesterov { momentum } else { 0.0 };
        for ((p, g), kept) in p.iter_mut().zip(g).zip(kept) {
            let g = weight_decay.mul_add(*p, scale * g);
            *kept = momentum.mul_add(*kept, g);
            let direction = if nesterov { ahead.mul_add(*kept, g) } else { *kept };
            *p = (-lr).mul_add(direction, *p);
        }
    }
}
