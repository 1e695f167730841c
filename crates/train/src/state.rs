//! Where a run is: what must survive beside parameters and moments for a resumed run to be the same run. It
//! is a small JSON object in the checkpoint's metadata. Floats are written as text by Rust's own shortest
//! form, which reads back to the same bits.

use crate::{Error, Result};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Where a run is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Steps made.
    pub step: u64,
    /// Epochs completed.
    pub epoch: u64,
    /// The next batch of this epoch.
    pub batch: usize,
    /// Tokens seen, padding included.
    pub tokens: u64,
    /// The step after which the last evaluation was made.
    pub evaluated: u64,
    /// The best value of the goal's metric so far.
    pub best: Option<f64>,
    /// The step of the best value.
    pub best_step: u64,
    /// Evaluations since the best one.
    pub waited: u64,
    /// The lowest loss of a step so far.
    pub lowest: Option<f64>,
    /// Steps in a row with a loss far above the lowest.
    pub lost: u64,
    /// The step of the last line of metrics, where losses are summed up between lines.
    pub line: u64,
}

impl State {
    pub(crate) fn json(&self) -> Map<String, Value> {
        let number = |x: Option<f64>| x.map_or(Value::Null, |x| Value::String(x.to_string()));
        let value = json!({
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "tokens": self.tokens,
            "evaluated": self.evaluated,
            "best": number(self.best),
            "best_step": self.best_step,
            "waited": self.waited,
            "lowest": number(self.lowest),
            "lost": self.lost,
        });
        match value {
            Value::Object(mut map) => {
                if self.line > 0 {
                    map.insert("line".into(), self.line.into());
                }
                map
            }
            _ => unreachable!("`json!` with braces makes an object"),
        }
    }

    pub(crate) fn read(path: &Path, map: &Map<String, Value>) -> Result<State> {
        let wrong = |name: &str| {
            let what = format!("the trainer's state has no proper `{name}`");
            Error::folder(path, what, "it was not written by a training run of this version")
        };
        let whole = |name: &str| map.get(name).and_then(Value::as_u64).ok_or_else(|| wrong(name));
        let number = |name: &str| match map.get(name) {
            Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => text.parse::<f64>().map(Some).map_err(|_| wrong(name)),
            _ => Err(wrong(name)),
        };
        Ok(State {
            step: whole("step")?,
            epoch: whole("epoch")?,
            batch: usize::try_from(whole("batch")?).map_err(|_| wrong("batch"))?,
            tokens: whole("tokens")?,
            evaluated: whole("evaluated")?,
            best: number("best")?,
            best_step: whole("best_step")?,
            waited: whole("waited")?,
            lowest: number("lowest")?,
            lost: whole("lost")?,
            line: if map.contains_key("line") { whole("line")? } else { 0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_to_the_same_bits() {
        let state = State {
            step: 7,
            epoch: 1,
            batch: 3,
            tokens: u64::from(u32::MAX) + 5,
            evaluated: 6,
            best: Some(0.1 + 0.2),
            best_step: 4,
            waited: 2,
            lowest: Some(f64::from(0.1_f32)),
            lost: 9,
            line: 5,
        };
        let text = Value::Object(state.json()).to_string();
        let map: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(State::read(Path::new("x"), &map).unwrap(), state);
        let empty = State::default();
        assert_eq!(State::read(Path::new("x"), &empty.json()).unwrap(), empty);
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut map = State::default().json();
        map.remove("waited");
        let text = State::read(Path::new("last"), &map).unwrap_err().to_string();
        assert!(
            text.starts_with("last: the trainer's state has no proper `waited`; it was not written by"),
            "{text}"
        );
        map.insert("best".into(), Value::String("good".into()));
        let text = State::read(Path::new("last"), &map).unwrap_err().to_string();
        assert!(text.contains("no proper `best`"), "{text}");
    }
}
