//! Elementary functions on f32, made of fused multiply-adds, bit operations and selects only, so that they
//! vectorise inside `multiversion!` bodies and give the same bits at every level. No call of a C library.

mod gelu;

pub use gelu::{gelu, gelu_derivative, gelu_tanh, gelu_tanh_derivative};
use std::f32::consts::LOG2_E;

/// Adding and subtracting this rounds to an integer (to nearest, ties to even) for |x| < 2^22.
const ROUND: f32 = 12_582_912.0;
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// e^x within 1.1 ulp: 0 below the smallest denormal, infinity above the largest number, NaN stays.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Beyond these the result is 0 or infinity anyhow; selects that keep NaN.
    let x = if x < -105.0 { -105.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let (above_one, n) = exp_parts(x);
    // 2^n in two factors, so that denormal results round once and neither factor overflows.
    let half = n >> 1;
    (1.0 + above_one) * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// e^x = (1 + a) 2^n for x whose exponential is neither 0 nor infinite: a, and n.
#[inline(always)]
fn exp_parts(x: f32) -> (f32, i32) {
    let shifted = x.mul_add(LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_HIGH, x);
    let r = n.mul_add(-LN_2_LOW, r);
    // e^r = 1 + r + r^2 q(r) on |r| <= ln 2 / 2.
    let q = 1.984_127e-4f32;
    let q = q.mul_add(r, 1.388_888_9e-3);
    let q = q.mul_add(r, 8.333_334e-3);
    let q = q.mul_add(r, 4.166_666_8e-2);
    let q = q.mul_add(r, 1.666_666_7e-1);
    let q = q.mul_add(r, 0.5);
    ((r * r).mul_add(q, r), (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32))
}

/// 2^n for n in the range of normal numbers.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Natural logarithm within 1 ulp: minus infinity at 0, NaN below.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    // Denormals are scaled into the normal range first.
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits();
    // m in [sqrt(1/2), sqrt 2), x = 2^e m.
    let offset = bits.wrapping_sub(0x3f35_04f3);
    let e = (offset as i32 >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
    let m = f32::from_bits((offset & 0x007f_ffff).wrapping_add(0x3f35_04f3));
    let f = m - 1.0;
    let p = 7.037_683_6e-2f32;
    let p = p.mul_add(f, -1.151_461e-1);
    let p = p.mul_add(f, 1.167_699_9e-1);
    let p = p.mul_add(f, -1.242_014_1e-1);
    let p = p.mul_add(f, 1.424_932_3e-1);
    let p = p.mul_add(f, -1.666_805_8e-1);
    let p = p.mul_add(f, 2.000_071_5e-1);
    let p = p.mul_add(f, -2.499_999_4e-1);
    let p = p.mul_add(f, 3.333_333e-1);
    let square = f * f;
    let tail = e.mul_add(LN_2_LOW, f * square * p);
    let tail = square.mul_add(-0.5, tail);
    let y = e.mul_add(LN_2_HIGH, f + tail);
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 || x.is_nan() { f32::NAN } else { y }
}

/// Hyperbolic tangent within 1.1 ulp.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let t = x.abs();
    let s = x * x;
    let p = -5.704_988_7e-3f32;
    let p = p.mul_add(s, 2.063_909e-2);
    let p = p.mul_add(s, -5.373_971e-2);
    let p = p.mul_add(s, 1.333_144_2e-1);
    let p = p.mul_add(s, -3.333_328e-1);
    let near = (p * s).mul_add(x, x);
    // 1 − 2 / (e²ᵗ + 1), with what the exponential, the sum, the quotient and the difference round away added
    // back. Beyond 10 it is 1.
    let (above_one, n) = exp_parts(2.0 * t.min(10.0));
    let p = 1.0 + above_one;
    let (e, e_rest) = (p * power_of_two(n), (above_one - (p - 1.0)) * power_of_two(n));
    let sum = e + 1.0;
    let sum_rest = (1.0 - (sum - e)) + e_rest;
    let quotient = 2.0 / sum;
    let rest = (-quotient).mul_add(sum_rest, (-quotient).mul_add(sum, 2.0));
    let one_less = 1.0 - quotient;
    let far = one_less + (rest * (-0.5 * quotient)) + ((1.0 - one_less) - quotient);
    let far = if x.is_nan() { x } else { far };
    let y = if t > 0.625 { far } else { near };
    y.copysign(x)
}

/// The logistic function 1 / (1 + e^-x), within 2.5 ulp down to the smallest results.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    sigmoid_pair(x).0
}

/// sigmoid(x) and sigmoid(-x), which is 1 - sigmoid(x) without cancellation.
#[inline(always)]
pub fn sigmoid_pair(x: f32) -> (f32, f32) {
    let e = exp(-x.abs());
    let (above, below) = (1.0 / (1.0 + e), e / (1.0 + e));
    if x < 0.0 { (below, above) } else { (above, below) }
}

/// The error function within 1 ulp (after N. Juffa's single-precision minimax forms).
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let t = x.abs();
    let s = x * x;
    let r = (-1.728_534_7e-5f32).mul_add(t, 3.831_971_3e-4);
    let u = (-3.883_964_4e-3f32).mul_add(t, 2.425_462_2e-2);
    let r = r.mul_add(s, u);
    let r = r.mul_add(t, -1.067_778_8e-1);
    let r = r.mul_add(t, -6.348_467e-1);
    let r = r.mul_add(t, -1.287_175_1e-1);
    let r = r.mul_add(t, -t);
    let far = (1.0 - exp(r)).copysign(x);
    let r = -5.967_617e-4f32;
    let r = r.mul_add(s, 4.991_194_2e-3);
    let r = r.mul_add(s, -2.676_813_5e-2);
    let r = r.mul_add(s, 1.128_199_25e-1);
    let r = r.mul_add(s, -3.761_253_4e-1);
    let r = r.mul_add(s, 1.283_791_7e-1);
    let near = r.mul_add(x, x);
    if t > 0.927_734_4 { far } else { near }
}

/// Rectifier: max(x, 0), NaN stays.
#[inline(always)]
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Derivative of [`relu`]: 0 at 0.
#[inline(always)]
pub fn relu_derivative(x: f32) -> f32 {
    if x > 0.0 { 1.0 } else { 0.0 }
}

/// x inside [-bound, bound]; NaN stays.
#[inline(always)]
fn limit(x: f32, bound: f32) -> f32 {
    let x = if x > bound { bound } else { x };
    if x < -bound { -bound } else { x }
}

/// SiLU (swish): x sigmoid(x).
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// Derivative of [`silu`].
#[inline(always)]
pub fn silu_derivative(x: f32) -> f32 {
    let x = limit(x, 200.0);
    let (s, rest) = sigmoid_pair(x);
    // s (1 + x (1 - s)).
    s * x.mul_add(rest, 1.0)
}

#[cfg(test)]
mod tests;
