//! Continues sequences. [`Generator`] runs prompts through a model's caches and then goes on, a token at a
//! time, for a batch of rows; [`Sampling`] says how each token is chosen, [`Beams`] searches for the
//! likeliest whole. No model is named here: any [`Decoder`] will do, with caches or without, and any
//! [`EncoderDecoder`], whose sources are read once.
//!
//! The same prompts, settings and seed give the same tokens, whatever the threads and whatever else is in the
//! batch.

#![forbid(unsafe_code)]

mod beams;
mod caches;
mod error;
mod generator;
mod places;
mod reader;
mod rereading;
mod rules;
mod sampling;
mod steps;

pub use beams::{Beam, Beams, Early};
pub use error::{Error, Result};
pub use generator::{Ended, Enough, Examples, Full, Generated, Generator, Request, Settings, Token};
pub use regard_models::{Decoder, EncoderDecoder};
pub use rules::Rules;
pub use sampling::{Candidate, Sampling, highest};
