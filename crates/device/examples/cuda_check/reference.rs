//! Random inputs, and the results of kernels and products computed on the host in f64.

use half::bf16;
use regard_device::cuda::Number;
use regard_device::random::Stream;

/// Numbers as they are stored, and what they are in f64.
pub struct Values {
    pub number: Number,
    pub exact: Vec<f64>,
}

impl Values {
    /// Standard normal numbers, rounded as they are stored. Every name gives others.
    pub fn normal(name: &str, number: Number, count: usize) -> Values {
        let stream = Stream::new(20_260_731, 0, name);
        let mut exact = Vec::with_capacity(count + 1);
        for block in 0..count.div_ceil(2) {
            exact.extend(stream.normal_pair(0, 0, block as u32));
        }
        exact.truncate(count);
        exact.iter_mut().for_each(|x| *x = rounded(number, *x));
        Values { number, exact }
    }

    /// The bytes as they are stored.
    pub fn bytes(&self) -> Vec<u8> {
        match self.number {
            Number::F32 => self.exact.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
            Number::Bf16 => self.exact.iter().flat_map(|&x| bf16::from_f64(x).to_le_bytes()).collect(),
        }
    }
}

/// A number as it is stored.
pub fn rounded(number: Number, x: f64) -> f64 {
    match number {
        Number::F32 => f64::from(x as f32),
        Number::Bf16 => bf16::from_f64(x).to_f64(),
    }
}

/// Stored numbers in f64.
pub fn read(number: Number, bytes: &[u8]) -> Vec<f64> {
    match number {
        Number::F32 => {
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).into()).collect()
        }
        Number::Bf16 => bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f64()).collect(),
    }
}

/// ‖got - expected‖ / ‖expected‖; NaN when anything is NaN.
pub fn distance(got: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let away: f64 = got.iter().zip(expected).map(|(x, y)| (x - y) * (x - y)).sum();
    let size: f64 = expected.iter().map(|y| y * y).sum();
    (away / size).sqrt()
}

/// The largest |got - expected| / (1 + |expected|); NaN when anything is NaN.
pub fn worst(got: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let each = got.iter().zip(expected).map(|(x, y)| (x - y).abs() / (1.0 + y.abs()));
    each.fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most })
}

/// The error function: a sum of positive terms, so that nothing cancels.
pub fn erf(x: f64) -> f64 {
    if x.abs() > 6.5 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..400 {
        term *= 2.0 * x * x / (2 * n + 1) as f64;
        sum += term;
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp()
}

pub fn gelu_erf(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

fn gelu_angle(x: f64) -> f64 {
    (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)
}

pub fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + gelu_angle(x).tanh())
}

pub fn gelu_tanh_derivative(x: f64) -> f64 {
    let t = gelu_angle(x).tanh();
    let slope = (2.0 / std::f64::consts::PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
    0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope
}

pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

pub fn softmax(row: &[f64], scale: f64) -> Vec<f64> {
    let most = row.iter().fold(f64::NEG_INFINITY, |most, &x| most.max(x * scale));
    let powers: Vec<f64> = row.iter().map(|x| (x * scale - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|x| x / sum).collect()
}

/// Mean and 1 / sqrt(variance + epsilon).
pub fn moments(row: &[f64], epsilon: f64) -> (f64, f64) {
    let mean = row.iter().sum::<f64>() / row.len() as f64;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / row.len() as f64;
    (mean, 1.0 / (variance + epsilon).sqrt())
}
