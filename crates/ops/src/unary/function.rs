//! The functions of one number that ops apply, and what the specification says of them: value and backward
//! rule in f64, with their own count of what they did, and what the cost reader says of them.

use crate::counted::{Counted, counted};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// max(x, 0)
    Relu,
    /// x·Φ(x), Φ the normal distribution by the error function
    Gelu,
    /// GELU in its tanh form, as in GPT-2
    GeluTanh,
    /// x·σ(x)
    Silu,
    /// Hyperbolic tangent
    Tanh,
    /// σ(x) = 1 / (1 + e⁻ˣ)
    Sigmoid,
    /// eˣ
    Exp,
    /// Natural logarithm: −∞ at 0, NaN below
    Log,
    /// Square root: NaN below 0
    Sqrt,
    /// x²
    Square,
    /// |x|
    Abs,
    /// 1/x
    Recip,
}

impl Function {
    /// Every function.
    pub const ALL: [Function; 12] = [
        Function::Relu,
        Function::Gelu,
        Function::GeluTanh,
        Function::Silu,
        Function::Tanh,
        Function::Sigmoid,
        Function::Exp,
        Function::Log,
        Function::Sqrt,
        Function::Square,
        Function::Abs,
        Function::Recip,
    ];

    /// Its name, which is also the op's.
    pub fn name(self) -> &'static str {
        match self {
            Function::Relu => "relu",
            Function::Gelu => "gelu",
            Function::GeluTanh => "gelu_tanh",
            Function::Silu => "silu",
            Function::Tanh => "tanh",
            Function::Sigmoid => "sigmoid",
            Function::Exp => "exp",
            Function::Log => "log",
            Function::Sqrt => "sqrt",
            Function::Square => "square",
            Function::Abs => "abs",
            Function::Recip => "recip",
        }
    }

    /// True where the derivative is a simple function of y = f(x): then x need not be kept.
    pub fn from_result(self) -> bool {
        use Function::*;
        matches!(self, Relu | Tanh | Sigmoid | Exp | Sqrt | Recip)
    }

    /// f(x), as the specification has it.
    pub fn value(self, x: f64) -> f64 {
        self.counted_value(x).0
    }

    /// The same, and how many operations it took.
    pub(crate) fn counted_value(self, x: f64) -> (f64, usize) {
        counted(x, |x| match self {
            Function::Relu => x.through(|x| if x < 0.0 { 0.0 } else { x }),
            Function::Gelu => x * 0.5 * (1.0 + (x * FRAC_1_SQRT_2).through(erf)),
            Function::GeluTanh => x * 0.5 * (1.0 + gelu_inner(x).through(f64::tanh)),
            Function::Silu => x * sigmoid(x),
            Function::Tanh => x.through(f64::tanh),
            Function::Sigmoid => sigmoid(x),
            Function::Exp => x.through(f64::exp),
            Function::Log => x.through(f64::ln),
            Function::Sqrt => x.through(f64::sqrt),
            Function::Square => x * x,
            Function::Abs => x.through(f64::abs),
            Function::Recip => 1.0 / x,
        })
    }

    /// The gradient dx = dy·f′(x), from `saved`: y where [`Function::from_result`], else x.
    pub fn backward(self, saved: f64, dy: f64) -> f64 {
        self.counted_backward(saved, dy).0
    }

    /// The same, and how many operations it took.
    pub(crate) fn counted_backward(self, saved: f64, dy: f64) -> (f64, usize) {
        counted(saved, |saved| {
            let (x, y, dy) = (saved, saved, saved.with_number(dy));
            match self {
                // The kinks of relu and |x| have slope 0.
                Function::Relu if y.sign() > 0 => dy,
                Function::Relu => dy.with_number(0.0),
                Function::Gelu => {
                    let density = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (-0.5 * x * x).through(f64::exp);
                    dy * (0.5 * (1.0 + (x * FRAC_1_SQRT_2).through(erf)) + x * density)
                }
                Function::GeluTanh => {
                    let t = gelu_inner(x).through(f64::tanh);
                    let inner_slope = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
                    dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner_slope)
                }
                Function::Silu => {
                    let s = sigmoid(x);
                    dy * s * (1.0 + x * (1.0 - s))
                }
                Function::Tanh => dy * (1.0 - y * y),
                Function::Sigmoid => dy * y * (1.0 - y),
                Function::Exp => dy * y,
                Function::Log => dy / x,
                Function::Sqrt => dy * 0.5 / y,
                Function::Square => dy * 2.0 * x,
                Function::Abs => match x.sign() {
                    1 => dy,
                    -1 => -dy,
                    _ => dy.with_number(0.0),
                },
                Function::Recip => -dy * y * y,
            }
        })
    }

    /// What the cost reader says of [`Function::value`]: erf, exp, tanh, a root and a comparison count one
    /// each.
    pub fn flops(self) -> usize {
        match self {
            Function::Gelu => 5,     // scale, erf, add, halve, multiply
            Function::GeluTanh => 9, // five inside, tanh, add, halve, multiply
            Function::Silu => 4,
            Function::Sigmoid => 3, // exp, add, divide
            _ => 1,
        }
    }

    /// What the cost reader says of [`Function::backward`]; signs are free.
    pub fn backward_flops(self) -> usize {
        match self {
            Function::Gelu => 11, // four for Φ, four for the density, multiply, add, times dy
            Function::GeluTanh => 19,
            Function::Silu => 8,
            Function::Tanh | Function::Sigmoid => 3,
            Function::Sqrt | Function::Square | Function::Recip => 2,
            Function::Relu | Function::Exp | Function::Log | Function::Abs => 1,
        }
    }
}

/// √(2/π)·(x + 0.044715·x³)
fn gelu_inner(x: Counted<'_>) -> Counted<'_> {
    (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)
}

/// The logistic function, without overflow on either side.
fn sigmoid(x: Counted<'_>) -> Counted<'_> {
    if x.number() < 0.0 {
        let e = x.through(f64::exp);
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + (-x).through(f64::exp))
    }
}

/// The error function in f64: the Maclaurin series near 0, the continued fraction of erfc beyond.
fn erf(x: f64) -> f64 {
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
        return sum * FRAC_2_SQRT_PI;
    }
    let fraction = (1..=120).rev().fold(t, |tail, n| t + n as f64 / 2.0 / tail);
    (1.0 - (-t * t).exp() / (fraction * PI.sqrt())).copysign(x)
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
}
