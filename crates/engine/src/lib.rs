//! Runs a recorded graph: the [`Store`] of what outlives a run, the [`mod@reference`] engine that says what
//! is right, and the [`Program`], which a [`Device`] runs fast: the [`Cpu`] or a [`Cuda`] card.

pub mod check;
mod copies;
#[allow(unsafe_code)] // turns planned offsets into addresses
mod cpu;
mod cpu_program;
#[allow(unsafe_code)] // turns planned offsets into addresses on a card
mod cuda;
mod device;
mod error;
mod executed;
mod feed;
mod held;
mod numbers;
mod panels;
mod program;
pub mod reference;
mod store;

pub use cpu::Cpu;
pub use cuda::Cuda;
pub use device::{AsDevice, Device};
pub use error::{Error, Result};
pub use feed::{Feed, sizes_of};
pub use numbers::Numbers;
pub use program::{Memory, Program};
pub use store::Store;
