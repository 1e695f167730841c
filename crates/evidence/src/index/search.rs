//! Questions to an index: every place of a string, and how much of a text stands somewhere as it is. Both
//! halve the sorted suffixes of each shard.

use super::build::OVERLAP;
use super::{Index, Place};
use crate::words::joins;
use crate::{Error, Result};
use std::cmp::Ordering;
use std::ops::Range;

/// How many places are looked at for the first ones in the order of the text; beyond that, some are given.
const MOST_SORTED: u64 = 1 << 15;

/// All places of a string.
pub struct Found<'a> {
    index: &'a Index,
    /// Of each shard, which of its suffixes begin with the string.
    ranges: Vec<Range<u64>>,
    /// Bytes of the string.
    length: u64,
    count: u64,
}

impl Index {
    /// All places of a string; the empty one stands nowhere.
    pub fn find(&self, text: &str) -> Result<Found<'_>> {
        let whole = text.as_bytes();
        if whole.len() as u64 > OVERLAP {
            return Err(Error::invalid(
                format!("the string has {} bytes", whole.len()),
                format!("look for at most {OVERLAP} at a time"),
            ));
        }
        let mut ranges = Vec::with_capacity(self.directory.shards.len());
        for shard in 0..self.directory.shards.len() {
            ranges.push(if whole.is_empty() { 0..0 } else { self.range(shard, whole)? });
        }
        let count = ranges.iter().map(|range| range.end - range.start).sum();
        Ok(Found { index: self, ranges, length: whole.len() as u64, count })
    }

    /// How many bytes of the beginning of a text stand somewhere as they are; whole characters.
    pub fn longest(&self, text: &str) -> Result<usize> {
        let bytes = &text.as_bytes()[..text.len().min(OVERLAP as usize)];
        let mut most = 0;
        for shard in 0..self.directory.shards.len() {
            most = most.max(self.longest_in(shard, bytes, most)?);
        }
        while !text.is_char_boundary(most) {
            most -= 1;
        }
        Ok(most)
    }

    /// Where a suffix of a shard begins in the text.
    fn suffix(&self, shard: usize, number: u64) -> Result<u64> {
        let own = &self.directory.shards[shard];
        let bytes = &self.map.bytes()[self.sections.suffixes[shard].clone()][4 * number as usize..][..4];
        let suffix = u64::from(u32::from_le_bytes(bytes.try_into().unwrap_or_default()));
        if suffix >= own.length {
            let what = format!("suffix {number} of shard {} begins at {suffix}, behind its end", shard + 1);
            return Err(Error::damaged(&self.path, what));
        }
        Ok(own.start + suffix)
    }

    /// The text from a place on, at most so long.
    fn text_from(&self, at: u64, most: usize) -> &[u8] {
        let text = self.text();
        let at = at as usize;
        &text[at..text.len().min(at + most)]
    }

    /// Which suffixes of a shard begin with these bytes.
    fn range(&self, shard: usize, wanted: &[u8]) -> Result<Range<u64>> {
        let all = self.directory.shards[shard].length;
        let begins = |number: u64| -> Result<Ordering> {
            Ok(self.text_from(self.suffix(shard, number)?, wanted.len()).cmp(wanted))
        };
        let low = partition(0..all, |number| Ok(begins(number)? == Ordering::Less))?;
        let high = partition(low..all, |number| Ok(begins(number)? != Ordering::Greater))?;
        Ok(low..high)
    }

    /// The most bytes of a beginning that a suffix of this shard has; `known` if there are not more.
    fn longest_in(&self, shard: usize, wanted: &[u8], known: usize) -> Result<usize> {
        let all = self.directory.shards[shard].length;
        // Of all suffixes, those beside the place where the text would be sorted in have the most of it.
        let place = partition(0..all, |number| {
            Ok(self.text_from(self.suffix(shard, number)?, wanted.len()) < wanted)
        })?;
        let mut most = known;
        for number in place.saturating_sub(1)..(place + 1).min(all) {
            let own = self.text_from(self.suffix(shard, number)?, wanted.len());
            most = most.max(own.iter().zip(wanted).take_while(|(a, b)| a == b).count());
        }
        Ok(most)
    }
}

/// The first number of a range that is not `before`, where all that are come first.
fn partition(range: Range<u64>, mut before: impl FnMut(u64) -> Result<bool>) -> Result<u64> {
    let Range { start: mut low, end: mut high } = range;
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

impl Found<'_> {
    /// How often the string stands in the text.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// At most so many of the places, in the order of the text: the first ones, unless there are more than
    /// 32,768, of which some are given.
    pub fn places(&self, most: usize) -> Result<Vec<Place>> {
        self.chosen(most, false)
    }

    /// The same, of places at which the string is not a part of a longer word.
    pub fn places_of_words(&self, most: usize) -> Result<Vec<Place>> {
        self.chosen(most, true)
    }

    /// How many places there are at which the string is not a part of a longer word; `most` for more.
    pub fn count_of_words(&self, most: usize) -> Result<usize> {
        let mut count = 0;
        for (shard, range) in self.ranges.iter().enumerate() {
            for number in range.clone() {
                if count == most {
                    return Ok(count);
                }
                count += usize::from(self.is_of_words(self.index.suffix(shard, number)?));
            }
        }
        Ok(count)
    }

    fn chosen(&self, most: usize, words: bool) -> Result<Vec<Place>> {
        let mut found = Vec::new();
        let mut left = MOST_SORTED;
        for (shard, range) in self.ranges.iter().enumerate() {
            for number in range.start..range.end.min(range.start + left) {
                left -= 1;
                let at = self.index.suffix(shard, number)?;
                if !words || self.is_of_words(at) {
                    found.push(at);
                }
            }
        }
        found.sort_unstable();
        found.truncate(most);
        Ok(found.into_iter().map(|at| self.index.place(at)).collect())
    }

    /// Whether the string stands between other words there, not inside of one.
    fn is_of_words(&self, at: u64) -> bool {
        let (before, behind) = self.index.neighbours(at, self.length);
        !before.is_some_and(joins) && !behind.is_some_and(joins)
    }
}
