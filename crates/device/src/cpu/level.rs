//! SIMD levels. A [`Level`] other than portable can only be had from a check of the CPU, so whoever holds
//! one may call code compiled for it: this is what makes the dispatch in `multiversion!` sound.

use crate::DeviceError;
use std::fmt;
use std::str::FromStr;

/// The instruction sets that kernels are compiled for, from plainest to widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Whatever the target guarantees; exact everywhere, slow where `mul_add` has no instruction.
    Portable,
    /// AVX2, FMA and BMI2.
    Avx2,
    /// AVX-512 F, BW, VL and DQ on top of AVX2.
    Avx512,
}

/// A SIMD level that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(Kind);

impl Level {
    /// The level that every CPU has.
    pub const PORTABLE: Level = Level(Kind::Portable);

    /// AVX2 with FMA, if this CPU has it.
    pub fn avx2() -> Option<Level> {
        Level::available().iter().copied().find(|level| level.0 == Kind::Avx2)
    }

    /// AVX-512, if this CPU has it.
    pub fn avx512() -> Option<Level> {
        Level::available().iter().copied().find(|level| level.0 == Kind::Avx512)
    }

    /// The widest level of this CPU.
    pub fn best() -> Level {
        Level::available().last().copied().unwrap_or(Level::PORTABLE)
    }

    /// The levels of this CPU, plainest first.
    pub fn available() -> &'static [Level] {
        const ALL: &[Level] = &[Level(Kind::Portable), Level(Kind::Avx2), Level(Kind::Avx512)];
        &ALL[..=detect() as usize]
    }

    /// Which instruction set it stands for.
    #[inline]
    pub fn kind(self) -> Kind {
        self.0
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Kind {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    if !(avx2 && is_x86_feature_detected!("bmi2")) {
        return Kind::Portable;
    }
    let foundation = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    if foundation && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512dq") {
        return Kind::Avx512;
    }
    Kind::Avx2
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Kind {
    Kind::Portable
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Portable => "portable",
            Kind::Avx2 => "avx2",
            Kind::Avx512 => "avx512",
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
        assert_eq!(*all.last().unwrap(), Level::best());
        for level in all {
            assert_eq!(level.to_string().parse::<Level>().unwrap(), *level);
        }
    }

    #[test]
    fn an_unknown_level_names_those_there_are() {
        let text = "neon9".parse::<Level>().unwrap_err().to_string();
        assert!(text.contains("neon9") && text.contains("portable"), "{text}");
        assert!(text.contains(&Level::best().to_string()), "{text}");
    }
}
