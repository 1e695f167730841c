//! What leaving heads out, or letting them say what they said in another text, does to an answer.

use super::input::Input;
use super::written::visible;
use anyhow::Result;
use regard::prelude::*;
use regard_models::{Labels, Model};
use serde_json::{Value, json};
use std::io::Write;

/// What a change of heads does to an answer.
pub struct Change {
    /// Whether no bit is another.
    same: bool,
    /// Kullback–Leibler divergence from the answer before, in nats: mean, and at the last position; of scores
    /// only.
    divergence: Option<(f64, f64)>,
    /// The mean loss of the next token, before and after; of decoders only.
    loss: Option<(f64, f64)>,
    /// The cosine of the answers, where they are no scores.
    cosine: f64,
    /// The likeliest tokens at the last position, before and after.
    top: Option<[Vec<(String, f64)>; 2]>,
}

impl Change {
    /// Compares two answers to the same input.
    pub fn new(before: &Array, after: &Array, input: &Input, model: &dyn Model) -> Result<Change> {
        let same = before == after;
        let width = before.dims().last().copied().unwrap_or(1).max(1);
        let rows = |array: &Array| array.data().chunks(width).map(<[f64]>::to_vec).collect::<Vec<_>>();
        let (a, b) = (rows(before), rows(after));
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let (x, y) = (before.data(), after.data());
        let cosine = dot(x, y) / (dot(x, x) * dot(y, y)).sqrt().max(f64::MIN_POSITIVE);
        let Some(task) = model.task() else {
            return Ok(Change { same, divergence: None, loss: None, cosine, top: None });
        };
        let (a, b): (Vec<_>, Vec<_>) =
            (a.iter().map(|row| log_softmax(row)).collect(), b.iter().map(|row| log_softmax(row)).collect());
        let each: Vec<f64> = a
            .iter()
            .zip(&b)
            .map(|(p, q)| p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>().max(0.0))
            .collect();
        let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
        // What is written stands beside what is read, where there are two streams.
        let written = usize::from(model.reads().source.is_some());
        let next = match task.labels {
            Labels::Next => input.ids[written].get(1..).unwrap_or_default(),
            Labels::Position | Labels::Example => &[],
        };
        let loss = |rows: &[Vec<f64>]| {
            let sum: f64 = next.iter().zip(rows).map(|(&id, row)| -row[id as usize]).sum();
            sum / next.len().max(1) as f64
        };
        let named = |id: usize| {
            let token = input.writer.as_ref().and_then(|own| own.token_of(id as u32));
            token
                .filter(|_| width > 16 || input.writer.is_some())
                .map_or(id.to_string(), |token| token.replace(['Ġ', '▁'], " "))
        };
        let top = |rows: &[Vec<f64>]| {
            let last = rows.last().cloned().unwrap_or_default();
            let mut all: Vec<(usize, f64)> = last.into_iter().enumerate().collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(5);
            all.into_iter().map(|(id, p)| (named(id), p.exp())).collect::<Vec<_>>()
        };
        Ok(Change {
            same,
            divergence: Some((mean, each.last().copied().unwrap_or(0.0))),
            loss: (!next.is_empty()).then(|| (loss(&a), loss(&b))),
            cosine,
            top: Some([top(&a), top(&b)]),
        })
    }

    /// As JSON; `same` says whether no bit changed.
    pub fn json(&self, heads: &[String]) -> Value {
        json!({
            "heads": heads, "same": self.same, "cosine": self.cosine,
            "divergence": self.divergence.map(|(mean, last)| json!({ "mean": mean, "last": last })),
            "loss": self.loss.map(|(before, after)| json!({ "before": before, "after": after })),
            "top": self.top.as_ref().map(|[before, after]| json!({ "before": before, "after": after })),
        })
    }

    /// As text under a title.
    pub fn write(&self, out: &mut impl Write, title: &str) -> Result<()> {
        writeln!(out, "\n{title}")?;
        if self.same {
            writeln!(out, "  no bit of the answer changes")?;
        }
        if let Some((mean, last)) = self.divergence {
            writeln!(out, "  divergence {mean:.4} nats in the mean, {last:.4} at the last position")?;
        }
        if let Some((before, after)) = self.loss {
            writeln!(
                out,
                "  loss of the next token {before:.4} before, {after:.4} after ({:+.4})",
                after - before
            )?;
        }
        match &self.top {
            None => writeln!(out, "  cosine of the answers {:.6}", self.cosine)?,
            Some([before, after]) => {
                writeln!(out, "  likeliest at the last position")?;
                for ((a, p), (b, q)) in before.iter().zip(after) {
                    writeln!(out, "    {:<24} {p:.4}    {:<24} {q:.4}", visible(a), visible(b))?;
                }
            }
        }
        Ok(())
    }
}

fn log_softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = row.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
    row.iter().map(|x| x - most - sum).collect()
}
