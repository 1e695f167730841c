//! How many errors chance makes: tails of the binomial distribution, and Clopper and Pearson's bound (1934)
//! on a rate. In logarithms, so that neither ten thousand questions nor a rate of 10⁻⁹ loses its digits.

use crate::{Error, Result};

/// The probability of at most so many errors in `of` questions, each wrong with probability `rate`.
pub fn at_most(errors: usize, of: usize, rate: f64) -> f64 {
    if errors >= of || rate <= 0.0 {
        return 1.0;
    }
    if rate >= 1.0 {
        return 0.0;
    }
    let (hit, miss) = (rate.ln(), (-rate).ln_1p());
    // Terms one after the other, each from the one before: C(n, k) pᵏ (1 − p)ⁿ⁻ᵏ.
    let mut term = of as f64 * miss;
    let mut largest = term;
    let mut sum = 1.0;
    for k in 1..=errors {
        term += ((of - k + 1) as f64 / k as f64).ln() + hit - miss;
        if term > largest {
            sum = sum * (largest - term).exp() + 1.0;
            largest = term;
        } else {
            sum += (term - largest).exp();
        }
    }
    (largest.exp() * sum).min(1.0)
}

/// The largest rate that so many errors leave possible with this certainty (one-sided).
pub fn upper_bound(errors: usize, of: usize, certainty: f64) -> Result<f64> {
    check_certainty(certainty)?;
    if of == 0 || errors >= of {
        return Ok(1.0);
    }
    Ok(halved(errors as f64 / of as f64, 1.0, |rate| at_most(errors, of, rate) > 1.0 - certainty))
}

/// The smallest rate that so many errors leave possible with this certainty (one-sided).
pub fn lower_bound(errors: usize, of: usize, certainty: f64) -> Result<f64> {
    // Errors and what is right change places.
    Ok(1.0 - upper_bound(of.saturating_sub(errors), of, certainty)?)
}

/// Refuses a certainty that is none.
pub(crate) fn check_certainty(certainty: f64) -> Result<()> {
    match certainty > 0.0 && certainty < 1.0 {
        true => Ok(()),
        false => Err(Error::invalid(
            format!("a certainty of {certainty}"),
            "choose one between 0 and 1, such as 0.95",
        )),
    }
}

/// Where a condition that holds below and not above changes.
fn halved(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_sums_of_chances() {
        // Two of three heads or fewer: all but three.
        assert!((at_most(2, 3, 0.5) - 7.0 / 8.0).abs() < 1e-15);
        assert!((at_most(0, 10, 0.1) - 0.9f64.powi(10)).abs() < 1e-15);
        assert_eq!((at_most(3, 3, 0.9), at_most(0, 5, 0.0), at_most(0, 5, 1.0)), (1.0, 1.0, 0.0));
        // Of many: close to the normal distribution, Φ(0) with its correction.
        assert!((at_most(5000, 10_000, 0.5) - 0.503_989).abs() < 1e-5);
        assert!(at_most(10, 100_000, 0.5) >= 0.0, "no digit is needed that is not there");
    }

    #[test]
    fn bounds_are_those_of_clopper_and_pearson() {
        // By the closed form of no errors, 1 − 0.05^(1/10).
        assert!((upper_bound(0, 10, 0.95).unwrap() - (1.0 - 0.05f64.powf(0.1))).abs() < 1e-12);
        // 2 of 20, as R's binom.test(2, 20, alternative = "less") has it.
        assert!((upper_bound(2, 20, 0.95).unwrap() - 0.282_619).abs() < 1e-6);
        assert!((lower_bound(2, 20, 0.95).unwrap() - 0.018_065).abs() < 1e-6);
        assert_eq!((upper_bound(5, 5, 0.95).unwrap(), upper_bound(0, 0, 0.95).unwrap()), (1.0, 1.0));
        assert_eq!(
            upper_bound(1, 5, 1.0).unwrap_err().to_string(),
            "a certainty of 1; choose one between 0 and 1, such as 0.95"
        );
        assert_eq!(
            lower_bound(1, 5, 0.0).unwrap_err().to_string(),
            "a certainty of 0; choose one between 0 and 1, such as 0.95"
        );
    }
}
