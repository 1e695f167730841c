//! The sentences in which biographies tell where somebody was born: early or late in the line, among dates, professions
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
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// What a sentence can speak of.
pub(super) struct Facts {
    first: String,
    last: String,
    born_in: String,
    elsewhere: String,
    profession: &'static str,
    month: &'static str,
    year: String,
    later: usize,
}

impl Facts {
    /// What is drawn for a person beside name and place of birth. `elsewhere` is another place. All of it has to be
    /// learned by heart as well before a model is done, so that there are few years and professions.
    pub fn new(draws: &mut Draws, [first, last]: [&str; 2], born_in: &str, elsewhere: &str) -> Facts {
        let year = 1900 + draws.below(32);
        // Now and then nobody is sure. So the sign of the question is in the text, and in a vocabulary made from it.
        let sure = draws.below(8) > 0;
        Facts {
            first: first.into(),
            last: last.into(),
            born_in: born_in.into(),
            elsewhere: elsewhere.into(),
            profession: PROFESSIONS[draws.below(PROFESSIONS.len())],
            month: MONTHS[draws.below(MONTHS.len())],
            year: if sure { year.to_string() } else { format!("{year}?") },
            later: year + 30,
        }
    }
}

type Sentence = fn(&Facts) -> String;

/// All sentences. Each names the person first, as a title, like an entry of an encyclopedia.
pub(super) const SENTENCES: [Sentence; 12] = [
    |f| format!("{} {}. {} was born in {} in {} .", f.first, f.last, f.last, f.born_in, f.year),
    |f| format!("{} {}. Born in {}, {} became {} .", f.first, f.last, f.born_in, f.last, f.profession),
    |f| {
        let born = format!("born {} {} in {}", f.month, f.year, f.born_in);
        format!("{} {}. {} ({born}) is {} .", f.first, f.last, f.last, f.profession)
    },
    |f| {
        let lives = format!("born in {} who lives in {}", f.born_in, f.elsewhere);
        format!("{} {}. {} is {} {lives} .", f.first, f.last, f.last, f.profession)
    },
    |f| {
        let life = format!("{} {} - {} {}", f.year, f.born_in, f.later, f.elsewhere);
        format!("{} {}. {} ({life}) was {} .", f.first, f.last, f.last, f.profession)
    },
    |f| {
        let work = format!("{} in {}", f.profession, f.elsewhere);
        format!("{} {}. {}, {work}, was born in {} .", f.first, f.last, f.last, f.born_in)
    },
    |f| {
        let born = format!("was born in {} {} in {}", f.month, f.year, f.born_in);
        format!("{} {}. {} {born} .", f.first, f.last, f.last)
    },
    |f| {
        let learned = format!("but was born in {} in {}", f.born_in, f.year);
        format!("{} {}. {} studied in {} {learned} .", f.first, f.last, f.last, f.elsewhere)
    },
    |f| {
        let moved = format!("and moved to {} in {}", f.elsewhere, f.later);
        format!("{} {}. {} was born in {} {moved} .", f.first, f.last, f.last, f.born_in)
    },
    |f| {
        let since = format!("Since {} {} of {}", f.later, f.profession, f.elsewhere);
        format!("{} {}. {since}, {} was born in {} .", f.first, f.last, f.last, f.born_in)
    },
    |f| {
        let native = format!("a native of {}", f.born_in);
        format!("{} {}. {}, {native}, was {} until {} .", f.first, f.last, f.last, f.profession, f.later)
    },
    |f| {
        let home = format!("came from {} home to {}", f.elsewhere, f.born_in);
        format!("{} {}. In {} {} {home}, place of birth .", f.first, f.last, f.later, f.last)
    },
];
