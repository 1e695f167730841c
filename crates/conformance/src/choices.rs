//! Choices that depend on nothing but a seed.

use regard::device::Stream;

/// A source of choices.
pub struct Choices {
    stream: Stream,
    made: u32,
}

impl Choices {
    /// The choices of a seed.
    pub fn new(seed: u64) -> Self {
        Choices { stream: Stream::new(seed, 0, "choices"), made: 0 }
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.made += 1;
        self.stream.bits(0, 0, self.made) as usize % n
    }

    /// A number from one to another, both included.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }
}
