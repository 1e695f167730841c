//! `metrics.jsonl`: a line for every step and every evaluation, each written at once. A resumed run first cuts the file
//! back to its checkpoint, so that every step stands in it exactly once; a line that a killed process left half
//! written goes with the rest.

use crate::{Error, EvaluationRecord, Result, State, StepRecord};
use regard_data::whole;
use serde_json::{Map, Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Every step and evaluation of a run, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The steps of which a line was written.
    pub steps: Vec<StepRecord>,
    /// The evaluations.
    pub evaluations: Vec<EvaluationRecord>,
}

impl History {
    /// Reads a `metrics.jsonl`. A last line that is not whole is left out; any other is an error.
    pub fn read(path: &Path) -> Result<History> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(History::default()),
            Err(e) => return Err(Error::io("read", path, e)),
        };
        let mut history = History::default();
        let mut lines = bytes.split_inclusive(|&byte| byte == b'\n').enumerate().peekable();
        while let Some((index, line)) = lines.next() {
            let is_whole = line.ends_with(b"\n");
            let value = serde_json::from_slice::<Value>(line).ok().filter(|_| is_whole);
            if history.take(value).is_none() {
                if lines.peek().is_none() && !is_whole {
                    break;
                }
                let what = format!("line {} is no record of a step or an evaluation", index + 1);
                return Err(Error::folder(path, what, "put the line right or remove it"));
            }
        }
        Ok(history)
    }

    fn take(&mut self, value: Option<Value>) -> Option<()> {
        let value = value?;
        let whole = |name: &str| value.get(name).and_then(Value::as_u64);
        let number = |name: &str| value.get(name).and_then(Value::as_f64);
        let (step, epoch) = (whole("step")?, whole("epoch")?);
        if let Some(metrics) = value.get("evaluation") {
            let metrics = metrics.as_object()?.iter();
            let metrics = metrics.map(|(name, x)| (name.clone(), x.as_f64().unwrap_or(f64::NAN))).collect();
            let best = value.get("best")?.as_bool()?;
            self.evaluations.push(EvaluationRecord { step, epoch, metrics, best });
        } else {
            self.steps.push(StepRecord {
                step,
                epoch,
                loss: number("loss")?,
                rate: number("learning_rate")?,
                gradient_norm: number("gradient_norm")?,
                tokens: whole("tokens")?,
                tokens_per_second: number("tokens_per_second")?,
                memory: whole("memory"),
            });
        }
        Some(())
    }

    /// Only what happened before a checkpoint was written.
    fn cut(&mut self, state: &State) {
        self.steps.retain(|record| record.step <= state.step);
        self.evaluations.retain(|record| record.step <= state.evaluated);
    }
}

/// The open file of a run, and what stands in it.
pub(crate) struct Metrics {
    path: PathBuf,
    file: File,
    pub history: History,
}

impl Metrics {
    /// Opens the file as it was at a state.
    pub fn open(path: &Path, state: &State) -> Result<Metrics> {
        let mut history = History::read(path)?;
        history.cut(state);
        whole::write(path, |file| file.write_all(text(&history).as_bytes()))?;
        let file = OpenOptions::new().append(true).open(path).map_err(|e| Error::io("write", path, e))?;
        Ok(Metrics { path: path.into(), file, history })
    }

    pub fn step(&mut self, record: StepRecord) -> Result<()> {
        self.append(&step_line(&record))?;
        self.history.steps.push(record);
        Ok(())
    }

    pub fn evaluation(&mut self, record: EvaluationRecord) -> Result<()> {
        self.append(&evaluation_line(&record))?;
        self.history.evaluations.push(record);
        Ok(())
    }

    /// Waits until the lines are on the disk: before a checkpoint says that they are.
    pub fn settle(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io("write", &self.path, e))
    }

    fn append(&mut self, line: &str) -> Result<()> {
        self.file.write_all(line.as_bytes()).map_err(|e| Error::io("write", &self.path, e))
    }
}

/// The whole file, in the order of steps.
fn text(history: &History) -> String {
    let mut out = String::new();
    let mut evaluations = history.evaluations.iter().peekable();
    for record in &history.steps {
        while let Some(evaluation) = evaluations.next_if(|evaluation| evaluation.step < record.step) {
            out.push_str(&evaluation_line(evaluation));
        }
        out.push_str(&step_line(record));
    }
    evaluations.for_each(|evaluation| out.push_str(&evaluation_line(evaluation)));
    out
}

fn step_line(record: &StepRecord) -> String {
    let mut line = json!({
        "step": record.step,
        "epoch": record.epoch,
        "loss": record.loss,
        "learning_rate": record.rate,
        "gradient_norm": record.gradient_norm,
        "tokens": record.tokens,
        "tokens_per_second": record.tokens_per_second,
    });
    if let Some(memory) = record.memory {
        line["memory"] = memory.into();
    }
    format!("{line}\n")
}

fn evaluation_line(record: &EvaluationRecord) -> String {
    // What is not finite has no JSON: it becomes null, and reads back as no number.
    let metrics: Map<String, Value> =
        record.metrics.iter().map(|(name, number)| (name.clone(), (*number).into())).collect();
    let line =
        json!({ "step": record.step, "epoch": record.epoch, "evaluation": metrics, "best": record.best });
    format!("{line}\n")
}
