//! From scores to one token: repetition penalty, temperature, top-k, top-p, min-p, in this order, and then a
//! draw. Draws are counter-based: a pure function of (seed, example, how many tokens it has), so that neither
//! the batch nor its order changes anything.

use crate::{Error, Result};
use regard_device::Stream;
use regard_device::random::unit_open_f64;
use std::cmp::Ordering;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Scores are divided by it. 0: always the likeliest, the lowest id among equals.
    pub temperature: f64,
    /// Only the k likeliest.
    pub top_k: Option<usize>,
    /// Only the fewest that have this much of the probability together.
    pub top_p: f64,
    /// Only those with at least this part of the likeliest one's probability.
    pub min_p: f64,
    /// Positive scores of tokens that were there before are divided by it, negative ones multiplied.
    pub repetition_penalty: f64,
    /// What draws depend on.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling::greedy()
    }
}

/// Where the highest score stands; the first of several. None if a score is not a number, or none is finite.
pub fn highest<S: Copy + Into<f64>>(scores: &[S]) -> Option<usize> {
    let mut best = None;
    for (at, &score) in scores.iter().enumerate() {
        let score: f64 = score.into();
        if score.is_nan() || score == f64::INFINITY {
            return None;
        }
        if score > best.map_or(f64::NEG_INFINITY, |(_, most)| most) {
            best = Some((at, score));
        }
    }
    best.map(|(at, _)| at)
}

/// A token that may come next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub id: i32,
    /// With which probability.
    pub probability: f64,
}

impl Sampling {
    /// Always the likeliest.
    pub fn greedy() -> Self {
        Sampling { temperature: 0.0, top_k: None, top_p: 1.0, min_p: 0.0, repetition_penalty: 1.0, seed: 0 }
    }

    /// As the model says: temperature 1, nothing cut off.
    pub fn plain(seed: u64) -> Self {
        Sampling { temperature: 1.0, seed, ..Sampling::greedy() }
    }

    /// Refuses settings that make no sense.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String, advice: &str| Err(Error::Sampling { what, advice: advice.into() });
        let Sampling { temperature, top_k, top_p, min_p, repetition_penalty, .. } = *self;
        if !(temperature >= 0.0 && temperature.is_finite()) {
            return wrong(format!("temperature is {temperature}"), "choose 0 for the likeliest, or more");
        }
        if top_k == Some(0) {
            return wrong("top_k is 0".into(), "keep at least 1 token, or leave it out");
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return wrong(format!("top_p is {top_p}"), "choose more than 0 and at most 1");
        }
        if !(0.0..=1.0).contains(&min_p) {
            return wrong(format!("min_p is {min_p}"), "choose from 0 to 1");
        }
        if !(repetition_penalty > 0.0 && repetition_penalty.is_finite()) {
            return wrong(
                format!("repetition_penalty is {repetition_penalty}"),
                "choose 1 for none, more to punish repetition",
            );
        }
        Ok(())
    }

    /// What may come next, the likeliest first, the lowest id first among equals. `seen` are the tokens so
    /// far. None if a score is not a number, or none is finite.
    pub fn candidates(&self, scores: &[f32], seen: &[i32]) -> Option<Vec<Candidate>> {
        let mut scores: Vec<f64> = scores.iter().map(|&score| f64::from(score)).collect();
        if self.repetition_penalty != 1.0 {
            let mut seen: Vec<usize> = seen.iter().filter_map(|&id| usize::try_from(id).ok()).collect();
            seen.sort_unstable();
            seen.dedup();
            for id in seen {
                if let Some(score) = scores.get_mut(id) {
                    *score = if *score > 0.0 {
                        *score / self.repetition_penalty
                    } else {
                        *score * self.repetition_penalty
                    };
                }
            }
        }
        let best = highest(&scores)?;
        if self.temperature == 0.0 {
            return Some(vec![Candidate { id: best as i32, probability: 1.0 }]);
        }
        let mut order: Vec<usize> = (0..scores.len()).filter(|&id| scores[id] > f64::NEG_INFINITY).collect();
        let likeliest_first = |a: &usize, b: &usize| {
            scores[*b].partial_cmp(&scores[*a]).unwrap_or(Ordering::Equal).then(a.cmp(b))
        };
        // Only the first few are sorted where only they can be kept.
        if let Some(k) = self.top_k.filter(|&k| k < order.len()) {
            order.select_nth_unstable_by(k - 1, likeliest_first);
            order.truncate(k);
        }
        order.sort_unstable_by(likeliest_first);
        let weight = |id: &usize| ((scores[*id] - scores[best]) / self.temperature).exp();
        let mut weights: Vec<f64> = order.iter().map(weight).collect();
        if self.top_p < 1.0 {
            let enough = self.top_p * weights.iter().sum::<f64>();
            let mut sum = 0.0;
            let crossing = weights.iter().position(|weight| {
                sum += weight;
                sum >= enough
            });
            weights.truncate(crossing.map_or(weights.len(), |at| at + 1));
        }
        // The likeliest has weight 1, so a part of its probability is the same part of 1.
        let kept = weights.iter().take_while(|weight| **weight >= self.min_p).count();
        weights.truncate(kept.max(1));
        let sum: f64 = weights.iter().sum();
        let candidate =
            |(&id, weight): (&usize, &f64)| Candidate { id: id as i32, probability: weight / sum };
        Some(order.iter().zip(&weights).map(candidate).collect())
    }

    /// The next token of an example that has `seen` these, and with which probability it was drawn.
    pub fn choose(&self, scores: &[f32], seen: &[i32], example: u64) -> Option<Candidate> {
        let candidates = self.candidates(scores, seen)?;
        let u = self.draw(example, seen.len());
        let mut sum = 0.0;
        let drawn = candidates.iter().find(|candidate| {
            sum += candidate.probability;
            u < sum
        });
        // The sum may end just below 1.
        drawn.or(candidates.last()).copied()
    }

    /// A number in (0, 1) for the example's next token.
    fn draw(&self, example: u64, length: usize) -> f64 {
        let stream = Stream::new(self.seed, example, "generate.sample");
        let [low, high, ..] = stream.block(0, length as u32, 0);
        unit_open_f64(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probabilities 0.4, 0.3, 0.2, 0.1 of ids 2, 0, 3, 1.
    fn scores() -> [f32; 4] {
        [0.3f32.ln(), 0.1f32.ln(), 0.4f32.ln(), 0.2f32.ln()]
    }

    #[track_caller]
    fn expect(sampling: Sampling, scores: &[f32], seen: &[i32], wanted: &[(i32, f64)]) {
        let found = sampling.candidates(scores, seen).unwrap();
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for (found, &(id, probability)) in found.iter().zip(wanted) {
            assert!(found.id == id && (found.probability - probability).abs() < 1e-6, "{found:?}");
        }
    }

    #[test]
    fn greedy_takes_the_likeliest_and_the_lowest_among_equals() {
        expect(Sampling::greedy(), &scores(), &[], &[(2, 1.0)]);
        expect(Sampling::greedy(), &[1.0, 3.0, 3.0, 3.0], &[], &[(1, 1.0)]);
    }

    #[test]
    fn temperature_sharpens_and_flattens() {
        let at = |temperature| Sampling { temperature, ..Sampling::plain(0) };
        expect(at(1.0), &scores(), &[], &[(2, 0.4), (0, 0.3), (3, 0.2), (1, 0.1)]);
        // p² / Σ p²: 16, 9, 4, 1 of 30.
        expect(at(0.5), &scores(), &[], &[(2, 16. / 30.), (0, 9. / 30.), (3, 4. / 30.), (1, 1. / 30.)]);
        // √p / Σ √p
        let roots = [0.4f64, 0.3, 0.2, 0.1].map(f64::sqrt);
        let sum: f64 = roots.iter().sum();
        expect(
            at(2.0),
            &scores(),
            &[],
            &[(2, roots[0] / sum), (0, roots[1] / sum), (3, roots[2] / sum), (1, roots[3] / sum)],
        );
    }

    #[test]
    fn top_k_keeps_k() {
        let k = |k| Sampling { top_k: Some(k), ..Sampling::plain(0) };
        expect(k(1), &scores(), &[], &[(2, 1.0)]);
        expect(k(2), &scores(), &[], &[(2, 4. / 7.), (0, 3. / 7.)]);
        expect(k(9), &scores(), &[], &[(2, 0.4), (0, 0.3), (3, 0.2), (1, 0.1)]);
        expect(k(2), &[1.0; 5], &[], &[(0, 0.5), (1, 0.5)]);
    }

    #[test]
    fn top_p_keeps_the_fewest_that_are_enough() {
        let p = |top_p| Sampling { top_p, ..Sampling::plain(0) };
        expect(p(0.39), &scores(), &[], &[(2, 1.0)]);
        expect(p(0.41), &scores(), &[], &[(2, 4. / 7.), (0, 3. / 7.)]);
        expect(p(0.89), &scores(), &[], &[(2, 4. / 9.), (0, 3. / 9.), (3, 2. / 9.)]);
        expect(p(0.91), &scores(), &[], &[(2, 0.4), (0, 0.3), (3, 0.2), (1, 0.1)]);
        // After top-k: half of what is left of 0.4 and 0.3.
        let both = Sampling { top_k: Some(2), top_p: 0.5, ..Sampling::plain(0) };
        expect(both, &scores(), &[], &[(2, 1.0)]);
    }

    #[test]
    fn min_p_keeps_what_is_near_the_likeliest() {
        let p = |min_p| Sampling { min_p, ..Sampling::plain(0) };
        expect(p(0.3), &scores(), &[], &[(2, 4. / 9.), (0, 3. / 9.), (3, 2. / 9.)]);
        expect(p(0.6), &scores(), &[], &[(2, 4. / 7.), (0, 3. / 7.)]);
        expect(p(1.0), &scores(), &[], &[(2, 1.0)]);
    }

    #[test]
    fn repetition_is_punished_on_either_side_of_zero() {
        let sampling = Sampling { repetition_penalty: 2.0, ..Sampling::plain(0) };
        let scores = [2.0, -1.0, 1.0];
        // Seen twice is punished once: 2 → 1, −1 → −2.
        let e = std::f64::consts::E;
        let sum = e + e + (-2f64).exp();
        expect(sampling, &scores, &[0, 0, 1], &[(0, e / sum), (2, e / sum), (1, (-2f64).exp() / sum)]);
        expect(Sampling { temperature: 0.0, ..sampling }, &[2.0, -1.0, 1.1], &[0], &[(2, 1.0)]);
    }

    #[test]
    fn draws_follow_the_probabilities_and_the_seed() {
        let sampling = Sampling { top_k: Some(3), ..Sampling::plain(7) };
        let mut counts = [0usize; 4];
        for example in 0..9000 {
            counts[sampling.choose(&scores(), &[1, 2], example).unwrap().id as usize] += 1;
        }
        // 4000, 3000 and 2000 expected; six deviations are below 290.
        for (id, expected) in [(2, 4000), (0, 3000), (3, 2000)] {
            assert!(counts[id].abs_diff(expected) < 290, "{counts:?}");
        }
        assert_eq!(counts[1], 0);
        let draws = |seed: u64, example: u64| -> Vec<i32> {
            let sampling = Sampling { top_k: Some(3), ..Sampling::plain(seed) };
            (0..32).map(|length| sampling.choose(&scores(), &vec![0; length], example).unwrap().id).collect()
        };
        assert_eq!(draws(7, 3), draws(7, 3));
        assert_ne!(draws(7, 3), draws(8, 3));
        assert_ne!(draws(7, 3), draws(7, 4));
    }

    #[test]
    fn scores_that_are_no_numbers_choose_nothing() {
        assert_eq!(Sampling::greedy().candidates(&[0.0, f32::NAN], &[]), None);
        assert_eq!(Sampling::plain(0).candidates(&[f32::NEG_INFINITY; 2], &[]), None);
        expect(Sampling::plain(0), &[f32::NEG_INFINITY, 1.0], &[], &[(1, 1.0)]);
    }

    #[test]
    fn nonsense_is_refused() {
        let plain = Sampling::plain(0);
        let text = |sampling: Sampling| sampling.check().unwrap_err().to_string();
        assert!(plain.check().is_ok() && Sampling::greedy().check().is_ok());
        assert_eq!(
            text(Sampling { temperature: -1.0, ..plain }),
            "sampling: temperature is -1; choose 0 for the likeliest, or more"
        );
        assert_eq!(
            text(Sampling { top_k: Some(0), ..plain }),
            "sampling: top_k is 0; keep at least 1 token, or leave it out"
        );
        assert_eq!(
            text(Sampling { top_p: 1.5, ..plain }),
            "sampling: top_p is 1.5; choose more than 0 and at most 1"
        );
        assert_eq!(text(Sampling { min_p: -0.1, ..plain }), "sampling: min_p is -0.1; choose from 0 to 1");
        assert_eq!(
            text(Sampling { repetition_penalty: f64::NAN, ..plain }),
            "sampling: repetition_penalty is NaN; choose 1 for none, more to punish repetition"
        );
    }
}
