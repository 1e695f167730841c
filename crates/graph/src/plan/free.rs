//! The free stretches of an arena while a program is played through: by where they begin, so that neighbours
//! become one, and by how long they are, so that the tightest is found at once.

use std::collections::{BTreeMap, BTreeSet};

/// What is free below the end of the arena.
#[derive(Default)]
pub(super) struct Free {
    /// Where each stretch begins, and its bytes.
    by_place: BTreeMap<usize, usize>,
    /// The bytes of each, and where it begins.
    by_size: BTreeSet<(usize, usize)>,
    /// How large the arena is so far.
    pub end: usize,
}

impl Free {
    /// Takes bytes from the tightest stretch that has them, the first of equal ones; if none has, the arena
    /// grows.
    pub fn take(&mut self, bytes: usize) -> usize {
        if let Some(&(length, place)) = self.by_size.range((bytes, 0)..).next() {
            self.remove(place, length);
            self.insert(place + bytes, length - bytes);
            return place;
        }
        let place = match self.by_place.last_key_value() {
            Some((&place, &length)) if place + length == self.end => {
                self.remove(place, length);
                place
            }
            _ => self.end,
        };
        self.end = place + bytes;
        place
    }

    /// Gives bytes back.
    pub fn give(&mut self, mut place: usize, mut bytes: usize) {
        if let Some((&before, &length)) = self.by_place.range(..place).next_back()
            && before + length == place
        {
            self.remove(before, length);
            (place, bytes) = (before, bytes + length);
        }
        if let Some(&length) = self.by_place.get(&(place + bytes)) {
            self.remove(place + bytes, length);
            bytes += length;
        }
        self.insert(place, bytes);
    }

    fn insert(&mut self, place: usize, bytes: usize) {
        if bytes > 0 {
            self.by_place.insert(place, bytes);
            self.by_size.insert((bytes, place));
        }
    }

    fn remove(&mut self, place: usize, bytes: usize) {
        self.by_place.remove(&place);
        self.by_size.remove(&(bytes, place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_stretch_is_taken_and_neighbours_become_one() {
        let mut free = Free::default();
        let places: Vec<usize> = [64, 128, 64, 256, 64].map(|bytes| free.take(bytes)).to_vec();
        assert_eq!((places, free.end), (vec![0, 64, 192, 256, 512], 576));
        free.give(64, 128);
        free.give(256, 256);
        assert_eq!(free.take(64), 64, "of 128 and 256 the tighter");
        free.give(192, 64);
        assert_eq!(free.take(384), 128, "64 behind the first, 64 between, and 256");
        assert_eq!(free.take(64), 576);
        free.give(576, 64);
        assert_eq!((free.take(128), free.end), (576, 704), "the last stretch grows with the arena");
    }
}
