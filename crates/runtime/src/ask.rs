//! Questions put to a decoder that learned to answer, many at a time: `question ⁇` is continued greedily up
//! to the next `⁇`.

use crate::batches::{Progress, in_batches};
use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_data::corruption::prompt;
use regard_data::tokenizer::Special;
use regard_engine::{AsDevice, Store};
use regard_generate::{Examples, Full, Generator, Request, Sampling, Settings};
use regard_graph::Precision;
use regard_models::Model;

/// A model that is ready to answer.
pub struct Answerer {
    generator: Generator,
    tokenizer: Tokenizer,
    mark: u32,
    rows: usize,
    most: usize,
    room: Option<usize>,
}

impl Answerer {
    /// Plans for `rows` questions at a time and answers of at most `most` tokens. The tokenizer must have a
    /// mask token, which closes questions and answers.
    pub fn new(
        model: &dyn Model,
        tokenizer: &Tokenizer,
        rows: usize,
        most: usize,
        precision: Precision,
        store: &mut Store,
        device: &impl AsDevice,
    ) -> Result<Answerer> {
        let mark = tokenizer.special(Special::Mask).ok_or_else(|| {
            Error::invalid(
                "the tokenizer has no mask, which closes questions",
                "use a model that learned to answer",
            )
        })?;
        let Some(decoder) = model.as_decoder() else {
            let what = format!("a model of the family {} does not answer questions", model.family());
            return Err(Error::invalid(what, "give a decoder"));
        };
        let rows = rows.max(1);
        let settings = Settings { rows, precision, ..Default::default() };
        let generator = Generator::new(decoder, settings, store, device)?;
        let room = model.reads().context();
        Ok(Answerer { generator, tokenizer: tokenizer.clone(), mark, rows, most, room })
    }

    /// The answer to each question.
    pub fn answer<S: AsRef<str>>(
        &mut self,
        questions: &[S],
        store: &mut Store,
        progress: &mut Progress<'_, String>,
    ) -> Result<Vec<String>> {
        self.answer_by(questions, Sampling::greedy(), store, progress)
    }

    /// The same with tokens chosen in another way. Draws depend on the place of a question among all.
    pub(crate) fn answer_by<S: AsRef<str>>(
        &mut self,
        questions: &[S],
        sampling: Sampling,
        store: &mut Store,
        progress: &mut Progress<'_, String>,
    ) -> Result<Vec<String>> {
        let mut prompts = Vec::with_capacity(questions.len());
        for question in questions {
            prompts.push(self.prompt(question.as_ref())?);
        }
        let lengths: Vec<usize> = prompts.iter().map(Vec::len).collect();
        let stop = [self.mark as i32];
        let Answerer { generator, tokenizer, rows, most, .. } = self;
        in_batches(&lengths, *rows, progress, |batch| {
            let prompts: Vec<Vec<i32>> = batch.iter().map(|&at| prompts[at].clone()).collect();
            // An answer without its question would be another's: it ends where the positions do.
            let numbers: Vec<u64> = batch.iter().map(|&at| at as u64).collect();
            let examples = Examples::Are(&numbers);
            let greedy = Request::greedy(&prompts, *most);
            let request = Request { stop: &stop, sampling, examples, full: Full::End, ..greedy };
            let mut answers = Vec::with_capacity(batch.len());
            for generated in generator.generate(&request, store)? {
                let ids: Vec<u32> = generated.ids.iter().map(|&id| id as u32).collect();
                answers.push(tokenizer.decode(&ids)?);
            }
            Ok(answers)
        })
    }

    /// The ids of a question, with the mark behind it.
    fn prompt(&self, question: &str) -> Result<Vec<i32>> {
        let ids = prompt(&self.tokenizer.encode_bare(question)?, self.mark);
        if let Some(room) = self.room.filter(|&room| ids.len() >= room) {
            return Err(Error::invalid(
                format!("the question `{question}` has {} tokens", ids.len()),
                format!("the model has room for {room}, its answer included: ask a shorter one"),
            ));
        }
        Ok(ids.into_iter().map(|id| id as i32).collect())
    }
}
