//! Beam search: for each prompt the `width` likeliest continuations go on together, and of those that end the
//! best by log probability / lengthᵃ are kept. The rules are those of `generate(num_beams=…)` in
//! transformers: of the best 2·width continuations (more with several stop tokens) those among the first
//! `width` that end are candidates for the answer, and the first `width` that do not end go on. An example's
//! search depends on nothing else in the batch. It ends where the model's positions do ([`Ended::Context`]):
//! scores of texts of which a part was forgotten would not compare.

use crate::generator::{Ended, Generator};
use crate::rules::{Next, Rules, SoFar};
use crate::{Error, Result};
use regard_engine::Store;
use std::cmp::Ordering;

/// What is to be continued by a search, and how.
#[derive(Clone, Copy, Debug)]
pub struct Beams<'a> {
    /// The beginnings, each of at least one id.
    pub prompts: &'a [Vec<i32>],
    /// How many continuations go on together; 1 is greedy.
    pub width: usize,
    /// a: scores are log probabilities divided by lengthᵃ. 0 has none, more favours longer continuations.
    pub length_penalty: f64,
    /// The most new tokens for each.
    pub most: usize,
    /// Tokens that end a continuation; they count in its length and its score, but are not part of it.
    pub stop: &'a [i32],
    /// When a search ends.
    pub early: Early,
}

/// When the search for a prompt ends, once `width` continuations have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Early {
    /// At once: `early_stopping=True`.
    AtOnce,
    /// When the best that goes on, as it is, would not be kept: `early_stopping=False`.
    #[default]
    Unlikely,
    /// When none that goes on can be kept, however it ends: `early_stopping="never"`.
    Hopeless,
}

/// One continuation.
#[derive(Clone, Debug, PartialEq)]
pub struct Beam {
    /// The new tokens.
    pub ids: Vec<i32>,
    /// log_probability / lengthᵃ; the stop token is part of the length.
    pub score: f64,
    /// Of all its tokens together, its stop token among them.
    pub log_probability: f64,
    /// Why it ended.
    pub ended: Ended,
}

impl<'a> Beams<'a> {
    /// A search of this width, with length penalty 1 and without a stop.
    pub fn new(prompts: &'a [Vec<i32>], width: usize, most: usize) -> Self {
        Beams { prompts, width, length_penalty: 1.0, most, stop: &[], early: Early::Unlikely }
    }

    /// Refuses nonsense.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String, advice: &str| Err(Error::Beams { what, advice: advice.into() });
        if self.width == 0 {
            return wrong("the width is 0".into(), "1 is greedy, 4 or 5 are usual");
        }
        if !self.length_penalty.is_finite() {
            let what = format!("the length penalty is {}", self.length_penalty);
            return wrong(what, "choose 0 for none, 1 for the mean over tokens");
        }
        Ok(())
    }
}

impl Generator {
    /// Searches for the best continuations of each prompt: at most `width` of them, the best first.
    pub fn search(&mut self, beams: &Beams<'_>, store: &mut Store) -> Result<Vec<Vec<Beam>>> {
        beams.check()?;
        let width = beams.width;
        if width > self.settings.beams {
            let what = format!("a width of {width}, planned were {}", self.settings.beams);
            return Err(Error::Beams { what, advice: "set `beams` of the settings".into() });
        }
        self.check_prompts(beams.prompts)?;
        let mut searches: Vec<Search> =
            beams.prompts.iter().map(|prompt| self.begin(beams, prompt)).collect();
        if beams.most == 0 {
            return Ok(searches.into_iter().map(|search| search.finished).collect());
        }
        // Beam k of prompt p has row p·width + k. The prompt runs in the first of them, and all begin from
        // there.
        let mut prompts: Vec<&[i32]> = vec![&[]; beams.prompts.len() * width];
        for (prompt, own) in beams.prompts.iter().zip(prompts.chunks_mut(width)) {
            own[0] = prompt;
        }
        self.steps.begin(&prompts, &|row| row / width, store)?;
        let mut parents: Vec<usize> = (0..self.steps.rows()).map(|row| row / width * width).collect();
        self.steps.follow(&parents);
        loop {
            for (example, search) in searches.iter_mut().enumerate().filter(|(_, search)| !search.done) {
                let first = example * width;
                let mut scores = Vec::new();
                for beam in 0..search.running.len() {
                    scores.push(self.steps.scores(first + beam)?);
                }
                let scores: Vec<&[f32]> = scores.iter().map(|scores| &**scores).collect();
                if !search.advance(&scores) {
                    let length = search.began.len() + search.length;
                    return Err(Error::Scores { row: example, length });
                }
                for (beam, parent) in parents[first..first + width].iter_mut().enumerate() {
                    *parent = first + search.running(beam).map_or(0, |running| running.parent);
                }
            }
            if searches.iter().all(|search| search.done) {
                return Ok(searches.into_iter().map(|search| search.finished).collect());
            }
            self.steps.follow(&parents);
            let going = |row: usize| searches.get(row / width).filter(|search| !search.done);
            let newest = |row: usize| going(row)?.running(row % width)?.ids.last().copied();
            self.steps.go_on(&newest, store)?;
        }
    }

    fn begin(&self, beams: &Beams<'_>, prompt: &[i32]) -> Search {
        let room = self.steps.limit().map_or(usize::MAX, |limit| limit - prompt.len() + 1);
        Search {
            width: beams.width,
            penalty: beams.length_penalty,
            most: beams.most.min(room),
            at_most: if room < beams.most { Ended::Context } else { Ended::Most },
            stop: beams.stop.to_vec(),
            early: beams.early,
            rules: self.rules.clone(),
            began: prompt.to_vec(),
            length: 0,
            running: vec![Running { ids: Vec::new(), log_probability: 0.0, parent: 0 }],
            finished: Vec::new(),
            done: beams.most == 0,
        }
    }
}

/// A continuation that goes on.
#[derive(Clone, Debug)]
struct Running {
    ids: Vec<i32>,
    log_probability: f64,
    /// Which of those before it continues.
    parent: usize,
}

/// The search for one prompt.
#[derive(Clone, Debug)]
struct Search {
    width: usize,
    penalty: f64,
    most: usize,
    /// Why those end that reach `most`.
    at_most: Ended,
    stop: Vec<i32>,
    early: Early,
    rules: Rules,
    /// The prompt, and how many tokens are new.
    began: Vec<i32>,
    length: usize,
    /// The best first.
    running: Vec<Running>,
    /// The best first.
    finished: Vec<Beam>,
    done: bool,
}

impl Search {
    /// The one that a beam's row computes. There may be fewer than rows; the rest repeat the first.
    fn running(&self, beam: usize) -> Option<&Running> {
        self.running.get(beam).or(self.running.first())
    }

    /// One step, from the scores of each running beam's next token. False if they are no numbers.
    fn advance(&mut self, scores: &[&[f32]]) -> bool {
        let Some(candidates) = self.candidates(scores) else {
            return false;
        };
        self.length += 1;
        let mut next = Vec::new();
        for (rank, &(log_probability, parent, id)) in candidates.iter().enumerate() {
            let stops = self.stop.contains(&id);
            if !stops && self.length < self.most {
                if next.len() < self.width {
                    let mut ids = self.running[parent].ids.clone();
                    ids.push(id);
                    next.push(Running { ids, log_probability, parent });
                }
            } else if rank < self.width {
                let mut ids = self.running[parent].ids.clone();
                let ended = if stops { Ended::Stop(id) } else { self.at_most };
                ids.extend((!stops).then_some(id));
                let score = self.score(log_probability, self.length);
                self.finished.push(Beam { ids, score, log_probability, ended });
            }
        }
        self.finished.sort_by(|a, b| descending(a.score, b.score));
        self.finished.truncate(self.width);
        self.running = next;
        self.done = self.is_done();
        true
    }

    fn score(&self, log_probability: f64, length: usize) -> f64 {
        log_probability / (length as f64).powf(self.penalty)
    }

    fn is_done(&self) -> bool {
        let Some(best) = self.running.first() else {
            return true;
        };
        let Some(worst) = self.finished.last().filter(|_| self.finished.len() == self.width) else {
            return false;
        };
        let length = match self.early {
            // Greedy ends where it ends.
            _ if self.width == 1 => return true,
            Early::AtOnce => return true,
            Early::Hopeless if self.penalty > 0.0 => self.most,
            _ => self.length,
        };
        self.score(best.log_probability, length) <= worst.score
    }

    /// The best continuations: log probability, which beam they continue, by which token. The best first, the
    /// first beam and the lowest id among equals. None if a score is not a number, or none is finite.
    fn candidates(&self, scores: &[&[f32]]) -> Option<Vec<(f64, usize, i32)>> {
        let kept = (self.stop.len() + 1).max(2).saturating_mul(self.width);
        let mut all = Vec::new();
        let best_first = |a: &(f64, usize, i32), b: &(f64, usize, i32)| {
            descending(a.0, b.0).then((a.1, a.2).cmp(&(b.1, b.2)))
        };
        for (parent, (running, scores)) in self.running.iter().zip(scores).enumerate() {
            let most = scores.iter().fold(f32::NEG_INFINITY, |most, &score| most.max(score));
            if !most.is_finite() || scores.iter().any(|score| score.is_nan()) {
                return None;
            }
            let most = f64::from(most);
            let sum: f64 = scores.iter().map(|&score| (f64::from(score) - most).exp()).sum();
            let base = running.log_probability - most - sum.ln();
            let seen = [&self.began[..], &running.ids].concat();
            let so_far = SoFar { seen: &seen, prompt: self.began.len(), most: self.most, stop: &self.stop };
            let mut own: Vec<_> = match self.rules.next(so_far) {
                Next::Only(forced) => {
                    forced.into_iter().map(|id| (running.log_probability, parent, id)).collect()
                }
                Next::But(banned) => {
                    let own = scores.iter().enumerate().map(|(id, score)| (id as i32, *score));
                    let may = |(id, score): &(i32, f32)| *score > f32::NEG_INFINITY && !banned.contains(id);
                    own.filter(may).map(|(id, score)| (base + f64::from(score), parent, id)).collect()
                }
            };
            if kept < own.len() {
                own.select_nth_unstable_by(kept - 1, best_first);
                own.truncate(kept);
            }
            all.append(&mut own);
        }
        all.sort_unstable_by(best_first);
        all.truncate(kept);
        Some(all)
    }
}

fn descending(a: f64, b: f64) -> Ordering {
    b.partial_cmp(&a).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two beams, of which one is running at first; token 0 stops.
    fn search() -> Search {
        Search {
            width: 2,
            penalty: 0.0,
            most: 4,
            at_most: Ended::Most,
            stop: vec![0],
            early: Early::Hopeless,
            rules: Rules::default(),
            began: vec![1],
            length: 0,
            running: vec![Running { ids: Vec::new(), log_probability: 0.0, parent: 0 }],
            finished: Vec::new(),
            done: false,
        }
    }

    #[test]
    fn a_beam_ends_where_stopping_is_among_the_best() {
        let ids = |search: &Search| search.running.iter().map(|beam| beam.ids[0]).collect::<Vec<_>>();
        let mut third = search();
        assert!(third.advance(&[&[1.0, 3.0, 2.0, 0.0]]));
        assert_eq!((ids(&third), third.finished.len()), (vec![1, 2], 0), "stopping is only the third best");
        let mut first = search();
        assert!(first.advance(&[&[4.0, 3.0, 2.0, 0.0]]));
        assert_eq!((ids(&first), first.finished.len()), (vec![1, 2], 1));
        assert_eq!((&first.finished[0].ids[..], first.finished[0].ended), (&[][..], Ended::Stop(0)));
    }

    #[test]
    fn nonsense_is_refused() {
        let beams = Beams::new(&[], 2, 4);
        let text = |beams: Beams<'_>| beams.check().unwrap_err().to_string();
        assert_eq!(text(Beams { width: 0, ..beams }), "beams: the width is 0; 1 is greedy, 4 or 5 are usual");
        assert_eq!(
            text(Beams { length_penalty: f64::NAN, ..beams }),
            "beams: the length penalty is NaN; choose 0 for none, 1 for the mean over tokens"
        );
    }
}
