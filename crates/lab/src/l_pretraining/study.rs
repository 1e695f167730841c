//! The birth-place study in small, shared by the claims about it: invented people, a decoder that reads lines
//! about them (or does not), then learns to answer, then is asked about people whose lines it read and people
//! whose lines were left out. A model is trained once in a process, however many claims look at it.

use crate::experiment::seeds;
use crate::remembered::Remembered;
use crate::{Context, Effort};
use regard::Result;
use regard::data::biographies::{Biographies, Settings as People};
use regard::data::corruption::prompt;
use regard::data::tokenizer::Special;
use regard::evidence::{Index, Verdict, judge};
use regard::models::Sizes;
use regard::models::inputs::padded_to;
use regard::models::model::output;
use regard::prelude::*;
use regard::recipe::study::{Arm, ArmResult, Stage, StudyData, StudySettings, Vocabulary, run};
use regard::runtime::{Answerer, unheard};
use regard_graph::{Error, Precision};
use std::collections::HashSet;
use std::sync::Arc;

/// A question that was put to a model, and what is known about its answer.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `Where was … born?`
    pub question: String,
    /// What is right.
    pub place: String,
    /// What the model said.
    pub answered: String,
    /// Whether the person's lines were there to be read.
    pub read: bool,
    /// The probability of the whole answer, as the model has it.
    pub confidence: f64,
    /// The entropy of the answer's first token, nats.
    pub entropy: f64,
    /// What the lines that were read say to it.
    pub evidence: Evidence,
}

impl Asked {
    /// Right, to the letter.
    pub fn right(&self) -> bool {
        self.answered == self.place
    }
}

/// Two people's names, crossed: the first name of one, the last of the other.
#[derive(Clone, Debug)]
pub struct Crossed {
    /// Whose first name it is: place.
    pub first: String,
    /// Whose last name it is: place.
    pub last: String,
    /// What was said.
    pub answered: String,
}

/// A model that went through the study.
pub struct Student {
    /// Numbers that it learned.
    pub parameters: usize,
    /// Seconds of training and examination.
    pub seconds: f64,
    /// The dev questions; half of those people's lines were left out.
    pub dev: Vec<Asked>,
    /// Questions about people who do not exist: names crossed.
    pub crossed: Vec<Crossed>,
    /// Answers to the test questions, and what would have been right.
    pub test: Vec<(String, String)>,
    /// The lines that were there to be read.
    pub lines: Arc<StudyData>,
}

/// What can be had without knowing anybody: the most frequent place, and its share of the dev questions.
pub fn baseline(context: &Context) -> Result<(String, f64)> {
    let data = invented(context)?.1;
    let (place, right) = data.most_frequent();
    Ok((place, right as f64 / data.dev.len() as f64))
}

/// What cannot be, unless another claim or the study itself is broken.
fn broken(what: &str) -> regard::Error {
    Error::invalid("study", what, "run the claims again, and report it if it stays so").into()
}

fn people(context: &Context) -> People {
    let people = context.size(160, 320);
    People { seed: context.seed + 1, people, places: 25, dev: 0.4, test: 0.05, ..Default::default() }
}

fn invented(context: &Context) -> Result<(Biographies, StudyData)> {
    let settings = people(context);
    let made = Biographies::new(settings)?;
    Ok((made, StudyData::invented(settings, Vocabulary::Pieces(500))?))
}

/// How long a stage is; in full as the library's own small study.
fn settings(context: &Context, arm: Arm, seed: u64) -> StudySettings {
    let small = StudySettings::small();
    let epochs = context.size(45, small.pretrain.epochs as usize) as u64;
    let pretrain = Stage { epochs, decay_epochs: epochs, ..small.pretrain };
    StudySettings { pretrain, seed, arms: vec![arm], ..small }
}

/// The models of one arm, one for each seed: trained at the first call, remembered for the others. Seeds take
/// turns in whose lines are left out, so that over two of them each dev person is asked about once read and
/// once not.
pub fn students(context: &Context, arm: Arm) -> Result<Arc<Vec<Student>>> {
    static KNOWN: Remembered<(u64, Effort, bool, &'static str), Vec<Student>> = Remembered::new();
    KNOWN.get(context, (context.seed, context.effort, context.device.is_some(), arm.name()), || {
        let turns: Vec<(usize, u64)> = seeds(context).into_iter().enumerate().collect();
        context
            .workers
            .each(&turns, |&(turn, seed)| student(context, arm, seed, turn % 2))
            .into_iter()
            .collect()
    })
}

fn student(context: &Context, arm: Arm, seed: u64, turn: usize) -> Result<Student> {
    let (made, mut data) = invented(context)?;
    // Every other dev person goes unmentioned; the vocabulary is that of all lines.
    let hidden: HashSet<String> =
        data.dev.iter().skip(turn).step_by(2).map(|question| question.text.clone()).collect();
    let gone: HashSet<&String> = made
        .people()
        .iter()
        .filter(|person| hidden.contains(&person.question()))
        .flat_map(|person| &person.lines)
        .collect();
    data.lines.retain(|line| !gone.contains(line));
    let device = context.engine()?;
    let settings = settings(context, arm, seed);
    let study = run(&data, &settings, &device, &mut regard::train::Silent, None)?;
    let mut result = study.arms.into_iter().next().ok_or_else(|| broken("no arm was run"))?;
    let sure = sureness(&mut result, &data, &device)?;
    let index = Index::of_text("lines", &data.lines.join("\n"))?;
    let mut dev = Vec::with_capacity(result.dev.len());
    for (answer, (confidence, entropy)) in result.dev.iter().zip(sure) {
        dev.push(Asked {
            question: answer.question.clone(),
            place: answer.place.clone(),
            answered: answer.answered.clone(),
            read: !hidden.contains(&answer.question),
            confidence,
            entropy,
            evidence: evidence(&index, &data, &answer.question, &answer.answered)?,
        });
    }
    let crossed = crossed(&mut result, &made, &dev, &data, &device)?;
    let places = made.test().map(|(_, place)| place.to_string());
    let test = result.test.iter().cloned().zip(places).collect();
    let ArmResult { parameters, seconds, .. } = result;
    Ok(Student { parameters, seconds, dev, crossed, test, lines: Arc::new(data) })
}

/// The probability of each answer that was given, and the entropy where it begins.
fn sureness(result: &mut ArmResult, data: &StudyData, device: &Device) -> Result<Vec<(f64, f64)>> {
    let tokenizer = &data.tokenizer;
    let mark = tokenizer.special(Special::Mask).ok_or_else(|| broken("the vocabulary has no mark"))?;
    let mut texts = Vec::new();
    for answer in &result.dev {
        let mut ids = prompt(&tokenizer.encode_bare(&answer.question)?, mark);
        let begins = ids.len();
        ids.extend(tokenizer.encode_bare(&answer.answered)?);
        ids.push(mark);
        texts.push((begins, ids));
    }
    let (rows, longest) = (texts.len(), texts.iter().map(|(_, ids)| ids.len()).max().unwrap_or(1));
    let mut g = Graph::inference();
    let sizes = Sizes { batch: rows, ids: longest, ..Default::default() };
    let inputs = result.model.reads().declare(&mut g, sizes)?;
    let outputs = result.model.pass(&mut g, &inputs)?;
    let logits = output(&outputs, "logits").ok_or_else(|| broken("a decoder of the study has scores"))?;
    let probabilities = g.softmax(logits)?;
    g.output("probabilities", probabilities)?;
    let mut program = Program::new(g, &[], &mut result.store, device)?;
    // Padding on the right: no position sees a later one.
    let own: Vec<Vec<i32>> = texts.iter().map(|(_, ids)| ids.iter().map(|&id| id as i32).collect()).collect();
    program.set_i32("ids", &[rows, longest], &padded_to(&own, 0, longest).values)?;
    program.run(&mut result.store)?;
    let found = program.f32("probabilities")?;
    let vocabulary = tokenizer.vocabulary();
    let at = |row: usize, t: usize| &found[(row * longest + t) * vocabulary..][..vocabulary];
    let of = |(row, (begins, ids)): (usize, &(usize, Vec<u32>))| {
        let whole = (*begins..ids.len()).map(|t| f64::from(at(row, t - 1)[ids[t] as usize])).product();
        let first = at(row, begins - 1).iter().map(|&p| f64::from(p)).filter(|p| *p > 0.0);
        (whole, -first.map(|p| p * p.ln()).sum::<f64>())
    };
    Ok(texts.iter().enumerate().map(of).collect())
}

/// Asks about people who do not exist: first and last names of neighbours among those who were read of.
fn crossed(
    result: &mut ArmResult,
    made: &Biographies,
    dev: &[Asked],
    data: &StudyData,
    device: &Device,
) -> Result<Vec<Crossed>> {
    let real: HashSet<&str> = made.people().iter().map(|person| person.name.as_str()).collect();
    let read: Vec<&Asked> = dev.iter().filter(|asked| asked.read).collect();
    let name = |asked: &Asked| -> Option<(String, String)> {
        let name = asked.question.strip_prefix("Where was ")?.strip_suffix(" born?")?;
        let (first, last) = name.split_once(' ')?;
        Some((first.to_string(), last.to_string()))
    };
    let (mut questions, mut pairs) = (vec![], vec![]);
    for (one, other) in read.iter().zip(read.iter().skip(1)) {
        if let (Some((first, _)), Some((_, last))) = (name(one), name(other)) {
            let both = format!("{first} {last}");
            if !real.contains(both.as_str()) && one.place != other.place {
                questions.push(format!("Where was {both} born?"));
                pairs.push((one.place.clone(), other.place.clone()));
            }
        }
    }
    let mut answerer =
        Answerer::new(&*result.model, &data.tokenizer, 64, 32, Precision::F32, &mut result.store, device)?;
    let answered = answerer.answer(&questions, &mut result.store, &mut unheard)?;
    Ok(pairs
        .into_iter()
        .zip(answered)
        .map(|((first, last), answered)| Crossed { first, last, answered })
        .collect())
}

/// The chance that a number drawn from `high` is above one drawn from `low`; ties count half.
pub fn above(high: &[f64], low: &[f64]) -> f64 {
    let pairs = high.iter().flat_map(|a| low.iter().map(move |b| (a, b)));
    let score = pairs
        .map(|(a, b)| {
            if a > b {
                1.0
            } else if a == b {
                0.5
            } else {
                0.0
            }
        })
        .sum::<f64>();
    score / (high.len() * low.len()).max(1) as f64
}

/// Whether anything that was read speaks for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A line about the person names the place.
    Supported,
    /// There are lines about the person, and none names it.
    Contradicted,
    /// There is no line about the person.
    None,
}

impl Student {
    /// The lines about the person of a question.
    pub fn lines_of(&self, asked: &Asked) -> Vec<&str> {
        if self.lines.line_of(&asked.question).is_none() {
            return vec![];
        }
        let name = asked.question.trim_start_matches("Where was ").trim_end_matches(" born?");
        self.lines.lines.iter().map(String::as_str).filter(|line| line.contains(name)).collect()
    }
}

/// What the lines say to an answer: it must be a place, and a line about the person must name it.
fn evidence(index: &Index, data: &StudyData, question: &str, answered: &str) -> Result<Evidence> {
    let place = data.train.iter().any(|question| question.place == answered);
    Ok(match judge(index, question, None, answered)?.verdict {
        Verdict::NoEvidence => Evidence::None,
        Verdict::Supported if place => Evidence::Supported,
        _ => Evidence::Contradicted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_counts_pairs() {
        assert_eq!(above(&[3.0, 2.0], &[1.0, 0.0]), 1.0);
        assert_eq!(above(&[1.0], &[1.0]), 0.5);
        assert_eq!(above(&[0.0, 2.0], &[1.0]), 0.5);
    }
}
