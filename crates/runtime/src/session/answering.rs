//! Questions: answers, how sure the model is of them, and how many drawn ones are the same.

use super::{BATCH, Session};
use crate::ask::Answerer;
use crate::batches::{Progress, unheard};
use crate::sure::{Answered, sureness};
use crate::write::{End, Prompts, Writing};
use crate::{Error, Result};
use regard_data::corruption::prompt;
use regard_data::tokenizer::Special;
use regard_generate::{Full, Sampling};
use regard_graph::Precision;
use std::ops::ControlFlow;
use std::sync::Arc;

impl Session {
    /// The answer to each question, of at most so many tokens, by a decoder that learned to answer.
    pub fn ask(
        &mut self,
        questions: &[String],
        most: usize,
        progress: &mut Progress<'_, String>,
    ) -> Result<Vec<String>> {
        let model = Arc::clone(&self.opened.model);
        if model.as_decoder().is_none() {
            return Err(self.unable("ask", "a decoder that learned to answer"));
        }
        let tokenizer = self.companions.tokenizer()?.clone();
        let (device, rows) = (self.device.clone(), BATCH.min(questions.len()));
        let store = self.without_caches()?;
        let mut answerer = Answerer::new(&*model, &tokenizer, rows, most, Precision::F32, store, &device)?;
        answerer.answer(questions, store, progress)
    }

    /// The answer to each question, of at most so many tokens, and how sure the model is of it. A decoder
    /// that learned to answer says what it learned; any other goes on from the question to the end of the
    /// line.
    pub fn answer(
        &mut self,
        questions: &[String],
        most: usize,
        progress: &mut Progress<'_, String>,
    ) -> Result<Vec<Answered>> {
        let model = Arc::clone(&self.opened.model);
        if model.as_decoder().is_none() {
            return Err(self.unable("ask", "a decoder that learned to answer"));
        }
        let tokenizer = self.companions.tokenizer()?.clone();
        let (mut texts, mut rows) = (Vec::with_capacity(questions.len()), Vec::new());
        if let Some(mark) = tokenizer.special(Special::Mask) {
            texts = self.ask(questions, most, progress)?;
            for (question, text) in questions.iter().zip(&texts) {
                let asked = prompt(&tokenizer.encode_bare(question)?, mark);
                let all = [&asked[..], &tokenizer.encode_bare(text)?, &[mark]].concat();
                rows.push((asked.len(), all.into_iter().map(|id| id as i32).collect()));
            }
        } else {
            let writing = Writing { most, stop: vec!["\n".into()], full: Full::End, ..Writing::default() };
            let on = &mut |_: crate::write::Piece<'_>| ControlFlow::Continue(());
            for (at, written) in
                self.generate(Prompts::Texts(questions), &writing, on)?.into_iter().enumerate()
            {
                let text = written.text.unwrap_or_default().trim().to_string();
                if progress(at, &text).is_break() && at + 1 < questions.len() {
                    return Err(Error::Cancelled { done: at + 1, all: questions.len() });
                }
                let end = if let End::Token(id) = written.end { Some(id) } else { None };
                let begins = written.given.len();
                rows.push((begins, [written.given, written.ids].concat().into_iter().chain(end).collect()));
                texts.push(text);
            }
        }
        let device = self.device.clone();
        let sure = sureness(&*model, &rows, self.store()?, &device)?;
        Ok(texts.into_iter().zip(sure).map(|(text, sureness)| Answered { text, sureness }).collect())
    }

    /// For each question the share of `samples` answers, drawn as the model says, that are the given one.
    /// Draws depend on the seed and on the place of the question.
    pub fn agreement(
        &mut self,
        questions: &[String],
        answers: &[&str],
        most: usize,
        samples: usize,
        seed: u64,
    ) -> Result<Vec<f64>> {
        let model = Arc::clone(&self.opened.model);
        if model.as_decoder().is_none() {
            return Err(self.unable("ask", "a decoder that learned to answer"));
        }
        let tokenizer = self.companions.tokenizer()?.clone();
        let sampling = Sampling::plain(seed);
        let repeated: Vec<String> =
            questions.iter().flat_map(|question| std::iter::repeat_n(question.clone(), samples)).collect();
        let drawn: Vec<String> = if tokenizer.special(Special::Mask).is_some() {
            let (device, rows) = (self.device.clone(), BATCH.min(repeated.len()));
            let store = self.without_caches()?;
            let mut answerer =
                Answerer::new(&*model, &tokenizer, rows, most, Precision::F32, store, &device)?;
            answerer.answer_by(&repeated, sampling, store, &mut unheard)?
        } else {
            let stop = vec!["\n".into()];
            let writing = Writing { most, stop, sampling, full: Full::End, ..Writing::default() };
            let on = &mut |_: crate::write::Piece<'_>| ControlFlow::Continue(());
            let written = self.generate(Prompts::Texts(&repeated), &writing, on)?;
            written.into_iter().map(|one| one.text.unwrap_or_default().trim().to_string()).collect()
        };
        let share = |(answer, drawn): (&&str, &[String])| {
            drawn.iter().filter(|text| text == answer).count() as f64 / drawn.len() as f64
        };
        Ok(answers.iter().zip(drawn.chunks(samples.max(1))).map(share).collect())
    }
}
