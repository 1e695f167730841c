//! Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
//! 1, 2, 3", 2011). A draw is a pure function of (seed, step, name, example, position, channel), so that
//! it is the same whatever the batching, the padding or the threads, and backward can draw it again.

const MULTIPLIER: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
const ROUNDS: usize = 10;

/// Philox4x32 with ten rounds: four random words for a key and a counter.
#[inline(always)]
pub fn philox(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let [[a], [b], [c], [d]] = philox_lanes(key, counter.map(|word| [word]));
    [a, b, c, d]
}

/// The same for `L` counters side by side, word by word: made to be vectorised.
#[inline(always)]
pub fn philox_lanes<const L: usize>(key: [u32; 2], counter: [[u32; L]; 4]) -> [[u32; L]; 4] {
    let ([mut k0, mut k1], [mut x0, mut x1, mut x2, mut x3]) = (key, counter);
    for _ in 0..ROUNDS {
        for i in 0..L {
            let left = MULTIPLIER[0] as u64 * x0[i] as u64;
            let right = MULTIPLIER[1] as u64 * x2[i] as u64;
            x0[i] = (right >> 32) as u32 ^ x1[i] ^ k0;
            x1[i] = right as u32;
            x2[i] = (left >> 32) as u32 ^ x3[i] ^ k1;
            x3[i] = left as u32;
        }
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [x0, x1, x2, x3]
}

/// The random numbers of one operation in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: [u32; 2],
    step: u32,
}

impl Stream {
    /// The stream of the operation `name` in step `step` of the run with this seed.
    pub fn new(seed: u64, step: u64, name: &str) -> Stream {
        // The key mixes seed, name and the step's upper half; the lower half is in the counter, so that
        // different steps cannot share numbers by a chance of mixing.
        let key = mix(mix(mix(seed) ^ name_hash(name)) ^ (step >> 32));
        Stream { key: [key as u32, (key >> 32) as u32], step: step as u32 }
    }

    /// The four draws of one block: channels `4 * block` to `4 * block + 3`.
    #[inline(always)]
    pub fn block(&self, example: u32, position: u32, block: u32) -> [u32; 4] {
        philox(self.key, [block, position, example, self.step])
    }

    /// `L` consecutive blocks, word by word: draw of channel `4 * (first + i) + w` is at `[w][i]`.
    #[inline(always)]
    pub fn blocks<const L: usize>(&self, example: u32, position: u32, first: u32) -> [[u32; L]; 4] {
        let numbers = std::array::from_fn(|i| first.wrapping_add(i as u32));
        philox_lanes(self.key, [numbers, [position; L], [example; L], [self.step; L]])
    }

    /// The draw of one channel (or key index): word `channel % 4` of block `channel / 4`.
    #[inline(always)]
    pub fn bits(&self, example: u32, position: u32, channel: u32) -> u32 {
        self.block(example, position, channel / 4)[channel as usize % 4]
    }

    /// Two standard normal draws (Box–Muller in f64) from one block.
    pub fn normal_pair(&self, example: u32, position: u32, block: u32) -> [f64; 2] {
        let [a, b, c, d] = self.block(example, position, block);
        normal_pair(unit_open_f64(a, b), unit_open_f64(c, d))
    }

    /// A standard normal draw for each index: a pair per block.
    pub fn normal(&self, example: u32, position: u32, index: u32) -> f64 {
        self.normal_pair(example, position, index / 2)[index as usize % 2]
    }

    /// A standard Gumbel draw for each index: two per block.
    pub fn gumbel(&self, example: u32, position: u32, index: u32) -> f64 {
        let [a, b, c, d] = self.block(example, position, index / 2);
        gumbel(if index.is_multiple_of(2) { unit_open_f64(a, b) } else { unit_open_f64(c, d) })
    }
}

crate::multiversion! {
    /// The draws of channels `4 * first_block` onwards, one for each element of `out`.
    pub fn fill_bits(stream: &Stream, example: u32, position: u32, first_block: u32, out: &mut [u32]) {
        const L: usize = 16;
        let mut block = first_block;
        let mut chunks = out.chunks_exact_mut(4 * L);
        for chunk in &mut chunks {
            let words = stream.blocks::<L>(example, position, block);
            for i in 0..L {
                for w in 0..4 {
                    chunk[4 * i + w] = words[w][i];
                }
            }
            block = block.wrapping_add(L as u32);
        }
        for chunk in chunks.into_remainder().chunks_mut(4) {
            let words = stream.block(example, position, block);
            chunk.copy_from_slice(&words[..chunk.len()]);
            block = block.wrapping_add(1);
        }
    }
}

/// A number in [0, 1) with 24 bits.
#[inline(always)]
pub fn unit_f32(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

/// A number in (0, 1) with 52 bits, symmetric about one half: never 0, never 1.
#[inline(always)]
pub fn unit_open_f64(low: u32, high: u32) -> f64 {
    let bits = ((high as u64) << 32 | low as u64) >> 12;
    (bits as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
}

/// Two independent standard normals from two numbers in (0, 1).
pub fn normal_pair(u: f64, v: f64) -> [f64; 2] {
    let radius = (-2.0 * u.ln()).sqrt();
    let (sin, cos) = (std::f64::consts::TAU * v).sin_cos();
    [radius * cos, radius * sin]
}

/// A standard Gumbel from a number in (0, 1).
pub fn gumbel(u: f64) -> f64 {
    -(-u.ln()).ln()
}

/// What a name has in the keys of its stream: FNV-1a, 64 bits. A card is told it instead of the name.
pub fn name_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3))
}

/// The finaliser of SplitMix64: a bijection that mixes all bits.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    #[test]
    fn philox_gives_the_published_vectors() {
        // The known answers that Random123 ships (kat_vectors, philox4x32 10).
        let known = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([!0; 4], [!0; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in known {
            assert_eq!(philox(key, counter), expected);
        }
    }

    #[test]
    fn name_hash_gives_the_published_values() {
        assert_eq!(name_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(name_hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn filling_is_drawing_one_by_one_at_every_level() {
        let stream = Stream::new(7, 3, "block.0.dropout");
        for &level in Level::available() {
            for len in [0, 1, 3, 4, 63, 64, 65, 200] {
                let mut out = vec![0; len];
                fill_bits(level, &stream, 5, 11, 2, &mut out);
                let one = |i: usize| stream.bits(5, 11, 8 + i as u32);
                assert!(out.iter().enumerate().all(|(i, &bits)| bits == one(i)), "{level} {len}");
            }
        }
    }

    #[test]
    fn every_part_of_the_key_matters() {
        let draw = |seed, step, name, e, p, c| Stream::new(seed, step, name).bits(e, p, c);
        let all = [
            draw(1, 2, "a", 3, 4, 5),
            draw(2, 2, "a", 3, 4, 5),
            draw(1, 3, "a", 3, 4, 5),
            draw(1, 2 + (1 << 32), "a", 3, 4, 5),
            draw(1, 2, "b", 3, 4, 5),
            draw(1, 2, "a", 4, 4, 5),
            draw(1, 2, "a", 3, 5, 5),
            draw(1, 2, "a", 3, 4, 6),
            draw(1, 2, "a", 3, 4, 9),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| x != y), "{i}");
        }
    }

    #[test]
    fn units_stay_inside() {
        assert_eq!(unit_f32(0), 0.0);
        assert_eq!(unit_f32(!0), 1.0 - 2f32.powi(-24));
        assert!(unit_open_f64(0, 0) > 0.0 && unit_open_f64(!0, !0) < 1.0);
        assert_eq!(unit_open_f64(0, 0), 1.0 - unit_open_f64(!0, !0));
    }

    #[test]
    fn moments_are_right() {
        const N: u32 = 100_000;
        let stream = Stream::new(42, 0, "test");
        let moments = |draw: &dyn Fn(u32) -> f64| {
            let mean = (0..N).map(draw).sum::<f64>() / N as f64;
            let variance = (0..N).map(|i| (draw(i) - mean).powi(2)).sum::<f64>() / N as f64;
            (mean, variance)
        };
        // Five standard errors of mean and variance; the draws are fixed by the seed.
        let (mean, variance) = moments(&|i| unit_f32(stream.bits(0, i, 0)) as f64);
        assert!((mean - 0.5).abs() < 0.0046 && (variance - 1.0 / 12.0).abs() < 0.0012);
        let (mean, variance) = moments(&|i| stream.normal(0, 0, i));
        assert!(mean.abs() < 0.016 && (variance - 1.0).abs() < 0.023, "{mean} {variance}");
        let (mean, variance) = moments(&|i| stream.gumbel(1, 0, i));
        let expected = std::f64::consts::PI.powi(2) / 6.0;
        assert!((mean - 0.577_215_664_9).abs() < 0.021 && (variance - expected).abs() < 0.055);
    }
}
