//! AdamW in one pass: every operand is loaded once, every result stored over its own state.

use super::AdamWStep;
use crate::CpuCall;
use crate::call::CHUNK;
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
    let numbers = Numbers {
        scale: if op.scaled { call.f32(6)[0] } else { 1.0 },
        new1: (1.0 - settings.beta1) as f32,
        beta2: settings.beta2 as f32,
        new2: (1.0 - settings.beta2) as f32,
        epsilon: settings.epsilon as f32,
        keep: constants.keep as f32,
        rate: constants.rate as f32,
        root_correction: constants.root_correction as f32,
    };
    call.chunks(call.dims(0).count(), |range| {
        let n = range.len();
        let [mut p, mut g, mut m, mut v] = [[0.0; CHUNK]; 4];
        let (p, g, m, v) = (&mut p[..n], &mut g[..n], &mut m[..n], &mut v[..n]);
        for (input, into) in [&mut *p, &mut *g, &mut *m, &mut *v].into_iter().enumerate() {
            call.load(input, range.clone(), into);
        }
        update(call.level, numbers, p, g, m, v);
        for (output, from) in [p, m, v].into_iter().enumerate() {
            if call.wants(output) {
                call.store(output, range.clone(), from);
            }
        }
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
