//! What a job came to: the examination of the best weights, as JSON and as a part of the report.

use super::Baseline;
use regard_picture::{Table, escaped};
use regard_train::Section;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The examination at the end.
#[derive(Clone, Debug, Default)]
pub struct JobResult {
    /// What was examined with, in words; empty if there was nothing.
    pub examined: String,
    /// Metrics by name.
    pub metrics: Vec<(String, f64)>,
    /// Simple methods on the same data.
    pub baselines: Vec<Baseline>,
    /// The step whose weights were examined and exported.
    pub step: u64,
    /// The exported model.
    pub model: PathBuf,
    /// Which class was taken for which, as a table.
    pub confusion: Option<String>,
    /// How translations were scored.
    pub signature: Option<String>,
    /// Where the answers to questions without known answers are.
    pub predictions: Option<PathBuf>,
}

impl JobResult {
    /// As one JSON object.
    pub fn json(&self) -> Value {
        let baselines: Vec<Value> = self
            .baselines
            .iter()
            .map(|one| json!({ "name": one.name, "metric": one.metric, "value": one.value }))
            .collect();
        let metrics: serde_json::Map<String, Value> =
            self.metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({ "examined": self.examined, "step": self.step, "metrics": metrics, "baselines": baselines,
            "signature": self.signature, "predictions": self.predictions.as_ref().map(|path| path.display().to_string()) })
    }
}

impl JobResult {
    /// As a part of the report.
    pub(super) fn section(&self) -> Section {
        let examined = if self.examined.is_empty() { "nothing" } else { &self.examined };
        let mut table = Table::default();
        for (name, value) in &self.metrics {
            table = table.row([name.clone(), format!("{value:.4}")]);
        }
        for Baseline { name, metric, value } in &self.baselines {
            table = table.row([format!("{metric} of a baseline: {name}"), format!("{value:.4}")]);
        }
        let lead = format!("<p>The weights of step {}, examined with {}.</p>", self.step, escaped(examined));
        Section { title: "The examination at the end".into(), html: lead + &table.html(escaped) }
    }
}
