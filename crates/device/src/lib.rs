//! The metal under Regard: memory, threads, SIMD levels, packed matrix products and random numbers.
//!
//! One property rules everything here: **same bits**. A result does not depend on the number of threads, on
//! how many rows share a product, nor on the SIMD level, because each element is one chain of fused
//! multiply-adds in a fixed order and each reduction goes through sixteen lanes and one fixed tree. (The
//! tiles of AMX have an order of their own for products of bf16: [`Level::same_bits`].) Nothing allocates
//! after construction, so that a replayed program makes no heap calls.

#![allow(unsafe_code)] // this crate is where unsafe code lives

pub mod buffer;
pub mod cpu;
pub mod cuda;
pub mod error;
pub mod machine;
pub mod random;
pub mod values;

pub use buffer::{Buffer, Element};
pub use cpu::ceiling::Ceilings;
pub use cpu::gemm::{
    Data, DataMut, Epilogue, Gemm, Matrix, MatrixMut, Operand, PANEL, PackedB, Pointwise, RowStatistics,
    Storage, gemm, pack_b, packed_b_bytes, statistics, times_derivative,
};
pub use cpu::level::{Bf16Chain, Kind, Level};
pub use cpu::scratch::Scratch;
pub use cpu::threads::{Disjoint, Pool};
pub use cpu::{convert, math, reduce, store_log, zero};
pub use error::DeviceError;
pub use random::Stream;
pub use values::Values;
