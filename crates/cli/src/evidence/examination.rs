//! The whole examination of a model's answers: right or wrong, what the text says, what confidence is worth,
//! whether an error budget is kept on questions that nobody has seen, whether unknown people are noticed, and
//! who is guessed by name. Numbers only; `examination_page` shows them.

use super::{Asked, Asker, sign_names, signs};
use anyhow::Result;
use regard_data::dataset::{Amount, held_out};
use regard_evidence::{
    Budget, Calibration, Example, Interval, Judgement, Scored, Threshold, Verdict, area_above,
    calibration_error,
};
use regard_runtime::Session;
use std::collections::{HashMap, HashSet};

/// Budgets that are examined, and how certain they have to be kept.
pub const BUDGETS: [f64; 3] = [0.05, 0.1, 0.2];
const CERTAINTY: f64 = 0.95;
/// How often the questions are divided into those that calibrate and those that examine.
pub const SPLITS: u64 = 200;
/// Half of the questions calibrate; of these a third teaches, and the others test thresholds.
const EXAMINED: f64 = 0.5;
const TESTED: f64 = 2.0 / 3.0;

/// What became of one budget, over all splits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// The budget.
    pub budget: f64,
    /// The mean share of examined questions that were answered.
    pub coverage: f64,
    /// Its deviation from split to split.
    pub coverage_spread: f64,
    /// The mean share of wrong answers among them, where any were given.
    pub errors: f64,
    /// Its deviation.
    pub errors_spread: f64,
    /// The share of splits in which more were wrong than the budget allows.
    pub beyond: f64,
    /// The share of splits in which no threshold was found.
    pub none: f64,
}

/// People whose names were crossed: the first name of one, the last of the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crossed {
    /// Pairs that were asked about.
    pub asked: usize,
    /// Answers that are the place of whoever has the first name.
    pub first: usize,
    /// Answers that are the place of whoever has the last name.
    pub last: usize,
    /// Answers of which the text has no evidence, as it should be: nobody is called so.
    pub without: usize,
}

/// How well people are told apart of whom the text says something and of whom it does not.
#[derive(Clone, Copy, Debug)]
pub struct Detected {
    /// How many are unknown.
    pub unknown: usize,
    /// By the model's own probability alone.
    pub raw: f64,
    /// By whether the text has a line about them.
    pub evidence: f64,
    /// By both.
    pub both: f64,
}

/// What an examination came to.
pub struct Examination {
    /// Every answer.
    pub asked: Vec<Asked>,
    /// What is right.
    pub gold: Vec<String>,
    /// Of each verdict: answers, right ones.
    pub verdicts: [(usize, usize); 3],
    /// Right answers that stand in a line about the subject, and those of them that are called supported.
    pub standing: (usize, usize),
    /// Of each verdict, answers to questions whose own answers nobody knows.
    pub test: [usize; 3],
    /// How far confidence is off: the model's own, and calibrated; on the examined half of the first split.
    pub errors: [Interval; 2],
    /// The examined half of the first split: the model's own confidence, and the calibrated one.
    pub scored: [Vec<Scored>; 2],
    /// Budgets by calibrated confidence, and by the model's own.
    pub budgets: Vec<(Kept, Kept)>,
    /// Answers that strict mode gives, and those of them that no line names.
    pub strict: (usize, usize),
    /// The probe of names.
    pub crossed: Crossed,
    /// Who is unknown, where some people's lines were left out.
    pub detected: Option<Detected>,
}

/// What is asked, and what is known about it.
pub struct Questions<'a> {
    /// Questions with their answers.
    pub dev: &'a [(String, String)],
    /// Questions alone.
    pub test: &'a [String],
    /// Questions about people whose lines were left out.
    pub withheld: &'a HashSet<String>,
}

/// Examines a model.
pub fn examine(session: &mut Session, asker: &Asker<'_>, questions: &Questions<'_>) -> Result<Examination> {
    let texts: Vec<String> = questions.dev.iter().map(|(question, _)| question.clone()).collect();
    let gold: Vec<String> = questions.dev.iter().map(|(_, place)| place.clone()).collect();
    let asked = asker.ask(session, &texts)?;
    let right: Vec<bool> = asked.iter().zip(&gold).map(|(one, gold)| one.answer == *gold).collect();
    let mut test = [0; 3];
    for one in asker.ask(session, questions.test)? {
        test[verdict(&one) as usize] += 1;
    }
    let mut verdicts = [(0, 0); 3];
    for (one, &right) in asked.iter().zip(&right) {
        let own = &mut verdicts[verdict(one) as usize];
        *own = (own.0 + 1, own.1 + usize::from(right));
    }
    let strict = asked.iter().filter(|one| judged(one).is_some_and(Judgement::is_strict));
    let unsupported = strict.clone().filter(|one| !names_it(one)).count();
    let (errors, scored) = first_split(&asked, &right)?;
    Ok(Examination {
        verdicts,
        standing: standing(&asked, &right),
        test,
        errors,
        scored,
        budgets: budgets(&asked, &right)?,
        strict: (strict.count(), unsupported),
        crossed: crossed(session, asker, questions.dev)?,
        detected: detected(&asked, questions.withheld),
        asked,
        gold,
    })
}

impl Examination {
    /// The share of right answers.
    pub fn accuracy(&self) -> f64 {
        let right = self.asked.iter().zip(&self.gold).filter(|(one, gold)| one.answer == **gold).count();
        right as f64 / self.asked.len().max(1) as f64
    }

    /// Wrong answers, those that the model was surest of first.
    pub fn worst(&self) -> Vec<(&Asked, &str)> {
        let pairs = self.asked.iter().zip(self.gold.iter().map(String::as_str));
        let mut wrong: Vec<(&Asked, &str)> = pairs.filter(|(one, gold)| one.answer != *gold).collect();
        wrong.sort_by(|a, b| b.0.sureness.probability.total_cmp(&a.0.sureness.probability));
        wrong
    }
}

fn judged(one: &Asked) -> Option<&Judgement> {
    one.judgement.as_ref()
}

fn verdict(one: &Asked) -> Verdict {
    judged(one).map_or(Verdict::NoEvidence, |judged| judged.verdict)
}

/// Whether a line that a judgement shows has the answer in it, looked at once more by plain search.
fn names_it(one: &Asked) -> bool {
    let folded = regard_evidence::folded(one.answer.trim());
    let lines = judged(one).map(|judged| judged.lines.as_slice()).unwrap_or_default();
    lines.iter().any(|line| regard_evidence::folded(&line.line.text).contains(&folded))
}

/// Right answers that a line about the subject has, by plain search, and those called supported.
fn standing(asked: &[Asked], right: &[bool]) -> (usize, usize) {
    let stand = asked.iter().zip(right).filter(|(one, right)| **right && names_it(one));
    (stand.clone().count(), stand.filter(|(one, _)| verdict(one) == Verdict::Supported).count())
}

fn example(asked: &[Asked], right: &[bool], at: usize) -> Example {
    Example { signs: signs(&asked[at]), right: right[at] }
}

/// Confidences of some questions by a calibration that others taught; none where they taught nothing, because
/// all were right or all were wrong.
fn calibrated(asked: &[Asked], right: &[bool], taught: &[usize]) -> Option<Calibration> {
    let examples: Vec<Example> = taught.iter().map(|&at| example(asked, right, at)).collect();
    Calibration::fit(&sign_names(0, true), &examples).ok()
}

fn confidences(
    calibration: Option<&Calibration>,
    asked: &[Asked],
    right: &[bool],
    rows: &[usize],
) -> Vec<Scored> {
    let raw = |at: usize| asked[at].sureness.probability;
    let own = |at: usize| match calibration {
        Some(calibration) => calibration.confidence(&example(asked, right, at).signs),
        None => raw(at),
    };
    rows.iter().map(|&at| (own(at), right[at])).collect()
}

type Split = (Vec<usize>, Vec<usize>, Vec<usize>);

/// Questions that teach, that test thresholds, and that examine.
fn split(count: usize, seed: u64) -> Result<Split> {
    let (calibrate, examine) = held_out(count, Amount::Fraction(EXAMINED), seed)?;
    let (teach, test) = held_out(calibrate.len(), Amount::Fraction(TESTED), seed)?;
    let of = |rows: Vec<usize>| rows.into_iter().map(|at| calibrate[at]).collect();
    Ok((of(teach), of(test), examine))
}

fn first_split(asked: &[Asked], right: &[bool]) -> Result<([Interval; 2], [Vec<Scored>; 2])> {
    let (teach, test, examine) = split(asked.len(), 0)?;
    let taught = calibrated(asked, right, &[teach, test].concat());
    let raw = confidences(None, asked, right, &examine);
    let own = confidences(taught.as_ref(), asked, right, &examine);
    Ok(([calibration_error(&raw)?, calibration_error(&own)?], [raw, own]))
}

fn budgets(asked: &[Asked], right: &[bool]) -> Result<Vec<(Kept, Kept)>> {
    let mut found = Vec::new();
    for errors in BUDGETS {
        let budget = Budget::new(errors, CERTAINTY)?;
        let (mut own, mut raw) = (Vec::new(), Vec::new());
        for seed in 0..SPLITS {
            let (teach, test, examine) = split(asked.len(), seed)?;
            let taught = calibrated(asked, right, &teach);
            for (calibration, results) in [(taught.as_ref(), &mut own), (None, &mut raw)] {
                let of = |rows: &[usize]| confidences(calibration, asked, right, rows);
                let threshold = Threshold::learn(&of(&teach), &of(&test), budget)?;
                let given: Vec<Scored> =
                    of(&examine).into_iter().filter(|(confidence, _)| threshold.gives(*confidence)).collect();
                let wrong = given.iter().filter(|(_, right)| !right).count();
                results.push((threshold.from.is_some(), given.len(), wrong, examine.len()));
            }
        }
        found.push((kept(errors, &own), kept(errors, &raw)));
    }
    Ok(found)
}

fn kept(budget: f64, splits: &[(bool, usize, usize, usize)]) -> Kept {
    let coverage: Vec<f64> = splits.iter().map(|(_, given, _, all)| *given as f64 / *all as f64).collect();
    let errors: Vec<f64> = splits
        .iter()
        .filter(|(_, given, ..)| *given > 0)
        .map(|(_, given, wrong, _)| *wrong as f64 / *given as f64)
        .collect();
    let share = |count: usize| count as f64 / splits.len().max(1) as f64;
    let ((coverage, coverage_spread), (mean, errors_spread)) = (spread(&coverage), spread(&errors));
    Kept {
        budget,
        coverage,
        coverage_spread,
        errors: mean,
        errors_spread,
        beyond: share(errors.iter().filter(|errors| **errors > budget).count()),
        none: share(splits.iter().filter(|(found, ..)| !found).count()),
    }
}

/// Mean and standard deviation; nothing of nothing.
fn spread(numbers: &[f64]) -> (f64, f64) {
    if numbers.is_empty() {
        return (0.0, 0.0);
    }
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let square = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, square.sqrt())
}

/// First names and last name of whom a question asks about.
fn name_of(question: &str) -> Option<(&str, &str)> {
    question.strip_prefix("Where was ")?.strip_suffix(" born?")?.rsplit_once(' ')
}

/// Asks about people who do not exist: the first names of one, the last name of the next.
fn crossed(session: &mut Session, asker: &Asker<'_>, dev: &[(String, String)]) -> Result<Crossed> {
    let names: Vec<(&str, &str, &str)> = dev
        .iter()
        .filter_map(|(q, place)| name_of(q).map(|(first, last)| (first, last, place.as_str())))
        .collect();
    let real: HashSet<(&str, &str)> = names.iter().map(|(first, last, _)| (*first, *last)).collect();
    let mut pairs: HashMap<String, (&str, &str)> = HashMap::new();
    for (one, other) in names.iter().zip(names.iter().skip(1)) {
        if !real.contains(&(one.0, other.1)) && one.2 != other.2 {
            pairs.insert(format!("Where was {} {} born?", one.0, other.1), (one.2, other.2));
        }
    }
    let mut questions: Vec<String> = pairs.keys().cloned().collect();
    questions.sort();
    let mut found = Crossed { asked: questions.len(), ..Crossed::default() };
    for one in asker.ask(session, &questions)? {
        let (first, last) = pairs[&one.question];
        found.first += usize::from(one.answer == first);
        found.last += usize::from(one.answer == last);
        found.without += usize::from(verdict(&one) == Verdict::NoEvidence);
    }
    Ok(found)
}

fn detected(asked: &[Asked], withheld: &HashSet<String>) -> Option<Detected> {
    let (unknown, known): (Vec<&Asked>, Vec<&Asked>) =
        asked.iter().partition(|one| withheld.contains(&one.question));
    let area = |of: &dyn Fn(&Asked) -> f64| {
        let numbers = |people: &[&Asked]| people.iter().map(|one| of(one)).collect::<Vec<f64>>();
        area_above(&numbers(&known), &numbers(&unknown))
    };
    let seen = |one: &Asked| f64::from(u8::from(verdict(one) != Verdict::NoEvidence));
    Some(Detected {
        unknown: unknown.len(),
        raw: area(&|one| one.sureness.probability)?,
        evidence: area(&seen)?,
        both: area(&|one| seen(one) + one.sureness.probability)?,
    })
}
