//! The outer rings of the tests: random programs of most ops, the same bits everywhere, memory as planned,
//! the errors that PyTorch itself makes as bounds, and mutants that show that the bounds can say no.

#![forbid(unsafe_code)]

pub mod bounds;
pub mod choices;
pub mod conditioning;
pub mod encoder_decoder;
pub mod mutant_table;
pub mod nodes;
pub mod nonsense;
pub mod op_cases;
pub mod parity;
pub mod parity_bf16;
pub mod parity_decoder;
pub mod parity_training;
pub mod place;
pub mod programs;
pub mod sequence;
pub mod sized;
pub mod steps;
pub mod training;
