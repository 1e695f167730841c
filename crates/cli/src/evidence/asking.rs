//! Questions put to a model, and each answer with its signs: how sure the model is, and what the text says.
//! A model that learned to read is given the lines about the subject before the question.

use anyhow::Result;
use regard_data::tokenizer::Special;
use regard_evidence::{Index, Judgement, Kept, Line, Verdict, judge, lines_about};
use regard_runtime::{Answered, Session, Sureness, unheard};

/// A question, its answer, and what there is to say about it.
pub struct Asked {
    /// What was asked.
    pub question: String,
    /// What the model said.
    pub answer: String,
    /// How sure it is.
    pub sureness: Sureness,
    /// The share of drawn answers that are this one, where some were drawn.
    pub agreement: Option<f64>,
    /// What the text says to it, where there is one.
    pub judgement: Option<Judgement>,
    /// The line that the model was given to read.
    pub read: Option<Line>,
    /// The probability that it is right, by a calibration.
    pub confidence: Option<f64>,
}

/// The names of the signs of answers: with so many drawn beside each, and of those that were held against a
/// text.
pub fn sign_names(samples: usize, evidence: bool) -> Vec<String> {
    let mut names: Vec<String> = ["log probability", "margin", "entropy"].map(String::from).into();
    names.extend((samples > 0).then(|| format!("{AGREEMENT}{samples}")));
    names.extend(["supported", "contradicted"].into_iter().filter(|_| evidence).map(String::from));
    names
}

/// What the sign is called that answers are drawn for; their number follows.
const AGREEMENT: &str = "agreement of ";

/// How many answers a calibration wants to be drawn.
pub fn samples_of(kept: Option<&Kept>) -> usize {
    let names = kept.into_iter().flat_map(|kept| kept.calibration.names());
    names.filter_map(|name| name.strip_prefix(AGREEMENT)?.parse().ok()).next().unwrap_or(0)
}

/// The signs of an answer, in the order of their names.
pub fn signs(asked: &Asked) -> Vec<f64> {
    let Asked { sureness, agreement, judgement, .. } = asked;
    // Beyond e⁻⁴⁰ one wrong answer is as unlikely as another.
    let mut all = vec![sureness.probability.max(1e-17).ln(), sureness.margin, sureness.entropy];
    all.extend(agreement);
    if let Some(judged) = judgement {
        let is = |verdict| f64::from(u8::from(judged.verdict == verdict));
        all.extend([is(Verdict::Supported), is(Verdict::Contradicted)]);
    }
    all
}

/// Answers beside an answer are drawn with this seed: the same question has the same.
const SAMPLING_SEED: u64 = 0;

/// Who asks.
pub struct Asker<'a> {
    /// The text that answers are held against.
    pub index: Option<&'a Index>,
    /// What questions are about, where it is given.
    pub subject: Option<&'a str>,
    /// Whether the model is given lines to read.
    pub reads: bool,
    /// The most tokens of an answer.
    pub most: usize,
    /// How many answers are drawn beside each, to see how many are the same.
    pub samples: usize,
    /// How signs become a confidence.
    pub kept: Option<&'a Kept>,
}

impl Asker<'_> {
    /// Asks all questions.
    pub fn ask(&self, session: &mut Session, questions: &[String]) -> Result<Vec<Asked>> {
        let mut lines: Vec<Option<Line>> = vec![None; questions.len()];
        let mut prompts = questions.to_vec();
        if let Some(index) = self.index.filter(|_| self.reads) {
            for (at, question) in questions.iter().enumerate() {
                let (_, found) = lines_about(index, question, self.subject)?;
                if let Some(line) = found.into_iter().next() {
                    prompts[at] = self.passage(session, &line.text, question)?;
                    lines[at] = Some(line);
                }
            }
        }
        let answers = session.answer(&prompts, self.most, &mut unheard)?;
        let mut agreement = vec![None; questions.len()];
        if self.samples > 0 {
            let texts: Vec<&str> = answers.iter().map(|answer| answer.text.as_str()).collect();
            let shares = session.agreement(&prompts, &texts, self.most, self.samples, SAMPLING_SEED)?;
            agreement = shares.into_iter().map(Some).collect();
        }
        let mut all = Vec::with_capacity(questions.len());
        for (at, (Answered { text, sureness }, read)) in answers.into_iter().zip(lines).enumerate() {
            let question = questions[at].clone();
            let judgement =
                self.index.map(|index| judge(index, &question, self.subject, &text)).transpose()?;
            let agreement = agreement[at];
            let (answer, confidence) = (text, None);
            let mut asked = Asked { question, answer, sureness, agreement, judgement, read, confidence };
            asked.confidence = self.kept.map(|kept| kept.calibration.confidence(&signs(&asked)));
            all.push(asked);
        }
        Ok(all)
    }

    /// A line and the question below it, the line cut where the model has no room for all of it.
    fn passage(&self, session: &Session, line: &str, question: &str) -> Result<String> {
        let tokenizer = session.companions().tokenizer()?;
        let marks = 1 + usize::from(tokenizer.special(Special::Mask).is_some());
        let room = session.model().reads().context().unwrap_or(usize::MAX);
        let room = room.saturating_sub(self.most + marks);
        let mut line: String = line.into();
        loop {
            let passage = regard_data::reading::passage(&line, question);
            let over = tokenizer.encode_bare(&passage)?.len().saturating_sub(room);
            if over == 0 || line.is_empty() {
                return Ok(passage);
            }
            // A token has a character at least.
            let left = line.chars().count().saturating_sub(over);
            line = line.chars().take(left).collect();
        }
    }
}
