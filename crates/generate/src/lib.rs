//! Continues sequences. [`Generator`] runs prompts through a model's caches and then goes on, a token at a time, for
//! a batch of rows; [`Sampling`] says how each token is chosen. No model is named here: any [`Decoder`] will do.
//!
//! The same prompts, settings and seed give the same tokens, whatever the threads and whatever else is in the batch.

#![forbid(unsafe_code)]

mod error;
mod generator;
mod places;
mod sampling;

pub use error::{Error, Result};
pub use generator::{Ended, Generated, Generator, Request, Settings, Token};
pub use regard_models::Decoder;
pub use sampling::{Candidate, Sampling};
