//! What an experiment finds: numbers with what they are held against, tables, pictures, and how it was done.
//! The verdict is not among them: [`judge`](crate::judge) computes it.

use crate::Verdict;
use crate::picture::Picture;
use crate::statistics::Estimate;

/// What a number is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Criterion {
    /// Nothing: it is shown.
    Shown,
    /// A number that it must equal within a tolerance.
    Equal {
        /// The number.
        to: f64,
        /// The tolerance.
        within: f64,
    },
    /// A theory that must lie in the interval.
    Theory(f64),
    /// A number quoted elsewhere to so many digits: the interval, or the value, must come within the
    /// tolerance.
    Quoted {
        /// The number.
        as_: f64,
        /// The tolerance.
        within: f64,
    },
    /// It must not be above.
    AtMost(f64),
    /// It must not be below.
    AtLeast(f64),
}

/// A number of a finding.
#[derive(Clone, Debug)]
pub struct Number {
    /// What it is.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its confidence interval, if it was sampled.
    pub interval: Option<(f64, f64)>,
    /// What it is held against.
    pub criterion: Criterion,
    /// The erratum for which it is the number.
    pub erratum: Option<&'static str>,
}

impl Number {
    fn new(name: impl Into<String>, value: f64, criterion: Criterion) -> Self {
        Number { name: name.into(), value, interval: None, criterion, erratum: None }
    }

    fn of_estimate(name: impl Into<String>, estimate: Estimate, criterion: Criterion) -> Self {
        let interval = Some((estimate.low, estimate.high));
        Number { interval, ..Number::new(name, estimate.value, criterion) }
    }

    /// A number that is only shown.
    pub fn shown(name: impl Into<String>, value: f64) -> Self {
        Number::new(name, value, Criterion::Shown)
    }

    /// A sampled number that is only shown.
    pub fn sampled(name: impl Into<String>, estimate: Estimate) -> Self {
        Number::of_estimate(name, estimate, Criterion::Shown)
    }

    /// A number that must equal another.
    pub fn equal(name: impl Into<String>, value: f64, to: f64, within: f64) -> Self {
        Number::new(name, value, Criterion::Equal { to, within })
    }

    /// A number that must not be above a bound.
    pub fn at_most(name: impl Into<String>, value: f64, bound: f64) -> Self {
        Number::new(name, value, Criterion::AtMost(bound))
    }

    /// A number that must not be below a bound.
    pub fn at_least(name: impl Into<String>, value: f64, bound: f64) -> Self {
        Number::new(name, value, Criterion::AtLeast(bound))
    }

    /// How many of something there are, which must be so many.
    pub fn count(name: impl Into<String>, found: usize, wanted: usize) -> Self {
        Number::equal(name, found as f64, wanted as f64, 0.0)
    }

    /// A sampled number in whose interval a theory must lie.
    pub fn theory(name: impl Into<String>, estimate: Estimate, theory: f64) -> Self {
        Number::of_estimate(name, estimate, Criterion::Theory(theory))
    }

    /// A number that must be as it is quoted elsewhere, to within the last digit of the quotation.
    pub fn quoted(name: impl Into<String>, value: f64, as_: f64, within: f64) -> Self {
        Number::new(name, value, Criterion::Quoted { as_, within })
    }

    /// A sampled number that must be as it is quoted elsewhere.
    pub fn sampled_quoted(name: impl Into<String>, estimate: Estimate, as_: f64, within: f64) -> Self {
        Number::of_estimate(name, estimate, Criterion::Quoted { as_, within })
    }

    /// The number that an erratum is about.
    pub fn erratum(self, id: &'static str) -> Self {
        Number { erratum: Some(id), ..self }
    }

    /// Whether it is as it must be; `None` if it is only shown.
    pub fn ok(&self) -> Option<bool> {
        let (low, high) = self.interval.unwrap_or((self.value, self.value));
        Some(match self.criterion {
            Criterion::Shown => return None,
            Criterion::Equal { to, within } => (self.value - to).abs() <= within,
            Criterion::Theory(theory) => low <= theory && theory <= high,
            Criterion::Quoted { as_, within } => low <= as_ + within && as_ - within <= high,
            Criterion::AtMost(bound) => self.value <= bound,
            Criterion::AtLeast(bound) => self.value >= bound,
        })
    }
}

/// A table, as text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The columns.
    pub columns: Vec<String>,
    /// The rows, each as long as the columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Table {
            title: title.into(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: vec![],
        }
    }

    /// With one more row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

/// What an experiment found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The verdict for which the summary was written; none where it only tells numbers. Another verdict than
    /// this one means that something is broken.
    pub written_for: Option<Verdict>,
    /// What was found, in one or two sentences.
    pub summary: String,
    /// Over how many seeds something was trained; 0 if nothing was.
    pub seeds: usize,
    /// The numbers.
    pub numbers: Vec<Number>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The pictures.
    pub pictures: Vec<Picture>,
    /// How it was computed.
    pub how: String,
    /// What shows that the claim is wrong, or where its condition fails.
    pub counter_example: Option<String>,
}

impl Finding {
    /// A finding whose summary says more than numbers: it was written for this verdict.
    pub fn new(verdict: Verdict, summary: impl Into<String>) -> Self {
        Finding { written_for: Some(verdict), ..Finding::measured(summary) }
    }

    /// A finding whose summary tells numbers alone, and goes with any verdict.
    pub fn measured(summary: impl Into<String>) -> Self {
        Finding {
            written_for: None,
            summary: summary.into(),
            seeds: 0,
            numbers: vec![],
            tables: vec![],
            pictures: vec![],
            how: String::new(),
            counter_example: None,
        }
    }

    /// With how many seeds it was trained over.
    pub fn seeds(mut self, seeds: usize) -> Self {
        self.seeds = seeds;
        self
    }

    /// With one more number.
    pub fn number(mut self, number: Number) -> Self {
        self.numbers.push(number);
        self
    }

    /// With more numbers.
    pub fn numbers(mut self, numbers: impl IntoIterator<Item = Number>) -> Self {
        self.numbers.extend(numbers);
        self
    }

    /// With one more table.
    pub fn table(mut self, table: Table) -> Self {
        self.tables.push(table);
        self
    }

    /// With one more picture.
    pub fn picture(mut self, picture: impl Into<Picture>) -> Self {
        self.pictures.push(picture.into());
        self
    }

    /// With the way in which it was computed.
    pub fn how(mut self, how: impl Into<String>) -> Self {
        self.how = how.into();
        self
    }

    /// With a counter-example.
    pub fn counter_example(mut self, text: impl Into<String>) -> Self {
        self.counter_example = Some(text.into());
        self
    }

    /// The numbers that are not as they must be.
    pub fn failures(&self) -> impl Iterator<Item = &Number> {
        self.numbers.iter().filter(|number| number.ok() == Some(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_held_against_what_was_said() {
        let near = Estimate { value: 1.0, low: 0.9, high: 1.1 };
        assert_eq!(Number::shown("x", 1.0).ok(), None);
        assert_eq!(Number::equal("x", 1.0, 1.01, 0.02).ok(), Some(true));
        assert_eq!(Number::equal("x", f64::NAN, 1.0, 0.5).ok(), Some(false));
        assert_eq!(Number::theory("x", near, 1.05).ok(), Some(true));
        assert_eq!(Number::theory("x", near, 1.2).ok(), Some(false));
        assert_eq!(Number::sampled_quoted("x", near, 1.14, 0.05).ok(), Some(true));
        assert_eq!(Number::quoted("x", 1.0, 1.14, 0.05).ok(), Some(false));
        assert_eq!(Number::at_most("x", f64::NAN, 1.0).ok(), Some(false));
        let wrong = Finding::new(Verdict::Holds, "so").number(Number::count("keys", 3, 4));
        assert_eq!(wrong.failures().count(), 1);
    }
}
