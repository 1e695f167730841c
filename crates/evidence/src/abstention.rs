//! From which confidence on to answer, so that errors stay within a budget: Learn then Test (Angelopoulos and
//! others 2021). Thresholds are put in an order by some questions; then, by others that were used for nothing
//! else, one after the other is tested: could so few errors among its answers be chance, if more than the
//! budget were wrong? The first that could ends the search, and the one before it is chosen. Because the
//! order was fixed before, trying many costs no certainty: with the certainty asked for, whoever answers from
//! the chosen threshold on is wrong in at most the budget's share of answers, whatever the confidence is
//! worth.

use crate::binomial::{at_most, check_certainty, upper_bound};
use crate::reliability::Scored;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// How many errors are allowed, and how sure that has to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The largest share of wrong answers among those that are given.
    pub errors: f64,
    /// The probability with which that has to hold, over the draw of the questions to test with.
    pub certainty: f64,
}

/// From which confidence on to answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// What was asked for.
    pub budget: Budget,
    /// Answers of at least this confidence, from 0 to 1, are given; none, if no threshold keeps the budget.
    pub from: Option<f64>,
    /// Of the questions to test with: how many there were, how many are answered, how many of these wrongly.
    pub tested: usize,
    /// See `tested`.
    pub answered: usize,
    /// See `tested`.
    pub wrong: usize,
    /// The share of wrong answers that these leave possible, with the certainty asked for.
    pub bound: f64,
}

/// Thresholds that are tested at most.
const STEPS: usize = 100;

impl Budget {
    /// Checks the numbers.
    pub fn new(errors: f64, certainty: f64) -> Result<Budget> {
        check_certainty(certainty)?;
        if !(errors > 0.0 && errors < 1.0) {
            return Err(Error::invalid(
                format!("an error budget of {errors}"),
                "choose a share between 0 and 1, such as 0.1",
            ));
        }
        Ok(Budget { errors, certainty })
    }

    /// The fewest answers that can show that the budget is kept: all of them right.
    pub fn fewest(&self) -> usize {
        ((1.0 - self.certainty).ln() / (-self.errors).ln_1p()).ceil() as usize
    }

    /// The share of questions that has to be declined at least, where this share of all answers is wrong:
    /// (μ − α) / (1 − α), if all that is declined was wrong.
    pub fn declined(&self, risk: f64) -> f64 {
        ((risk - self.errors) / (1.0 - self.errors)).max(0.0)
    }

    /// How many questions to test with it takes at least, where this share of all answers is wrong: among
    /// those that may be answered at best, enough to show it.
    pub fn questions(&self, risk: f64) -> Option<usize> {
        let answered = 1.0 - self.declined(risk);
        (answered > 1e-9).then(|| (self.fewest() as f64 / answered).ceil() as usize)
    }

    /// The probability that chance makes so few errors, if answers are wrong as often as the budget allows.
    fn chance(&self, wrong: usize, answered: usize) -> f64 {
        if answered == 0 { 1.0 } else { at_most(wrong, answered, self.errors) }
    }
}

impl Threshold {
    /// Chooses a threshold. `order` are answers by which thresholds are put in an order, and may have been
    /// used before; `test` are others, which must not have been used for anything.
    pub fn learn(order: &[Scored], test: &[Scored], budget: Budget) -> Result<Threshold> {
        if order.is_empty() || test.is_empty() {
            return Err(Error::invalid(
                format!("{} answers to order thresholds by, {} to test them with", order.len(), test.len()),
                "give at least one of each",
            ));
        }
        let Budget { certainty, .. } = budget;
        let count = |from: f64| {
            let answered = test.iter().filter(|(confidence, _)| *confidence >= from);
            answered.fold((0, 0), |(all, wrong), (_, right)| (all + 1, wrong + usize::from(!right)))
        };
        let mut chosen = None;
        for from in ordered(order, test.len(), &budget) {
            let (answered, wrong) = count(from);
            if budget.chance(wrong, answered) > 1.0 - certainty {
                break;
            }
            chosen = Some((from, answered, wrong));
        }
        let tested = test.len();
        let (from, answered, wrong) = match chosen {
            Some((from, answered, wrong)) => (Some(from), answered, wrong),
            None => (None, 0, 0),
        };
        let bound = upper_bound(wrong, answered, certainty)?;
        Ok(Threshold { budget, from, tested, answered, wrong, bound })
    }

    /// Whether an answer of this confidence is given.
    pub fn gives(&self, confidence: f64) -> bool {
        self.from.is_some_and(|from| confidence >= from)
    }

    /// The share of questions that were answered in the test.
    pub fn coverage(&self) -> f64 {
        self.answered as f64 / self.tested.max(1) as f64
    }
}

/// Thresholds in the order in which they are tested: from the one that looks safest by these answers down to
/// the one that answers all.
fn ordered(order: &[Scored], tests: usize, budget: &Budget) -> Vec<f64> {
    let mut sorted = order.to_vec();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let step = sorted.len().div_ceil(STEPS);
    let scale = tests as f64 / sorted.len() as f64;
    let (mut wrong, mut steps) = (0, Vec::new());
    for (at, &(confidence, right)) in sorted.iter().enumerate() {
        wrong += usize::from(!right);
        let last = at + 1 == sorted.len();
        if last || ((at + 1) % step == 0 && sorted[at + 1].0 < confidence) {
            // What the test would find, if it were like these; a half is added to errors, so that a lucky few
            // do not look safer than many.
            let answered = (scale * (at + 1) as f64).floor() as usize;
            let errors = (scale * (wrong as f64 + 0.5)).ceil() as usize;
            // The last one lets everything through, also what is less sure than all of these.
            steps.push((if last { 0.0 } else { confidence }, budget.chance(errors, answered)));
        }
    }
    let safest = (0..steps.len()).min_by(|&a, &b| steps[a].1.total_cmp(&steps[b].1)).unwrap_or(0);
    steps[safest..].iter().map(|(from, _)| *from).collect()
}
