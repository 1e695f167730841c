//! Biographies of people who never lived in places that do not exist: the data of the birth-place study that
//! comes with the program. A text of a few lines for each person, to be learned by heart, and questions of
//! where they were born. A fact that is read in one wording only can be recited, but hardly be told in
//! another (Allen-Zhu and Li 2023), so that each line of a person has its own. Made from a seed, always the
//! same, and written in the form of the real data, so that the same code reads both.

mod names;
mod sentences;

use crate::batching::Order;
use crate::{Error, Result, whole};
use sentences::SENTENCES;
use std::io::Write;
use std::path::Path;

/// How many biographies are made, and of what kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Of everything drawn.
    pub seed: u64,
    /// How many people there are.
    pub people: usize,
    /// How many places they were born in, at least 25.
    pub places: usize,
    /// How many kinds of sentences tell of them, at most [`Settings::TEMPLATES`].
    pub templates: usize,
    /// How many lines each person has, every one of another kind; no more than there are kinds.
    pub tellings: usize,
    /// The share of people whose questions are kept for choosing between models.
    pub dev: f64,
    /// The share of people whose questions have no answers in the files.
    pub test: f64,
    /// The share of dev people who have no lines in the text: nothing can be known of them.
    pub withheld: f64,
}

impl Default for Settings {
    /// 400 people born in 30 places: few enough for a very small model; 80 are for choosing, 40 for the test.
    fn default() -> Self {
        Settings {
            seed: 1,
            people: 400,
            places: 30,
            templates: SENTENCES.len(),
            tellings: 4,
            dev: 0.2,
            test: 0.1,
            withheld: 0.0,
        }
    }
}

impl Settings {
    /// How many kinds of sentences there are.
    pub const TEMPLATES: usize = SENTENCES.len();
}

/// What a person's question is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Fine-tuning.
    Train,
    /// Choosing between models.
    Dev,
    /// The last judgement: the files have no answers.
    Test,
}

/// Somebody who never lived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// First and last name, shared with nobody.
    pub name: String,
    /// Where the person was born.
    pub place: String,
    /// The biography: lines that each say so.
    pub lines: Vec<String>,
    /// What the question is for.
    pub split: Split,
    /// Whether the lines are left out of the text.
    pub withheld: bool,
}

impl Person {
    /// `Where was … born?`
    pub fn question(&self) -> String {
        format!("Where was {} born?", self.name)
    }
}

/// Biographies and questions.
///
/// ```
/// use regard_data::biographies::{Biographies, Settings};
///
/// let biographies = Biographies::new(Settings { people: 300, ..Default::default() })?;
/// let (question, place) = biographies.dev().next().unwrap();
/// let name = question.strip_prefix("Where was ").unwrap().strip_suffix(" born?").unwrap();
/// assert!(biographies.text().lines().any(|line| line.contains(name) && line.contains(place)));
/// # Ok::<(), regard_data::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Biographies {
    people: Vec<Person>,
    places: Vec<String>,
}

impl Biographies {
    /// Makes them, if the settings make sense.
    pub fn new(settings: Settings) -> Result<Biographies> {
        let [train, dev, test] = settings.sizes()?;
        let Settings { seed, templates, tellings, .. } = settings;
        let places: Vec<String> = (0..settings.places).map(|number| names::place(seed, number)).collect();
        let mut people = Vec::with_capacity(settings.people);
        for (split, count) in [(Split::Train, train), (Split::Dev, dev), (Split::Test, test)] {
            let withheld = match split {
                Split::Dev => (count as f64 * settings.withheld).round() as usize,
                _ => 0,
            };
            let births = births(seed, split, count, places.len());
            let hidden = Order::Shuffled { seed }.named("biographies.withheld", split as u64, count);
            for (number, birth) in births.into_iter().enumerate() {
                let (first, last) = names::person(seed, people.len());
                let place = &places[birth];
                let name = format!("{first} {last}");
                let kinds =
                    Order::Shuffled { seed }.named("biographies.kinds", people.len() as u64, templates);
                people.push(Person {
                    lines: (0..tellings).map(|telling| SENTENCES[kinds.at(telling)](&name, place)).collect(),
                    name,
                    place: place.clone(),
                    split,
                    withheld: hidden.at(number) < withheld,
                });
            }
        }
        Ok(Biographies { people, places })
    }

    /// All people: those for training, then dev, then test.
    pub fn people(&self) -> &[Person] {
        &self.people
    }

    /// All places; more people were born in the first than in any other.
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// The lines of all people whose lines are not withheld: one of each person, then another of each.
    pub fn text(&self) -> String {
        let tellings = self.people.first().map_or(0, |person| person.lines.len());
        let shown = || self.people.iter().filter(|person| !person.withheld);
        (0..tellings)
            .flat_map(|telling| shown().flat_map(move |person| [&person.lines[telling], "\n"]))
            .collect()
    }

    /// Questions and answers for fine-tuning.
    pub fn train(&self) -> impl Iterator<Item = (String, &str)> {
        self.questions(Split::Train)
    }

    /// Questions and answers for choosing between models, of people who are not in [`Biographies::train`].
    pub fn dev(&self) -> impl Iterator<Item = (String, &str)> {
        self.questions(Split::Dev)
    }

    /// Questions and answers for the test.
    pub fn test(&self) -> impl Iterator<Item = (String, &str)> {
        self.questions(Split::Test)
    }

    fn questions(&self, split: Split) -> impl Iterator<Item = (String, &str)> {
        let people = self.people.iter().filter(move |person| person.split == split);
        people.map(|person| (person.question(), person.place.as_str()))
    }

    /// Writes `text.txt`, `train.tsv`, `dev.tsv` (question, tab, place) and `test_inputs.tsv` (questions
    /// alone).
    pub fn write(&self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, error))?;
        let pairs = |split| -> String {
            self.questions(split).map(|(question, place)| format!("{question}\t{place}\n")).collect()
        };
        let inputs: String = self.test().map(|(question, _)| question + "\n").collect();
        let files = [
            ("text.txt", self.text()),
            ("train.tsv", pairs(Split::Train)),
            ("dev.tsv", pairs(Split::Dev)),
            ("test_inputs.tsv", inputs),
        ];
        for (name, text) in files {
            whole::write(folder.join(name), |file| file.write_all(text.as_bytes()))?;
        }
        Ok(())
    }
}

impl Settings {
    /// How many people train, dev and test have, if all settings make sense.
    fn sizes(&self) -> Result<[usize; 3]> {
        let nonsense = |what: String, advice: &str| Err(Error::invalid(what, advice));
        let Settings { people, places, templates, tellings, dev, test, withheld, .. } = *self;
        if people > names::PEOPLE || !(25..=names::PLACES).contains(&places) {
            return nonsense(
                format!("there are no names for {people} people born in {places} places"),
                &format!("ask for {} people at most, and 25 to {} places", names::PEOPLE, names::PLACES),
            );
        }
        if !(1..=SENTENCES.len()).contains(&templates) {
            return nonsense(
                format!("there are no {templates} kinds of sentences"),
                &format!("ask for 1 to {}", SENTENCES.len()),
            );
        }
        if !(1..=templates).contains(&tellings) {
            return nonsense(
                format!("{tellings} lines for each person, every one of another of {templates} kinds"),
                &format!("ask for 1 to {templates} lines"),
            );
        }
        let shares = [dev, test, withheld];
        if !shares.iter().all(|share| (0.0..=1.0).contains(share)) || dev == 0.0 || dev + test >= 1.0 {
            return nonsense(
                format!("the shares of dev, test and withheld people are {dev}, {test} and {withheld}"),
                "give shares from 0 to 1, some for dev, and leave some for training",
            );
        }
        let [dev, test] = [dev, test].map(|share| (people as f64 * share).round() as usize);
        let train = people.saturating_sub(dev + test);
        let common = most_common(dev);
        if !(0.04..=0.06).contains(&(common as f64 / dev as f64))
            || rest_at_most(dev, places) > common
            || train == 0
        {
            return nonsense(
                format!(
                    "of {dev} dev people no place can have the 4 to 6 % that always guessing it should earn"
                ),
                "ask for more people, or a greater share for dev: 50 are always enough",
            );
        }
        Ok([train, dev, test])
    }
}

/// How many of `count` people were born in the most common place: one in twenty.
fn most_common(count: usize) -> usize {
    (count + 10) / 20
}

/// How many of `count` people were born in any other place, at most.
fn rest_at_most(count: usize, places: usize) -> usize {
    (count - most_common(count)).div_ceil(places - 1)
}

/// The place of birth of each of `count` people: the first place for one in twenty, the others as evenly as
/// can be. So who always answers with one place is right in 5 %, for every seed.
fn births(seed: u64, split: Split, count: usize, places: usize) -> Vec<usize> {
    let common = most_common(count);
    let shuffled = |name, n| Order::Shuffled { seed }.named(name, split as u64, n);
    let (order, others) = (shuffled("biographies.births", count), shuffled("biographies.others", places - 1));
    let place = |number: usize| match order.at(number) {
        drawn if drawn < common => 0,
        drawn => 1 + others.at((drawn - common) % (places - 1)),
    };
    (0..count).map(place).collect()
}

#[cfg(test)]
mod tests;
