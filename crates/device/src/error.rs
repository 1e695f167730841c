//! What can go wrong while memory, threads or a SIMD level are asked for. Sizes that do not fit together
//! inside a kernel call are programming errors and panic there, like an index out of bounds.

use thiserror::Error;

/// An error of the device crate.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// The system did not give the memory.
    #[error("out of memory: {bytes} bytes ({:.2} GiB) were asked for and the system refused; use a smaller batch, sequence or model", *bytes as f64 / (1u64 << 30) as f64)]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// A pool without threads.
    #[error("a pool needs at least one thread, got 0")]
    NoThreads,
    /// The system did not start a thread.
    #[error("could not start thread {index} of {threads}: {source}; ask for fewer threads")]
    Thread {
        /// Which thread failed.
        index: usize,
        /// How many were asked for.
        threads: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A SIMD level that is not known or that this CPU lacks.
    #[error("SIMD level `{asked}` is not to be had here; this machine has: {available}")]
    Level {
        /// The text that was given.
        asked: String,
        /// The levels of this machine, separated by commas.
        available: String,
    },
}
