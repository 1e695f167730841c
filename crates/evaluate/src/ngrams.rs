//! Counts of runs of n words or characters, and how many of them two counts share.

use std::collections::HashMap;
use std::hash::Hash;

/// How often each run occurs.
pub type Counts<'a, T> = HashMap<&'a [T], u64>;

/// All runs of n.
pub fn count<T: Eq + Hash>(items: &[T], n: usize) -> Counts<'_, T> {
    let mut counts = HashMap::new();
    for run in items.windows(n) {
        *counts.entry(run).or_insert(0) += 1;
    }
    counts
}

/// How many runs there are: as many as begin somewhere.
pub fn total<T>(items: &[T], n: usize) -> u64 {
    (items.len() + 1).saturating_sub(n) as u64
}

/// How many runs of one count occur in the other, none more often than there.
pub fn shared<T: Eq + Hash>(ours: &Counts<'_, T>, theirs: &Counts<'_, T>) -> u64 {
    ours.iter().map(|(run, count)| *count.min(theirs.get(run).unwrap_or(&0))).sum()
}
