//! The functions against f64 over sweeps of all bit patterns, with the bounds that their docs state, and the
//! same bits at every level.

use super::*;
use crate::Level;

/// Every f32 whose bits are a multiple of a prime: some 4 million numbers of all sizes, with the special
/// ones.
fn sweep() -> impl Iterator<Item = f32> {
    let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN];
    let small = [f32::MIN_POSITIVE, -f32::MIN_POSITIVE, f32::from_bits(1), -f32::from_bits(1)];
    let bits = (0..u32::MAX / 1009).map(|i| f32::from_bits(i * 1009));
    bits.chain(special).chain(small)
}

/// Distance from the exact value in units of the last place of the f32 nearest to it.
fn ulps(got: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if got == nearest || (got.is_nan() && nearest.is_nan()) {
        // Within half a unit, or equal where units have no meaning.
        return if nearest.is_finite() { (got as f64 - exact).abs() / unit(nearest) } else { 0.0 };
    }
    if !got.is_finite() || !nearest.is_finite() {
        return f64::INFINITY;
    }
    (got as f64 - exact).abs() / unit(nearest)
}

fn unit(x: f32) -> f64 {
    let exponent = (x.abs().to_bits() >> 23).max(1) as i32;
    2f64.powi(exponent - 150)
}

fn worst_ulps(name: &str, function: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, bound: f64) {
    let mut worst = (0.0, 0.0f32);
    for x in sweep() {
        let error = ulps(function(x), exact(x as f64));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    println!("{name}: {:.3} ulp at {:e}", worst.0, worst.1);
    assert!(worst.0 <= bound, "{name}: {} ulp at {:e}: {:e}", worst.0, worst.1, function(worst.1));
}

fn worst_difference(name: &str, function: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, bound: f64) {
    let mut worst = (0.0, 0.0f32);
    for x in sweep().filter(|x| x.abs() < 1e4) {
        // Relative to the argument or the value, where those are larger than 1.
        let exact = exact(x as f64);
        let error = (function(x) as f64 - exact).abs() / exact.abs().max(1.0);
        assert!(!error.is_nan(), "{name} at {x:e}");
        if error > worst.0 {
            worst = (error, x);
        }
    }
    println!("{name}: {:.3e} at {:e}", worst.0, worst.1);
    assert!(worst.0 <= bound, "{name}: {:e} at {:e}", worst.0, worst.1);
}

/// erf in f64: the Maclaurin series near 0, the continued fraction of erfc beyond.
fn erf_f64(x: f64) -> f64 {
    let t = x.abs();
    if x.is_nan() || t > 6.0 {
        return if x.is_nan() { x } else { 1f64.copysign(x) };
    }
    if t < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            term *= -x * x / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let fraction = (1..=120).rev().fold(t, |tail, n| t + n as f64 / 2.0 / tail);
    (1.0 - (-t * t).exp() / (fraction * std::f64::consts::PI.sqrt())).copysign(x)
}

fn sigmoid_f64(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn gelu_tanh_f64(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

/// A central difference of an f64 function, good to about 1e-9.
fn slope(function: impl Fn(f64) -> f64, x: f64) -> f64 {
    let h = 1e-4;
    let (near, far) = (function(x + h) - function(x - h), function(x + 2.0 * h) - function(x - 2.0 * h));
    (8.0 * near - far) / (12.0 * h)
}

#[test]
fn reference_erf_is_right() {
    // Abramowitz and Stegun, table 7.1.
    for (x, y) in [(0.5, 0.520_499_877_8), (1.0, 0.842_700_792_9), (2.0, 0.995_322_265_0)] {
        assert!((erf_f64(x) - y).abs() < 1e-10);
    }
    assert!((erf_f64(2.499_999_999) - erf_f64(2.5)).abs() < 1e-11);
}

#[test]
fn exponential_and_logarithm() {
    worst_ulps("exp", exp, f64::exp, 1.1);
    worst_ulps("log", log, f64::ln, 1.0);
    assert_eq!((exp(0.0), exp(f32::NEG_INFINITY), exp(-104.0), exp(88.8)), (1.0, 0.0, 0.0, f32::INFINITY));
    assert_eq!(exp(f32::INFINITY), f32::INFINITY);
    assert_eq!((log(1.0), log(0.0), log(f32::INFINITY)), (0.0, f32::NEG_INFINITY, f32::INFINITY));
    assert!(exp(f32::NAN).is_nan() && log(f32::NAN).is_nan() && log(-1.0).is_nan());
}

#[test]
fn tangent_sigmoid_and_error_function() {
    worst_ulps("tanh", tanh, f64::tanh, 1.1);
    worst_ulps("sigmoid", sigmoid, sigmoid_f64, 2.5);
    worst_ulps("erf", erf, erf_f64, 1.0);
    worst_difference("erf", erf, erf_f64, 1e-7);
    assert_eq!((tanh(f32::INFINITY), tanh(f32::NEG_INFINITY)), (1.0, -1.0));
    assert_eq!((sigmoid(f32::INFINITY), sigmoid(f32::NEG_INFINITY)), (1.0, 0.0));
    assert_eq!((erf(f32::INFINITY), erf(f32::NEG_INFINITY), erf(1e30)), (1.0, -1.0, 1.0));
    assert_eq!(tanh(-0.0).to_bits(), (-0.0f32).to_bits());
    assert_eq!(erf(-0.0).to_bits(), (-0.0f32).to_bits());
}

#[test]
fn activations() {
    worst_difference("gelu", gelu, |x| 0.5 * x * (1.0 + erf_f64(x / 2f64.sqrt())), 1e-7);
    worst_difference("gelu_tanh", gelu_tanh, gelu_tanh_f64, 1e-7);
    worst_difference("silu", silu, |x| x * sigmoid_f64(x), 2.5e-7);
    worst_difference("relu", relu, |x| x.max(0.0), 0.0);
    assert!(relu(f32::NAN).is_nan());
}

#[test]
fn derivatives() {
    let gelu_slope = |x: f64| {
        let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        0.5 * (1.0 + erf_f64(x / 2f64.sqrt())) + x * density
    };
    worst_difference("gelu'", gelu_derivative, gelu_slope, 1e-7);
    let gelu_tanh_slope = |x: f64| {
        let (s, root) = (sigmoid_f64, (2.0 / std::f64::consts::PI).sqrt());
        let u = 2.0 * root * (x + 0.044715 * x * x * x);
        s(u) + 2.0 * x * root * (1.0 + 3.0 * 0.044715 * x * x) * s(u) * s(-u)
    };
    worst_difference("gelu_tanh'", gelu_tanh_derivative, gelu_tanh_slope, 1.5e-7);
    let silu_slope = |x: f64| sigmoid_f64(x) * (1.0 + x * sigmoid_f64(-x));
    worst_difference("silu'", silu_derivative, silu_slope, 5e-7);
    let relu_slope = |x: f64| if x > 0.0 { 1.0 } else { 0.0 };
    worst_difference("relu'", relu_derivative, relu_slope, 0.0);
    // The closed forms are derivatives of the functions themselves.
    for x in (-800..800).map(|i| i as f64 / 100.0) {
        assert!((gelu_slope(x) - slope(|x| 0.5 * x * (1.0 + erf_f64(x / 2f64.sqrt())), x)).abs() < 1e-7);
        assert!((silu_slope(x) - slope(|x| x * sigmoid_f64(x), x)).abs() < 1e-9);
        assert!((gelu_tanh_slope(x) - slope(gelu_tanh_f64, x)).abs() < 1e-9);
    }
    for function in [relu_derivative, gelu_derivative, gelu_tanh_derivative, silu_derivative] {
        for large in [300.0, 1e30, f32::INFINITY] {
            assert_eq!((function(large), function(-large)), (1.0, 0.0));
        }
    }
}

#[test]
fn gelu_in_its_tails() {
    // Phi(-t) by its continued fraction, in units of phi(t).
    let tail = |t: f64| 1.0 / (1..=120).rev().fold(t, |rest, n| t + n as f64 / rest);
    let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
    for t in (2_500..12_500).map(|i| i as f32 / 1000.0) {
        let (exact, got) = (t as f64, (gelu(-t) as f64, gelu_derivative(-t) as f64));
        let value = -exact * density(exact) * tail(exact);
        let slope = density(exact) * (tail(exact) - exact);
        assert!((got.0 / value - 1.0).abs() < 0.1 && (got.1 / slope - 1.0).abs() < 0.1, "{t}: {got:?}");
        let (t, exact) = (t.min(9.5), exact.min(9.5));
        // x s(2 u) without cancellation.
        let value = -exact
            * sigmoid_f64(-2.0 * (2.0 / std::f64::consts::PI).sqrt() * (exact + 0.044715 * exact.powi(3)));
        assert!((gelu_tanh(-t) as f64 / value - 1.0).abs() < 2e-5, "{t}: {}", gelu_tanh(-t));
    }
    // Every number where the exponents run out: small, of the right sign, then 0.
    type Pair = (fn(f32) -> f32, fn(f32) -> f32);
    let forms: [(Pair, f32); 2] =
        [((gelu, gelu_derivative), 13.2), ((gelu_tanh, gelu_tanh_derivative), 10.04)];
    for ((function, derivative), end) in forms {
        for bits in (end - 0.7).to_bits()..(end + 0.3).to_bits() {
            let t = f32::from_bits(bits);
            let (value, slope) = (function(-t), derivative(-t));
            let zero = t >= end && (value, slope) == (0.0, 0.0);
            let small = (-1e-28..=0.0).contains(&value) && (-1e-28..=0.0).contains(&slope);
            assert!(zero || (t < end && small), "{t}: {value:e}, {slope:e}");
            assert_eq!((function(t), derivative(t)), (t, 1.0));
        }
    }
}

#[test]
fn gelu_near_zero_and_at_the_ends() {
    let exact = |x: f64| 0.5 * x * (1.0 + erf_f64(x / 2f64.sqrt()));
    for x in sweep().filter(|x| x.abs() < 0.5) {
        assert!(ulps(gelu(x), exact(x as f64)) < 2.5, "{x:e}: {:e}", gelu(x));
        assert!(ulps(gelu_tanh(x), gelu_tanh_f64(x as f64)) < 2.5, "{x:e}: {:e}", gelu_tanh(x));
    }
    for (function, derivative) in
        [(gelu as fn(f32) -> f32, gelu_derivative as fn(f32) -> f32), (gelu_tanh, gelu_tanh_derivative)]
    {
        assert_eq!((function(0.0).to_bits(), function(-0.0).to_bits()), (0, (-0.0f32).to_bits()));
        assert_eq!((derivative(0.0), derivative(-0.0)), (0.5, 0.5));
        assert_eq!((function(f32::INFINITY), function(f32::NEG_INFINITY)), (f32::INFINITY, 0.0));
        assert_eq!((function(1e30), function(-1e30)), (1e30, 0.0));
        assert!(function(f32::NAN).is_nan() && derivative(f32::NAN).is_nan());
    }
}

crate::multiversion! {
    fn all_functions(x: &[f32], out: &mut [[f32; 13]]) {
        for (x, out) in x.iter().copied().zip(out) {
            *out = each(x);
        }
    }
}

#[inline(always)]
fn each(x: f32) -> [f32; 13] {
    [
        exp(x),
        log(x),
        tanh(x),
        sigmoid(x),
        erf(x),
        relu(x),
        gelu(x),
        gelu_tanh(x),
        silu(x),
        relu_derivative(x),
        gelu_derivative(x),
        gelu_tanh_derivative(x),
        silu_derivative(x),
    ]
}

#[test]
fn every_level_gives_the_same_bits() {
    let x: Vec<f32> = sweep().step_by(61).collect();
    let mut expected = vec![[0.0; 13]; x.len()];
    all_functions(Level::PORTABLE, &x, &mut expected);
    for &level in Level::available() {
        let mut out = vec![[0.0; 13]; x.len()];
        all_functions(level, &x, &mut out);
        for (i, (got, expected)) in out.iter().zip(&expected).enumerate() {
            for (f, (got, expected)) in got.iter().zip(expected).enumerate() {
                let same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
                assert!(same, "{level}: function {f} at {:e}: {got:e}, {expected:e}", x[i]);
            }
        }
    }
}
