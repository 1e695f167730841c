//! The random stream of a program: one small input, set at every run, from which every random op draws by
//! its own dotted name. So the numbers are the same whatever the micro-batching, the padding, the taps or the
//! threads, and a backward pass can draw them again instead of storing them.

use regard_device::Stream;
use regard_graph::{DType, Graph, Result, Var};

/// The name of the input that seeds a program's random ops.
pub const RANDOM_INPUT: &str = "random";
/// Its length: seed (low, high), step (low, high), index of the batch's first example in the global batch.
pub const RANDOM_LENGTH: usize = 5;

/// Records the random input.
pub trait RandomOps {
    /// The program's random input, the same for all random ops; made at the first call.
    fn random(&mut self) -> Result<Var>;
}

impl RandomOps for Graph {
    fn random(&mut self) -> Result<Var> {
        let known = self.inputs().find(|(name, _)| *name == RANDOM_INPUT).map(|(_, var)| var);
        match known {
            Some(var) => Ok(var),
            None => self.input(RANDOM_INPUT, DType::I32, [RANDOM_LENGTH]),
        }
    }
}

/// What to feed to the random input.
pub fn random_numbers(seed: u64, step: u64, first_example: u32) -> [i32; RANDOM_LENGTH] {
    [seed as i32, (seed >> 32) as i32, step as i32, (step >> 32) as i32, first_example as i32]
}

/// One op's stream, and the index of the batch's first example, from the numbers of the random input.
pub fn stream_of(random: &[i32], name: &str) -> (Stream, u32) {
    let whole = |low: i32, high: i32| (low as u32 as u64) | ((high as u32 as u64) << 32);
    let stream = Stream::new(whole(random[0], random[1]), whole(random[2], random[3]), name);
    (stream, random[4] as u32)
}
