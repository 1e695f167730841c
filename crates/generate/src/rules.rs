//! What a text must begin and end with, and what it must not hold, whatever the scores say: the rules that a
//! model's folder gives to those who write with it. They are those of `generate` in transformers, which asks
//! for them by the names `forced_bos_token_id`, `forced_eos_token_id`, `bad_words_ids`, `min_length` and
//! `no_repeat_ngram_size`.

/// Rules for texts. By itself, none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The first token behind a single start token.
    pub first: Option<i32>,
    /// One of these is the last, where a text has as many tokens as were asked for.
    pub last: Vec<i32>,
    /// Sequences of tokens that never come; of one token, or more.
    pub never: Vec<Vec<i32>>,
    /// No stop token before a text has so many, those that it began with among them.
    pub least: usize,
    /// No stop token before so many are new.
    pub least_new: usize,
    /// No sequence of this many tokens comes twice; 0 is no rule.
    pub no_repeat: usize,
}

/// What may come next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// All but these.
    But(Vec<i32>),
    /// These alone, each as if it were certain.
    Only(Vec<i32>),
}

/// How far a text is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoFar<'a> {
    /// All of its tokens.
    pub seen: &'a [i32],
    /// With how many it began.
    pub prompt: usize,
    /// The most that may be new.
    pub most: usize,
    /// Tokens that end it.
    pub stop: &'a [i32],
}

impl Rules {
    /// What may follow.
    pub(crate) fn next(&self, SoFar { seen, prompt, most, stop }: SoFar<'_>) -> Next {
        let new = seen.len() - prompt;
        if !self.last.is_empty() && new + 1 == most {
            return Next::Only(self.last.clone());
        }
        if let Some(first) = self.first.filter(|_| seen.len() == 1) {
            return Next::Only(vec![first]);
        }
        let mut banned: Vec<i32> = Vec::new();
        for sequence in &self.never {
            if let Some((last, before)) = sequence.split_last()
                && seen.ends_with(before)
            {
                banned.push(*last);
            }
        }
        if seen.len() < self.least || new < self.least_new {
            banned.extend(stop);
        }
        if self.no_repeat > 0 && seen.len() + 1 >= self.no_repeat {
            let newest = &seen[seen.len() + 1 - self.no_repeat..];
            let repeated = seen.windows(self.no_repeat).filter(|window| window.starts_with(newest));
            banned.extend(repeated.filter_map(|window| window.last()));
        }
        Next::But(banned)
    }

    /// The scores with what may not come at −∞. None if nothing changes.
    pub(crate) fn scores(&self, scores: &[f32], so_far: SoFar<'_>) -> Option<Vec<f32>> {
        let place = |id: i32| usize::try_from(id).ok().filter(|&id| id < scores.len());
        match self.next(so_far) {
            Next::But(banned) if banned.is_empty() => None,
            Next::But(banned) => {
                let mut scores = scores.to_vec();
                banned.into_iter().filter_map(place).for_each(|id| scores[id] = f32::NEG_INFINITY);
                Some(scores)
            }
            Next::Only(forced) => {
                let mut only = vec![f32::NEG_INFINITY; scores.len()];
                forced.into_iter().filter_map(place).for_each(|id| only[id] = 0.0);
                Some(only)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP: [i32; 1] = [2];

    fn next(rules: &Rules, seen: &[i32], most: usize) -> Next {
        rules.next(SoFar { seen, prompt: 1, most, stop: &STOP })
    }

    #[test]
    fn beginnings_and_ends_are_forced() {
        let rules = Rules { first: Some(7), last: vec![2], ..Rules::default() };
        assert_eq!(next(&rules, &[9], 5), Next::Only(vec![7]));
        assert_eq!(next(&rules, &[9, 7], 5), Next::But(vec![]));
        assert_eq!(next(&rules, &[9, 7, 1, 1, 1], 5), Next::Only(vec![2]));
        assert_eq!(next(&rules, &[9], 1), Next::Only(vec![2]), "the last of one is the last");
        let so_far = SoFar { seen: &[9], prompt: 1, most: 5, stop: &STOP };
        assert_eq!(
            Rules { first: Some(1), ..rules }.scores(&[5.0, 1.0], so_far),
            Some(vec![f32::NEG_INFINITY, 0.0])
        );
    }

    #[test]
    fn what_may_not_come_is_banned() {
        let rules = Rules { never: vec![vec![4], vec![5, 6], vec![1, 5, 8]], ..Rules::default() };
        assert_eq!(next(&rules, &[9, 5], 9), Next::But(vec![4, 6]));
        assert_eq!(next(&rules, &[1, 5], 9), Next::But(vec![4, 6, 8]));
        let rules = Rules { least: 3, ..Rules::default() };
        assert_eq!(next(&rules, &[9, 5], 9), Next::But(vec![2]));
        assert_eq!(next(&rules, &[9, 5, 5], 9), Next::But(vec![]));
        let rules = Rules { least_new: 3, ..Rules::default() };
        assert_eq!(next(&rules, &[9, 5, 5], 9), Next::But(vec![2]));
        let rules = Rules { no_repeat: 2, ..Rules::default() };
        assert_eq!(next(&rules, &[3, 4, 3, 5, 3], 9), Next::But(vec![4, 5]));
        assert_eq!(next(&rules, &[3], 9), Next::But(vec![]));
        assert_eq!(next(&Rules { no_repeat: 1, ..Rules::default() }, &[3, 4], 9), Next::But(vec![3, 4]));
    }
}
