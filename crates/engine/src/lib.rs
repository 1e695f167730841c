//! Runs a recorded graph: the [`Store`] of what outlives a run, the [`mod@reference`] engine that says what is
//! right, and the CPU engine that does it fast ([`Cpu`], [`Program`]).

pub mod check;
#[allow(unsafe_code)] // turns planned offsets into addresses
mod cpu;
mod error;
mod executed;
mod feed;
mod program;
pub mod reference;
mod store;

pub use cpu::Cpu;
pub use error::{Error, Result};
pub use feed::{Feed, sizes_of};
pub use program::{Memory, Program};
pub use store::Store;
