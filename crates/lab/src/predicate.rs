//! What a claim's numbers must be for it to hold, stated before any is known, and the one function that gives
//! a verdict. An experiment hands over numbers; it cannot hand over an answer.

use crate::json::in_words;
use crate::picture::figure;
use crate::{Claim, Evidence, Finding, Number};

/// Runs of a trained claim below which nothing is decided.
pub const SEEDS: usize = 8;

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// True as it stands.
    Holds,
    /// True under a condition, which its predicate names.
    Conditional,
    /// Wrong in the notes.
    Wrong,
    /// The numbers do not tell.
    Undecided,
}

impl Verdict {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Verdict; 4] = [Verdict::Holds, Verdict::Conditional, Verdict::Wrong, Verdict::Undecided];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Conditional => "holds under a condition",
            Verdict::Wrong => "wrong in the notes",
            Verdict::Undecided => "undecided",
        }
    }
}

/// What a quantity must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Relation {
    /// Not below.
    AtLeast(f64),
    /// Not above.
    AtMost(f64),
    /// This number, within a tolerance.
    Is {
        /// The number.
        to: f64,
        /// The tolerance.
        within: f64,
    },
}

impl Relation {
    /// The numbers that it allows, from the lowest to the highest.
    fn allowed(self) -> (f64, f64) {
        match self {
            Relation::AtLeast(bound) => (bound, f64::INFINITY),
            Relation::AtMost(bound) => (f64::NEG_INFINITY, bound),
            Relation::Is { to, within } => (to - within, to + within),
        }
    }

    /// In words, after the quantity.
    pub fn in_words(self) -> String {
        match self {
            Relation::AtLeast(bound) => format!("is at least {}", figure(bound)),
            Relation::AtMost(bound) => format!("is at most {}", figure(bound)),
            Relation::Is { to, within: 0.0 } => format!("is {}", figure(to)),
            Relation::Is { to, within } => format!("is {} ± {}", figure(to), figure(within)),
        }
    }

    /// A number that contradicts it: what a test feeds to see a verdict turn.
    pub fn contradiction(self) -> f64 {
        match self {
            Relation::AtLeast(bound) => bound - 1.0 - bound.abs(),
            Relation::AtMost(bound) => bound + 1.0 + bound.abs(),
            Relation::Is { to, within } => to + 2.0 * within + 1.0 + to.abs(),
        }
    }

    /// A number that agrees with it.
    pub fn agreement(self) -> f64 {
        match self {
            Relation::AtLeast(bound) => bound + 1.0 + bound.abs(),
            Relation::AtMost(bound) => bound - 1.0 - bound.abs(),
            Relation::Is { to, .. } => to,
        }
    }
}

/// One quantity and what it must be.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// The name of a number of the finding; with `…` at its end, every number that begins so.
    pub quantity: &'static str,
    /// What it must be.
    pub relation: Relation,
}

/// Not below.
pub const fn at_least(quantity: &'static str, bound: f64) -> Test {
    Test { quantity, relation: Relation::AtLeast(bound) }
}

/// Not above.
pub const fn at_most(quantity: &'static str, bound: f64) -> Test {
    Test { quantity, relation: Relation::AtMost(bound) }
}

/// This number, within a tolerance.
pub const fn is(quantity: &'static str, to: f64, within: f64) -> Test {
    Test { quantity, relation: Relation::Is { to, within } }
}

/// What must be so for a claim to hold.
#[derive(Clone, Copy, Debug)]
pub enum Predicate {
    /// Every number of the finding is as the experiment holds it against a theory, a bound or a quotation.
    EveryNumber,
    /// These quantities are so. What else the experiment holds its numbers against is a check of itself.
    Stated(Stated),
}

/// A statement as tests of named quantities.
#[derive(Clone, Copy, Debug)]
pub struct Stated {
    /// Without these nothing can be said: that a model learned its task at all.
    pub premises: &'static [Test],
    /// All of them: the claim holds.
    pub statement: &'static [Test],
    /// Where the statement fails: under this condition it holds if these do.
    pub condition: Option<(&'static str, &'static [Test])>,
}

impl Predicate {
    /// The claim holds if all these do.
    pub const fn says(statement: &'static [Test]) -> Predicate {
        Predicate::Stated(Stated { premises: &[], statement, condition: None })
    }

    /// Nothing can be said unless these hold.
    pub const fn given(self, premises: &'static [Test]) -> Predicate {
        match self {
            Predicate::Stated(stated) => Predicate::Stated(Stated { premises, ..stated }),
            other => other,
        }
    }

    /// Where the statement fails, it holds under this condition if these hold.
    pub const fn or_if(self, condition: &'static str, tests: &'static [Test]) -> Predicate {
        match self {
            Predicate::Stated(stated) => {
                Predicate::Stated(Stated { condition: Some((condition, tests)), ..stated })
            }
            other => other,
        }
    }
}

/// What a test found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The whole interval is where it must be.
    Yes,
    /// None of it is.
    No,
    /// Some of it is.
    Straddles,
}

/// What a test is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of the premises.
    Premise,
    /// Of the statement.
    Statement,
    /// Of the condition.
    Condition,
}

/// One number, held against one test.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What the test is for.
    pub role: Role,
    /// The name of the number.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its interval, if it has one.
    pub interval: Option<(f64, f64)>,
    /// What it must be.
    pub relation: Relation,
    /// Whether it is.
    pub answer: Answer,
}

impl Judged {
    /// The number and the answer, in words.
    pub fn in_words(&self) -> String {
        let interval = match self.interval {
            Some((low, high)) => format!(" ({} to {})", figure(low), figure(high)),
            None => String::new(),
        };
        let answer = match self.answer {
            Answer::Yes => "yes",
            Answer::No => "no",
            Answer::Straddles => "cannot be told: the interval reaches across",
        };
        format!("{} {}? {}{interval}: {answer}", self.name, self.relation.in_words(), figure(self.value))
    }
}

/// A verdict with what it follows from.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The condition, where it is one.
    pub condition: Option<&'static str>,
    /// Why nothing was decided, in plain words, where nothing was.
    pub undecided: Option<String>,
    /// Every test.
    pub judged: Vec<Judged>,
}

/// Whether a number, with its interval, is what it must be.
pub fn answer(value: f64, interval: Option<(f64, f64)>, relation: Relation) -> Answer {
    let (low, high) = interval.unwrap_or((value, value));
    let (least, most) = relation.allowed();
    if least <= low && high <= most {
        Answer::Yes
    } else if high < least || most < low || value.is_nan() {
        Answer::No
    } else {
        Answer::Straddles
    }
}

/// The verdict on a claim: what its predicate says about these numbers, and nothing else. An error if a
/// quantity of the predicate is not among them.
pub fn judge(claim: &Claim, finding: &Finding) -> Result<Judgement, String> {
    let stated = match &claim.predicate {
        Predicate::EveryNumber => return Ok(by_every_number(finding)),
        Predicate::Stated(stated) => stated,
    };
    let mut judged = vec![];
    for (role, tests) in [
        (Role::Premise, stated.premises),
        (Role::Statement, stated.statement),
        (Role::Condition, stated.condition.map_or(&[][..], |(_, tests)| tests)),
    ] {
        for test in tests {
            judged.extend(held_against(role, test, &finding.numbers)?);
        }
    }
    let of = |role: Role, answer: Answer| {
        judged.iter().filter(move |one| one.role == role && one.answer == answer)
    };
    let all = |role: Role| judged.iter().filter(|one| one.role == role).all(|one| one.answer == Answer::Yes);
    let any = |role: Role, answer: Answer| of(role, answer).next().is_some();
    let straddling = |role: Role| {
        let names: Vec<String> = of(role, Answer::Straddles).map(Judged::in_words).collect();
        format!("the intervals do not tell. {}", names.join("; "))
    };
    let (verdict, undecided) = if claim.evidence() == Evidence::Trained && finding.seeds < SEEDS {
        let runs = if finding.seeds == 1 {
            "one run decides".into()
        } else {
            format!("{} runs decide", finding.seeds)
        };
        (Verdict::Undecided, Some(format!("{runs} nothing: `--full` trains over {SEEDS} seeds")))
    } else if !all(Role::Premise) {
        let names: Vec<String> = judged
            .iter()
            .filter(|one| one.role == Role::Premise && one.answer != Answer::Yes)
            .map(Judged::in_words)
            .collect();
        (
            Verdict::Undecided,
            Some(format!("the experiment did not come to where it could tell. {}", names.join("; "))),
        )
    } else if all(Role::Statement) {
        (Verdict::Holds, None)
    } else if !any(Role::Statement, Answer::No) {
        (Verdict::Undecided, Some(straddling(Role::Statement)))
    } else if stated.condition.is_none() || any(Role::Condition, Answer::No) {
        (Verdict::Wrong, None)
    } else if all(Role::Condition) {
        (Verdict::Conditional, None)
    } else {
        (
            Verdict::Undecided,
            Some(format!("as it stands it is wrong; under the condition {}", straddling(Role::Condition))),
        )
    };
    let condition = stated.condition.map(|(text, _)| text).filter(|_| verdict == Verdict::Conditional);
    Ok(Judgement { verdict, condition, undecided, judged })
}

/// Numbers that carry what they are held against themselves.
fn by_every_number(finding: &Finding) -> Judgement {
    let held = finding.numbers.iter().filter(|number| number.ok().is_some()).count();
    let verdict = match finding.failures().next() {
        Some(_) => Verdict::Wrong,
        None if held == 0 => Verdict::Undecided,
        None => Verdict::Holds,
    };
    let undecided = (held == 0).then(|| "no number is held against anything".to_string());
    Judgement { verdict, condition: None, undecided, judged: vec![] }
}

/// The numbers that a test is about.
fn held_against(role: Role, test: &Test, numbers: &[Number]) -> Result<Vec<Judged>, String> {
    let own = |number: &&Number| match test.quantity.strip_suffix('…') {
        Some(beginning) => number.name.starts_with(beginning),
        None => number.name == test.quantity,
    };
    let judged: Vec<Judged> = numbers
        .iter()
        .filter(own)
        .map(|number| Judged {
            role,
            name: number.name.clone(),
            value: number.value,
            interval: number.interval,
            relation: test.relation,
            answer: answer(number.value, number.interval, test.relation),
        })
        .collect();
    match judged.is_empty() {
        true => Err(format!(
            "the predicate asks for “{}”, and the experiment gave no such number, but {}",
            test.quantity,
            numbers.iter().map(in_words).collect::<Vec<_>>().join("; ")
        )),
        false => Ok(judged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Run;

    #[test]
    fn a_quantity_that_is_not_there_is_named() {
        const TESTS: &[Test] = &[at_least("heads", 3.0)];
        let claim = Claim {
            id: "A1",
            title: "",
            note: "",
            statement: "",
            formula: "",
            errata: &[],
            predicate: Predicate::says(TESTS),
            run: Run::Pending("a thing"),
        };
        let finding = Finding::measured("").number(Number::shown("keys", 3.0));
        assert_eq!(
            judge(&claim, &finding).unwrap_err().to_string(),
            "the predicate asks for “heads”, and the experiment gave no such number, but keys: 3"
        );
    }

    #[test]
    fn numbers_are_inside_outside_or_across() {
        let of =
            |value: f64, interval: Option<(f64, f64)>, relation: Relation| answer(value, interval, relation);
        assert_eq!(of(1.0, None, Relation::AtLeast(1.0)), Answer::Yes);
        assert_eq!(of(0.9, None, Relation::AtLeast(1.0)), Answer::No);
        assert_eq!(of(f64::NAN, None, Relation::AtMost(1.0)), Answer::No);
        assert_eq!(of(1.0, Some((0.9, 1.1)), Relation::AtMost(1.0)), Answer::Straddles);
        assert_eq!(of(0.5, Some((0.4, 0.6)), Relation::Is { to: 0.5, within: 0.1 }), Answer::Yes);
        assert_eq!(of(0.5, Some((0.3, 0.6)), Relation::Is { to: 0.5, within: 0.1 }), Answer::Straddles);
        assert_eq!(of(0.2, Some((0.1, 0.3)), Relation::Is { to: 0.5, within: 0.1 }), Answer::No);
    }

    #[test]
    fn agreement_and_contradiction_are_what_they_say() {
        for relation in [
            Relation::AtLeast(0.0),
            Relation::AtLeast(-0.05),
            Relation::AtMost(0.9),
            Relation::Is { to: 0.0, within: 0.0 },
        ] {
            assert_eq!(answer(relation.agreement(), None, relation), Answer::Yes, "{relation:?}");
            assert_eq!(answer(relation.contradiction(), None, relation), Answer::No, "{relation:?}");
        }
    }
}
