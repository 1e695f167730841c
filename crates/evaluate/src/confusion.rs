//! Which class was taken for which, and what follows from that: accuracy, precision, recall and F1 of one
//! class, and their macro and micro means. A share without a denominator is 0, as in scikit-learn.

use crate::error::paired;
use crate::{Error, Result};
use serde_json::{Value, json};
use std::fmt;

/// Counts of (answer, prediction).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confusion {
    names: Vec<String>,
    /// Row: the answer; column: the prediction.
    counts: Vec<u64>,
}

/// How well one class is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The share of those predicted that are right.
    pub precision: f64,
    /// The share of those that should be found that were.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
}

impl Score {
    /// From how many were rightly found, wrongly found, and missed.
    fn new(right: u64, wrong: u64, missed: u64) -> Score {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        Score {
            precision: share(right, right + wrong),
            recall: share(right, right + missed),
            f1: share(2 * right, 2 * right + wrong + missed),
        }
    }
}

impl Confusion {
    /// Counts predictions of classes 0, 1, … that have these names.
    pub fn new(names: &[&str], predictions: &[usize], answers: &[usize]) -> Result<Confusion> {
        paired("confusion", predictions.len(), answers.len())?;
        let classes = names.len();
        let mut counts = vec![0; classes * classes];
        for (row, (&prediction, &answer)) in predictions.iter().zip(answers).enumerate() {
            if let Some((what, class)) =
                [("prediction", prediction), ("answer", answer)].into_iter().find(|(_, c)| *c >= classes)
            {
                let what = format!("{what} {row} is class {class}, there are {classes}");
                return Err(Error::invalid("confusion", what, "count classes from 0 and name them all"));
            }
            counts[answer * classes + prediction] += 1;
        }
        Ok(Confusion { names: names.iter().map(|name| name.to_string()).collect(), counts })
    }

    /// How often this answer got this prediction; never, if there is no such class.
    pub fn count(&self, answer: usize, prediction: usize) -> u64 {
        let classes = self.names.len();
        if answer >= classes || prediction >= classes {
            return 0;
        }
        self.counts[answer * classes + prediction]
    }

    /// The share of predictions that are right; also the micro mean of precision, recall and F1.
    pub fn accuracy(&self) -> f64 {
        let classes = self.names.len();
        let right: u64 = (0..classes).map(|class| self.count(class, class)).sum();
        right as f64 / self.counts.iter().sum::<u64>() as f64
    }

    /// One class against all others: with two classes, the binary score of the class that counts as positive.
    pub fn class(&self, class: usize) -> Score {
        let classes = self.names.len();
        let right = self.count(class, class);
        let predicted: u64 = (0..classes).map(|answer| self.count(answer, class)).sum();
        let answers: u64 = (0..classes).map(|prediction| self.count(class, prediction)).sum();
        Score::new(right, predicted - right, answers - right)
    }

    /// The mean over classes that occur among answers or predictions, all of the same weight.
    pub fn macro_mean(&self) -> Score {
        let classes = self.names.len();
        let occurs = |class: &usize| (0..classes).any(|o| self.count(*class, o) + self.count(o, *class) > 0);
        let scores: Vec<Score> = (0..classes).filter(occurs).map(|class| self.class(class)).collect();
        let mean = |of: fn(&Score) -> f64| scores.iter().map(of).sum::<f64>() / scores.len() as f64;
        Score { precision: mean(|s| s.precision), recall: mean(|s| s.recall), f1: mean(|s| s.f1) }
    }

    /// The score of all decisions together. Each wrong one is one class wrongly found and another missed.
    pub fn micro_mean(&self) -> Score {
        let classes = self.names.len();
        let right: u64 = (0..classes).map(|class| self.count(class, class)).sum();
        let wrong = self.counts.iter().sum::<u64>() - right;
        Score::new(right, wrong, wrong)
    }

    /// Names, counts (rows are answers) and scores.
    pub fn json(&self) -> Value {
        let classes = self.names.len();
        let score =
            |score: Score| json!({"precision": score.precision, "recall": score.recall, "f1": score.f1});
        json!({
            "names": self.names,
            "counts": self.counts.chunks(classes).collect::<Vec<_>>(),
            "accuracy": self.accuracy(),
            "classes": (0..classes).map(|class| score(self.class(class))).collect::<Vec<_>>(),
            "macro": score(self.macro_mean()),
            "micro": score(self.micro_mean()),
        })
    }
}

/// Rows are answers, columns predictions, columns as wide as they need to be.
impl fmt::Display for Confusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes = self.names.len();
        let corner = "answer \\ predicted";
        let width = |text: &str| text.chars().count();
        let first = self.names.iter().map(|name| width(name)).chain([width(corner)]).max().unwrap_or(0);
        let columns: Vec<usize> = (0..classes)
            .map(|c| {
                let counts = (0..classes).map(|answer| self.count(answer, c).to_string().len());
                counts.chain([width(&self.names[c])]).max().unwrap_or(0)
            })
            .collect();
        write!(f, "{corner:<first$}")?;
        for (name, width) in self.names.iter().zip(&columns) {
            write!(f, "  {name:>width$}")?;
        }
        for (answer, name) in self.names.iter().enumerate() {
            write!(f, "\n{name:<first$}")?;
            for (prediction, width) in columns.iter().enumerate() {
                write!(f, "  {:>width$}", self.count(answer, prediction))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn animals() -> Confusion {
        let answers = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2];
        let predictions = [0, 0, 0, 1, 1, 2, 1, 0, 2, 1];
        Confusion::new(&["cat", "dog", "elephant"], &predictions, &answers).unwrap()
    }

    #[test]
    fn counts_and_what_follows() {
        let it = animals();
        assert_eq!(
            it.to_string(),
            "answer \\ predicted  cat  dog  elephant\n\
             cat                   3    1         0\n\
             dog                   0    2         1\n\
             elephant              1    1         1"
        );
        assert_eq!(it.accuracy(), 0.6);
        assert_eq!(it.class(0), Score { precision: 0.75, recall: 0.75, f1: 0.75 });
        assert_eq!(it.class(1), Score { precision: 0.5, recall: 2.0 / 3.0, f1: 4.0 / 7.0 });
        assert_eq!(it.class(2), Score { precision: 0.5, recall: 1.0 / 3.0, f1: 0.4 });
        let mean = it.macro_mean();
        assert!((mean.f1 - (0.75 + 4.0 / 7.0 + 0.4) / 3.0).abs() < 1e-15, "{mean:?}");
        assert!((mean.precision - 1.75 / 3.0).abs() < 1e-15 && (mean.recall - 1.75 / 3.0).abs() < 1e-15);
        assert_eq!(it.micro_mean(), Score { precision: 0.6, recall: 0.6, f1: 0.6 });
        assert_eq!(it.json()["counts"], json!([[3, 1, 0], [0, 2, 1], [1, 1, 1]]));
        assert_eq!(it.json()["classes"][0]["f1"], json!(0.75));
    }

    #[test]
    fn what_is_never_found_scores_nothing() {
        let it = Confusion::new(&["no", "yes", "maybe"], &[0, 0], &[0, 1]).unwrap();
        assert_eq!(it.class(1), Score { precision: 0.0, recall: 0.0, f1: 0.0 });
        // `maybe` occurs nowhere and has no say.
        assert_eq!(it.macro_mean().recall, 0.5);
    }

    #[test]
    fn unknown_classes_are_refused() {
        let both = Confusion::new(&["a", "b"], &[0, 1], &[0, 1]).unwrap();
        assert_eq!([both.count(0, 0), both.count(0, 2), both.count(usize::MAX, 1)], [1, 0, 0]);
        assert_eq!(
            Confusion::new(&["a", "b"], &[0, 2], &[0, 1]).unwrap_err().to_string(),
            "confusion: prediction 1 is class 2, there are 2; count classes from 0 and name them all"
        );
        assert_eq!(
            Confusion::new(&["a"], &[], &[]).unwrap_err().to_string(),
            "confusion: there are no predictions; give at least one"
        );
    }
}
