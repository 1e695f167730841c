//! Where the ids of a run stand: positions, slots of the caches, and which keys count. Rows are padded on the
//! left, so that all end together; padding takes the slots after a row's own, which its next ids take over.
//! So a row has the same keys in the same slots whatever else is in the batch, and with them the same bits.

/// What has been placed so far.
pub struct Places {
    capacity: usize,
    known: Vec<usize>,
    /// The position of each id, `[B T]`.
    pub position: Vec<i32>,
    /// The slot of each id, `[B T]`.
    pub slot: Vec<i32>,
    /// How many positions each row has, `[B]`.
    pub lengths: Vec<i32>,
    /// The position of each slot's key, `[B S]`.
    pub key_position: Vec<i32>,
    /// Whether it counts, `[B S]`.
    pub key_mask: Vec<bool>,
}

impl Places {
    /// Empty caches.
    pub fn new(rows: usize, capacity: usize) -> Self {
        Places {
            capacity,
            known: vec![0; rows],
            position: Vec::new(),
            slot: Vec::new(),
            lengths: Vec::new(),
            key_position: Vec::new(),
            key_mask: Vec::new(),
        }
    }

    /// Places `width` ids in each row, of which the last few are its own and the others are padding.
    pub fn step(&mut self, own: &[usize], width: usize) {
        self.position.clear();
        self.slot.clear();
        for (known, &own) in self.known.iter_mut().zip(own) {
            let (padding, before) = (width - own, *known);
            *known += own;
            self.position.extend((0..padding).map(|_| 0));
            self.slot.extend((0..padding).map(|at| ((before + own + at) % self.capacity) as i32));
            self.position.extend((before..before + own).map(|position| position as i32));
            self.slot.extend((before..before + own).map(|position| (position % self.capacity) as i32));
        }
        self.lengths.clear();
        self.lengths.extend(self.known.iter().map(|&known| known as i32));
    }

    /// Brings the keys of a ring up to date: slot s holds the last position that is s modulo the capacity.
    /// Keys that padding wrote over are not told apart: they are out of every window.
    pub fn place_keys(&mut self) {
        self.key_position.clear();
        self.key_mask.clear();
        for &known in &self.known {
            for slot in 0..self.capacity {
                let round = known.checked_sub(slot + 1).map(|after| after / self.capacity);
                self.key_position.push(round.map_or(0, |round| (slot + round * self.capacity) as i32));
                self.key_mask.push(round.is_some());
            }
        }
    }

    /// A row has no position any more.
    pub fn forget(&mut self, row: usize) {
        self.known[row] = 0;
    }

    /// The last few positions of a row are to be placed once more.
    pub fn rewind(&mut self, row: usize, count: usize) {
        self.known[row] -= count;
    }

    /// From now on row r has as many positions as row `parents[r]` had.
    pub fn follow(&mut self, parents: &[usize]) {
        self.known = parents.iter().map(|&parent| self.known[parent]).collect();
    }

    /// How many positions a row has.
    pub fn known(&self, row: usize) -> usize {
        self.known[row]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_goes_behind_a_rows_own() {
        let mut places = Places::new(2, 8);
        places.step(&[4, 1], 4);
        assert_eq!(places.position, [0, 1, 2, 3, 0, 0, 0, 0]);
        assert_eq!(places.slot, [0, 1, 2, 3, 1, 2, 3, 0]);
        assert_eq!(places.lengths, [4, 1]);
        places.step(&[1, 1], 1);
        assert_eq!((&places.position[..], &places.slot[..]), (&[4, 1][..], &[4, 1][..]));
        assert_eq!((places.known(0), places.known(1)), (5, 2));
    }

    #[test]
    fn a_ring_remembers_the_last_round() {
        let mut places = Places::new(1, 4);
        places.step(&[3], 3);
        places.place_keys();
        assert_eq!(places.key_position, [0, 1, 2, 0]);
        assert_eq!(places.key_mask, [true, true, true, false]);
        places.step(&[3], 3);
        places.place_keys();
        assert_eq!(places.slot, [3, 0, 1]);
        assert_eq!(places.key_position, [4, 5, 2, 3]);
        assert_eq!(places.key_mask, [true; 4]);
    }
}
