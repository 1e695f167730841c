//! Exponentials of scores, the dearest arithmetic beside the products: one function, and the two loops over
//! whole tiles that it is hot in. They are written twice, in plain Rust for all levels and in AVX-512's own
//! words for taking the floor and scaling by a power of two, which no compiler finds; both give the same
//! bits.

#![allow(unsafe_code)]

use super::cpu_differentiate;
use super::cpu_softmax::{self, Lanes};
use super::cpu_tile as backward;
#[cfg(target_arch = "x86_64")]
use regard_device::Kind;
use regard_device::Level;
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// 2^r = 1 + r·(…) on 0 ≤ r < 1, to 8e-8 of itself, the last first.
const POLYNOMIAL: [f32; 5] = [1.867_130_2e-3, 9.017_03e-3, 5.579_991_3e-2, 2.401_644_4e-1, 6.931_513e-1];

/// e^x to 1.5 ulp for x near 0 and |x|·2⁻²⁶ of itself elsewhere, where a weight is less beside the largest; 1
/// at 0 exactly, 0 at −∞. Less work than the exponential of the device crate, which is as close everywhere.
#[inline(always)]
pub fn exp_below(x: f32) -> f32 {
    let t = x * LOG2_E;
    // What is left above the floor, from the product before it is rounded.
    scaled(x.mul_add(LOG2_E, -t.floor()), t)
}

/// 2^t to 1.5 ulp: 1 at 0 exactly, 0 at −∞.
#[inline(always)]
pub fn exp2(t: f32) -> f32 {
    scaled(t - t.floor(), t)
}

/// 2^r times 2 to the floor of t.
#[inline(always)]
fn scaled(r: f32, t: f32) -> f32 {
    /// Adding this leaves an integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let power_of_two = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    let mut p = POLYNOMIAL[0];
    for coefficient in &POLYNOMIAL[1..] {
        p = p.mul_add(r, *coefficient);
    }
    let p = p.mul_add(r, 1.0);
    // In two factors, so that a denormal result is rounded once.
    let n = t.floor().clamp(-252.0, 254.0) + ROUND;
    let n = (n.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    let y = p * power_of_two(half) * power_of_two(n.wrapping_sub(half));
    // −∞ among them, where the remainder is not a number.
    if t < -151.0 { 0.0 } else { y }
}

/// Scores to 2^((score − from) · unit) in each row of the forward's tile, and each row's sums; the largest of
/// these.
pub fn exponentials(
    level: Level,
    scores: &mut [f32],
    stride: usize,
    live: Range<usize>,
    unit: f32,
    from: &[f32],
    lanes: &mut Lanes,
) -> f32 {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Level` exists only where the CPU has its instructions.
        Kind::Avx512 | Kind::Avx512Bf16 | Kind::Amx => unsafe {
            avx512::exponentials(scores, stride, live, unit, from, lanes)
        },
        _ => cpu_softmax::exponentials(level, scores, stride, live, unit, from, lanes),
    }
}

/// Dots to weights and dw to score gradients in a whole tile of the backward; the latter, where there is room
/// for them, also as panels, which dq is made from.
pub fn differentiate(
    level: Level,
    weights: &mut [f32],
    scores: &mut [f32],
    panels: Option<&mut [f32]>,
    factor: f32,
    lse: &[f32; backward::QUERIES],
    mean: &[f32; backward::QUERIES],
) {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Level` exists only where the CPU has its instructions.
        Kind::Avx512 | Kind::Avx512Bf16 | Kind::Amx => unsafe {
            avx512::differentiate(weights, scores, panels, factor, lse, mean)
        },
        _ => cpu_differentiate::differentiate(level, weights, scores, panels, factor, lse, mean),
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::super::cpu_softmax::Lanes;
    use super::super::cpu_tile::{QUERIES, panel_place};
    use super::POLYNOMIAL;
    use regard_device::reduce::LANES;
    use std::arch::x86_64::*;
    use std::f32::consts::LOG2_E;
    use std::ops::Range;

    /// Rounds down, in silence.
    const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn exp_below(x: __m512) -> __m512 {
        let by = _mm512_set1_ps(LOG2_E);
        let t = _mm512_mul_ps(x, by);
        scaled(_mm512_fmsub_ps(x, by, _mm512_roundscale_ps::<DOWN>(t)), t)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn scaled(r: __m512, t: __m512) -> __m512 {
        let mut p = _mm512_set1_ps(POLYNOMIAL[0]);
        for &coefficient in &POLYNOMIAL[1..] {
            p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(coefficient));
        }
        let p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0));
        // At −∞ this gives 0, though the remainder is not a number.
        _mm512_scalef_ps(p, t)
    }

    #[target_feature(enable = "avx512f")]
    pub fn exponentials(
        scores: &mut [f32],
        stride: usize,
        live: Range<usize>,
        unit: f32,
        from: &[f32],
        lanes: &mut Lanes,
    ) -> f32 {
        let (mut most, unit) = (_mm512_setzero_ps(), _mm512_set1_ps(unit));
        for ((scores, lanes), &from) in scores.chunks_exact_mut(stride).zip(lanes).zip(from) {
            let (mut sums, from) = (_mm512_setzero_ps(), _mm512_set1_ps(from));
            for scores in scores[live.clone()].as_chunks_mut::<LANES>().0 {
                let t = _mm512_mul_ps(_mm512_sub_ps(load(scores), from), unit);
                let weights = scaled(_mm512_sub_ps(t, _mm512_roundscale_ps::<DOWN>(t)), t);
                store(scores, weights);
                sums = _mm512_add_ps(sums, weights);
            }
            // The second where the sum is not a number.
            most = _mm512_max_ps(sums, most);
            store(lanes, sums);
        }
        _mm512_reduce_max_ps(most)
    }

    #[target_feature(enable = "avx512f")]
    pub fn differentiate(
        weights: &mut [f32],
        scores: &mut [f32],
        mut panels: Option<&mut [f32]>,
        factor: f32,
        lse: &[f32; QUERIES],
        mean: &[f32; QUERIES],
    ) {
        let factor = _mm512_set1_ps(factor);
        let queries = lse.as_chunks::<LANES>().0.iter().zip(mean.as_chunks::<LANES>().0);
        let rows = weights.as_chunks_mut::<QUERIES>().0.iter_mut().zip(scores.as_chunks_mut::<QUERIES>().0);
        for (key, (weights, scores)) in rows.enumerate() {
            let both = weights.as_chunks_mut::<LANES>().0.iter_mut().zip(scores.as_chunks_mut::<LANES>().0);
            for (i, ((weights, scores), (lse, mean))) in both.zip(queries.clone()).enumerate() {
                // Both are read before either is written: they lie so far apart that a core takes the one for
                // the other.
                let (dot, dw) = (load(weights), load(scores));
                let w = exp_below(_mm512_sub_ps(_mm512_mul_ps(dot, factor), load(lse)));
                let ds = _mm512_mul_ps(w, _mm512_sub_ps(dw, load(mean)));
                store(weights, w);
                store(scores, ds);
                if let Some(panels) = &mut panels {
                    let place = panel_place(key, i * LANES);
                    store(panels[place..].first_chunk_mut().expect("panels of a whole tile"), ds);
                }
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(from: &[f32; LANES]) -> __m512 {
        // SAFETY: sixteen numbers.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store(to: &mut [f32; LANES], x: __m512) {
        // SAFETY: sixteen numbers.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_device::reduce::LANES;

    /// From far below the smallest denormal to beyond the largest number.
    fn arguments() -> impl Iterator<Item = f32> {
        let fine = (0..400_000).map(|i| i as f32 * -0.0003);
        let up = (0..4_000).map(|i| i as f32 * 0.025);
        fine.chain(up).chain([f32::NEG_INFINITY, f32::MIN, -1e5, -1e-30, -0.0])
    }

    #[test]
    fn they_are_close_to_powers() {
        for x in arguments().filter(|&x| x > -87.0 && x < 88.0) {
            let bound = 1.5e-7 + x.abs() as f64 / (1 << 26) as f64;
            let (found, right) = (exp_below(x) as f64, (x as f64).exp());
            assert!((found / right - 1.0).abs() <= bound, "e^{x} = {right}, got {found}");
            let (found, right) = (exp2(x) as f64, (x as f64).exp2());
            assert!((found / right - 1.0).abs() <= 1.6e-7, "2^{x} = {right}, got {found}");
        }
        for function in [exp_below, exp2] {
            let ends = [0.0, -0.0, f32::NEG_INFINITY, f32::MIN, -160.0].map(function);
            assert_eq!(ends, [1.0, 1.0, 0.0, 0.0, 0.0]);
            assert_eq!(function(130.0), f32::INFINITY);
            assert!(function(f32::NAN).is_nan());
        }
        // The smallest numbers are rounded once.
        for t in (0..1000).map(|i| -126.0 - i as f32 * 0.023) {
            let (found, right) = (exp2(t) as f64, (t as f64).exp2());
            assert!(
                (found - right).abs() <= 0.5001 * 2f64.powi(-149) + 1.6e-7 * right,
                "2^{t} = {right}, got {found}"
            );
        }
    }

    #[test]
    fn all_levels_give_the_same_bits() {
        let all: Vec<f32> = arguments().collect();
        for level in Level::available() {
            for part in all.as_chunks::<LANES>().0 {
                let (mut scores, mut lanes) = (*part, [[0.0; LANES]; cpu_softmax::QUERIES]);
                let most = exponentials(*level, &mut scores, LANES, 0..LANES, 1.25, &[0.5], &mut lanes);
                for (x, y) in part.iter().zip(scores) {
                    let right = exp2((x - 0.5) * 1.25);
                    assert_eq!(y.to_bits(), right.to_bits(), "{x} at {level}: {y}, {right}");
                }
                assert_eq!(lanes[0], scores);
                assert_eq!(most, scores.iter().copied().fold(0.0, f32::max));
            }
            let mut weights: Vec<f32> = all.iter().copied().take(4 * backward::QUERIES).collect();
            let mut scores: Vec<f32> = (0..weights.len()).map(|i| i as f32 - 100.0).collect();
            let (dots, dw) = (weights.clone(), scores.clone());
            let (lse, mean) = (std::array::from_fn(|i| i as f32 / 10.0), std::array::from_fn(|i| i as f32));
            let mut panels = [0.0; backward::KEYS * backward::QUERIES];
            differentiate(*level, &mut weights, &mut scores, Some(&mut panels), 0.5, &lse, &mean);
            for (i, (dot, dw)) in dots.iter().zip(dw).enumerate() {
                let (key, query) = (i / backward::QUERIES, i % backward::QUERIES);
                let w = exp_below(dot * 0.5 - lse[query]);
                let ds = w * (dw - mean[query]);
                assert_eq!(panels[backward::panel_place(key, query)].to_bits(), ds.to_bits(), "{level}");
                assert_eq!(
                    (weights[i].to_bits(), scores[i].to_bits()),
                    (w.to_bits(), ds.to_bits()),
                    "{level}"
                );
            }
        }
    }
}
