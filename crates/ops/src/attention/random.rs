//! The random numbers of an attention: what is dropped, and Gumbel's noise. Both are functions of the
//! example's index in the global batch, the query's position, and a channel made of the head and the key's
//! position, so that neither padding, nor batching, nor a cache changes them.

use super::form::{Form, POSITION_BITS};
use crate::stream_of;
use regard_device::Stream;

/// The random numbers of one attention in one run.
#[derive(Clone, Copy, Debug)]
pub struct Randomness {
    pub dropout: Option<Dropout>,
    pub noise: Option<Stream>,
    first_example: u32,
}

/// What is dropped.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    pub stream: Stream,
    /// A weight whose draw is below this is dropped.
    pub threshold: u32,
    /// What those kept are multiplied by.
    pub growth: f64,
}

impl Randomness {
    /// From the numbers of the random input; `None` where the attention has no use for any.
    pub fn new(form: &Form, random: Option<&[i32]>) -> Self {
        let Some(random) = random else {
            return Randomness { dropout: None, noise: None, first_example: 0 };
        };
        let (stream, first_example) = stream_of(random, &form.dropout_stream);
        let p = form.dropout as f64;
        let threshold = (p * (1u64 << 32) as f64) as u32;
        let dropout = (form.dropout > 0.0).then_some(Dropout { stream, threshold, growth: 1.0 / (1.0 - p) });
        let noise = form.kind.temperature().map(|_| stream_of(random, &form.noise_stream).0);
        Randomness { dropout, noise, first_example }
    }

    /// The index of an example in the global batch.
    pub fn example(&self, b: usize) -> u32 {
        self.first_example.wrapping_add(b as u32)
    }

    /// What a weight is multiplied by: 0 where it is dropped.
    pub fn keep(&self, b: usize, h: usize, query: i32, key: i32) -> f64 {
        match &self.dropout {
            Some(Dropout { stream, threshold, growth }) => {
                let bits = stream.bits(self.example(b), query as u32, channel(h, key));
                if bits < *threshold { 0.0 } else { *growth }
            }
            None => 1.0,
        }
    }

    /// Gumbel's noise for a score.
    pub fn gumbel(&self, b: usize, h: usize, query: i32, key: i32) -> f64 {
        self.noise.map_or(0.0, |stream| stream.gumbel(self.example(b), query as u32, channel(h, key)))
    }
}

/// The random channel of a head and a key's position.
pub fn channel(h: usize, key: i32) -> u32 {
    (h as u32) << POSITION_BITS | key as u32 & ((1 << POSITION_BITS) - 1)
}
