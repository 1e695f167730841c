//! One axis: its range, where its ticks stand, and where a number falls.

use crate::number::{figure, tick};

/// An axis.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// What runs along it, with its unit.
    pub label: String,
    /// Powers of ten at equal distances.
    pub log: bool,
    /// What it must show; more if the numbers need it.
    pub covers: Vec<f64>,
    /// Names instead of numbers, at 0, 1, 2, …
    pub names: Vec<String>,
}

/// Larger numbers stand at the edge, and differences below its inverse are none: a range of them could not be
/// computed.
const MOST: f64 = 1e300;

impl Axis {
    /// A linear axis.
    pub fn new(label: impl Into<String>) -> Self {
        Axis { label: label.into(), ..Default::default() }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Self {
        Axis { log: true, ..Axis::new(label) }
    }

    /// An axis of names.
    pub fn names<T: ToString>(label: impl Into<String>, names: impl IntoIterator<Item = T>) -> Self {
        Axis { names: names.into_iter().map(|name| name.to_string()).collect(), ..Axis::new(label) }
    }

    /// With a number that it must show.
    pub fn covering(mut self, numbers: &[f64]) -> Self {
        self.covers.extend(numbers);
        self
    }

    /// Fits the axis to numbers.
    pub(crate) fn fitted(&self, numbers: impl Iterator<Item = f64>) -> Fitted {
        let usable = |x: &f64| x.is_finite() && (!self.log || *x > 0.0);
        let scale = |x: f64| if self.log { x.clamp(1.0 / MOST, MOST).log10() } else { x.clamp(-MOST, MOST) };
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for x in numbers.chain(self.covers.iter().copied()).filter(usable).map(scale) {
            (low, high) = (low.min(x), high.max(x));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if !self.names.is_empty() {
            (low, high) = (-0.6, self.names.len() as f64 - 0.4);
        } else if high - low <= (1e-12 * high.abs().max(low.abs())).max(1.0 / MOST) {
            // One number: it stands in the middle, with room of its own size around it.
            let room = match (self.log, low.abs() <= 1.0 / MOST) {
                (true, _) | (_, true) => 0.5,
                _ => 0.5 * low.abs(),
            };
            (low, high) = (low - room, high + room);
        } else {
            let room = 0.04 * (high - low);
            (low, high) = (if low == 0.0 { 0.0 } else { low - room }, high + room);
        }
        Fitted { log: self.log, low, high, names: self.names.clone() }
    }
}

/// An axis with its range.
pub(crate) struct Fitted {
    log: bool,
    low: f64,
    high: f64,
    names: Vec<String>,
}

impl Fitted {
    /// Where a number falls, 0 at the beginning and 1 at the end; `None` if it cannot be shown.
    pub fn at(&self, x: f64) -> Option<f64> {
        let x = if self.log { (x > 0.0).then(|| x.log10())? } else { x };
        x.is_finite().then(|| ((x - self.low) / (self.high - self.low)).clamp(0.0, 1.0))
    }

    /// About so many ticks, with their text. Their numbers are round, rise, and lie inside of the range.
    pub fn ticks(&self, about: usize) -> Vec<(f64, String)> {
        if !self.names.is_empty() {
            return self.names.iter().enumerate().map(|(i, name)| (i as f64, name.clone())).collect();
        }
        if self.log && self.high - self.low >= 1.5 {
            let step = ((self.high - self.low) / about as f64).round().max(1.0) as i32;
            let (first, last) = (self.low.ceil() as i32, self.high.floor() as i32);
            let powers = (first..=last).filter(|power| power.rem_euclid(step) == 0);
            return powers.map(|power| (10f64.powi(power), power_of_ten(power))).collect();
        }
        let real = |x: f64| if self.log { 10f64.powf(x) } else { x };
        let (low, high) = (real(self.low), real(self.high));
        let rough = (high - low) / about as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|&s| s >= 0.8 * rough).unwrap_or(rough);
        let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
        (first..=last).map(|i| i as f64 * step).map(|x| (x, tick(x, step))).collect()
    }
}

fn power_of_ten(power: i32) -> String {
    match power {
        -2..=3 => figure(10f64.powi(power)),
        _ => {
            let digits: String = power.to_string().chars().map(superscript).collect();
            format!("10{digits}")
        }
    }
}

fn superscript(c: char) -> char {
    match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32('⁰' as u32 + digit as u32 - '0' as u32).unwrap_or(digit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, numbers: &[f64], about: usize) -> Vec<String> {
        let ticks = axis.fitted(numbers.iter().copied()).ticks(about);
        ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(texts(&Axis::new("x"), &[0.0, 9.7], 5), ["0", "2", "4", "6", "8", "10"]);
        let axis = Axis::log("x");
        assert_eq!(texts(&axis, &[1e-6, 100.0], 4), ["10⁻⁶", "10⁻⁴", "0.01", "1", "100"]);
        assert_eq!(axis.fitted([1e-6, 100.0].into_iter()).at(0.0), None);
        assert_eq!(texts(&Axis::names("x", ["a", "b"]), &[0.0, 1.0], 4), ["a", "b"]);
    }

    #[test]
    fn awkward_ranges_have_ticks_that_differ() {
        let (nan, infinite) = (f64::NAN, f64::INFINITY);
        let ranges: [&[f64]; 16] = [
            &[],
            &[nan, infinite, -infinite],
            &[0.0],
            &[5.0, 5.0],
            &[-5.0],
            &[1e-9, 1e-9],
            &[-3.0, -1.0],
            &[-1e-7, 2e-7],
            &[1e9, 1e9 + 3.0],
            &[1.0, 1.0 + 1e-9],
            &[7.0, 7.0 + 1e-15],
            &[f64::MIN, f64::MAX],
            &[f64::MAX],
            &[0.0, f64::MIN_POSITIVE],
            &[0.0, 5e-324],
            &[0.1, nan, 0.3],
        ];
        for numbers in ranges {
            for axis in [Axis::new("x"), Axis::log("x")] {
                let fitted = axis.fitted(numbers.iter().copied());
                let ticks = fitted.ticks(5);
                assert!((2..=12).contains(&ticks.len()) || axis.log, "{numbers:?}: {ticks:?}");
                assert!(ticks.windows(2).all(|pair| pair[0].0 < pair[1].0), "{numbers:?}: {ticks:?}");
                assert!(ticks.windows(2).all(|pair| pair[0].1 != pair[1].1), "{numbers:?}: {ticks:?}");
                for (x, text) in &ticks {
                    assert!(
                        x.is_finite() && fitted.at(*x).is_some() && text.len() < 30,
                        "{numbers:?}: {text}"
                    );
                }
                for &x in numbers.iter().filter(|x| x.is_finite()) {
                    assert!(
                        fitted.at(x).is_some_and(|place| (0.0..=1.0).contains(&place))
                            || axis.log && x <= 0.0
                    );
                }
            }
        }
        assert_eq!(texts(&Axis::new("x"), &[5.0, 5.0], 5), ["3", "4", "5", "6", "7"]);
        assert_eq!(texts(&Axis::new("x"), &[-3.0, -1.0], 4), ["−3", "−2.5", "−2", "−1.5", "−1"]);
    }
}
