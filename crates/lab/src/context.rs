//! What an experiment is given: a seed, an effort, and others to share its work with. Its random numbers are
//! counted, so that the same seed gives the same numbers on any machine, in any order, beside any other
//! experiment.

use crate::workers::{ALONE, Workers};
use regard::device::{Level, Stream};
use regard::{Cpu, Device, Result};

/// How much work may be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Effort {
    /// Every exact and Monte-Carlo claim within minutes; trained ones are indicative.
    #[default]
    Quick,
    /// Trained claims over eight random seeds, more draws; about an hour of one core.
    Full,
}

impl Effort {
    /// The word for it, which is also the flag.
    pub fn name(self) -> &'static str {
        match self {
            Effort::Quick => "quick",
            Effort::Full => "full",
        }
    }
}

/// What an experiment is given.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The seed of all random numbers.
    pub seed: u64,
    /// How much work.
    pub effort: Effort,
    /// Who helps with work that falls into parts. No number depends on it.
    pub workers: &'a Workers,
    /// The card on which models are trained, if not the CPU.
    pub device: Option<&'a Device>,
}

impl Default for Context<'_> {
    fn default() -> Self {
        Context { seed: 0, effort: Effort::default(), workers: &ALONE, device: None }
    }
}

impl Context<'_> {
    /// Random numbers of this name.
    pub fn draws(&self, name: &str) -> Draws {
        Draws { stream: Stream::new(self.seed, 0, name), next: 0, spare: None }
    }

    /// Where models are trained: the card, or one thread at the widest level, for experiments run beside each
    /// other and threads change no bit.
    pub(crate) fn engine(&self) -> Result<Device> {
        match self.device {
            Some(device) => Ok(device.clone()),
            None => Ok(Cpu::with(1, Level::best())?.into()),
        }
    }

    /// One number when quick, another in full.
    pub fn size(&self, quick: usize, full: usize) -> usize {
        match self.effort {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }
}

/// A row of random numbers.
#[derive(Clone, Debug)]
pub struct Draws {
    stream: Stream,
    next: u64,
    spare: Option<f64>,
}

impl Draws {
    fn block(&mut self) -> [u32; 4] {
        let at = self.next;
        self.next += 1;
        self.stream.block((at >> 32) as u32, 0, at as u32)
    }

    /// A standard normal number.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let [a, b, c, d] = self.block();
        let unit = regard::device::random::unit_open_f64;
        let [first, second] = regard::device::random::normal_pair(unit(a, b), unit(c, d));
        self.spare = Some(second);
        first
    }

    /// As many standard normal numbers.
    pub fn normals(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.normal()).collect()
    }

    /// A number between 0 and 1, neither of them.
    pub fn uniform(&mut self) -> f64 {
        let [a, b, ..] = self.block();
        regard::device::random::unit_open_f64(a, b)
    }

    /// A whole number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        ((self.uniform() * most as f64) as usize).min(most.saturating_sub(1))
    }

    /// The numbers from 0 to `count` − 1 in a random order.
    pub fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            let other = self.below(last + 1);
            order.swap(last, other);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_gives_the_same_numbers_and_another_gives_others() {
        let context = Context { seed: 3, ..Default::default() };
        let first = context.draws("A1").normals(5);
        assert_eq!(first, context.draws("A1").normals(5));
        assert_ne!(first, context.draws("A2").normals(5));
        assert_ne!(first, Context { seed: 4, ..context }.draws("A1").normals(5));
    }

    #[test]
    fn a_permutation_has_each_number_once() {
        let mut order = Context::default().draws("order").permutation(40);
        assert_ne!(order, (0..40).collect::<Vec<_>>());
        order.sort();
        assert_eq!(order, (0..40).collect::<Vec<_>>());
    }
}
