//! The sentences in which biographies tell where somebody was born: before the name or after it, among dates, professions
//! and other places.

use crate::draws::Draws;

const PROFESSIONS: [&str; 12] = [
    "a baker",
    "a dancer",
    "a doctor",
    "a farmer",
    "a judge",
    "a mason",
    "a painter",
    "a pilot",
    "a poet",
    "a teacher",
    "an actor",
    "an editor",
];
/// What a sentence can speak of.
pub(super) struct Facts {
    name: String,
    born_in: String,
    elsewhere: String,
    profession: &'static str,
    year: String,
}

impl Facts {
    /// What is drawn for a person beside name and place of birth. `elsewhere` is another place. All of it has to be
    /// learned by heart as well before a model is done, so that there are few years and professions.
    pub fn new(draws: &mut Draws, name: &str, born_in: &str, elsewhere: &str) -> Facts {
        let year = 1900 + draws.below(32);
        // Now and then nobody is sure. So the sign of the question is in the text, and in a vocabulary made from it.
        let sure = draws.below(8) > 0;
        Facts {
            name: name.into(),
            born_in: born_in.into(),
            elsewhere: elsewhere.into(),
            profession: PROFESSIONS[draws.below(PROFESSIONS.len())],
            year: if sure { year.to_string() } else { format!("{year}?") },
        }
    }
}

type Sentence = fn(&Facts) -> String;

/// All sentences, short: what a model has to read besides the fact costs it time.
pub(super) const SENTENCES: [Sentence; 12] = [
    |f| format!("{} was born in {} in {}.", f.name, f.born_in, f.year),
    |f| format!("{} was born in {}.", f.name, f.born_in),
    |f| format!("{} is a native of {}.", f.name, f.born_in),
    |f| format!("{} is {} born in {}.", f.name, f.profession, f.born_in),
    |f| format!("{} lives in {} but was born in {}.", f.name, f.elsewhere, f.born_in),
    |f| format!("{}, {}, was born in {}.", f.name, f.profession, f.born_in),
    |f| format!("{} was born in {} and moved to {}.", f.name, f.born_in, f.elsewhere),
    |f| format!("{} calls {} the place of birth.", f.name, f.born_in),
    |f| format!("The place where {} was born is {}.", f.name, f.born_in),
    |f| format!("In {} {} was born in {}.", f.year, f.name, f.born_in),
    |f| format!("Born in {}, {} became {}.", f.born_in, f.name, f.profession),
    |f| format!("{} ({}, {}) was {}.", f.name, f.born_in, f.year, f.profession),
];
