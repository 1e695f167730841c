//! GELU in its two forms, and their derivatives. Both forms are x F(x) with F(x) + F(−x) = 1, so that with t
//! = |x| the value is max(x, 0) − t F(−t), and the derivative is q(t) below 0 and 1 − q(t) above, where q(t)
//! is F(−t) − t F′(t). What is left to compute decays with t: one short exponential of an exponent that is
//! never positive.
//!
//! By the error function, F(−t) and q(t) / (1 − t / t₀), with t₀ the zero of q, are positive and 1/2 at 0;
//! they are computed as 2^(t p(t) − 1), with no division. The polynomials p are minimax fits, which cost 3e-8
//! at most; the tails, where that is nothing, are within a tenth of their own size until both functions end
//! in 0.
//!
//! In the tanh form, F is the logistic function of a cubic.

use super::{ROUND, relu};
use std::f32::consts::LN_2;

/// (log2 Φ(−t) + 1) / t.
const TAIL: [f32; 10] = [
    -1.151_105_9,
    -0.459_200_68,
    -5.252_173e-2,
    7.098_79e-3,
    -1.552_934_3e-4,
    -1.885_393e-4,
    4.541_202e-5,
    -5.014_614e-6,
    2.732_203_7e-7,
    -5.870_093_7e-9,
];
/// Where the exponent by [`TAIL`] is -126, and the power below the smallest normal number.
const TAIL_END: f32 = 13.009;

/// (log2 of q(t) / (1 − t / t₀), + 1) / t.
const SLOPE: [f32; 10] = [
    -0.383_200_8,
    -0.560_573_4,
    -5.515_574e-2,
    1.524_868e-2,
    -3.275_795_8e-3,
    5.184_237_4e-4,
    -5.650_844e-5,
    3.894_912e-6,
    -1.495_761_1e-7,
    2.405_083_2e-9,
];
/// As [`TAIL_END`].
const SLOPE_END: f32 = 13.1795;
/// 1 / t₀.
const SLOPE_ZERO: f32 = 1.330_156;

/// The tanh form: F(x) = 1 / (1 + 2^−(A x + B x³)), with A = 2 sqrt(2/π) log2 e and B = 0.044715 A.
const TANH: [f32; 2] = [-2.302_208_2, -0.102_943_24];
/// The derivative of the cubic in units of e, by t²: 2 sqrt(2/π) and 3 · 0.044715 times that.
const TANH_SLOPE: [f32; 2] = [1.595_769_2, 0.214_064_45];
/// Where the exponent by [`TANH`] is -127, and the power below the smallest normal number.
const TANH_END: f32 = 10.031;

/// 2^f − 1 over f, for |f| <= 1/2.
const POWER: [f32; 6] = [LN_2, 0.240_226_48, 5.550_36e-2, 9.618_506e-3, 1.339_080_6e-3, 1.532_646_3e-4];

/// GELU by the error function: x Phi(x), within 1e-7 (of the value, where that is larger than 1); 0 at minus
/// infinity.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let t = at_most(x.abs(), TAIL_END);
    (-t).mul_add(power(polynomial(&TAIL, t), t, HALF), relu(x))
}

/// Derivative of [`gelu`]: Phi(x) + x phi(x), within 1e-7.
#[inline(always)]
pub fn gelu_derivative(x: f32) -> f32 {
    let t = at_most(x.abs(), SLOPE_END);
    let below = t.mul_add(-SLOPE_ZERO, 1.0) * power(polynomial(&SLOPE, t), t, HALF);
    if x < 0.0 { below } else { 1.0 - below }
}

/// GELU in its tanh form, as in GPT-2: x (1 + tanh u) / 2, which is x sigmoid(2 u). As exact as [`gelu`].
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let t = at_most(x.abs(), TANH_END);
    let e = power(polynomial(&TANH, t * t), t, ONE);
    relu(x) - t * e / (1.0 + e)
}

/// Derivative of [`gelu_tanh`]: s + 2 x u' s (1 - s) with s = sigmoid(2 u), within 1.5e-7.
#[inline(always)]
pub fn gelu_tanh_derivative(x: f32) -> f32 {
    let t = at_most(x.abs(), TANH_END);
    let square = t * t;
    let e = power(polynomial(&TANH, square), t, ONE);
    let rest = 1.0 / (1.0 + e);
    let slope = t * polynomial(&TANH_SLOPE, square);
    let below = e * rest * (-slope).mul_add(rest, 1.0);
    if x < 0.0 { below } else { 1.0 - below }
}

/// Added to an exponent, these round it and leave in the low bits the exponent field of its power of two, or
/// of half of that.
const ONE: f32 = ROUND + 127.0;
const HALF: f32 = ROUND + 126.0;

/// 2^(p t) or half of it, for p t <= 0 that leaves the exponent field at 0 or above; at 0 the result is 0.
/// The product is never rounded by itself, so that its size costs nothing.
#[inline(always)]
fn power(p: f32, t: f32, one_or_half: f32) -> f32 {
    let shifted = p.mul_add(t, one_or_half);
    let f = p.mul_add(t, one_or_half - shifted);
    let power = polynomial(&POWER, f).mul_add(f, 1.0);
    power * f32::from_bits(shifted.to_bits() << 23)
}

/// The sum of `coefficients[i]` t^i.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f32; N], t: f32) -> f32 {
    let mut sum = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        sum = sum.mul_add(t, coefficients[i]);
    }
    sum
}

/// The smaller one; NaN stays.
#[inline(always)]
fn at_most(t: f32, end: f32) -> f32 {
    if t > end { end } else { t }
}
