//! Estimates from samples. Many draws have intervals of 99.99 %: a theory outside of its interval is a
//! failure, and with this level a right theory fails once in ten thousand. A few trainings have intervals of
//! 95 %.

use regard::evidence::upper_bound;

/// How many standard errors an interval of 99.99 % reaches to either side.
pub const REACH: f64 = 3.890_591_886_413_124;

/// The confidence of intervals from many draws, in words.
pub const CONFIDENCE: &str = "99.99 %";

/// The confidence of intervals over trainings, in words.
pub const TRAINED_CONFIDENCE: &str = "95 %";

/// A number from samples, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl From<Estimate> for regard_picture::Measured {
    fn from(Estimate { value, low, high }: Estimate) -> Self {
        Self { value, low, high }
    }
}

impl Estimate {
    /// True if a number lies in the interval.
    pub fn holds(&self, number: f64) -> bool {
        self.low <= number && number <= self.high
    }

    /// The estimate of a multiple.
    pub fn times(&self, factor: f64) -> Estimate {
        let (a, b) = (self.low * factor, self.high * factor);
        Estimate { value: self.value * factor, low: a.min(b), high: a.max(b) }
    }
}

/// The mean.
pub fn mean(samples: &[f64]) -> Estimate {
    let (mean, variance) = moments(samples);
    around(mean, (variance / samples.len() as f64).sqrt())
}

/// The variance; its error from the fourth moment, so that no distribution is assumed.
pub fn variance(samples: &[f64]) -> Estimate {
    let (mean, variance) = moments(samples);
    let fourth = samples.iter().map(|x| (x - mean).powi(4)).sum::<f64>() / samples.len() as f64;
    around(variance, ((fourth - variance * variance).max(0.0) / samples.len() as f64).sqrt())
}

/// The standard deviation.
pub fn deviation(samples: &[f64]) -> Estimate {
    root(variance(samples))
}

/// The root of the mean square.
pub fn root_mean_square(samples: &[f64]) -> Estimate {
    root(mean(&samples.iter().map(|x| x * x).collect::<Vec<_>>()))
}

/// The square root of an estimate.
pub fn root(squared: Estimate) -> Estimate {
    let root = |x: f64| x.max(0.0).sqrt();
    Estimate { value: root(squared.value), low: root(squared.low), high: root(squared.high) }
}

/// A share: Wilson's interval, right at 0 and 1 too.
pub fn share(hits: usize, of: usize) -> Estimate {
    let (n, p, z) = (of as f64, hits as f64 / of as f64, REACH * REACH);
    let middle = (p + z / (2.0 * n)) / (1.0 + z / n);
    let half = REACH / (1.0 + z / n) * (p * (1.0 - p) / n + z / (4.0 * n * n)).sqrt();
    Estimate { value: p, low: (middle - half).max(0.0), high: (middle + half).min(1.0) }
}

/// The mean over a few runs with Student's interval of 95 %; a single run has none.
pub fn over_runs(runs: &[f64]) -> Estimate {
    let (mean, variance) = moments(runs);
    if runs.len() < 2 {
        return Estimate { value: mean, low: mean, high: mean };
    }
    let half = student(runs.len() - 1) * (variance / runs.len() as f64).sqrt();
    Estimate { value: mean, low: mean - half, high: mean + half }
}

/// How many standard errors an interval of 95 % reaches to either side with so many degrees of freedom: a
/// table for few, the expansion around the normal distribution (Fisher and Cornish 1960) for more.
fn student(freedom: usize) -> f64 {
    const FEW: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    if let Some(&few) = freedom.checked_sub(1).and_then(|at| FEW.get(at)) {
        return few;
    }
    let (z, v) = (1.959_963_984_540_054f64, freedom as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / v + second / v.powi(2)
}

/// A share with its exact interval of 95 % (Clopper and Pearson 1934).
pub fn exact_share(hits: usize, of: usize) -> Estimate {
    let value = hits as f64 / of as f64;
    Estimate { value, low: 1.0 - error_bound(of - hits, of, 0.025), high: error_bound(hits, of, 0.025) }
}

/// The largest rate at which so few errors of so many are still as likely as `doubt`, which is between 0 and
/// 1.
pub fn error_bound(errors: usize, of: usize, doubt: f64) -> f64 {
    upper_bound(errors, of, 1.0 - doubt).expect("a doubt between 0 and 1")
}

/// The median, its interval from the order of the samples.
pub fn median(samples: &[f64]) -> Estimate {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let half = REACH * (n as f64).sqrt() / 2.0;
    let at = |rank: f64| sorted[(rank.max(0.0) as usize).min(n - 1)];
    let middle = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
    Estimate { value: middle, low: at(n as f64 / 2.0 - half - 1.0), high: at(n as f64 / 2.0 + half + 1.0) }
}

fn around(value: f64, error: f64) -> Estimate {
    Estimate { value, low: value - REACH * error, high: value + REACH * error }
}

/// Mean and unbiased variance.
fn moments(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let squares = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    (mean, squares / (n - 1.0).max(1.0))
}

/// Counts in equal bins from `low` to `high`, as shares of all samples; what lies outside goes to the
/// outermost bins.
pub fn histogram(samples: &[f64], low: f64, high: f64, bins: usize) -> Vec<(f64, f64)> {
    let width = (high - low) / bins as f64;
    let mut counts = vec![0usize; bins];
    for x in samples {
        counts[(((x - low) / width).max(0.0) as usize).min(bins - 1)] += 1;
    }
    let middle = |bin: usize| low + width * (bin as f64 + 0.5);
    counts.iter().enumerate().map(|(bin, &n)| (middle(bin), n as f64 / samples.len() as f64)).collect()
}

/// E f(Z) for a standard normal Z: the trapezoid rule, which for smooth functions against this weight is
/// right to rounding.
pub fn normal_expectation(f: impl Fn(f64) -> f64) -> f64 {
    const STEP: f64 = 1.0 / 256.0;
    const FAR: i32 = 12 * 256;
    let weight = |z: f64| (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    (-FAR..=FAR).map(|i| i as f64 * STEP).map(|z| STEP * weight(z) * f(z)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;

    #[test]
    fn intervals_of_normal_samples_hold_the_truth() {
        let samples = Context::default().draws("statistics").normals(20_000);
        assert!(mean(&samples).holds(0.0) && !mean(&samples).holds(0.05));
        assert!(variance(&samples).holds(1.0) && !variance(&samples).holds(1.1));
        assert!(deviation(&samples).holds(1.0) && root_mean_square(&samples).holds(1.0));
        assert!(median(&samples).holds(0.0) && !median(&samples).holds(0.06));
        let positive = samples.iter().filter(|&&x| x > 0.0).count();
        assert!(share(positive, samples.len()).holds(0.5) && !share(positive, samples.len()).holds(0.53));
    }

    #[test]
    fn an_interval_of_a_mean_is_as_wide_as_by_hand() {
        let found = mean(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(found.value, 2.5);
        assert!((found.high - 2.5 - REACH * (5.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12);
        assert_eq!(share(0, 10).low, 0.0);
        assert!(share(0, 10).high > 0.5);
    }

    #[test]
    fn intervals_over_few_runs_are_those_of_tables() {
        let found = over_runs(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((found.high - 3.0 - 2.776 * 0.5f64.sqrt()).abs() < 1e-9);
        assert_eq!(over_runs(&[0.25]).low, 0.25);
        // t at 0.975 is 2.086 with 20 degrees of freedom, and the normal's 1.960 with many.
        assert!((student(20) - 2.086).abs() < 1e-3 && (student(1_000_000) - 1.96).abs() < 1e-3);
    }

    #[test]
    fn exact_shares_are_those_of_tables() {
        // One-sided 95 %: 3 errors of 20 leave 0.3437 possible, none of 100 leave 0.0295.
        assert!((error_bound(3, 20, 0.05) - 0.3437).abs() < 1e-4);
        assert!((error_bound(0, 100, 0.05) - 0.0295).abs() < 1e-4);
        assert_eq!([error_bound(0, 0, 0.05), error_bound(5, 5, 0.05)], [1.0, 1.0]);
        let found = exact_share(25, 500);
        assert!((found.low - 0.0326).abs() < 1e-4 && (found.high - 0.0729).abs() < 1e-4, "{found:?}");
        assert_eq!(exact_share(0, 10).low, 0.0);
    }

    #[test]
    fn expectations_of_polynomials_and_waves() {
        assert!((normal_expectation(|z| z.powi(4)) - 3.0).abs() < 1e-12);
        assert!((normal_expectation(f64::cos) - (-0.5f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn histograms_keep_every_sample() {
        let bars = histogram(&[-5.0, 0.1, 0.2, 0.9, 7.0], 0.0, 1.0, 4);
        assert_eq!(bars, [(0.125, 0.6), (0.375, 0.0), (0.625, 0.0), (0.875, 0.4)]);
    }
}
