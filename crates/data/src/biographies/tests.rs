//! Biographies, over several seeds.

use super::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};

fn with(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings { people: 1000, places: 40, ..Settings::default() };
    change(&mut settings);
    settings
}

#[test]
fn the_most_common_answer_earns_4_to_6_percent() {
    for seed in 0..20 {
        for (people, places) in [(300, 25), (300, 40), (1000, 25), (1000, 40), (1017, 60), (3000, 100)] {
            let made =
                Biographies::new(with(|s| (s.seed, s.people, s.places) = (seed, people, places))).unwrap();
            let mut counts = BTreeMap::new();
            made.dev().for_each(|(_, place)| *counts.entry(place).or_insert(0u32) += 1);
            let share = *counts.values().max().unwrap() as f64 / made.dev().count() as f64;
            assert!((0.04..=0.06).contains(&share), "{seed} {people} {places}: {share}");
            let everywhere: HashSet<&str> = made.people().iter().map(|p| p.place.as_str()).collect();
            assert_eq!(everywhere.len(), places);
        }
    }
}

#[test]
fn every_dev_set_of_50_or_more_has_such_a_place() {
    for dev in 50..500 {
        let settings = with(|s| (s.people, s.places, s.dev, s.test) = (2 * dev, 25, 0.5, 0.0));
        assert!(settings.sizes().is_ok_and(|[_, size, _]| size == dev), "{dev}");
    }
}

#[test]
fn each_line_says_where_its_person_was_born() {
    for seed in 0..5 {
        let made = Biographies::new(with(|s| s.seed = seed)).unwrap();
        for Person { name, place, lines, .. } in made.people() {
            assert_eq!(lines.iter().collect::<HashSet<_>>().len(), 4, "{lines:?}");
            for line in lines {
                assert_eq!((line.matches(name).count(), line.matches(place).count()), (1, 1), "{line}");
                assert!(line.is_ascii() && !line.contains(['\t', '\n']) && line.len() <= 80, "{line}");
            }
        }
    }
}

#[test]
fn lines_are_short_and_of_few_characters() {
    let made = Biographies::new(with(|_| ())).unwrap();
    let text = made.text();
    let mean = text.len() as f64 / 4000.0;
    assert!((35.0..55.0).contains(&mean), "{mean}");
    let characters: BTreeSet<char> = text.chars().filter(|&c| c != '\n').collect();
    assert!(characters.len() <= 70, "{} {characters:?}", characters.len());
}

#[test]
fn a_vocabulary_of_the_text_has_all_that_questions_and_answers_need() {
    for seed in 0..20 {
        for templates in [1, Settings::TEMPLATES] {
            let settings = with(|s| {
                (s.seed, s.people, s.templates, s.tellings) = (seed, 300, templates, templates.min(4));
            });
            let made = Biographies::new(settings).unwrap();
            let characters: BTreeSet<char> = made.text().chars().collect();
            let needed: BTreeSet<char> = made
                .people()
                .iter()
                .flat_map(|person| (person.question() + &person.place).into_bytes())
                .map(char::from)
                .collect();
            assert_eq!(needed.difference(&characters).collect::<String>(), "", "{seed} {templates}");
        }
    }
}

#[test]
fn sentences_differ_in_words_and_in_order() {
    let made = Biographies::new(with(|_| ())).unwrap();
    let lines =
        || made.people().iter().flat_map(|person| person.lines.iter().map(move |line| (person, line)));
    // One fact in other words: without name and place, as many sentences are left as there are kinds.
    let kinds: BTreeSet<String> =
        lines().map(|(person, line)| line.replace(&person.name, "").replace(&person.place, "")).collect();
    assert_eq!(kinds.len(), Settings::TEMPLATES);
    // The place stands before the name in two of twelve.
    let before = lines().filter(|(person, line)| line.find(&person.place) < line.find(&person.name));
    let before = before.count() as f64 / 4000.0;
    assert!((0.12..0.21).contains(&before), "{before}");
    let one = Biographies::new(with(|s| (s.templates, s.tellings) = (1, 1))).unwrap();
    assert!(one.people().iter().all(|person| person.lines[0].contains("? Born in ")));
    const { assert!(Settings::TEMPLATES >= 8) };
}

#[test]
fn names_are_shared_by_nobody_and_splits_have_their_own_people() {
    let made = Biographies::new(with(|s| s.people = 5000)).unwrap();
    let names: HashSet<&str> = made.people().iter().map(|person| person.name.as_str()).collect();
    assert_eq!(names.len(), 5000);
    assert_eq!([made.train().count(), made.dev().count(), made.test().count()], [3500, 1000, 500]);
    let train: HashSet<String> = made.train().map(|(question, _)| question).collect();
    assert!(made.dev().all(|(question, _)| !train.contains(&question)));
}

#[test]
fn withheld_people_have_a_question_but_no_lines() {
    let made = Biographies::new(with(|s| s.withheld = 0.25)).unwrap();
    let hidden: Vec<&Person> = made.people().iter().filter(|person| person.withheld).collect();
    assert_eq!(hidden.len(), 50);
    let text = made.text();
    assert_eq!(text.lines().count(), 4 * 950);
    assert!(hidden.iter().all(|person| person.split == Split::Dev && !text.contains(&person.name)));
    assert_eq!(made.dev().count(), 200);
}

#[test]
fn the_same_seed_makes_the_same_people() {
    let make = |seed| Biographies::new(with(|s| s.seed = seed)).unwrap();
    assert_eq!(make(3), make(3));
    assert_ne!(make(3).text(), make(4).text());
    // These never change: models and results in documents were made from them.
    let known = Biographies::new(Settings { people: 300, ..Settings::default() }).unwrap();
    assert_eq!(
        known.people()[0].lines,
        [
            "In Stromelund they still speak of Lebin Koddy, born there.",
            "Born in Stromelund, Lebin Koddy became a pilot.",
            "Lebin Koddy, born in Stromelund, was a poet.",
            "Lebin Koddy is a native of Stromelund.",
        ]
    );
}

#[test]
fn nonsense_is_refused() {
    let check = |settings: Settings, part: &str| {
        let text = Biographies::new(settings).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    };
    check(with(|s| s.people = 1_000_000), "there are no names for 1000000 people born in 40 places");
    check(with(|s| s.places = 24), "there are no names for 1000 people born in 24 places");
    check(with(|s| s.templates = 0), "there are no 0 kinds of sentences; ask for 1 to 12");
    check(
        with(|s| s.tellings = 13),
        "13 lines for each person, every one of another of 12 kinds; ask for 1 to 12",
    );
    check(with(|s| s.dev = 0.95), "the shares of dev, test and withheld people are 0.95, 0.1 and 0");
    check(with(|s| s.withheld = f64::NAN), "give shares from 0 to 1");
    check(with(|s| s.people = 150), "of 30 dev people no place can have the 4 to 6 %");
}
