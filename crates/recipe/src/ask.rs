//! Questions put to a decoder, many at a time: `question ⁇` is continued greedily up to the next `⁇`. A model with
//! caches goes on through them; one without reads each text again from its beginning.

use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_data::corruption::prompt;
use regard_data::tokenizer::Special;
use regard_engine::{Cpu, Program, Store};
use regard_generate::{Generator, Request, Settings};
use regard_graph::{Graph, Precision};
use regard_models::model::output;
use regard_models::{Model, Sizes};

/// A model that is ready to answer.
pub struct Answerer {
    way: Way,
    tokenizer: Tokenizer,
    mark: u32,
    rows: usize,
    context: usize,
    most: usize,
}

enum Way {
    Cached(Box<Generator>),
    Whole { program: Box<Program>, vocabulary: usize },
}

impl Answerer {
    /// Plans for `rows` questions at a time and answers of at most `most` tokens. The tokenizer must have a mask token,
    /// which closes questions and answers.
    pub fn new(
        model: &dyn Model,
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
            Err(Error::invalid(what, "give a decoder"))
        };
        let reads = model.reads();
        let context = reads.context().unwrap_or(usize::MAX);
        let way = match (model.as_decoder(), reads.ids) {
            (Some(decoder), _) => {
                let settings = Settings { rows, precision, ..Default::default() };
                Way::Cached(Box::new(Generator::new(decoder, settings, store, cpu)?))
            }
            (None, Some(tokens)) if model.promises().causal && reads.source.is_none() => {
                let mut g = Graph::inference();
                g.set_precision(precision);
                let sizes = Sizes { batch: rows, ids: context, ..Default::default() };
                let inputs = reads.declare_open(&mut g, sizes)?;
                let outputs = model.pass(&mut g, &inputs)?;
                let Some(scores) = output(&outputs, "logits") else { return refuse() };
                g.output("scores", scores)?;
                let program = Box::new(Program::new(g, &[], store, cpu)?);
                Way::Whole { program, vocabulary: tokens.vocabulary }
            }
            _ => return refuse(),
        };
        Ok(Answerer { way, tokenizer: tokenizer.clone(), mark, rows, context, most })
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
        let mark = self.mark as i32;
        match &mut self.way {
            Way::Cached(generator) => {
                let request = Request { stop: &[mark], ..Request::greedy(prompts, self.most) };
                Ok(generator.generate(&request, store)?.into_iter().map(|one| one.ids).collect())
            }
            Way::Whole { program, vocabulary } => {
                let mut rows = prompts.to_vec();
                let mut going: Vec<usize> = (0..rows.len()).collect();
                for _ in 0..self.most {
                    going.retain(|&row| rows[row].len() < self.context);
                    let Some(longest) = going.iter().map(|&row| rows[row].len()).max() else { break };
                    // Padding on the right: nobody sees a later position.
                    let padded = |row: &usize| {
                        rows[*row]
                            .iter()
                            .copied()
                            .chain(std::iter::repeat(0))
                            .take(longest)
                            .collect::<Vec<i32>>()
                    };
                    let ids: Vec<i32> = going.iter().flat_map(padded).collect();
                    program.set_i32("ids", &[going.len(), longest], &ids)?;
                    program.run(store)?;
                    let scores = program.f32("scores")?;
                    let mut next = Vec::with_capacity(going.len());
                    for (place, &row) in going.iter().enumerate() {
                        let at = (place * longest + rows[row].len() - 1) * *vocabulary;
                        next.push((row, highest(&scores[at..at + *vocabulary])));
                    }
                    going.clear();
                    for (row, id) in next.into_iter().filter(|(_, id)| *id != mark) {
                        rows[row].push(id);
                        going.push(row);
                    }
                }
                Ok(rows.iter().zip(prompts).map(|(row, prompt)| row[prompt.len()..].to_vec()).collect())
            }
        }
    }
}

/// The id with the highest score; the lowest of several.
fn highest(scores: &[f32]) -> i32 {
    let mut best = 0;
    for (id, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = id;
        }
    }
    best as i32
}
