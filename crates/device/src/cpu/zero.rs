//! Zeros written past the caches. An ordinary store reads its cache line first and drives out another; for
//! zeros of more bytes than the caches hold, that is twice the traffic and of no use.

use crate::Level;

/// What is stored at a time: one cache line.
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; 64]);

/// Writes zeros over all parts without bringing them into the caches, where the CPU has such stores (x86-64).
/// For parts of several KiB that are not read soon, many to a call: each call waits for its stores once, at
/// the end.
///
/// ```
/// let mut bytes = [1u8; 500];
/// let (head, tail) = bytes.split_at_mut(100);
/// regard_device::zero::streaming(regard_device::Level::best(), [head, &mut tail[3..]]);
/// assert!((0..500).all(|i| bytes[i] == u8::from((100..103).contains(&i))));
/// ```
pub fn streaming<'a>(level: Level, parts: impl IntoIterator<Item = &'a mut [u8]>) {
    for part in parts {
        // SAFETY: a line is 64 bytes, any of which may be any byte.
        let (head, lines, tail) = unsafe { part.align_to_mut::<Line>() };
        head.fill(0);
        store(level, lines);
        tail.fill(0);
    }
    finish();
}

#[cfg(target_arch = "x86_64")]
fn store(level: Level, lines: &mut [Line]) {
    use crate::Kind;
    use std::arch::x86_64::{_mm_setzero_ps, _mm_stream_ps, _mm512_setzero_ps, _mm512_stream_ps};

    #[target_feature(enable = "avx512f")]
    fn avx512(lines: &mut [Line]) {
        for line in lines {
            // SAFETY: one aligned line, borrowed for writing; `finish` orders the store before any that
            // follow.
            unsafe { _mm512_stream_ps((&raw mut *line).cast(), _mm512_setzero_ps()) };
        }
    }

    match level.kind() {
        // SAFETY: `Level` gives out these kinds only where the CPU has these instructions.
        Kind::Avx512 | Kind::Avx512Bf16 | Kind::Amx => unsafe { avx512(lines) },
        Kind::Avx2 | Kind::Portable => {
            for line in lines {
                let line: *mut f32 = (&raw mut *line).cast();
                for quarter in 0..4 {
                    // SAFETY: a quarter of an aligned line that is borrowed for writing; as above.
                    unsafe { _mm_stream_ps(line.add(4 * quarter), _mm_setzero_ps()) };
                }
            }
        }
    }
}

/// Other threads see these stores only in the order of a fence, which the locks of a pool do not imply.
#[cfg(target_arch = "x86_64")]
fn finish() {
    // SAFETY: every x86-64 CPU has it.
    unsafe { std::arch::x86_64::_mm_sfence() }
}

#[cfg(not(target_arch = "x86_64"))]
fn store(_level: Level, lines: &mut [Line]) {
    lines.iter_mut().for_each(|line| line.0.fill(0));
}

#[cfg(not(target_arch = "x86_64"))]
fn finish() {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn all_alignments_and_lengths_at_every_level() {
        let mut memory = Buffer::zeroed(512).unwrap();
        let buffer = memory.as_mut_slice::<u8>();
        for &level in Level::available() {
            for start in 0..130 {
                for length in 0..260 {
                    buffer.fill(7);
                    let part = start..start + length;
                    streaming(level, [&mut buffer[part.clone()]]);
                    let right =
                        buffer.iter().enumerate().all(|(i, &x)| x == if part.contains(&i) { 0 } else { 7 });
                    assert!(right, "{level}: {length} bytes from {start}");
                }
            }
        }
    }

    #[test]
    fn several_parts_and_none() {
        let mut bytes = vec![7u8; 4096];
        for &level in Level::available() {
            streaming(level, []);
            bytes.fill(7);
            streaming(level, bytes.chunks_mut(300).step_by(2));
            let right = bytes.iter().enumerate().all(|(i, &x)| x == if i / 300 % 2 == 0 { 0 } else { 7 });
            assert!(right, "{level}");
        }
    }
}
