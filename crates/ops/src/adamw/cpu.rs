//! AdamW in one pass over the gradient and the states, which are updated where they are.

use super::AdamWStep;
use crate::CpuCall;
use regard_device::multiversion;

/// The numbers of one step, rounded from f64 once.
#[derive(Clone, Copy)]
struct Numbers {
    scale: f32,
    new1: f32,
    beta2: f32,
    new2: f32,
    epsilon: f32,
    keep: f32,
    rate: f32,
    root_correction: f32,
}

pub fn run(op: &AdamWStep, call: &CpuCall<'_>, step: i32) {
    let settings = op.settings;
    let constants = settings.constants(call.f32(4)[0].into(), step);
    let scale = if op.scaled { call.f32(6)[0] } else { 1.0 };
    if !scale.is_finite() {
        return; // no step: the results are the states, where they are
    }
    let numbers = Numbers {
        scale,
        new1: (1.0 - settings.beta1) as f32,
        beta2: settings.beta2 as f32,
        new2: (1.0 - settings.beta2) as f32,
        epsilon: settings.epsilon as f32,
        keep: constants.keep as f32,
        rate: constants.rate as f32,
        root_correction: constants.root_correction as f32,
    };
    let g = call.f32(1);
    call.chunks(g.len(), |part| {
        let g = &g[part.items()];
        // Each result is its own state (`Update`), which is read through it.
        let [p, m, v] = part.own_of([0, 1, 2]);
        update(call.level, numbers, p, g, m, v);
    });
}

multiversion! {
    fn update(numbers: Numbers, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        let Numbers { scale, new1, beta2, new2, epsilon, keep, rate, root_correction } = numbers;
        for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
            let g = scale * g;
            *m = new1.mul_add(g - *m, *m);
            *v = new2.mul_add(g * g, beta2 * *v);
            let root = v.sqrt() / root_correction + epsilon;
            *p = (-rate).mul_add(*m / root, keep * *p);
        }
    }
}
