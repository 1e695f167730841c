//! Quantised blocks to f32, as GGUF lays them out: a scale in f16 (and an offset, or scales of parts), then
//! the numbers in few bits. Low halves of bytes come before high ones. The arithmetic is that of the
//! reference, operation for operation, so that the results are the same to the bit.

use super::DType;
use half::f16;

/// Blocks as f32; stops at the end of the shorter side.
pub(super) fn decode(dtype: DType, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        DType::Q4_0 => each::<18, 32>(bytes, out, q4_0),
        DType::Q4_1 => each::<20, 32>(bytes, out, q4_1),
        DType::Q5_0 => each::<22, 32>(bytes, out, q5_0),
        DType::Q5_1 => each::<24, 32>(bytes, out, q5_1),
        DType::Q8_0 => each::<34, 32>(bytes, out, q8_0),
        DType::Q4K => each::<144, 256>(bytes, out, q4_k),
        DType::Q5K => each::<176, 256>(bytes, out, q5_k),
        DType::Q6K => each::<210, 256>(bytes, out, q6_k),
        plain => plain.decode(bytes, out),
    }
}

fn each<const BYTES: usize, const ELEMENTS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    for (from, to) in bytes.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<ELEMENTS>().0) {
        block(from, to);
    }
}

fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let scale = half(block, 0);
    for (i, byte) in block[2..].iter().enumerate() {
        out[i] = scale * f32::from((byte & 15) as i8 - 8);
        out[i + 16] = scale * f32::from((byte >> 4) as i8 - 8);
    }
}

fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (scale, offset) = (half(block, 0), half(block, 2));
    for (i, byte) in block[4..].iter().enumerate() {
        out[i] = scale * f32::from(byte & 15) + offset;
        out[i + 16] = scale * f32::from(byte >> 4) + offset;
    }
}

/// The fifth bits of 32 numbers stand together.
fn fifth(bits: u32, i: usize) -> u8 {
    ((bits >> i & 1) as u8) << 4
}

fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let scale = half(block, 0);
    let bits = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    for (i, byte) in block[6..].iter().enumerate() {
        out[i] = scale * f32::from((byte & 15 | fifth(bits, i)) as i8 - 16);
        out[i + 16] = scale * f32::from((byte >> 4 | fifth(bits, i + 16)) as i8 - 16);
    }
}

fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (scale, offset) = (half(block, 0), half(block, 2));
    let bits = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
    for (i, byte) in block[8..].iter().enumerate() {
        out[i] = scale * f32::from(byte & 15 | fifth(bits, i)) + offset;
        out[i + 16] = scale * f32::from(byte >> 4 | fifth(bits, i + 16)) + offset;
    }
}

fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let scale = half(block, 0);
    for (to, byte) in out.iter_mut().zip(&block[2..]) {
        *to = f32::from(*byte as i8) * scale;
    }
}

/// Scale and offset of part `part` of eight, six bits each in twelve bytes: of the first four parts in the
/// low bits of the first eight bytes, of the others in the last four, their upper two bits above the former.
pub(crate) fn scale_and_offset(packed: &[u8], part: usize) -> (u8, u8) {
    match part {
        0..4 => (packed[part] & 63, packed[part + 4] & 63),
        _ => (
            packed[part + 4] & 15 | packed[part - 4] >> 6 << 4,
            packed[part + 4] >> 4 | packed[part] >> 6 << 4,
        ),
    }
}

fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (scale, offset) = (half(block, 0), half(block, 2));
    for (part, to) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (s, o) = scale_and_offset(&block[4..16], part);
        let (s, o) = (scale * f32::from(s), offset * f32::from(o));
        let from = &block[16 + part / 2 * 32..][..32];
        for (to, byte) in to.iter_mut().zip(from) {
            *to = s * f32::from(byte >> (part % 2 * 4) & 15) - o;
        }
    }
}

fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (scale, offset) = (half(block, 0), half(block, 2));
    for (part, to) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (s, o) = scale_and_offset(&block[4..16], part);
        let (s, o) = (scale * f32::from(s), offset * f32::from(o));
        let (high, from) = (&block[16..48], &block[48 + part / 2 * 32..][..32]);
        for ((to, byte), high) in to.iter_mut().zip(from).zip(high) {
            let low = byte >> (part % 2 * 4) & 15;
            *to = s * f32::from(low | (high >> part & 1) << 4) - o;
        }
    }
}

fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let scale = half(block, 208);
    for (part, to) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let s = scale * f32::from(block[192 + part] as i8);
        // Two halves of 128; in each, 64 bytes of low bits, used twice, and 32 of high ones, four times.
        let (half, place) = (part / 8, part % 8 * 16);
        let low = &block[half * 64 + place % 64..][..16];
        let high = &block[128 + half * 32 + place % 32..][..16];
        for ((to, low), high) in to.iter_mut().zip(low).zip(high) {
            let number = low >> (place / 64 * 4) & 15 | (high >> (place / 32 * 2) & 3) << 4;
            *to = s * f32::from(number as i8 - 32);
        }
    }
}
