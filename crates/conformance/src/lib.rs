//! The outer rings of the tests: random programs of most ops, the same bits everywhere, memory as planned,
//! and the errors that PyTorch itself makes as bounds.

#![forbid(unsafe_code)]

pub mod bounds;
pub mod choices;
pub mod encoder_decoder;
pub mod nodes;
pub mod nonsense;
pub mod parity;
pub mod parity_training;
pub mod place;
pub mod programs;
pub mod sequence;
pub mod sized;
pub mod steps;
pub mod training;
