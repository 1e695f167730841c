//! The scores of the classes of texts or images, by a model whose task labels whole examples.

use crate::{Error, Result};
use regard_data::{Batch, Source};
use regard_engine::{AsDevice, Program, Store};
use regard_graph::{Graph, Precision};
use regard_models::model::{Labels, output};
use regard_models::{Model, Sizes};
use serde_json::Value;

/// A model that is ready to tell classes. It reads the parameters that are in the store when it runs.
pub struct Classifier {
    program: Program,
    classes: usize,
}

impl Classifier {
    /// Plans the program for batches of at most this many examples of at most this many tokens.
    pub fn new(
        model: &dyn Model,
        batch: usize,
        tokens: usize,
        precision: Precision,
        store: &mut Store,
        device: &impl AsDevice,
    ) -> Result<Classifier> {
        let mut g = Graph::inference();
        g.set_precision(precision);
        let sizes = Sizes { batch: batch.max(1), ids: tokens.max(1), ..Sizes::default() };
        let task = model.task().filter(|task| task.labels == Labels::Example);
        let Some(task) = task else {
            return Err(Error::invalid(
                format!("a model of the family {} has no classes", model.family()),
                "give a classifier of text or of images",
            ));
        };
        let inputs = model.reads().declare_open(&mut g, sizes)?;
        let outputs = model.pass(&mut g, &inputs)?;
        let Some(scores) = output(&outputs, "logits") else {
            return Err(Error::invalid(
                format!("a model of the family {} has a task and no scores for it", model.family()),
                "let its pass name them `logits`",
            ));
        };
        g.output("scores", scores)?;
        Ok(Classifier { program: Program::new(g, &[], store, device)?, classes: task.choices })
    }

    /// The scores of each example of a batch.
    pub fn scores(&mut self, batch: &Batch, store: &mut Store) -> Result<Vec<Vec<f32>>> {
        regard_train::feed(&mut self.program, batch, &[])?;
        self.program.run(store)?;
        let scores = self.program.f32("scores")?;
        Ok(scores.chunks(self.classes.max(1)).take(batch.examples as usize).map(<[f32]>::to_vec).collect())
    }

    /// The scores of each example of a source's first epoch, in its order.
    pub fn all(&mut self, source: &dyn Source, store: &mut Store) -> Result<Vec<Vec<f32>>> {
        let mut all = Vec::new();
        for index in 0..source.batches(0) {
            all.extend(self.scores(&source.batch(0, index)?, store)?);
        }
        Ok(all)
    }
}

/// What the scores of a classifier mean: `problem_type` of `config.json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Problem {
    /// One class is right: probabilities add up to 1.
    #[default]
    OneOf,
    /// Any number of classes is right, also none: each has a probability of its own.
    AnyOf,
    /// They are values, and no classes at all.
    Values,
}

impl Problem {
    /// As a config names it. Where it says nothing, one class is right; a single score is a value, as
    /// transformers has it.
    pub(crate) fn of(config: &Value, classes: Option<usize>) -> Result<Problem> {
        match &config["problem_type"] {
            Value::Null if classes == Some(1) => Ok(Problem::Values),
            Value::Null => Ok(Problem::OneOf),
            Value::String(name) if name == "single_label_classification" => Ok(Problem::OneOf),
            Value::String(name) if name == "multi_label_classification" => Ok(Problem::AnyOf),
            Value::String(name) if name == "regression" => Ok(Problem::Values),
            other => Err(Error::invalid(
                format!("`problem_type` of config.json is {other}"),
                "it should be single_label_classification, multi_label_classification or regression, or not be there",
            )),
        }
    }

    /// The probability of each class; none of values.
    pub(crate) fn probabilities(self, scores: &[f32]) -> Vec<f64> {
        match self {
            Problem::Values => Vec::new(),
            Problem::OneOf => probabilities(scores),
            Problem::AnyOf => scores.iter().map(|&score| 1.0 / (1.0 + (-f64::from(score)).exp())).collect(),
        }
    }
}

/// Probabilities of scores of which one is right.
pub fn probabilities(scores: &[f32]) -> Vec<f64> {
    let most = scores.iter().fold(f64::NEG_INFINITY, |most, &score| most.max(f64::from(score)));
    let parts: Vec<f64> = scores.iter().map(|&score| (f64::from(score) - most).exp()).collect();
    let sum: f64 = parts.iter().sum();
    parts.into_iter().map(|part| part / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_classes_can_be_right() {
        let problem =
            Problem::of(&serde_json::json!({"problem_type": "multi_label_classification"}), Some(1)).unwrap();
        // 1 / (1 + e^-x), by hand.
        let expected = [0.5, 0.880_797_077_977_882_3, 0.119_202_922_022_117_66, 1.0, 0.0];
        let found = problem.probabilities(&[0.0, 2.0, -2.0, 1000.0, f32::NEG_INFINITY]);
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-15), "{found:?}");
        assert_eq!(Problem::of(&serde_json::json!({}), Some(2)).unwrap(), Problem::OneOf);
        assert_eq!(Problem::of(&serde_json::json!({}), Some(1)).unwrap(), Problem::Values);
        assert!(Problem::Values.probabilities(&[0.5]).is_empty());
        let text =
            Problem::of(&serde_json::json!({"problem_type": "many"}), Some(2)).unwrap_err().to_string();
        assert_eq!(
            text,
            "`problem_type` of config.json is \"many\"; it should be single_label_classification, \
             multi_label_classification or regression, or not be there"
        );
    }

    #[test]
    fn probabilities_add_up() {
        let even = probabilities(&[3.0, 3.0]);
        assert_eq!(even, [0.5, 0.5]);
        let sure = probabilities(&[1000.0, 0.0, f32::NEG_INFINITY]);
        assert_eq!(sure, [1.0, 0.0, 0.0]);
        assert!((probabilities(&[0.3, -2.0, 1.1]).iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
