//! SIMD levels. A [`Level`] other than portable can only be had from a check of the CPU, so whoever holds
//! one may call code compiled for it: this is what makes the dispatch in `multiversion!` sound.

#[cfg(target_arch = "x86_64")]
#[path = "level_x86.rs"]
mod machine;

use crate::DeviceError;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// The instruction sets that kernels are compiled for, from plainest to widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Whatever the target guarantees; exact everywhere, slow where `mul_add` has no instruction.
    Portable,
    /// AVX2, FMA and BMI2.
    Avx2,
    /// AVX-512 F, BW, VL and DQ on top of AVX2.
    Avx512,
    /// AVX-512 with products of pairs of bf16 (`vdpbf16ps`).
    Avx512Bf16,
    /// The same with tiles of bf16 (`tdpbf16ps`).
    Amx,
}

/// How the sums of bf16 products are chained. Levels with the same chain give the same bits; f32 programs
/// have the same bits at all levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bf16Chain {
    /// For each pair of k a multiply-add of the odd element, then one of the even element.
    Pairs,
    /// Even and odd elements of thirty-two k each in a chain of their own; both are added up, then added to
    /// the sum.
    Tiles,
}

/// A SIMD level that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(Kind);

impl Level {
    /// The level that every CPU has.
    pub const PORTABLE: Level = Level(Kind::Portable);

    /// AVX2 with FMA, if this CPU has it.
    pub fn avx2() -> Option<Level> {
        Level::of(Kind::Avx2)
    }

    /// AVX-512, if this CPU has it.
    pub fn avx512() -> Option<Level> {
        Level::of(Kind::Avx512)
    }

    /// AVX-512 with products of bf16, if this CPU has it.
    pub fn avx512_bf16() -> Option<Level> {
        Level::of(Kind::Avx512Bf16)
    }

    /// Tiles of bf16, if this CPU has them and the system lets us use them.
    pub fn amx() -> Option<Level> {
        Level::of(Kind::Amx)
    }

    fn of(kind: Kind) -> Option<Level> {
        Level::available().iter().copied().find(|level| level.0 == kind)
    }

    /// The fastest level of this CPU: the widest, but AVX-512 alone where products of bf16 pairs are no gain.
    pub fn best() -> Level {
        match Level::available().last() {
            Some(Level(Kind::Avx512Bf16)) if !found().pairs_gain => Level(Kind::Avx512),
            Some(&widest) => widest,
            None => Level::PORTABLE,
        }
    }

    /// The levels of this CPU, plainest first.
    pub fn available() -> &'static [Level] {
        const ALL: &[Level] = &[
            Level(Kind::Portable),
            Level(Kind::Avx2),
            Level(Kind::Avx512),
            Level(Kind::Avx512Bf16),
            Level(Kind::Amx),
        ];
        &ALL[..=found().widest as usize]
    }

    /// How this level sums bf16 products.
    pub fn bf16_chain(self) -> Bf16Chain {
        if self.0 == Kind::Amx { Bf16Chain::Tiles } else { Bf16Chain::Pairs }
    }

    /// Whether a program gives the same bits at both levels: always in f32, in bf16 where the chains are the
    /// same.
    pub fn same_bits(self, other: Level, bf16: bool) -> bool {
        !bf16 || self.bf16_chain() == other.bf16_chain()
    }

    /// Whether products of 8-bit integers have an instruction here (`vpdpbusd` of AVX-512). Only speed
    /// depends on it.
    #[inline]
    pub fn has_integer_products(self) -> bool {
        self.0 >= Kind::Avx512 && found().integer_products
    }

    /// Which instruction set it stands for.
    #[inline]
    pub fn kind(self) -> Kind {
        self.0
    }
}

/// What a look at the CPU found.
#[derive(Clone, Copy)]
struct Found {
    widest: Kind,
    /// `vdpbf16ps` does twice the work of a multiply-add in the same time, as on AMD; on Intel it takes twice
    /// the time.
    pairs_gain: bool,
    /// `vpdpbusd` of AVX-512.
    integer_products: bool,
}

fn found() -> Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    *FOUND.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        return Found {
            widest: machine::widest(),
            pairs_gain: !machine::is_intel(),
            integer_products: machine::has_integer_products(),
        };
        #[cfg(not(target_arch = "x86_64"))]
        Found { widest: Kind::Portable, pairs_gain: false, integer_products: false }
    })
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Portable => "portable",
            Kind::Avx2 => "avx2",
            Kind::Avx512 => "avx512",
            Kind::Avx512Bf16 => "avx512bf16",
            Kind::Amx => "amx",
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Level {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Level, DeviceError> {
        let found = Level::available().iter().find(|level| level.to_string() == text);
        found.copied().ok_or_else(|| DeviceError::Level {
            asked: text.to_string(),
            available: Level::available().iter().map(Level::to_string).collect::<Vec<_>>().join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_parse_back() {
        let all = Level::available();
        assert_eq!(all[0], Level::PORTABLE);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(all.contains(&Level::best()) && Level::best() >= all[all.len().saturating_sub(2)]);
        for level in all {
            assert_eq!(level.to_string().parse::<Level>().unwrap(), *level);
        }
    }

    #[test]
    fn only_tiles_sum_otherwise_and_only_in_bf16() {
        let levels = [Kind::Portable, Kind::Avx2, Kind::Avx512, Kind::Avx512Bf16, Kind::Amx].map(Level);
        for a in levels {
            for b in levels {
                assert!(a.same_bits(b, false));
                assert_eq!(a.same_bits(b, true), (a.kind() == Kind::Amx) == (b.kind() == Kind::Amx));
            }
        }
    }

    #[test]
    fn an_unknown_level_names_those_there_are() {
        let text = "neon9".parse::<Level>().unwrap_err().to_string();
        assert!(text.contains("neon9") && text.contains("portable"), "{text}");
        assert!(text.contains(&Level::best().to_string()), "{text}");
    }
}
