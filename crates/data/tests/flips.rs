//! Flipped bits: an error or a valid checkpoint, never a panic, never much memory. Alone in its process,
//! because it measures the process.

#[path = "data/noise.rs"]
mod noise;

use noise::Noise;
use regard_data::Checkpoint;
use regard_device::machine::peak;
use std::path::Path;

#[test]
fn flipped_bits_never_panic_nor_cost_memory() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/mixed.safetensors");
    let whole = std::fs::read(path).unwrap();
    let before = peak();
    let mut noise = Noise(1);
    let mut valid = 0;
    for _ in 0..4000 {
        let mut bytes = whole.clone();
        // Mostly in the header, where they hurt; one to four at a time.
        for _ in 0..=noise.below(4) {
            let most = if noise.below(8) == 0 { bytes.len() } else { 1200 };
            let at = noise.below(most);
            bytes[at] ^= 1 << noise.below(8);
        }
        match Checkpoint::from_bytes("x", bytes) {
            Ok(checkpoint) => {
                valid += 1;
                for tensor in checkpoint.tensors() {
                    assert_eq!(tensor.f32s().len(), tensor.len());
                }
                let _ = checkpoint.verify();
            }
            Err(error) => assert!(!error.to_string().contains('\u{1}'), "{error:?}"),
        }
    }
    assert!(valid > 100, "some flips only change names or numbers: {valid}");
    match (before, peak()) {
        (Some(before), Some(after)) => {
            assert!(after - before < 16 << 20, "{before} bytes before, {after} after")
        }
        _ => println!("skipped: the memory of a process cannot be read here (/proc/self/status)"),
    }
}
