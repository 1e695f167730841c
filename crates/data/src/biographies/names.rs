//! Invented names of people and places, made of syllables. All names of one kind are distinct by
//! construction: a name is the digits of a number, and the numbers are a permutation.

use crate::batching::Order;

const FIRST_BEGINNINGS: [&str; 20] = [
    "Ba", "Bre", "Da", "Dri", "Fe", "Gla", "Go", "Ha", "Ji", "Ka", "Le", "Mi", "No", "Pe", "Ro", "Su", "Ta",
    "Ve", "Yo", "Zu",
];
const FIRST_ENDINGS: [&str; 20] = [
    "bin", "dru", "fen", "gorn", "ksa", "lbo", "lin", "mba", "per", "ndo", "nko", "rda", "vil", "sko",
    "tham", "tto", "vash", "wen", "xil", "zim",
];
const LAST_BEGINNINGS: [&str; 25] = [
    "Ab", "Bo", "Ca", "De", "Ek", "Fa", "Ga", "Ho", "Ig", "Ja", "Ko", "La", "Mo", "Na", "Ob", "Po", "Qui",
    "Re", "Sa", "To", "Ur", "Va", "Wi", "Ya", "Ze",
];
const LAST_ENDINGS: [&str; 24] = [
    "bun", "dre", "kko", "mish", "der", "rosh", "vik", "ddin", "gar", "lmo", "msa", "dril", "shko", "dun",
    "ffle", "bar", "vo", "ddy", "lim", "nka", "rrin", "bel", "ska", "var",
];
// The first letters of a place tell it from most others, so that a model has one thing to recall, not two.
const PLACE_BEGINNINGS: [&str; 48] = [
    "Ard", "Bram", "Brok", "Corv", "Crin", "Culv", "Dask", "Drem", "Dun", "Emb", "Esk", "Etr", "Fald",
    "Fross", "Fyl", "Gant", "Grel", "Gyrd", "Harv", "Hesk", "Hulm", "Isk", "Jarn", "Jemb", "Kast", "Klev",
    "Kolb", "Lask", "Lorv", "Lunt", "Morv", "Mund", "Nesk", "Norb", "Ost", "Pald", "Pryd", "Quern", "Rask",
    "Rund", "Skel", "Strom", "Tarv", "Tweld", "Ulv", "Velm", "Wosk", "Zarn",
];
const PLACE_ENDINGS: [&str; 8] = ["abey", "ador", "amere", "anza", "elund", "ifell", "imond", "owick"];

/// How many people can be told apart.
pub(super) const PEOPLE: usize =
    FIRST_BEGINNINGS.len() * FIRST_ENDINGS.len() * LAST_BEGINNINGS.len() * LAST_ENDINGS.len();

/// How many places can be told apart.
pub(super) const PLACES: usize = PLACE_BEGINNINGS.len() * PLACE_ENDINGS.len();

/// First and last name of the person of this number. All first names come once before any comes again.
pub(super) fn person(seed: u64, number: usize) -> (String, String) {
    let draw =
        |name, kind: usize, of, number| Order::Shuffled { seed }.named(name, kind as u64, of).at(number);
    let firsts = FIRST_BEGINNINGS.len() * FIRST_ENDINGS.len();
    let lasts = LAST_BEGINNINGS.len() * LAST_ENDINGS.len();
    let first = draw("biographies.first", 0, firsts, number % firsts);
    let last = draw("biographies.last", first, lasts, number / firsts);
    let syllables = |number: usize, beginnings: &[&str], endings: &[&str]| {
        [beginnings[number % beginnings.len()], endings[number / beginnings.len()]].concat()
    };
    let first = syllables(first, &FIRST_BEGINNINGS, &FIRST_ENDINGS);
    (first, syllables(last, &LAST_BEGINNINGS, &LAST_ENDINGS))
}

/// The place of this number. All beginnings come once before any comes again.
pub(super) fn place(seed: u64, number: usize) -> String {
    let (round, number) = (number / PLACE_BEGINNINGS.len(), number % PLACE_BEGINNINGS.len());
    let beginning =
        Order::Shuffled { seed }.named("biographies.places", 0, PLACE_BEGINNINGS.len()).at(number);
    let ending = Order::Shuffled { seed }
        .named("biographies.endings", beginning as u64, PLACE_ENDINGS.len())
        .at(round);
    [PLACE_BEGINNINGS[beginning], PLACE_ENDINGS[ending]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_syllables_make_the_same_name() {
        let people: HashSet<String> = (0..PEOPLE)
            .map(|number| {
                let (first, last) = person(3, number);
                format!("{first} {last}")
            })
            .collect();
        assert_eq!(people.len(), PEOPLE);
    }

    #[test]
    fn no_place_is_part_of_another_or_of_a_name() {
        let places: Vec<String> = (0..PLACES).map(|number| place(3, number)).collect();
        for place in &places {
            assert_eq!(places.iter().filter(|other| other.contains(place.as_str())).count(), 1, "{place}");
        }
        for number in 0..PEOPLE.min(5000) {
            let (first, last) = person(3, number);
            assert!(!places.contains(&first) && !places.contains(&last));
        }
    }
}
