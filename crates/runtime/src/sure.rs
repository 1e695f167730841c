//! How sure a model is of what it wrote: one pass over the question with its answer gives the probability
//! that the model gave to each token of the answer. Nothing that was written changes by it.

use crate::{Error, Result};
use regard_engine::{AsDevice, Store};
use regard_hub::forward::{Batch, forward};
use regard_models::Model;

/// What a model's own probabilities say about an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sureness {
    /// The probability of the whole answer, its end included.
    pub probability: f64,
    /// The probability of its least likely token.
    pub weakest: f64,
    /// By how much its first token is likelier than the next best.
    pub margin: f64,
    /// The entropy of its first token, in nats.
    pub entropy: f64,
    /// How many tokens it has, its end included.
    pub tokens: usize,
}

/// An answer, and how sure the model is of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answered {
    /// The answer.
    pub text: String,
    /// How sure the model is.
    pub sureness: Sureness,
}

/// Numbers of scores that are held at a time.
const MOST_SCORES: usize = 1 << 24;

/// How sure a decoder is of what follows: each row is a text, and the number of its token with which the
/// answer begins, at least 1. Rows without an answer have nothing to be sure of.
pub fn sureness(
    model: &dyn Model,
    rows: &[(usize, Vec<i32>)],
    store: &mut Store,
    device: &impl AsDevice,
) -> Result<Vec<Sureness>> {
    let Some(vocabulary) = model.as_decoder().map(|decoder| decoder.vocabulary()) else {
        let what = format!("a model of the family {} gives no probabilities of texts", model.family());
        return Err(Error::invalid(what, "give a decoder"));
    };
    let room = model.reads().context().unwrap_or(usize::MAX);
    // Only what was answered within the model's room has probabilities; the last token is read by nobody.
    let end = |ids: &[i32]| ids.len().min(room.saturating_add(1));
    let mut found = vec![Sureness::default(); rows.len()];
    let mut asked: Vec<usize> =
        (0..rows.len()).filter(|&row| rows[row].0 > 0 && rows[row].0 < end(&rows[row].1)).collect();
    asked.sort_by_key(|&row| end(&rows[row].1));
    let mut rest = asked.as_slice();
    while let Some(&first) = rest.first() {
        // Rows come in the order of their length: the last one of a batch says how wide it is.
        let scores = |count: usize| count * end(&rows[rest[count - 1]].1).max(1) * vocabulary;
        let mut count = 1;
        while count < rest.len().min(64) && scores(count + 1) <= MOST_SCORES {
            count += 1;
        }
        let (batch, others) = rest.split_at(count);
        rest = others;
        let ids = batch.iter().map(|&row| rows[row].1[..end(&rows[row].1) - 1].to_vec()).collect();
        let answers = forward(model, store, device, &Batch { ids, ..Batch::default() }, &[])?;
        let Some(logits) = answers.iter().find(|answer| answer.name == "logits") else {
            let what = format!("the pass over text {} gives no scores", first + 1);
            return Err(Error::invalid(what, "give a decoder with an output"));
        };
        let width = logits.shape[1] * vocabulary;
        for (scores, &row) in logits.numbers.chunks(width).zip(batch) {
            let (begins, ids) = &rows[row];
            found[row] = sure(scores, vocabulary, *begins, &ids[..end(ids)]);
        }
    }
    Ok(found)
}

/// How sure these scores, one row for each token but the last, are of the tokens from one on.
fn sure(scores: &[f32], vocabulary: usize, begins: usize, ids: &[i32]) -> Sureness {
    let (mut log, mut weakest) = (0.0, 1.0f64);
    for (at, &id) in ids.iter().enumerate().skip(begins) {
        let own = probabilities(&scores[(at - 1) * vocabulary..][..vocabulary]);
        let p = usize::try_from(id).ok().and_then(|id| own.get(id).copied()).unwrap_or(0.0);
        log += p.ln();
        weakest = weakest.min(p);
    }
    let first = probabilities(&scores[(begins - 1) * vocabulary..][..vocabulary]);
    let entropy = -first.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>();
    let (mut best, mut second) = (0.0f64, 0.0f64);
    for &p in &first {
        if p > best {
            (best, second) = (p, best);
        } else if p > second {
            second = p;
        }
    }
    Sureness { probability: log.exp(), weakest, margin: best - second, entropy, tokens: ids.len() - begins }
}

fn probabilities(scores: &[f32]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = scores.iter().map(|&score| f64::from(score - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_of_tokens_make_up_that_of_the_whole() {
        // Two tokens of three: 1/2, 1/4, 1/4, then 1/4, 1/4, 1/2.
        let scores = [2.0f32, 1.0, 1.0, 1.0, 1.0, 2.0].map(f32::ln);
        let found = sure(&scores, 3, 1, &[0, 0, 2]);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(near(found.probability, 0.25) && near(found.weakest, 0.5), "{found:?}");
        assert!(near(found.margin, 0.25) && near(found.entropy, 1.5 * f64::ln(2.0)), "{found:?}");
        assert_eq!(found.tokens, 2);
        assert!(near(sure(&scores, 3, 2, &[0, 0, 1]).probability, 0.25));
    }
}
