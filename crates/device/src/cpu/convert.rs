//! Between f32 and bf16: widening is exact, narrowing rounds to nearest, ties to even, NaN stays NaN.

use half::bf16;

/// A bf16 as f32, exactly.
#[inline(always)]
pub fn widen(x: bf16) -> f32 {
    f32::from_bits((x.to_bits() as u32) << 16)
}

/// The nearest bf16, ties to even. A NaN becomes a quiet NaN with the same sign.
#[inline(always)]
pub fn narrow(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    // Rounding could carry a NaN's payload into the sign or round it away to infinity.
    let quiet = (bits >> 16) | 0x40;
    bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded } as u16)
}

/// The nearest value that a bf16 can hold, as f32.
#[inline(always)]
pub fn round(x: f32) -> f32 {
    widen(narrow(x))
}

crate::multiversion! {
    /// Widens a slice. Panics if the lengths differ.
    pub fn to_f32(source: &[bf16], out: &mut [f32]) {
        assert_eq!(source.len(), out.len(), "to_f32: lengths");
        for (out, x) in out.iter_mut().zip(source) {
            *out = widen(*x);
        }
    }

    /// Narrows a slice. Panics if the lengths differ.
    pub fn to_bf16(source: &[f32], out: &mut [bf16]) {
        assert_eq!(source.len(), out.len(), "to_bf16: lengths");
        for (out, x) in out.iter_mut().zip(source) {
            *out = narrow(*x);
        }
    }

    /// Rounds a slice to values that a bf16 can hold, in place.
    pub fn round_to_bf16(values: &mut [f32]) {
        for x in values {
            *x = round(*x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn samples() -> Vec<f32> {
        let mut bits: Vec<u32> = (0..1u32 << 16).map(|i| i.wrapping_mul(0x9e37_79b1)).collect();
        for high in [0u32, 0x3f80, 0x3f81, 0x7f7f, 0x7f80, 0x7fc0, 0x8000, 0xff80, 0x0001, 0xffff] {
            bits.extend([0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| high << 16 | low));
        }
        bits.into_iter().map(f32::from_bits).collect()
    }

    #[test]
    fn narrowing_agrees_with_half_at_every_level() {
        let source = samples();
        for &level in Level::available() {
            let mut out = vec![bf16::ZERO; source.len()];
            to_bf16(level, &source, &mut out);
            for (x, y) in source.iter().zip(&out) {
                let expected = bf16::from_f32(*x);
                if x.is_nan() {
                    assert!(y.is_nan() && y.is_sign_negative() == x.is_sign_negative());
                } else {
                    assert_eq!(y.to_bits(), expected.to_bits(), "{level}: {x:e}");
                }
            }
        }
    }

    #[test]
    fn widening_is_exact_and_narrowing_undoes_it() {
        let source: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        for &level in Level::available() {
            let mut wide = vec![0.0; source.len()];
            to_f32(level, &source, &mut wide);
            for (x, y) in source.iter().zip(&wide) {
                assert_eq!(y.to_bits(), (x.to_bits() as u32) << 16);
                assert!(y.is_nan() || narrow(*y) == *x);
            }
            let mut again = wide.clone();
            round_to_bf16(level, &mut again);
            assert!(again.iter().zip(&wide).all(|(a, b)| a.is_nan() == b.is_nan() && (a == b || a.is_nan())));
        }
    }
}
