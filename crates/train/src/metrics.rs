//! `metrics.jsonl`: a line for every step and every evaluation, each written at once. A resumed run first
//! cuts the file back to its checkpoint, so that every step stands in it exactly once; a line that a killed
//! process left half written goes with the rest.

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

/// A line of the file.
enum Record {
    Step(StepRecord),
    Evaluation(EvaluationRecord),
}

impl History {
    /// Reads a `metrics.jsonl`. A last line that is not whole is left out; any other is an error.
    pub fn read(path: &Path) -> Result<History> {
        let mut history = History::default();
        for (_, record) in lines_of(path, &read_bytes(path)?)? {
            history.take(record);
        }
        Ok(history)
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Step(record) => self.steps.push(record),
            Record::Evaluation(record) => self.evaluations.push(record),
        }
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    match fs::read(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        result => result.map_err(|e| Error::io("read", path, e)),
    }
}

/// The whole lines of a file, each with what it says.
fn lines_of<'a>(path: &Path, bytes: &'a [u8]) -> Result<Vec<(&'a [u8], Record)>> {
    let whole = bytes.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let parsed = whole.enumerate().map(|(index, line)| {
        let record = serde_json::from_slice::<Value>(line).ok().and_then(|value| record_of(&value));
        record.map(|record| (line, record)).ok_or_else(|| {
            let what = format!("line {} is no record of a step or an evaluation", index + 1);
            Error::folder(path, what, "put the line right or remove it")
        })
    });
    parsed.collect()
}

fn record_of(value: &Value) -> Option<Record> {
    let whole = |name: &str| value.get(name).and_then(Value::as_u64);
    let number = |name: &str| value.get(name).and_then(Value::as_f64);
    let (step, epoch) = (whole("step")?, whole("epoch")?);
    if let Some(metrics) = value.get("evaluation") {
        let metrics = metrics.as_object()?.iter();
        let metrics = metrics.map(|(name, x)| (name.clone(), x.as_f64().unwrap_or(f64::NAN)));
        let metrics = in_order(metrics.collect());
        let best = value.get("best")?.as_bool()?;
        return Some(Record::Evaluation(EvaluationRecord { step, epoch, metrics, best }));
    }
    Some(Record::Step(StepRecord {
        step,
        epoch,
        loss: number("loss")?,
        mean_loss: number("mean_loss"),
        rate: number("learning_rate")?,
        gradient_norm: number("gradient_norm")?,
        tokens: whole("tokens")?,
        tokens_per_second: number("tokens_per_second")?,
        memory: whole("memory"),
    }))
}

/// The order of metrics, which JSON does not keep: the loss first, then by name.
pub(crate) fn in_order(mut metrics: Vec<(String, f64)>) -> Vec<(String, f64)> {
    metrics.sort_by(|(a, _), (b, _)| (a != "loss", a).cmp(&(b != "loss", b)));
    metrics
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
        let bytes = read_bytes(path)?;
        let (mut history, mut kept) = (History::default(), Vec::new());
        for (line, record) in lines_of(path, &bytes)? {
            let before = match &record {
                Record::Step(record) => record.step <= state.step,
                Record::Evaluation(record) => record.step <= state.evaluated,
            };
            if before {
                // The line itself: writing a float again after reading it could change its last digit.
                kept.extend_from_slice(line);
                history.take(record);
            }
        }
        whole::write(path, |file| file.write_all(&kept))?;
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
    if let Some(mean) = record.mean_loss {
        line["mean_loss"] = mean.into();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64) -> StepRecord {
        StepRecord {
            step,
            epoch: 0,
            loss: 0.1 + 0.2,
            mean_loss: (step == 2).then_some(0.7 / 3.0),
            rate: 1e-3,
            gradient_norm: 2.0,
            tokens: 12 * step,
            tokens_per_second: 1e6 / 3.0,
            memory: Some(1 << 20),
        }
    }

    fn evaluation(step: u64) -> EvaluationRecord {
        let metrics = [("zest", 1.0), ("loss", 0.5), ("area", 2.0)].map(|(name, x)| (name.to_string(), x));
        EvaluationRecord { step, epoch: 0, metrics: in_order(metrics.to_vec()), best: step == 2 }
    }

    #[test]
    fn a_resumed_run_cuts_back_to_its_checkpoint() {
        let path = std::env::temp_dir().join(format!("regard-metrics-{}", std::process::id()));
        fs::remove_file(&path).ok();
        let mut metrics = Metrics::open(&path, &State::default()).unwrap();
        for number in 1..=4 {
            metrics.step(step(number)).unwrap();
            metrics.evaluation(evaluation(number)).unwrap();
        }
        metrics.settle().unwrap();
        let whole = fs::read(&path).unwrap();
        assert_eq!(History::read(&path).unwrap(), metrics.history);
        // A line that a killed process left half written.
        fs::write(&path, [&whole[..], b"{\"step\":5,\"ep"].concat()).unwrap();
        assert_eq!(History::read(&path).unwrap(), metrics.history);
        let state = State { step: 3, evaluated: 2, ..State::default() };
        let mut metrics = Metrics::open(&path, &state).unwrap();
        assert_eq!(metrics.history.steps.last().unwrap().step, 3);
        assert_eq!(metrics.history.evaluations, [evaluation(1), evaluation(2)]);
        metrics.evaluation(evaluation(3)).unwrap();
        metrics.step(step(4)).unwrap();
        metrics.evaluation(evaluation(4)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole, "every line once, to the byte");
        fs::write(&path, b"{\"step\":1}\n{}\n").unwrap();
        let text = History::read(&path).unwrap_err().to_string();
        assert!(
            text.ends_with("line 1 is no record of a step or an evaluation; put the line right or remove it")
        );
        fs::remove_file(&path).unwrap();
    }
}
