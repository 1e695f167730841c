//! The text of every error of this crate: what was asked for, what there is, what to do.

use regard_device::{Buffer, DeviceError, Level, Pool};

#[test]
fn every_error_says_what_to_do() {
    assert_eq!(
        Buffer::zeroed(1 << 62).unwrap_err().to_string(),
        "out of memory: 4611686018427387904 bytes (4294967296.00 GiB) were asked for and the system refused; use a \
         smaller batch, sequence or model"
    );
    assert_eq!(Pool::new(0).unwrap_err().to_string(), "a pool needs at least one thread, got 0");
    let source = std::io::Error::other("no more");
    assert_eq!(
        DeviceError::Thread { index: 3, threads: 8, source }.to_string(),
        "could not start thread 3 of 8: no more; ask for fewer threads"
    );
    let names: Vec<String> = Level::available().iter().map(Level::to_string).collect();
    assert_eq!(
        "neon".parse::<Level>().unwrap_err().to_string(),
        format!("SIMD level `neon` is not to be had here; this machine has: {}", names.join(", "))
    );
}
