//! Turns all heads of one position with one set of sines and cosines. The angles and their reduction are f64:
//! positions of a million still have angles that are right to the last bit of an f32 sine.

use super::{Pairing, Rotary};
use crate::CpuCall;
use regard_device::multiversion;

pub fn run(op: &Rotary, call: &CpuCall<'_>) {
    let x = call.dims(0);
    let [b, t, heads, head] = [0, 1, 2, 3].map(|axis| x[axis]);
    let position = op.positions.then(|| call.i32(1));
    let pairs = op.frequencies.len();
    call.rows(b * t, heads * head, |part, scratch| {
        let row = part.first();
        let (cos, rest) = scratch.split_at_mut(pairs);
        let (sin, rest) = rest.split_at_mut(pairs);
        let position = position.map_or_else(|| (row % t) as f64, |position| position[row] as f64);
        let direction = if op.spec.inverse { -op.spec.scale } else { op.spec.scale };
        angles(call.level, position, &op.frequencies, op.spec.scale, direction, cos, sin);
        for at in row * heads..(row + 1) * heads {
            let (range, x) = (at * head..(at + 1) * head, &mut rest[..head]);
            part.load(0, range.clone(), x);
            match op.spec.pairing {
                Pairing::Halves => halves(call.level, x, cos, sin),
                Pairing::Interleaved => interleaved(call.level, x, cos, sin),
            }
            part.store(0, range, x);
        }
    });
}

/// 1.5 · 2⁵²: adding it leaves a whole number in the low bits.
const WHOLE: f64 = 6_755_399_441_055_744.0;
/// What π/2 has beyond an f64.
const HALF_PI_REST: f64 = 6.123_233_995_736_766e-17;

/// Cosine and sine. |angle| < 2³¹ · 1; quarter turns are taken off first, Taylor's series does the rest to
/// 1e-14, far below an f32.
#[inline(always)]
fn cos_sin(angle: f64) -> (f64, f64) {
    let shifted = angle.mul_add(std::f64::consts::FRAC_2_PI, WHOLE);
    let (quarters, quadrant) = (shifted - WHOLE, shifted.to_bits());
    let r = (-quarters).mul_add(HALF_PI_REST, (-quarters).mul_add(std::f64::consts::FRAC_PI_2, angle));
    let square = r * r;
    let mut sin = 1.0 / 6_227_020_800.0; // 1/13!
    for coefficient in [-1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0] {
        sin = square.mul_add(sin, coefficient);
    }
    let mut cos = -1.0 / 87_178_291_200.0; // 1/14!
    for coefficient in
        [1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0]
    {
        cos = square.mul_add(cos, coefficient);
    }
    let sin = sin * r;
    let (a, b) = if quadrant & 1 == 0 { (cos, sin) } else { (sin, cos) };
    let a = if (quadrant + 1) & 2 == 0 { a } else { -a };
    let b = if quadrant & 2 == 0 { b } else { -b };
    (a, b)
}

multiversion! {
    fn angles(
        position: f64, frequencies: &[f64], scale: f64, direction: f64, cos: &mut [f32], sin: &mut [f32],
    ) {
        for ((frequency, cos), sin) in frequencies.iter().zip(cos).zip(sin) {
            let (c, s) = cos_sin(position * frequency);
            (*cos, *sin) = ((scale * c) as f32, (direction * s) as f32);
        }
    }

    fn halves(x: &mut [f32], cos: &[f32], sin: &[f32]) {
        let (first, rest) = x.split_at_mut(cos.len());
        for (((a, b), cos), sin) in first.iter_mut().zip(rest).zip(cos).zip(sin) {
            (*a, *b) = (a.mul_add(*cos, -(*b * sin)), a.mul_add(*sin, *b * cos));
        }
    }

    fn interleaved(x: &mut [f32], cos: &[f32], sin: &[f32]) {
        for ((pair, cos), sin) in x.chunks_exact_mut(2).zip(cos).zip(sin) {
            let (a, b) = (pair[0], pair[1]);
            pair[0] = a.mul_add(*cos, -(b * sin));
            pair[1] = a.mul_add(*sin, b * cos);
        }
    }
}
