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
    /// What the text says to it, where there is one.
    pub judgement: Option<Judgement>,
    /// The line that the model was given to read.
    pub read: Option<Line>,
    /// The probability that it is right, by a calibration.
    pub confidence: Option<f64>,
}

/// Signs of an answer without a text.
pub const SIGNS: [&str; 3] = ["log probability", "margin", "entropy"];
/// Signs of one that was held against a text.
pub const SIGNS_WITH_EVIDENCE: [&str; 5] =
    ["log probability", "margin", "entropy", "supported", "contradicted"];

/// The signs of an answer, in the order of their names.
pub fn signs(sureness: &Sureness, judgement: Option<&Judgement>) -> Vec<f64> {
    // Beyond e⁻⁴⁰ one wrong answer is as unlikely as another.
    let mut all = vec![sureness.probability.max(1e-17).ln(), sureness.margin, sureness.entropy];
    if let Some(judged) = judgement {
        let is = |verdict| f64::from(u8::from(judged.verdict == verdict));
        all.extend([is(Verdict::Supported), is(Verdict::Contradicted)]);
    }
    all
}

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
        let mut all = Vec::with_capacity(questions.len());
        for ((question, Answered { text, sureness }), read) in questions.iter().zip(answers).zip(lines) {
            let judgement =
                self.index.map(|index| judge(index, question, self.subject, &text)).transpose()?;
            let own = signs(&sureness, judgement.as_ref());
            let confidence = self.kept.map(|kept| kept.calibration.confidence(&own));
            all.push(Asked {
                question: question.clone(),
                answer: text,
                sureness,
                judgement,
                read,
                confidence,
            });
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
