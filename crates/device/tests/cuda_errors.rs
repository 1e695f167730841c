//! The text of every error of the CUDA room: what was asked for, what there is, what to do. And on a machine
//! without a card, where most tests run, every way to one ends in such a sentence.

use regard_device::cuda::{Card, CudaError, libraries};

/// The text, if there is an error: on a machine that has everything there is none.
fn holds(error: Option<CudaError>, parts: &[&str]) {
    if let Some(error) = error {
        let text = error.to_string();
        assert!(parts.iter().any(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn without_a_card_every_way_says_so() {
    let text = Card::open(99).unwrap_err().to_string();
    let sentences = ["driver", "there is no card 99: this machine has", "sees no card"];
    assert!(sentences.iter().any(|part| text.contains(part)), "{text}");
    holds(Card::count().err(), &["use the CPU"]);
    holds(libraries::driver().err(), &["use the CPU"]);
    holds(libraries::nvrtc().err(), &["install it with `pip install nvidia-cuda-nvrtc`"]);
    holds(libraries::cublaslt().err(), &["install it with `pip install nvidia-cublas`"]);
    // The answer stays the same.
    assert_eq!(libraries::driver(), libraries::driver());
    assert_eq!(libraries::nvrtc(), libraries::nvrtc());
}

#[test]
fn every_error_says_what_to_do() {
    let package = "pip install nvidia-cuda-nvrtc";
    let cases = [
        (
            CudaError::NoDriver { reason: "libcuda.so.1 was not found".into() },
            "there is no NVIDIA driver on this machine (libcuda.so.1 was not found); install the driver of release 580 \
             or later, or use the CPU",
        ),
        (
            CudaError::DriverTooOld { found: (12, 4), needed: (13, 0) },
            "the NVIDIA driver is too old: it knows CUDA 12.4, and CUDA 13.0 is needed; update the driver to release \
             580 or later, or use the CPU",
        ),
        (
            CudaError::NoCard,
            "the NVIDIA driver sees no card; look at `nvidia-smi` and at CUDA_VISIBLE_DEVICES, or use the CPU",
        ),
        (
            CudaError::UnknownCard { index: 2, count: 1 },
            "there is no card 2: this machine has 1, counted from 0",
        ),
        (
            CudaError::CardTooOld { name: "Tesla T4".into(), capability: (7, 5) },
            "Tesla T4 has compute capability 7.5, and 8.0 is needed (A100, RTX 30 and later); use the CPU",
        ),
        (
            CudaError::NoLibrary { library: "libnvrtc.so.13".into(), package, searched: 7 },
            "libnvrtc.so.13 was not found: neither by the loader nor in 7 folders of CUDA toolkits and Python packages; \
             install it with `pip install nvidia-cuda-nvrtc`, or name its folder in REGARD_CUDA_LIBRARIES",
        ),
        (
            CudaError::LibraryVersion {
                library: "libnvrtc.so.13".into(),
                path: "/usr/lib/libnvrtc.so".into(),
                found: (12, 4),
                needed: 13,
                package,
            },
            "libnvrtc.so.13 (/usr/lib/libnvrtc.so) is of CUDA 12.4, and CUDA 13 is needed; install it with `pip install \
             nvidia-cuda-nvrtc`, and take the other out of the loader's path",
        ),
        (
            CudaError::OutOfMemory { bytes: 3 << 30, free: 1 << 30, total: 24 << 30 },
            "out of memory on the card: 3.00 GiB more were asked for, 1.00 GiB of 24.00 GiB are free; use a smaller \
             batch, sequence or model, or bf16",
        ),
        (
            CudaError::Reservation { bytes: 3 << 30, reserved: 1 << 30 },
            "3.00 GiB were asked of a reservation of 1.00 GiB; reserve more at the start, which costs nothing until it \
             is used",
        ),
        (
            CudaError::Compiler { doing: "reading the log", text: "NVRTC_ERROR_INTERNAL_ERROR".into() },
            "reading the log: NVRTC refused with NVRTC_ERROR_INTERNAL_ERROR",
        ),
        (
            CudaError::NoArchitecture {
                version: (13, 0),
                capability: (14, 0),
                newest: "sm_121".into(),
                package,
            },
            "NVRTC 13.0 cannot compile for compute capability 14.0, only up to sm_121; install a newer one with `pip \
             install nvidia-cuda-nvrtc`",
        ),
        (
            CudaError::NoKernel { module: "map.cu".into(), kernel: "map".into() },
            "the module map.cu has no kernel `map`",
        ),
        (
            CudaError::Product {
                doing: "multiplying",
                status: 13,
                name: "CUBLAS_STATUS_EXECUTION_FAILED".into(),
            },
            "multiplying: cuBLASLt refused with CUBLAS_STATUS_EXECUTION_FAILED (13)",
        ),
        (
            CudaError::NoAlgorithm { product: "2 x 3 over 4 of f32".into() },
            "cuBLASLt has no algorithm for 2 x 3 over 4 of f32 on this card; compute it in parts: the product, then the \
             rest",
        ),
    ];
    for (error, text) in cases {
        assert_eq!(error.to_string(), text);
        assert!(!error.is_final());
    }
}
