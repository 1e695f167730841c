//! Where the tests of whole models compute: on the CPU, or with `REGARD_TEST_DEVICE=cuda` on the first card,
//! by the same goldens and the same bounds.

use regard::prelude::*;

/// The device of this run of the tests. One that was asked for and is not there is a failure, not a skipped
/// test.
pub fn device() -> Device {
    match std::env::var("REGARD_TEST_DEVICE").as_deref() {
        Ok("cuda") => regard::check::card().cloned().expect("REGARD_TEST_DEVICE=cuda needs a card").into(),
        Ok("cpu") | Err(_) => Cpu::with(2, regard::device::Level::best()).expect("a CPU").into(),
        Ok(other) => panic!("REGARD_TEST_DEVICE={other}: cpu or cuda"),
    }
}

/// Whether numbers that were computed in other company or in other chunks are the same: bit for bit where the
/// device promises it, and to rounding (1e-5 of the largest, 2 % where products are of bf16) where it does
/// not.
pub fn same(left: &[f32], right: &[f32], precision: Precision) -> bool {
    let within = match precision {
        _ if device().same_bits_for_any_rows() => 0.0,
        Precision::F32 => 1e-5,
        Precision::Bf16 => 2e-2,
    };
    let largest = right.iter().fold(0f32, |most, x| most.max(x.abs()));
    let close = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a - b).abs() <= within * largest;
    left.len() == right.len() && left.iter().zip(right).all(close)
}
