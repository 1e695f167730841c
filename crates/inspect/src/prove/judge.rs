//! The promises one by one: which values they speak of, and what those may feel.

use super::follow::{Felt, Followed};
use super::{Coverage, Finding, Guilty, Outcome, Promise, Stream, Unfollowed};
use crate::{Error, Result};
use regard_graph::axes::Standing;
use regard_graph::{Label, Var};

/// What a promise has to do with a value.
enum Part {
    /// It speaks of it.
    Judged,
    /// It does not.
    Aside,
    /// Nobody can say whether it does.
    Unfollowed(String),
}

/// What can be felt where it should not.
struct Breach {
    value: Var,
    from: Vec<usize>,
    to: Vec<usize>,
    /// How many positions ahead, where there are such.
    ahead: usize,
}

/// What one cell may feel: told an example and a position of the input; the error is how far ahead that is.
type Allowed<'r> = Box<dyn Fn((usize, usize)) -> std::result::Result<(), usize> + 'r>;

/// What the cells of a value may feel, by their coordinates.
type Rule<'r> = dyn Fn(Var, &[usize]) -> Allowed<'r> + 'r;

/// What became of all values.
struct Survey {
    breach: Option<Breach>,
    coverage: Coverage,
    /// An output that could not be followed.
    lost_output: Option<String>,
}

/// How many values that were not followed are named in a sentence.
const NAMED: usize = 3;

impl Followed<'_> {
    pub fn judge(&self, promise: &Promise) -> Result<Finding> {
        match promise {
            Promise::Causal(input) => self.judge_causal(promise, input),
            Promise::Padding(input) => self.judge_padding(promise, input),
            Promise::Batch => self.judge_batch(promise),
            Promise::Sees { from, to, by } => self.judge_sight(promise, from, to, by),
        }
    }

    fn judge_causal(&self, promise: &Promise, input: &str) -> Result<Finding> {
        let stream = self.case.stream(input)?;
        let part = |var: Var| part(self.along(var, stream));
        let rule = |var: Var, at: &[usize]| -> Allowed<'_> {
            let own = self.places(var, stream, at).into_iter().max();
            Box::new(move |(_, felt)| match own {
                Some(own) if felt > own => Err(felt - own),
                _ => Ok(()),
            })
        };
        let survey = self.survey(&self.felt(input, false)?, &part, &rule)?;
        let kept = format!("no position of `{input}` can be felt before it, at {} positions", stream.length);
        Ok(self.finding(promise, input, survey, ("causal", kept, "positions"), |guilty, breach| {
            format!(
                "not causal: `{}` looks {} ahead ({})",
                guilty.node,
                breach.ahead,
                guilty.describe("position")
            )
        }))
    }

    fn judge_padding(&self, promise: &Promise, input: &str) -> Result<Finding> {
        let stream = self.case.stream(input)?;
        let padded = stream.real.iter().filter(|real| !**real).count();
        if padded == 0 {
            return Err(Error::invalid(
                format!("the stream `{input}` has no padding"),
                "mark some of its positions as not real",
            ));
        }
        let others: Vec<&Stream> = self.case.streams.iter().filter(|other| other.input != input).collect();
        let outputs: Vec<Var> = self.case.graph.outputs().map(|(_, var)| var).collect();
        let part = |var: Var| match (self.axes.standing(var, &Label::Batch), self.along(var, stream)) {
            (Standing::Lost(reason), _) | (Standing::Along, Standing::Lost(reason)) => {
                Part::Unfollowed(reason)
            }
            (Standing::Unrelated, _) => Part::Aside,
            (_, Standing::Along) => Part::Judged,
            _ if others.iter().any(|other| self.along(var, other) == Standing::Along) => Part::Judged,
            _ if outputs.contains(&var) => Part::Judged,
            _ => Part::Aside,
        };
        let real = |b: usize, t: usize| stream.real[b * stream.length + t];
        let rule = |var: Var, at: &[usize]| -> Allowed<'_> {
            let (examples, places) = (self.examples(var, at), self.places(var, stream, at));
            Box::new(move |(b, felt)| {
                let is_padding = places.iter().any(|&own| !real(b, own));
                if real(b, felt) || is_padding || !examples.contains(&b) { Ok(()) } else { Err(0) }
            })
        };
        let survey = self.survey(&self.felt(input, true)?, &part, &rule)?;
        let kept = format!("what stands at {padded} padded positions of `{input}` reaches no real one");
        Ok(self.finding(promise, input, survey, ("padding-safe", kept, "positions"), |guilty, _| {
            format!("padding is felt: in `{}` ({})", guilty.node, guilty.describe("padding"))
        }))
    }

    fn judge_batch(&self, promise: &Promise) -> Result<Finding> {
        let part = |var: Var| part(self.axes.standing(var, &Label::Batch));
        let rule = |var: Var, at: &[usize]| -> Allowed<'_> {
            let examples = self.examples(var, at);
            Box::new(move |(felt, _)| if examples.iter().all(|&own| own == felt) { Ok(()) } else { Err(0) })
        };
        let mut found = None;
        for input in self.case.contents() {
            let survey = self.survey(&self.felt(&input, false)?, &part, &rule)?;
            let kept = format!("none of {} examples can change another", self.case.batch);
            let words = ("batch-independent", kept, "examples");
            let finding = self.finding(promise, &input, survey, words, |guilty, _| {
                format!("examples meet: in `{}` ({})", guilty.node, guilty.describe("example"))
            });
            // The worst of all inputs; among equals the one that changes most.
            let weight = |finding: &Finding| {
                let worst = [Outcome::Holds, Outcome::Unknown, Outcome::Broken];
                (worst.iter().position(|outcome| *outcome == finding.outcome), finding.coverage.values())
            };
            if found.as_ref().is_none_or(|before| weight(before) < weight(&finding)) {
                found = Some(finding);
            }
        }
        found.ok_or_else(|| {
            Error::invalid(
                format!("no input has {} examples in front", self.case.batch),
                "name its streams, or feed floats",
            )
        })
    }

    fn judge_sight(&self, promise: &Promise, from: &str, to: &str, by: &str) -> Result<Finding> {
        let (seen, seer) = (self.case.stream(from)?, self.case.stream(to)?);
        let felt = self.felt(from, true)?;
        let var = self.case.graph.find(by)?;
        let standings = [self.along(var, seer), self.axes.standing(var, &Label::Batch)];
        if standings.contains(&Standing::Unrelated) {
            return Err(Error::invalid(
                format!("`{by}` does not lie along the stream `{to}`"),
                "judge by a tap that does",
            ));
        }
        let finding = |outcome, sentence, coverage| {
            Ok(Finding { promise: promise.clone(), outcome, sentence, guilty: None, coverage })
        };
        if let Some(reason) = standings.into_iter().find_map(lost) {
            let sentence = format!("not known who is seen: `{by}` could not be followed ({reason})");
            let coverage = Coverage { unfollowed: vec![self.unfollowed(var, reason)], ..Coverage::default() };
            return finding(Outcome::Unknown, sentence, coverage);
        }
        // For each position of the seer, which ones it can feel, in any of its cells.
        let mut sees = vec![vec![false; seen.real.len()]; seer.real.len()];
        for cell in felt.reach.cells(var)? {
            let at = felt.reach.coordinates(cell)?;
            let (examples, places) = (self.examples(var, &at), self.places(var, seer, &at));
            for (_, (b, s)) in felt.by(cell)? {
                for t in places.iter().filter(|_| examples.contains(&b)) {
                    sees[b * seer.length + t][b * seen.length + s] = true;
                }
            }
        }
        let real = |stream: &Stream, b: usize| {
            let row = &stream.real[b * stream.length..][..stream.length];
            (0..row.len()).filter(|&t| row[t]).collect::<Vec<_>>()
        };
        let pairs = |b: usize| {
            let seen = real(seen, b);
            real(seer, b).into_iter().flat_map(move |t| seen.clone().into_iter().map(move |s| (b, t, s)))
        };
        let blind = (0..self.case.batch)
            .flat_map(pairs)
            .find(|(b, t, s)| !sees[b * seer.length + t][b * seen.length + s]);
        let sentence = match blind {
            Some((b, t, s)) => {
                format!("blind: `{by}` at [{b} {t}] cannot feel `{from}` at [{b} {s}], though both are real")
            }
            None if from == to => {
                format!("sees both ways: every real position can feel every other, by `{by}`")
            }
            None => format!(
                "sees its source: every position of `{to}` can feel every real one of `{from}`, by `{by}`"
            ),
        };
        let outcome = if blind.is_none() { Outcome::Holds } else { Outcome::Broken };
        finding(outcome, sentence, Coverage { judged: 1, ..Coverage::default() })
    }

    /// Judges every value that the input can change. The breach is the earliest on the way to the first value
    /// that the promise speaks of and that breaks it: what is aside cannot break a promise, but a break can
    /// begin there.
    fn survey(&self, felt: &Felt, part: &dyn Fn(Var) -> Part, rule: &Rule<'_>) -> Result<Survey> {
        let mut survey = Survey { breach: None, coverage: Coverage::default(), lost_output: None };
        let (mut beginnings, mut broken) = (Vec::new(), None);
        for &var in &felt.values {
            if !felt.reaches(var)? {
                continue;
            }
            let spoken_of = match part(var) {
                Part::Judged => {
                    survey.coverage.judged += 1;
                    true
                }
                Part::Aside => {
                    survey.coverage.aside += 1;
                    false
                }
                Part::Unfollowed(reason) => {
                    let output = self.case.graph.outputs().find(|(_, output)| *output == var);
                    survey.lost_output = survey.lost_output.or(output.map(|(name, _)| name.to_string()));
                    survey.coverage.unfollowed.push(self.unfollowed(var, reason));
                    continue;
                }
            };
            // Once a broken value is known, all that can begin it has been seen.
            if broken.is_some() {
                continue;
            }
            if let Some(breach) = self.breach(felt, var, rule)? {
                broken = spoken_of.then_some(var);
                beginnings.push(breach);
            }
        }
        if let Some(var) = broken {
            let before = self.ancestors(var);
            survey.breach = beginnings.into_iter().find(|breach| before[breach.value.index()]);
        }
        Ok(survey)
    }

    /// The first cell of a value that feels what it may not.
    fn breach(&self, felt: &Felt, value: Var, rule: &Rule<'_>) -> Result<Option<Breach>> {
        for cell in felt.reach.cells(value)? {
            let to = felt.reach.coordinates(cell)?;
            let allowed = rule(value, &to);
            for (source, place) in felt.by(cell)? {
                if let Err(ahead) = allowed(place) {
                    let from = felt.reach.coordinates(source)?;
                    return Ok(Some(Breach { value, from, to, ahead }));
                }
            }
        }
        Ok(None)
    }

    fn unfollowed(&self, var: Var, reason: String) -> Unfollowed {
        let name = self.node(var).map(|node| (node.name.clone(), node.op.name().to_string()));
        let (node, op) = name.unwrap_or_else(|| (self.case.graph.title(var), String::new()));
        Unfollowed { node, op, reason }
    }

    /// `words`: the promise in a word, what it says if kept, and what it speaks of.
    fn finding(
        &self,
        promise: &Promise,
        input: &str,
        survey: Survey,
        (word, kept, what): (&str, String, &str),
        broken: impl Fn(&Guilty, &Breach) -> String,
    ) -> Finding {
        let Survey { breach, coverage, lost_output } = survey;
        let guilty = breach.as_ref().and_then(|breach| {
            let node = self.node(breach.value)?;
            let (node, op) = (node.name.clone(), node.op.name().to_string());
            Some(Guilty { node, op, input: input.into(), from: breach.from.clone(), to: breach.to.clone() })
        });
        let (outcome, verdict) = match (&guilty, &breach, lost_output) {
            (Some(guilty), Some(breach), _) => (Outcome::Broken, broken(guilty, breach)),
            (.., Some(output)) => (
                Outcome::Unknown,
                format!("not known whether {word}: nobody can say what `{output}` stands for"),
            ),
            _ if coverage.judged == 0 && coverage.values() > 0 => {
                (Outcome::Unknown, format!("not known whether {word}: no value lies along its {what}"))
            }
            _ => (Outcome::Holds, format!("{word}: {kept}")),
        };
        let sentence = format!("{verdict}; {}", coverage.describe(what));
        Finding { promise: promise.clone(), outcome, sentence, guilty, coverage }
    }
}

impl Coverage {
    /// How much was judged, in words.
    fn describe(&self, what: &str) -> String {
        let mut text = format!("judged {} of {} values", self.judged, self.values());
        if self.aside > 0 {
            text.push_str(&format!(", {} have no {what}", self.aside));
        }
        for (at, Unfollowed { node, op, reason }) in self.unfollowed.iter().take(NAMED).enumerate() {
            let joint = if at == 0 { "; not followed: " } else { ", " };
            text.push_str(&format!("{joint}`{node}` ({op}: {reason})"));
        }
        if let Some(more) = self.unfollowed.len().checked_sub(NAMED).filter(|more| *more > 0) {
            text.push_str(&format!(" and {more} more"));
        }
        text
    }
}

fn part(standing: Standing) -> Part {
    match standing {
        Standing::Along => Part::Judged,
        Standing::Unrelated => Part::Aside,
        Standing::Lost(reason) => Part::Unfollowed(reason),
    }
}

fn lost(standing: Standing) -> Option<String> {
    match standing {
        Standing::Lost(reason) => Some(reason),
        Standing::Along | Standing::Unrelated => None,
    }
}
