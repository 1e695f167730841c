//! Questions put to a decoder, many at a time: `question ⁇` is continued greedily up to the next `⁇`.

use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_data::corruption::prompt;
use regard_data::tokenizer::Special;
use regard_engine::{Cpu, Store};
use regard_generate::{Decoder, Full, Generator, Request, Settings};
use regard_graph::Precision;
use regard_hub::AnyModel;

/// A model that is ready to answer.
pub struct Answerer {
    generator: Generator,
    tokenizer: Tokenizer,
    mark: u32,
    rows: usize,
    context: usize,
    most: usize,
}

impl Answerer {
    /// Plans for `rows` questions at a time and answers of at most `most` tokens. The tokenizer must have a mask token,
    /// which closes questions and answers.
    pub fn new(
        model: &AnyModel,
        tokenizer: &Tokenizer,
        rows: usize,
        most: usize,
        precision: Precision,
        store: &mut Store,
        cpu: &Cpu,
    ) -> Result<Answerer> {
        let mark = tokenizer.special(Special::Mask).ok_or_else(|| {
            Error::invalid(
                "the tokenizer has no mask, which closes questions",
                "use a model that learned to answer",
            )
        })?;
        let rows = rows.max(1);
        let refuse = || {
            let what = format!("a model of the family {} does not answer questions", model.family());
            Err(Error::invalid(what, "give a GPT or a Perceiver"))
        };
        let (decoder, context): (&dyn Decoder, usize) = match model {
            AnyModel::Gpt(gpt, _) => (gpt, gpt.config().context),
            AnyModel::Perceiver(perceiver) => (perceiver.as_ref(), perceiver.config().context),
            _ => return refuse(),
        };
        let settings = Settings { rows, precision, ..Default::default() };
        let generator = Generator::new(decoder, settings, store, cpu)?;
        Ok(Answerer { generator, tokenizer: tokenizer.clone(), mark, rows, context, most })
    }

    /// The answer to each question.
    pub fn answer<S: AsRef<str>>(&mut self, questions: &[S], store: &mut Store) -> Result<Vec<String>> {
        let mut answers = Vec::with_capacity(questions.len());
        for some in questions.chunks(self.rows) {
            let mut prompts = Vec::with_capacity(some.len());
            for question in some {
                let ids = prompt(&self.tokenizer.encode_bare(question.as_ref())?, self.mark);
                if ids.len() >= self.context {
                    return Err(Error::invalid(
                        format!("the question `{}` has {} tokens", question.as_ref(), ids.len()),
                        format!(
                            "the model has room for {}, its answer included: ask a shorter one",
                            self.context
                        ),
                    ));
                }
                prompts.push(ids.iter().map(|&id| id as i32).collect::<Vec<i32>>());
            }
            for ids in self.go_on(&prompts, store)? {
                let ids: Vec<u32> = ids.iter().map(|&id| id as u32).collect();
                answers.push(self.tokenizer.decode(&ids)?);
            }
        }
        Ok(answers)
    }

    /// What follows each prompt, up to the mark.
    fn go_on(&mut self, prompts: &[Vec<i32>], store: &mut Store) -> Result<Vec<Vec<i32>>> {
        let stop = [self.mark as i32];
        // An answer without its question would be another's: it ends where the positions do.
        let request = Request { stop: &stop, full: Full::End, ..Request::greedy(prompts, self.most) };
        Ok(self.generator.generate(&request, store)?.into_iter().map(|one| one.ids).collect())
    }
}
