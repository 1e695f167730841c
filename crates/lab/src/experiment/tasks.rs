//! Tasks on sequences of small integers. Every example is drawn; the answer at each position follows from the
//! rest.

use crate::Draws;
use regard::ops::IGNORE_INDEX;

/// What is to be said at each position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The token so many places before.
    Back {
        /// Tokens.
        symbols: usize,
        /// How many places.
        distance: usize,
    },
    /// The sequence from its end.
    Reverse {
        /// Tokens.
        symbols: usize,
    },
    /// The token that occurs most often, wherever it stands.
    Majority {
        /// Tokens.
        symbols: usize,
    },
    /// The next token of a sequence that repeats itself, with a period that differs from example to example.
    Induction {
        /// Tokens.
        symbols: usize,
    },
    /// The token that stands at one place.
    At {
        /// Tokens.
        symbols: usize,
        /// The place.
        place: usize,
    },
    /// What a fixed random table has for a token and the one before it.
    TableOfTwo {
        /// Tokens.
        symbols: usize,
    },
    /// Tokens give a key a value, or ask for a key: the answer is the value that it was given last.
    Latest {
        /// Keys.
        keys: usize,
        /// Values.
        values: usize,
    },
    /// Each key has a value; the last token names two keys, and is answered by both values in order.
    TwoLookups {
        /// Keys, which is also the length less one.
        keys: usize,
        /// Values that a key can have.
        values: usize,
    },
    /// The same for one key.
    Lookup {
        /// Keys.
        keys: usize,
        /// Values.
        values: usize,
    },
}

/// Examples of one length.
#[derive(Clone, Debug)]
pub struct Batch {
    /// How many.
    pub rows: usize,
    /// The length of each.
    pub length: usize,
    /// Rows × length.
    pub ids: Vec<i32>,
    /// Rows × length; −100 where nothing is asked.
    pub targets: Vec<i32>,
}

impl Task {
    /// How many tokens there are, answers among them.
    pub fn vocabulary(self) -> usize {
        match self {
            Task::Back { symbols, .. }
            | Task::Reverse { symbols }
            | Task::Majority { symbols }
            | Task::Induction { symbols }
            | Task::At { symbols, .. }
            | Task::TableOfTwo { symbols } => symbols,
            Task::TwoLookups { keys, values } => (keys * values + keys * keys).max(values * values),
            Task::Lookup { keys, values } | Task::Latest { keys, values } => keys * values + keys,
        }
    }

    /// Whether a position may see only what came before: where the answer would stand in the sequence
    /// otherwise.
    pub fn causal(self) -> bool {
        matches!(
            self,
            Task::Back { .. } | Task::Induction { .. } | Task::TableOfTwo { .. } | Task::Latest { .. }
        )
    }

    /// The length that it has, if it has only one.
    pub fn own_length(self) -> Option<usize> {
        match self {
            Task::TwoLookups { keys, .. } | Task::Lookup { keys, .. } => Some(keys + 1),
            _ => None,
        }
    }

    /// Right by chance.
    pub fn chance(self) -> f64 {
        match self {
            Task::TwoLookups { values, .. } => 1.0 / (values * values) as f64,
            Task::Lookup { values, .. } | Task::Latest { values, .. } => 1.0 / values as f64,
            other => 1.0 / other.vocabulary() as f64,
        }
    }

    /// Draws examples.
    pub fn batch(self, draws: &mut Draws, rows: usize, length: usize) -> Batch {
        let length = self.own_length().unwrap_or(length);
        let (mut ids, mut targets) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let (own, answers) = self.example(draws, length);
            ids.extend(own.iter().map(|&id| id as i32));
            targets.extend(answers.iter().map(|&id| id.map_or(IGNORE_INDEX, |id| id as i32)));
        }
        Batch { rows, length, ids, targets }
    }

    fn example(self, draws: &mut Draws, length: usize) -> (Vec<usize>, Vec<Option<usize>>) {
        let mut random = |symbols: usize| (0..length).map(|_| draws.below(symbols)).collect::<Vec<_>>();
        match self {
            Task::Back { symbols, distance } => {
                let ids = random(symbols);
                let answers = (0..length).map(|t| t.checked_sub(distance).map(|at| ids[at])).collect();
                (ids, answers)
            }
            Task::Reverse { symbols } => {
                let ids = random(symbols);
                let answers = ids.iter().rev().map(|&id| Some(id)).collect();
                (ids, answers)
            }
            Task::Majority { symbols } => loop {
                let ids = random(symbols);
                let count = |symbol: usize| ids.iter().filter(|&&id| id == symbol).count();
                let most = (0..symbols).map(count).max().unwrap_or(0);
                let winners: Vec<usize> = (0..symbols).filter(|&symbol| count(symbol) == most).collect();
                if let [winner] = winners[..] {
                    return (ids, vec![Some(winner); length]);
                }
            },
            Task::Induction { symbols } => {
                let period = length / 4 + draws.below(length / 2 - length / 4 + 1);
                let first: Vec<usize> =
                    draws.permutation(symbols.max(period))[..period].iter().map(|&id| id % symbols).collect();
                let ids: Vec<usize> = (0..length).map(|t| first[t % period]).collect();
                let answers = (0..length).map(|t| (t >= period).then_some(first[(t + 1) % period])).collect();
                (ids, answers)
            }
            Task::At { symbols, place } => {
                let ids = random(symbols);
                let answers = vec![Some(ids[place]); length];
                (ids, answers)
            }
            Task::TableOfTwo { symbols } => {
                let ids = random(symbols);
                let table = table_of_two(symbols);
                let answers = (0..length)
                    .map(|t| t.checked_sub(1).map(|at| table[ids[at] * symbols + ids[t]]))
                    .collect();
                (ids, answers)
            }
            Task::Latest { keys, values } => {
                let (mut ids, mut answers) = (vec![], vec![]);
                let mut latest = vec![None; keys];
                for _ in 0..length {
                    let key = draws.below(keys);
                    let asked = latest[key].is_some() && draws.uniform() < 0.4;
                    answers.push(latest[key].filter(|_| asked));
                    if asked {
                        ids.push(keys * values + key);
                    } else {
                        let value = draws.below(values);
                        latest[key] = Some(value);
                        ids.push(key * values + value);
                    }
                }
                (ids, answers)
            }
            Task::TwoLookups { keys, values } => {
                let (mut ids, of) = pairs(draws, keys, values);
                let (a, b) = (draws.below(keys), draws.below(keys));
                ids.push(keys * values + a * keys + b);
                let answers = (0..=keys).map(|t| (t == keys).then_some(of[a] * values + of[b])).collect();
                (ids, answers)
            }
            Task::Lookup { keys, values } => {
                let (mut ids, of) = pairs(draws, keys, values);
                let a = draws.below(keys);
                ids.push(keys * values + a);
                (ids, (0..=keys).map(|t| (t == keys).then_some(of[a])).collect())
            }
        }
    }
}

/// A random symbol for every pair of symbols, the same in every run.
fn table_of_two(symbols: usize) -> Vec<usize> {
    let mut draws = crate::Context::default().draws("tasks.table");
    (0..symbols * symbols).map(|_| draws.below(symbols)).collect()
}

/// Every key once, in a random order, with a random value: the tokens, and the value of each key.
fn pairs(draws: &mut Draws, keys: usize, values: usize) -> (Vec<usize>, Vec<usize>) {
    let of: Vec<usize> = (0..keys).map(|_| draws.below(values)).collect();
    let ids = draws.permutation(keys).into_iter().map(|key| key * values + of[key]).collect();
    (ids, of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;

    fn one(task: Task, length: usize) -> Batch {
        task.batch(&mut Context::default().draws("tasks"), 1, length)
    }

    #[test]
    fn answers_follow_from_the_sequence() {
        let Batch { ids, targets, .. } = one(Task::Back { symbols: 9, distance: 2 }, 6);
        assert_eq!(targets[..2], [-100, -100]);
        assert_eq!(targets[2..], ids[..4]);
        let Batch { ids, targets, .. } = one(Task::Reverse { symbols: 9 }, 5);
        assert!(ids.iter().eq(targets.iter().rev()));
        let Batch { ids, targets, .. } = one(Task::TableOfTwo { symbols: 5 }, 4);
        let table = table_of_two(5);
        assert!((1..4).all(|t| targets[t] as usize == table[(ids[t - 1] * 5 + ids[t]) as usize]));
        let Batch { ids, targets, .. } = one(Task::Latest { keys: 2, values: 4 }, 40);
        for t in (0..40).filter(|&t| targets[t] != -100) {
            let given = ids[..t].iter().rev().find(|&&id| id < 8 && id / 4 == ids[t] - 8);
            assert_eq!(given.map(|id| id % 4), Some(targets[t]));
        }
        assert!((5..30).contains(&targets.iter().filter(|&&target| target != -100).count()));
        let Batch { ids, targets, .. } = one(Task::Induction { symbols: 16 }, 16);
        let asked = |t: &usize| targets[*t] != -100;
        assert!((0..15).filter(asked).all(|t| targets[t] == ids[t + 1]));
        assert!((0..15).filter(asked).count() >= 7);
    }

    #[test]
    fn two_lookups_name_both_values() {
        let Batch { ids, targets, length, .. } = one(Task::TwoLookups { keys: 4, values: 3 }, 0);
        assert_eq!(length, 5);
        let value = |key: i32| ids[..4].iter().find(|&&id| id / 3 == key).unwrap() % 3;
        let asked = ids[4] - 12;
        assert_eq!(targets[4], value(asked / 4) * 3 + value(asked % 4));
        assert_eq!(targets[..4], [-100; 4]);
    }
}
