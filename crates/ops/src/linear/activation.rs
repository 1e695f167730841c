//! The activations of a product in f64: values, derivatives, and how many operations each takes.

use regard_device::Activation;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// √(2/π), in the tanh form of GELU.
const SLOPE: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
const CUBE: f64 = 0.044715;

/// The activation at z.
pub fn value(activation: Activation, z: f64) -> f64 {
    match activation {
        Activation::None => z,
        Activation::Relu => {
            if z < 0.0 {
                0.0
            } else {
                z
            }
        }
        Activation::Gelu => 0.5 * (z * (erf(z * FRAC_1_SQRT_2) + 1.0)),
        Activation::GeluTanh => 0.5 * (z * ((SLOPE * (z * (CUBE * (z * z) + 1.0))).tanh() + 1.0)),
        Activation::Silu => z * sigmoid(z),
    }
}

/// Operations of [`value`].
pub fn value_flops(activation: Activation) -> usize {
    match activation {
        Activation::None => 0,
        Activation::Relu => 1,
        Activation::Gelu => 5,
        Activation::GeluTanh => 9,
        Activation::Silu => 5,
    }
}

/// The derivative of the activation at z.
pub fn derivative(activation: Activation, z: f64) -> f64 {
    match activation {
        Activation::None => 1.0,
        Activation::Relu => {
            if z > 0.0 {
                1.0
            } else {
                0.0
            }
        }
        Activation::Gelu => {
            let below = 0.5 * (erf(z * FRAC_1_SQRT_2) + 1.0);
            let density = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (-0.5 * (z * z)).exp();
            z * density + below
        }
        Activation::GeluTanh => {
            let square = z * z;
            let t = (SLOPE * (z * (CUBE * square + 1.0))).tanh();
            let slope = SLOPE * (3.0 * CUBE * square + 1.0);
            0.5 * (z * ((1.0 - t * t) * slope)) + 0.5 * (t + 1.0)
        }
        Activation::Silu => {
            let s = sigmoid(z);
            s * (z * (1.0 - s) + 1.0)
        }
    }
}

/// Operations of [`derivative`].
pub fn derivative_flops(activation: Activation) -> usize {
    match activation {
        Activation::None => 0,
        Activation::Relu => 1,
        Activation::Gelu => 10,
        Activation::GeluTanh => 17,
        Activation::Silu => 8,
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / ((-x).exp() + 1.0)
}

/// The error function: 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (1·3·5…(2n+1)), all of one sign; ±1 from 6 on.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-17 * sum.abs() {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_at_tabulated_points() {
        // Abramowitz and Stegun, table 7.1.
        for (x, y) in [(0.1, 0.1124629160), (0.5, 0.5204998778), (1.0, 0.8427007929), (2.0, 0.9953222650)] {
            assert!((erf(x) - y).abs() < 1e-10 && erf(-x) == -erf(x));
        }
        assert_eq!((erf(0.0), erf(7.0), erf(-7.0)), (0.0, 1.0, -1.0));
        assert!((erf(5.999) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn derivatives_are_slopes() {
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu] {
            for i in -40..=40 {
                let (z, h) = (i as f64 / 7.0, 1e-5);
                let slope = (value(activation, z + h) - value(activation, z - h)) / (2.0 * h);
                assert!((derivative(activation, z) - slope).abs() < 1e-9, "{activation:?} at {z}");
            }
        }
    }
}
