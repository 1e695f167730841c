//! One axis: its range, where its ticks stand, and where a number falls.

use super::figure;

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
    pub(super) fn fitted(&self, numbers: impl Iterator<Item = f64>) -> Fitted {
        let usable = |x: &f64| x.is_finite() && (!self.log || *x > 0.0);
        let all: Vec<f64> = numbers.chain(self.covers.iter().copied()).filter(usable).collect();
        let scale = |x: f64| if self.log { x.log10() } else { x };
        let (mut low, mut high) =
            all.iter().fold((f64::MAX, f64::MIN), |(low, high), &x| (low.min(scale(x)), high.max(scale(x))));
        if all.is_empty() {
            (low, high) = (0.0, 1.0);
        }
        if !self.names.is_empty() {
            (low, high) = (-0.6, self.names.len() as f64 - 0.4);
        } else if high - low < 1e-12 * (1.0 + high.abs()) {
            let room = if self.log { 0.5 } else { 0.5 * (1.0 + high.abs()) };
            (low, high) = (low - room, high + room);
        } else {
            let room = 0.04 * (high - low);
            (low, high) = (if low == 0.0 { 0.0 } else { low - room }, high + room);
        }
        Fitted { log: self.log, low, high, names: self.names.clone() }
    }
}

/// An axis with its range.
pub(super) struct Fitted {
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

    /// Ticks with their text.
    pub fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        if !self.names.is_empty() {
            return self.names.iter().enumerate().map(|(i, name)| (i as f64, name.clone())).collect();
        }
        if self.log && self.high - self.low >= 1.5 {
            let step = ((self.high - self.low) / most as f64).round().max(1.0) as i32;
            let (first, last) = (self.low.ceil() as i32, self.high.floor() as i32);
            let powers = (first..=last).filter(|power| power.rem_euclid(step) == 0);
            return powers.map(|power| (10f64.powi(power), power_of_ten(power))).collect();
        }
        let real = |x: f64| if self.log { 10f64.powf(x) } else { x };
        let (low, high) = (real(self.low), real(self.high));
        let rough = (high - low) / most as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|&s| s >= 0.8 * rough).unwrap_or(rough);
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).map(|x| (x, figure(x))).collect()
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

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::new("x").fitted([0.0, 9.7].into_iter());
        assert_eq!(
            axis.ticks(5).iter().map(|t| t.1.as_str()).collect::<Vec<_>>(),
            ["0", "2", "4", "6", "8", "10"]
        );
        let axis = Axis::log("x").fitted([1e-6, 100.0].into_iter());
        assert_eq!(
            axis.ticks(4).iter().map(|t| t.1.as_str()).collect::<Vec<_>>(),
            ["10⁻⁶", "10⁻⁴", "0.01", "1", "100"]
        );
        assert_eq!(axis.at(0.0), None);
        let axis = Axis::names("x", ["a", "b"]).fitted([0.0, 1.0].into_iter());
        assert_eq!(axis.ticks(4)[1], (1.0, "b".into()));
    }
}
