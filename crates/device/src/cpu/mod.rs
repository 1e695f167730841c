//! The CPU: SIMD levels and the macro that compiles one body for each of them, elementary functions,
//! conversions, reductions, zeros past the caches, a pool of threads with a log of stores for debugging, and
//! packed matrix products.

pub mod ceiling;
pub mod convert;
pub mod gemm;
pub mod level;
pub mod math;
mod multiversion;
pub mod reduce;
pub mod scratch;
pub mod store_log;
pub mod threads;
pub mod zero;
