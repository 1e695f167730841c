//! Runs a recorded graph: the [`Store`] of what outlives a run, the [`mod@reference`] engine that says what
//! is right, and the [`Program`], which a [`Device`] runs fast: today the [`Cpu`].

pub mod check;
#[allow(unsafe_code)] // turns planned offsets into addresses
mod cpu;
mod cpu_program;
mod device;
mod error;
mod executed;
mod feed;
mod held;
mod numbers;
mod program;
pub mod reference;
mod store;

pub use cpu::Cpu;
pub use device::{AsDevice, Device};
pub use error::{Error, Result};
pub use feed::{Feed, sizes_of};
pub use numbers::Numbers;
pub use program::{Memory, Program};
pub use store::Store;
