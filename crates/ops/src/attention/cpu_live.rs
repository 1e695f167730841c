//! Which part of a tile of the backward is alive, panel by panel of keys and of queries. Products and
//! exponentials leave out the rest, which has weight 0: under a causal mask nearly half of the tiles on the
//! diagonal.

use super::cpu_tile::{KEYS, QUERIES};
use super::mask::{Allowed, Cover};
use regard_device::PANEL;
use std::ops::Range;

/// For each panel of keys of a tile, the queries that some of them may be seen by: from one panel's edge to
/// another.
#[derive(Clone, Copy, Debug)]
pub struct Live([(usize, usize); KEYS / PANEL]);

impl Live {
    /// All of a tile.
    pub const ALL: Live = Live([(0, QUERIES); KEYS / PANEL]);

    /// What positions and keys that do not exist leave of a tile of queries and keys.
    pub fn new(allowed: &Allowed<'_>, b: usize, queries: Range<usize>, keys: Range<usize>) -> Self {
        // A mask of single pairs would take longer to ask than it saves.
        let allowed = Allowed { explicit: None, ..*allowed };
        let part = |range: &Range<usize>, panel: usize| {
            let start = range.start + panel * PANEL;
            start.min(range.end)..(start + PANEL).min(range.end)
        };
        Live(std::array::from_fn(|row| {
            let keys = part(&keys, row);
            let alive =
                |column: &usize| allowed.cover(b, 0, part(&queries, *column), keys.clone()) != Cover::Nothing;
            let mut columns = 0..QUERIES / PANEL;
            match (columns.clone().find(alive), columns.rfind(alive)) {
                (Some(first), Some(last)) if !keys.is_empty() => (first * PANEL, (last + 1) * PANEL),
                _ => (0, 0),
            }
        }))
    }

    /// The keys, each run with its queries, which may be none.
    pub fn runs(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let mut row = 0;
        std::iter::from_fn(move || {
            let &(start, end) = self.0.get(row)?;
            let same = self.0[row..].iter().take_while(|&&other| other == (start, end)).count();
            row += same;
            Some(((row - same) * PANEL..row * PANEL, start..end))
        })
    }

    /// The queries, each run with its keys, which may be none.
    pub fn turned_runs(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let keys = |column: usize| {
            let alive = |row: &usize| (self.0[*row].0..self.0[*row].1).contains(&(column * PANEL));
            let mut rows = 0..KEYS / PANEL;
            match (rows.clone().find(alive), rows.rfind(alive)) {
                (Some(first), Some(last)) => first * PANEL..(last + 1) * PANEL,
                _ => 0..0,
            }
        };
        let mut column = 0;
        std::iter::from_fn(move || {
            if column == QUERIES / PANEL {
                return None;
            }
            let (first, own) = (column, keys(column));
            column += (first..QUERIES / PANEL).take_while(|&other| keys(other) == own).count();
            Some((first * PANEL..column * PANEL, own))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_equal_neighbours() {
        let all: Vec<_> = Live::ALL.runs().collect();
        assert_eq!(all, [(0..KEYS, 0..QUERIES)]);
        let all: Vec<_> = Live::ALL.turned_runs().collect();
        assert_eq!(all, [(0..QUERIES, 0..KEYS)]);
    }

    #[test]
    fn a_diagonal_is_a_staircase() {
        let mut stairs = Live::ALL;
        stairs.0.iter_mut().enumerate().for_each(|(row, queries)| queries.0 = row * PANEL);
        for (row, (keys, queries)) in stairs.runs().enumerate() {
            assert_eq!((keys, queries), (row * PANEL..(row + 1) * PANEL, row * PANEL..QUERIES));
        }
        // Beyond the last key, all queries see all of them.
        let last = KEYS / PANEL - 1;
        for (column, (queries, keys)) in stairs.turned_runs().enumerate() {
            let end = if column == last { QUERIES } else { (column + 1) * PANEL };
            assert_eq!((queries, keys), (column * PANEL..end, 0..(column + 1) * PANEL));
        }
        assert_eq!(stairs.turned_runs().count(), last + 1);
    }
}
