//! The span corruption of T5 (Raffel et al. 2020), for encoder-decoders: several short spans are taken out of
//! the text, a sentinel stands for each, and the decoder says each sentinel and what it stands for. T5's own
//! code always takes the last token out and never the first; here both ends of a text are alike.

use crate::draws::Draws;
use crate::{Error, Result};

/// How a text is corrupted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sentinels {
    /// Of all draws.
    pub seed: u64,
    /// The share of tokens taken out.
    pub density: f64,
    /// The mean length of a span.
    pub mean: f64,
    /// The id of the first sentinel, `<extra_id_0>`; the ids of the others descend from it.
    pub first: u32,
    /// How many sentinels there are.
    pub count: u32,
}

impl Sentinels {
    /// T5's own rates: 0.15 of all tokens, in spans of 3.
    pub fn new(seed: u64, first: u32, count: u32) -> Result<Sentinels> {
        Sentinels { seed, density: 0.15, mean: 3.0, first, count }.checked()
    }

    /// These settings, if they make sense.
    pub fn checked(self) -> Result<Sentinels> {
        if !(self.density > 0.0 && self.density < 1.0 && self.mean >= 1.0 && self.mean.is_finite()) {
            return Err(Error::invalid(
                format!("a share of {} in spans of {} cannot be taken out", self.density, self.mean),
                "choose a share between 0 and 1, and spans of 1 token at least",
            ));
        }
        if self.count < 2 || self.count - 1 > self.first {
            return Err(Error::invalid(
                format!("{} sentinels cannot descend from the id {}", self.count, self.first),
                "give 2 sentinels at least, and the id of the first, which is the highest",
            ));
        }
        Ok(self)
    }

    /// What the encoder reads and what the decoder should say: `a b <0> e <1>` and `<0> c d <1> f g <2>`. A
    /// text of fewer than two tokens is left whole.
    pub fn corrupt(&self, epoch: u64, example: u64, ids: &[u32]) -> Result<(Vec<u32>, Vec<u32>)> {
        if let Some(position) = ids.iter().position(|&id| self.sentinel(id).is_some()) {
            return Err(Error::invalid(
                format!("the text has the sentinel {} at position {position}", ids[position]),
                "take it out of the text: sentinels are for what is missing",
            ));
        }
        let mut draws = Draws::new(self.seed, epoch, "corruption.sentinels", example);
        let most = ids.len().saturating_sub(1);
        let noise = ((ids.len() as f64 * self.density).round() as usize).clamp(most.min(1), most);
        let spans =
            ((noise as f64 / self.mean).round() as usize).max(1).min(noise).min(ids.len() - noise + 1);
        if spans as u64 >= self.count as u64 {
            return Err(Error::invalid(
                format!("a text of {} tokens has {spans} spans for {} sentinels", ids.len(), self.count),
                "cut texts shorter, or take out less of them in longer spans; one sentinel closes the answer",
            ));
        }
        let missing = segments(&mut draws, noise, spans);
        // One more part stays than goes. The first and the last may be empty: each is cut with a token too
        // many.
        let mut staying = segments(&mut draws, ids.len() - noise + 2, spans + 1);
        staying[0] -= 1;
        let (mut source, mut target) = (Vec::with_capacity(ids.len()), Vec::with_capacity(noise + spans + 1));
        let mut rest = ids;
        for (i, (staying, missing)) in staying.into_iter().zip(missing).enumerate() {
            let (stays, after) = rest.split_at(staying);
            let (goes, after) = after.split_at(missing);
            source.extend_from_slice(stays);
            source.push(self.first - i as u32);
            target.push(self.first - i as u32);
            target.extend_from_slice(goes);
            rest = after;
        }
        source.extend_from_slice(rest);
        target.push(self.first - spans as u32);
        Ok((source, target))
    }

    /// The text that was corrupted.
    pub fn restore(&self, source: &[u32], target: &[u32]) -> Result<Vec<u32>> {
        let mut missing = target.split(|&id| self.sentinel(id).is_some()).skip(1);
        let mut text = Vec::with_capacity(source.len() + target.len());
        for &id in source {
            match self.sentinel(id) {
                None => text.push(id),
                Some(number) => text.extend_from_slice(missing.next().ok_or_else(|| {
                    Error::invalid(
                        format!("nothing is said of sentinel {number}"),
                        "give source and target of one and the same text",
                    )
                })?),
            }
        }
        Ok(text)
    }

    /// Which sentinel an id is.
    pub fn sentinel(&self, id: u32) -> Option<u32> {
        self.first.checked_sub(id).filter(|&number| number < self.count)
    }
}

/// The lengths of `parts` parts of `whole`, none of them empty, all ways alike: cuts are chosen one by one,
/// each place with the chance that the cuts still to come have among the places still to come.
fn segments(draws: &mut Draws, whole: usize, parts: usize) -> Vec<usize> {
    let mut lengths = Vec::with_capacity(parts);
    let (mut cuts, mut length) = (parts.saturating_sub(1), 0);
    for place in 0..whole {
        length += 1;
        let left = whole - 1 - place;
        if left == 0 || (cuts > 0 && draws.below(left) < cuts) {
            lengths.push(length);
            length = 0;
            cuts = cuts.saturating_sub(1);
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restoring_undoes_corrupting() {
        let sentinels = Sentinels::new(5, 32099, 100).unwrap();
        for example in 0..1000u64 {
            let ids: Vec<u32> = (0..example as u32 % 400).collect();
            let (source, target) = sentinels.corrupt(2, example, &ids).unwrap();
            assert_eq!(sentinels.restore(&source, &target).unwrap(), ids);
            let of = |ids: &[u32]| ids.iter().filter_map(|&id| sentinels.sentinel(id)).collect::<Vec<_>>();
            let spans = of(&source).len() as u32;
            assert_eq!(of(&source), (0..spans).collect::<Vec<_>>());
            assert_eq!(of(&target), (0..=spans).collect::<Vec<_>>());
            let noise = target.len() - spans as usize - 1;
            assert_eq!(source.len() - spans as usize, ids.len() - noise);
            if ids.len() > 1 {
                assert_eq!(noise, ((ids.len() as f64 * 0.15).round() as usize).max(1));
                assert_eq!(spans as usize, ((noise as f64 / 3.0).round() as usize).max(1));
            }
        }
    }

    #[test]
    fn ids_descend_from_the_first() {
        let sentinels = Sentinels { density: 0.5, mean: 2.0, ..Sentinels::new(5, 99, 10).unwrap() };
        let (source, target) = sentinels.corrupt(0, 0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        assert_eq!(source.iter().filter(|&&id| id > 8).collect::<Vec<_>>(), [&99, &98]);
        assert_eq!(target.iter().filter(|&&id| id > 8).collect::<Vec<_>>(), [&99, &98, &97]);
    }

    #[test]
    fn every_token_goes_about_equally_often() {
        const N: u64 = 20_000;
        let sentinels = Sentinels::new(8, 999, 100).unwrap();
        let ids: Vec<u32> = (0..100).collect();
        let mut gone = [0u32; 100];
        for example in 0..N {
            let (_, target) = sentinels.corrupt(0, example, &ids).unwrap();
            target.iter().filter(|&&id| id < 100).for_each(|&id| gone[id as usize] += 1);
        }
        assert_eq!(gone.iter().sum::<u32>() as u64, 15 * N);
        // The first part of six is empty, of all ways to cut 85 tokens and two more, in 5 of 86; so is the
        // last. Five standard deviations.
        let expected = N as f64 * 5.0 / 86.0;
        assert!((gone[0] as f64 - expected).abs() < 165.0, "{}", gone[0]);
        assert!((gone[99] as f64 - expected).abs() < 165.0, "{}", gone[99]);
        // What the ends lack, the middle has.
        let middle = gone[20..80].iter().sum::<u32>() as f64 / (60 * N) as f64;
        assert!((0.15..0.16).contains(&middle), "{middle}");
    }

    #[test]
    fn all_segmentations_are_alike() {
        let mut counts = std::collections::BTreeMap::new();
        for example in 0..6000 {
            let parts = segments(&mut Draws::new(1, 0, "test", example), 5, 3);
            assert_eq!(parts.iter().sum::<usize>(), 5);
            *counts.entry(parts).or_insert(0u32) += 1;
        }
        // Four places for two cuts: six ways, each binomial(6000, 1/6) with a standard deviation of 28.9.
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| count.abs_diff(1000) < 145), "{counts:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        let good = Sentinels::new(0, 99, 3).unwrap();
        let check = |text: String, part: &str| assert!(text.contains(part), "{text}");
        let text = Sentinels { density: 1.0, ..good }.checked().unwrap_err().to_string();
        check(text, "a share of 1 in spans of 3 cannot be taken out");
        let text = Sentinels::new(0, 1, 3).unwrap_err().to_string();
        check(text, "3 sentinels cannot descend from the id 1");
        let text = good.corrupt(0, 0, &[1, 98]).unwrap_err().to_string();
        check(text, "the text has the sentinel 98 at position 1");
        let text = good.corrupt(0, 0, &[1; 100]).unwrap_err().to_string();
        check(text, "a text of 100 tokens has 5 spans for 3 sentinels");
        let text = good.restore(&[1, 99, 2, 98], &[99, 5]).unwrap_err().to_string();
        check(text, "nothing is said of sentinel 1");
    }
}
