//! Numbers to quantised blocks. Those of 32 with one scale are what the reference makes, bit for bit. For
//! those of 256 there are many good answers: here each part is fitted by least squares from several
//! beginnings, and its numbers are chosen once the scales that will be read back are known.

use crate::checkpoint::DType;
use half::f16;

/// Appends rows of numbers as blocks; their length is a whole number of blocks.
pub(super) fn encode(dtype: DType, numbers: &[f32], out: &mut Vec<u8>) {
    match dtype {
        DType::Q8_0 => numbers.as_chunks::<32>().0.iter().for_each(|block| q8_0(block, out)),
        DType::Q4_0 => numbers.as_chunks::<32>().0.iter().for_each(|block| q4_0(block, out)),
        DType::Q4K => numbers.as_chunks::<256>().0.iter().for_each(|block| q4_k(block, out)),
        DType::Q6K => numbers.as_chunks::<256>().0.iter().for_each(|block| q6_k(block, out)),
        DType::F16 => numbers.iter().for_each(|&x| out.extend(f16::from_f32(x).to_le_bytes())),
        DType::BF16 => numbers.iter().for_each(|&x| out.extend(half::bf16::from_f32(x).to_le_bytes())),
        _ => numbers.iter().for_each(|x| out.extend(x.to_le_bytes())),
    }
}

fn q8_0(block: &[f32; 32], out: &mut Vec<u8>) {
    let largest = block.iter().fold(0f32, |most, x| most.max(x.abs()));
    let scale = largest / 127.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    out.extend(f16::from_f32(scale).to_le_bytes());
    out.extend(block.iter().map(|x| (x * inverse).round() as i8 as u8));
}

/// The number that is furthest from 0 becomes -8, of whichever sign it is.
fn q4_0(block: &[f32; 32], out: &mut Vec<u8>) {
    let furthest = block.iter().fold(0f32, |far, &x| if x.abs() > far.abs() { x } else { far });
    let scale = furthest / -8.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let number = |x: f32| ((x * inverse + 8.5) as u8).min(15);
    out.extend(f16::from_f32(scale).to_le_bytes());
    out.extend((0..16).map(|i| number(block[i]) | number(block[i + 16]) << 4));
}

/// Scale and offset of a part, x ≈ scale · q - offset with q from 0 to 15 and neither below 0.
fn fitted(part: &[f32]) -> (f32, f32) {
    let least = part.iter().copied().fold(0f32, f32::min);
    let most = part.iter().copied().fold(f32::MIN, f32::max);
    if most <= least {
        return (0.0, -least);
    }
    let mut best = ((most - least) / 15.0, -least);
    let mut least_error = f32::INFINITY;
    for step in -1..=12 {
        let inverse = (14.0 + 0.15 * step as f32) / (most - least);
        let (mut q1, mut q2, mut x1, mut xq) = (0.0, 0.0, 0.0, 0.0);
        for &x in part {
            let q = ((x - least) * inverse).round().clamp(0.0, 15.0);
            (q1, q2, x1, xq) = (q1 + q, q2 + q * q, x1 + x, xq + x * q);
        }
        let count = part.len() as f32;
        let spread = count * q2 - q1 * q1;
        if spread <= 0.0 {
            continue;
        }
        let mut scale = (count * xq - x1 * q1) / spread;
        let mut offset = (q1 * scale - x1) / count;
        if offset < 0.0 {
            (scale, offset) = (xq / q2, 0.0);
        }
        if scale <= 0.0 {
            continue;
        }
        let error = part.iter().map(|&x| {
            let q = ((x + offset) / scale).round().clamp(0.0, 15.0);
            (scale * q - offset - x).powi(2)
        });
        let error: f32 = error.sum();
        if error < least_error {
            (least_error, best) = (error, (scale, offset));
        }
    }
    best
}

fn q4_k(block: &[f32; 256], out: &mut Vec<u8>) {
    let mut parts = [(0.0, 0.0); 8];
    for (fit, part) in parts.iter_mut().zip(block.chunks_exact(32)) {
        *fit = fitted(part);
    }
    let scale = f16::from_f32(parts.iter().fold(0f32, |most, (scale, _)| most.max(*scale)) / 63.0);
    let offset = f16::from_f32(parts.iter().fold(0f32, |most, (_, offset)| most.max(*offset)) / 63.0);
    let six = |x: f32, unit: f16| match unit.to_f32() {
        0.0 => 0,
        unit => (x / unit).round().clamp(0.0, 63.0) as u8,
    };
    let packed = parts.map(|(s, o)| (six(s, scale), six(o, offset)));
    out.extend(scale.to_le_bytes());
    out.extend(offset.to_le_bytes());
    let mut bytes = [0u8; 12];
    for part in 0..4 {
        let ((s, o), (s2, o2)) = (packed[part], packed[part + 4]);
        bytes[part] = s | s2 >> 4 << 6;
        bytes[part + 4] = o | o2 >> 4 << 6;
        bytes[part + 8] = s2 & 15 | o2 << 4;
    }
    out.extend(bytes);
    let number = |i: usize| {
        let (s, o) = packed[i / 32];
        let (s, o) = (scale.to_f32() * f32::from(s), offset.to_f32() * f32::from(o));
        if s == 0.0 { 0 } else { ((block[i] + o) / s).round().clamp(0.0, 15.0) as u8 }
    };
    for pair in 0..4 {
        out.extend((0..32).map(|i| number(pair * 64 + i) | number(pair * 64 + 32 + i) << 4));
    }
}

/// The scale of a part, x ≈ scale · q with q from -32 to 31.
fn symmetric(part: &[f32]) -> f32 {
    let furthest = part.iter().fold(0f32, |far, &x| if x.abs() > far.abs() { x } else { far });
    if furthest == 0.0 {
        return 0.0;
    }
    let mut best = (f32::INFINITY, furthest / -32.0);
    for step in -6..=6 {
        let inverse = (-32.0 + 0.2 * step as f32) / furthest;
        let (mut q2, mut xq) = (0.0, 0.0);
        for &x in part {
            let q = (x * inverse).round().clamp(-32.0, 31.0);
            (q2, xq) = (q2 + q * q, xq + x * q);
        }
        if q2 == 0.0 {
            continue;
        }
        let scale = xq / q2;
        if scale == 0.0 {
            continue;
        }
        let error = part.iter().map(|&x| (scale * (x / scale).round().clamp(-32.0, 31.0) - x).powi(2)).sum();
        if error < best.0 {
            best = (error, scale);
        }
    }
    best.1
}

fn q6_k(block: &[f32; 256], out: &mut Vec<u8>) {
    let mut scales = [0f32; 16];
    for (scale, part) in scales.iter_mut().zip(block.chunks_exact(16)) {
        *scale = symmetric(part);
    }
    let furthest = scales.iter().fold(0f32, |far, &x| if x.abs() > far.abs() { x } else { far });
    let unit = f16::from_f32(furthest / -128.0);
    let eight = |x: f32| match unit.to_f32() {
        0.0 => 0,
        unit => (x / unit).round().clamp(-128.0, 127.0) as i8,
    };
    let packed = scales.map(eight);
    let number = |i: usize| {
        let scale = unit.to_f32() * f32::from(packed[i / 16]);
        let q = if scale == 0.0 { 0.0 } else { (block[i] / scale).round().clamp(-32.0, 31.0) };
        (q as i8 + 32) as u8
    };
    for half in [0, 128] {
        out.extend((half..half + 64).map(|i| number(i) & 15 | number(i + 64) << 4));
    }
    for half in [0, 128] {
        let two = |i: usize| number(i) >> 4;
        out.extend(
            (half..half + 32).map(|i| two(i) | two(i + 32) << 2 | two(i + 64) << 4 | two(i + 96) << 6),
        );
    }
    out.extend(packed.map(|scale| scale as u8));
    out.extend(unit.to_le_bytes());
}
