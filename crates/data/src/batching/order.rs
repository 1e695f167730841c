//! In which order examples come. A shuffled order is a permutation by keys: a Feistel network over
//! counter-based random numbers, which gives any place of it at once and stores nothing, however many
//! examples there are.

use crate::draws::mixed;
use regard_device::random::Stream;

const ROUNDS: u32 = 6;

/// The order of the examples of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they are, in every epoch.
    #[default]
    Sequential,
    /// Another in every epoch.
    Shuffled {
        /// Of the permutations.
        seed: u64,
    },
}

impl Order {
    /// The order of this many examples in this epoch.
    pub fn of(self, epoch: u64, examples: usize) -> Permutation {
        self.named("order", epoch, examples)
    }

    pub(crate) fn named(self, name: &str, epoch: u64, examples: usize) -> Permutation {
        let stream = match self {
            Order::Sequential => None,
            Order::Shuffled { seed } => Some(Stream::new(seed, epoch, name)),
        };
        // The network permutes pairs of halves: of numbers with an even number of bits, as few as possible.
        let bits = usize::BITS - examples.saturating_sub(1).leading_zeros();
        Permutation { stream, half: bits.div_ceil(2).max(1), examples: examples as u64 }
    }
}

/// A bijection of `0..examples`.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    stream: Option<Stream>,
    half: u32,
    examples: u64,
}

impl Permutation {
    /// The example at this place, which must be below the number of examples.
    pub fn at(&self, place: usize) -> usize {
        let (Some(stream), true) = (&self.stream, (place as u64) < self.examples) else { return place };
        // What falls outside is permuted again: it comes back inside at the latest where its cycle began.
        let mut x = self.network(stream, place as u64);
        while x >= self.examples {
            x = self.network(stream, x);
        }
        x as usize
    }

    fn network(&self, stream: &Stream, x: u64) -> u64 {
        let mask = u64::MAX >> (64 - self.half);
        let (mut left, mut right) = (x >> self.half, x & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (mixed(stream, round, right) & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHUFFLED: Order = Order::Shuffled { seed: 9 };

    #[test]
    fn every_order_is_a_bijection() {
        for examples in [1, 2, 3, 4, 5, 16, 17, 1000, 4097] {
            for order in [Order::Sequential, SHUFFLED] {
                let permutation = order.of(3, examples);
                let mut seen = vec![false; examples];
                (0..examples).for_each(|place| seen[permutation.at(place)] = true);
                assert!(seen.iter().all(|&seen| seen), "{order:?} {examples}");
            }
        }
        // Without having to store them.
        let permutation = SHUFFLED.of(0, usize::MAX);
        assert_ne!(permutation.at(usize::MAX - 1), permutation.at(0));
        assert_eq!(Order::Sequential.of(4, 10).at(7), 7);
        assert_eq!(SHUFFLED.of(4, 0).at(0), 0);
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let order = |order: Order, epoch| {
            let permutation = order.of(epoch, 50);
            (0..50).map(|place| permutation.at(place)).collect::<Vec<usize>>()
        };
        assert_eq!(order(SHUFFLED, 1), order(SHUFFLED, 1));
        assert_ne!(order(SHUFFLED, 1), order(SHUFFLED, 2));
        assert_ne!(order(SHUFFLED, 1), order(Order::Shuffled { seed: 10 }, 1));
        assert_eq!(order(Order::Sequential, 1), order(Order::Sequential, 2));
    }

    #[test]
    fn every_example_comes_everywhere_equally_often() {
        const EPOCHS: u64 = 7000;
        for examples in [2, 5, 7] {
            let mut counts = vec![0u32; examples * examples];
            for epoch in 0..EPOCHS {
                let permutation = SHUFFLED.of(epoch, examples);
                (0..examples).for_each(|place| counts[place * examples + permutation.at(place)] += 1);
            }
            let mean = EPOCHS as f64 / examples as f64;
            let bound = 5.0 * (mean * (1.0 - 1.0 / examples as f64)).sqrt();
            assert!(
                counts.iter().all(|&count| (count as f64 - mean).abs() < bound),
                "{examples}: {counts:?}"
            );
        }
    }

    #[test]
    fn neighbours_part() {
        // The mean distance of two random places of n is n / 3.
        let permutation = SHUFFLED.of(0, 10_000);
        let apart = |i: usize| permutation.at(i).abs_diff(permutation.at(i + 1)) as f64;
        let mean = (0..9999).map(apart).sum::<f64>() / 9999.0;
        // The standard deviation of a distance is n / sqrt(18); five standard errors.
        assert!((mean - 3333.3).abs() < 120.0, "{mean}");
    }
}
