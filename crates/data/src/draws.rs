//! Random numbers of one example in one epoch, one after the other. They come from counters, so that they are
//! the same in whatever batch, order or thread the example is made.

use regard_device::random::{Stream, unit_open_f64};

/// The draws of one example.
pub(crate) struct Draws {
    stream: Stream,
    example: u64,
    next: u32,
}

impl Draws {
    /// The draws for what is called `name`, for this example in this epoch.
    pub fn new(seed: u64, epoch: u64, name: &str, example: u64) -> Draws {
        Draws { stream: Stream::new(seed, epoch, name), example, next: 0 }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [low, high, ..] = self.stream.block(self.example as u32, (self.example >> 32) as u32, self.next);
        self.next = self.next.wrapping_add(1);
        (high as u64) << 32 | low as u64
    }

    /// A whole number below `n`; 0 if there is none. With 64 bits the unevenness is out of sight.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.bits() as u128 * n as u128) >> 64) as usize
    }

    /// A number in (0, 1).
    pub fn unit(&mut self) -> f64 {
        let bits = self.bits();
        unit_open_f64(bits as u32, (bits >> 32) as u32)
    }
}

/// What 64 bits become when all of them are mixed, by a name and a step: the round function of permutations.
pub(crate) fn mixed(stream: &Stream, round: u32, half: u64) -> u64 {
    let [low, high, ..] = stream.block(half as u32, (half >> 32) as u32, round);
    (high as u64) << 32 | low as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_never_out_of_range() {
        let mut counts = [0u32; 7];
        for example in 0..7000 {
            counts[Draws::new(5, 1, "test", example).below(7)] += 1;
        }
        // Each is binomial(7000, 1/7): a mean of 1000, a standard deviation of 29.3. Five of them.
        assert!(counts.iter().all(|&count| count.abs_diff(1000) < 147), "{counts:?}");
        assert_eq!(Draws::new(5, 1, "test", 0).below(0), 0);
        assert_eq!(Draws::new(5, 1, "test", 0).below(1), 0);
    }

    #[test]
    fn examples_beyond_32_bits_have_draws_of_their_own() {
        let first = |example| Draws::new(5, 1, "test", example).bits();
        assert_ne!(first(3), first(3 + (1 << 32)));
        let mut draws = Draws::new(5, 1, "test", 3);
        assert_ne!(draws.bits(), draws.bits());
    }
}
