//! The learning rate over a run: a warm-up, then a shape that falls to a floor. Time is counted in steps or
//! in tokens, padding included. What is done before a step does not matter: the rate is a function of how far
//! the run will be when the step is done, so a resumed run has the same.

use crate::{Error, Result};

/// How the rate falls after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Not at all.
    #[default]
    Constant,
    /// On a straight line to 0 (or to the floor, where it stays).
    Linear,
    /// On half a wave of the cosine to 0 (or to the floor, where it stays).
    Cosine,
    /// With the root of time since the beginning: half of the rate at four times the warm-up. It has no end.
    InverseRoot,
}

/// What time is counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Updates of the parameters.
    #[default]
    Steps,
    /// Tokens (or images), padding included, as [`regard_data::Batch::tokens`] counts them.
    Tokens,
}

/// What the learning rate is multiplied by as a run goes on.
///
/// ```
/// use regard_train::{Schedule, Shape, Unit};
/// // As the birth-place study: warm-up over 512·20 tokens, then a cosine with a floor of 10 %.
/// let (shape, unit) = (Shape::Cosine, Unit::Tokens);
/// let study = Schedule { shape, unit, warm_up: 10_240, end: 1_000_000, floor: 0.1 };
/// assert_eq!(study.factor(0, 5_120), 0.5);
/// assert_eq!(study.factor(0, 10_240), 1.0);
/// assert_eq!(study.factor(0, 1_000_000), 0.1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Schedule {
    /// How it falls.
    pub shape: Shape,
    /// What `warm_up` and `end` count.
    pub unit: Unit,
    /// How long it rises from 0 in a straight line.
    pub warm_up: u64,
    /// When the fall is over, counted from the beginning of the run. Not used by [`Shape::Constant`] and
    /// [`Shape::InverseRoot`].
    pub end: u64,
    /// The factor never falls below this, once warm.
    pub floor: f64,
}

impl Schedule {
    /// Always the same rate.
    pub const CONSTANT: Schedule =
        Schedule { shape: Shape::Constant, unit: Unit::Steps, warm_up: 0, end: 0, floor: 0.0 };

    /// The factor of a step after which the run has made so many steps and seen so many tokens.
    pub fn factor(&self, steps: u64, tokens: u64) -> f64 {
        let now = match self.unit {
            Unit::Steps => steps,
            Unit::Tokens => tokens,
        };
        if now < self.warm_up {
            return now as f64 / self.warm_up as f64;
        }
        let falling = self.end.saturating_sub(self.warm_up).max(1);
        let progress = ((now - self.warm_up) as f64 / falling as f64).min(1.0);
        let left = match self.shape {
            Shape::Constant => 1.0,
            Shape::Linear => 1.0 - progress,
            Shape::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
            Shape::InverseRoot => (self.warm_up.max(1) as f64 / now.max(1) as f64).sqrt().min(1.0),
        };
        left.max(self.floor)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.floor) {
            return Err(Error::invalid(
                format!("the schedule's floor is {}", self.floor),
                "give a part of the learning rate, from 0 to 1",
            ));
        }
        if matches!(self.shape, Shape::Linear | Shape::Cosine) && self.end <= self.warm_up {
            return Err(Error::invalid(
                format!("the schedule ends at {}, its warm-up at {}", self.end, self.warm_up),
                "let it end after the warm-up, or choose a constant one",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_falls_and_stays() {
        let linear = Schedule { shape: Shape::Linear, warm_up: 2, end: 6, ..Schedule::CONSTANT };
        let factors: Vec<f64> = (1..=8).map(|step| linear.factor(step, 0)).collect();
        assert_eq!(factors, [0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0, 0.0]);
        let floored = Schedule { floor: 0.3, ..linear };
        assert_eq!(floored.factor(5, 0), 0.3);
        assert_eq!(floored.factor(1, 0), 0.5, "the floor is for the fall, not for the warm-up");
        let cosine = Schedule { shape: Shape::Cosine, unit: Unit::Tokens, warm_up: 0, end: 100, floor: 0.1 };
        assert_eq!(cosine.factor(99, 0), 1.0, "tokens, not steps");
        assert!((cosine.factor(0, 25) - 0.853_553_390_593_273_8).abs() < 1e-15);
        assert!((cosine.factor(0, 50) - 0.5).abs() < 1e-15);
        assert_eq!(cosine.factor(0, 90), 0.1);
        assert_eq!(cosine.factor(0, 1_000), 0.1, "it does not rise again");
        let root = Schedule { shape: Shape::InverseRoot, warm_up: 4, floor: 0.1, ..Schedule::CONSTANT };
        assert_eq!([2, 4, 16, 64, 10_000].map(|step| root.factor(step, 0)), [0.5, 1.0, 0.5, 0.25, 0.1]);
        let constant = Schedule { warm_up: 4, ..Schedule::CONSTANT };
        assert_eq!([1, 4, 1_000].map(|step| constant.factor(step, 0)), [0.25, 1.0, 1.0]);
    }

    #[test]
    fn nonsense_is_refused() {
        let text = Schedule { floor: 1.5, ..Schedule::CONSTANT }.check().unwrap_err().to_string();
        assert_eq!(text, "the schedule's floor is 1.5; give a part of the learning rate, from 0 to 1");
        let short = Schedule { shape: Shape::Cosine, warm_up: 10, end: 10, ..Schedule::CONSTANT };
        assert_eq!(
            short.check().unwrap_err().to_string(),
            "the schedule ends at 10, its warm-up at 10; let it end after the warm-up, or choose a constant one"
        );
    }
}
