//! The metal of NVIDIA cards: what an engine for CUDA stands on. Everything of CUDA is looked for when it is
//! asked for, so that the program builds and starts without it; what is missing is an error that names the
//! package.
//!
//! - [`libraries`]: the driver, the compiler and the product library, found and checked for their versions.
//! - [`Card`] with its [`Facts`]; [`Stream`], [`Event`], [`Graph`]: what runs, and when.
//! - [`Reservation`] (addresses that never move), [`Memory`], [`Pinned`], [`Ring`]: where things are.
//! - [`Source`], [`Compiler`], [`CubinCache`], [`Module`], [`Function`], [`Arguments`]: from a `.cu` to a
//!   launch.
//! - [`Products`], [`Product`], [`Algorithm`]: cuBLASLt, with algorithms that are chosen once and kept.
//!
//! Handles are freed on drop. Nothing here times anything to make a choice: same card, driver, libraries and
//! sizes give the same bits.

mod arguments;
mod cache;
mod compiler;
mod driver;
mod error;
mod event;
mod graph;
pub mod kernels;
pub mod libraries;
mod memory;
mod module;
mod product;
mod products;
mod reservation;
mod resources;
mod staging;
mod stream;

pub use arguments::{Argument, Arguments};
pub use cache::CubinCache;
pub use compiler::{Architecture, Compiled, Compiler, Source};
pub use driver::{Card, Facts};
pub use error::CudaError;
pub use event::Event;
pub use graph::{Capture, Graph};
pub use memory::{Address, Memory, Region};
pub use module::{Function, Grid, Module};
pub use product::{Algorithm, Compute, Epilogue, Layout, Number, Product};
pub use products::{Choice, Operands, Planned, Products};
pub use reservation::Reservation;
pub use resources::{Resources, resources};
pub use staging::{Pinned, Ring};
pub use stream::Stream;
