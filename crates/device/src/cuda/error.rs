//! What can go wrong on the way to a card and on it. Each error is a sentence that says what to do; a card
//! that is lost in the middle is a value like every other, so that a run can end with its last checkpoint
//! whole.

use cudarc::driver::sys;
use std::ffi::CStr;
use thiserror::Error;

/// An error of the CUDA room.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CudaError {
    /// The driver's library is not there.
    #[error(
        "there is no NVIDIA driver on this machine ({reason}); install the driver of release 580 or later, or use the CPU"
    )]
    NoDriver {
        /// What the loader or the driver said.
        reason: String,
    },
    /// The driver is older than the libraries need.
    #[error(
        "the NVIDIA driver is too old: it knows CUDA {}.{}, and CUDA {}.{} is needed; update the driver to release 580 or later, or use the CPU",
        found.0, found.1, needed.0, needed.1
    )]
    DriverTooOld {
        /// What the driver reports.
        found: (u32, u32),
        /// What is needed.
        needed: (u32, u32),
    },
    /// A driver without cards.
    #[error(
        "the NVIDIA driver sees no card; look at `nvidia-smi` and at CUDA_VISIBLE_DEVICES, or use the CPU"
    )]
    NoCard,
    /// An index past the last card.
    #[error("there is no card {index}: this machine has {count}, counted from 0")]
    UnknownCard {
        /// What was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A card without the instructions that our kernels need.
    #[error(
        "{name} has compute capability {}.{}, and 8.0 is needed (A100, RTX 30 and later); use the CPU",
        capability.0, capability.1
    )]
    CardTooOld {
        /// The card.
        name: String,
        /// Its capability.
        capability: (u32, u32),
    },
    /// A library that is found at run time was not found.
    #[error(
        "{library} was not found: neither by the loader nor in {searched} folders of CUDA toolkits and Python packages; install it with `{package}`, or name its folder in {}",
        super::libraries::FOLDERS
    )]
    NoLibrary {
        /// Its file name.
        library: String,
        /// The command that installs it.
        package: &'static str,
        /// How many folders were looked through.
        searched: usize,
    },
    /// A library of another major version.
    #[error(
        "{library} ({path}) is of CUDA {}.{}, and CUDA {needed} is needed; install it with `{package}`, and take the other out of the loader's path",
        found.0, found.1
    )]
    LibraryVersion {
        /// Its file name.
        library: String,
        /// Where it was found.
        path: String,
        /// Its version.
        found: (u32, u32),
        /// The major version that is needed.
        needed: u32,
        /// The command that installs the right one.
        package: &'static str,
    },
    /// The card's memory is spent.
    #[error(
        "out of memory on the card: {} more were asked for, {} of {} are free; use a smaller batch, sequence or model, or bf16",
        gib(*bytes), gib(*free), gib(*total)
    )]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes that were free.
        free: usize,
        /// Bytes of the card.
        total: usize,
    },
    /// More than the reservation has room for.
    #[error(
        "{} were asked of a reservation of {}; reserve more at the start, which costs nothing until it is used",
        gib(*bytes), gib(*reserved)
    )]
    Reservation {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes reserved.
        reserved: usize,
    },
    /// A call that the driver refused, after which the card is still there.
    #[error("{doing}: the driver refused with {name} ({code}: {text})")]
    Refused {
        /// What was being done.
        doing: &'static str,
        /// The driver's code.
        code: u32,
        /// Its name.
        name: String,
        /// Its text.
        text: String,
    },
    /// The card is gone for this process: it fell off the bus, or a kernel faulted and took the context with
    /// it.
    #[error(
        "the card was lost while {doing}: {name} ({code}: {text}); nothing more can run on it in this process: start again with --resume, and if it happens again look at `nvidia-smi -q` and at the system's log"
    )]
    Lost {
        /// What was being done.
        doing: &'static str,
        /// The driver's code.
        code: u32,
        /// Its name.
        name: String,
        /// Its text.
        text: String,
    },
    /// A source that does not compile.
    #[error("{source_name} does not compile for {architecture}:\n{log}")]
    Compile {
        /// The source.
        source_name: String,
        /// For which architecture.
        architecture: String,
        /// The compiler's log.
        log: String,
    },
    /// The compiler failed otherwise.
    #[error("{doing}: NVRTC refused with {text}")]
    Compiler {
        /// What was being done.
        doing: &'static str,
        /// The compiler's text.
        text: String,
    },
    /// A card that is newer than the compiler.
    #[error(
        "NVRTC {}.{} cannot compile for compute capability {}.{}, only up to {newest}; install a newer one with `{package}`",
        version.0, version.1, capability.0, capability.1
    )]
    NoArchitecture {
        /// The compiler's version.
        version: (u32, u32),
        /// The card's capability.
        capability: (u32, u32),
        /// The newest that it knows, such as `sm_120`.
        newest: String,
        /// The command that installs a newer one.
        package: &'static str,
    },
    /// A module without this kernel.
    #[error("the module {module} has no kernel `{kernel}`")]
    NoKernel {
        /// The module.
        module: String,
        /// The kernel.
        kernel: String,
    },
    /// cuBLASLt refused a call.
    #[error("{doing}: cuBLASLt refused with {name} ({status})")]
    Product {
        /// What was being done.
        doing: &'static str,
        /// The status.
        status: u32,
        /// Its name.
        name: String,
    },
    /// cuBLASLt knows no algorithm for a product.
    #[error(
        "cuBLASLt has no algorithm for {product} on this card; compute it in parts: the product, then the rest"
    )]
    NoAlgorithm {
        /// The product, described.
        product: String,
    },
    /// A text that is no algorithm.
    #[error("`{text}` is no algorithm of cuBLASLt: 128 hexadecimal digits are expected")]
    NotAnAlgorithm {
        /// The text.
        text: String,
    },
}

impl CudaError {
    /// The same, of cuBLASLt, with the product that it is about.
    pub(super) fn about(self, product: &impl std::fmt::Display) -> CudaError {
        match self {
            CudaError::Product { doing, status, name } => {
                CudaError::Product { doing, status, name: format!("{name} for {product}") }
            }
            other => other,
        }
    }

    /// Whether nothing more can be done on the card in this process.
    pub fn is_final(&self) -> bool {
        matches!(self, CudaError::Lost { .. })
    }
}

/// Codes after which every further call of the context fails: the card is gone, or a kernel's fault broke the
/// context.
const FINAL: [u32; 17] = [4, 46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999];

/// The driver's answer as a result.
pub(super) fn check(code: sys::CUresult, doing: &'static str) -> Result<(), CudaError> {
    match code as u32 {
        0 => Ok(()),
        _ => Err(refusal(code, doing)),
    }
}

/// The error of a code that is not success.
pub(super) fn refusal(code: sys::CUresult, doing: &'static str) -> CudaError {
    let read = |ask: unsafe fn(sys::CUresult, *mut *const std::ffi::c_char) -> sys::CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: the driver's library is loaded, since it gave this code; it writes one pointer to a static
        // text.
        let known = unsafe { ask(code, &mut text) } as u32 == 0 && !text.is_null();
        // SAFETY: a pointer that the driver gave for a known code is a C string that lives as long as the
        // library.
        if known { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() } else { "unknown".into() }
    };
    described(code as u32, doing, read(sys::cuGetErrorName), read(sys::cuGetErrorString))
}

fn described(code: u32, doing: &'static str, name: String, text: String) -> CudaError {
    if FINAL.contains(&code) {
        CudaError::Lost { doing, code, name, text }
    } else {
        CudaError::Refused { doing, code, name, text }
    }
}

fn gib(bytes: usize) -> String {
    format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_card_is_told_from_a_refusal() {
        let error =
            described(719, "waiting for the stream", "CUDA_ERROR_LAUNCH_FAILED".into(), "it failed".into());
        assert!(error.is_final());
        assert_eq!(
            error.to_string(),
            "the card was lost while waiting for the stream: CUDA_ERROR_LAUNCH_FAILED (719: it failed); nothing more \
             can run on it in this process: start again with --resume, and if it happens again look at `nvidia-smi -q` \
             and at the system's log"
        );
        let error =
            described(1, "launching `map`", "CUDA_ERROR_INVALID_VALUE".into(), "invalid argument".into());
        assert!(!error.is_final());
        assert_eq!(
            error.to_string(),
            "launching `map`: the driver refused with CUDA_ERROR_INVALID_VALUE (1: invalid argument)"
        );
    }
}
