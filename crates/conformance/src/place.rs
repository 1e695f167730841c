//! Where the tests of whole models compute: on the CPU, or with `REGARD_TEST_DEVICE=cuda` on the first card, by
//! the same goldens and the same bounds.

use regard::prelude::*;

/// The device of this run of the tests. One that was asked for and is not there is a failure, not a skipped test.
pub fn device() -> Device {
    match std::env::var("REGARD_TEST_DEVICE").as_deref() {
        Ok("cuda") => regard::check::card().cloned().expect("REGARD_TEST_DEVICE=cuda needs a card").into(),
        Ok("cpu") | Err(_) => Cpu::with(2, regard::device::Level::best()).expect("a CPU").into(),
        Ok(other) => panic!("REGARD_TEST_DEVICE={other}: cpu or cuda"),
    }
}
