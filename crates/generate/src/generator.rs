//! The loop: prompts in chunks, then a token at a time for all rows together, through one planned program.

use crate::steps::{Model, Steps};
use crate::{Decoder, EncoderDecoder, Error, Result, Sampling};
use regard_engine::{Cpu, Program, Store};
use regard_graph::Precision;
use std::ops::ControlFlow;

/// What is planned for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The most prompts at a time.
    pub rows: usize,
    /// The most beams for each of them, in a search; 1 if there will be none.
    pub beams: usize,
    /// The most ids of a prompt in one run: more is faster, and takes more memory.
    pub chunk: usize,
    /// How many keys are remembered; as many as the model can see if not given.
    pub capacity: Option<usize>,
    /// The most positions of a source, for an encoder-decoder; as many as the model can see if not given.
    pub source: Option<usize>,
    /// How products are computed.
    pub precision: Precision,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { rows: 1, beams: 1, chunk: 64, capacity: None, source: None, precision: Precision::F32 }
    }
}

/// What is to be continued, and how.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The beginnings, each of at least one id.
    pub prompts: &'a [Vec<i32>],
    /// The most new tokens for each.
    pub most: usize,
    /// Tokens that end a row; they are not part of what is generated.
    pub stop: &'a [i32],
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The number of the first prompt among all examples: draws depend on it, not on the row.
    pub first_example: u64,
}

impl<'a> Request<'a> {
    /// The likeliest tokens, without a stop.
    pub fn greedy(prompts: &'a [Vec<i32>], most: usize) -> Self {
        Request { prompts, most, stop: &[], sampling: Sampling::greedy(), first_example: 0 }
    }
}

/// A token as it comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    /// The prompt that it continues.
    pub row: usize,
    /// The token.
    pub id: i32,
    /// The probability with which it was drawn.
    pub probability: f64,
}

/// Why a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this stop token.
    Stop(i32),
    /// It has as many tokens as were asked for.
    Most,
    /// The model has no further position.
    Context,
    /// The listener wanted no more.
    Broken,
}

/// What became of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The new tokens.
    pub ids: Vec<i32>,
    /// Why there are no more.
    pub ended: Ended,
}

/// A model that is ready to continue sequences. Its caches live in the store, one size of them at a time.
pub struct Generator {
    pub(crate) steps: Steps,
    pub(crate) settings: Settings,
}

/// A row in progress.
struct Row {
    seen: Vec<i32>,
    prompt: usize,
    ended: Option<Ended>,
}

impl Generator {
    /// Plans the program of a model whose parameters are, or will be, in the store.
    pub fn new(model: &dyn Decoder, settings: Settings, store: &mut Store, cpu: &Cpu) -> Result<Self> {
        Ok(Generator { steps: Steps::new(Model::One(model), &settings, store, cpu)?, settings })
    }

    /// The same for a model that reads sources. What is continued is the target, from its start token on.
    pub fn with_sources(
        model: &dyn EncoderDecoder,
        settings: Settings,
        store: &mut Store,
        cpu: &Cpu,
    ) -> Result<Self> {
        Ok(Generator { steps: Steps::new(Model::Pair(model), &settings, store, cpu)?, settings })
    }

    /// Reads sources, one for each prompt of the requests that follow; those read before are forgotten.
    pub fn read(&mut self, sources: &[Vec<i32>], store: &mut Store) -> Result<()> {
        match &mut self.steps.reader {
            Some(reader) => reader.read(sources, store),
            None => Err(Error::Request {
                what: "this model has one stream, and sources were given".into(),
                advice: "give them as prompts".into(),
            }),
        }
    }

    /// The program of one step.
    pub fn program(&self) -> &Program {
        &self.steps.program
    }

    /// How many keys are remembered.
    pub fn capacity(&self) -> usize {
        self.steps.capacity
    }

    /// Continues the prompts to their ends.
    pub fn generate(&mut self, request: &Request<'_>, store: &mut Store) -> Result<Vec<Generated>> {
        self.stream(request, store, &mut |_| ControlFlow::Continue(()))
    }

    /// The same, telling of each token as it comes; the listener may break off.
    pub fn stream(
        &mut self,
        request: &Request<'_>,
        store: &mut Store,
        listener: &mut dyn FnMut(Token) -> ControlFlow<()>,
    ) -> Result<Vec<Generated>> {
        request.sampling.check()?;
        self.steps.check_prompts(request.prompts, self.settings.rows)?;
        let mut rows: Vec<Row> = request
            .prompts
            .iter()
            .map(|prompt| Row {
                seen: prompt.clone(),
                prompt: prompt.len(),
                ended: (request.most == 0).then_some(Ended::Most),
            })
            .collect();
        if rows.iter().any(|row| row.ended.is_none()) {
            let prompts: Vec<&[i32]> = request.prompts.iter().map(Vec::as_slice).collect();
            self.steps.begin(&prompts, |row| row, store)?;
        }
        while rows.iter().any(|row| row.ended.is_none()) {
            let mut broken = false;
            for (index, row) in rows.iter_mut().enumerate().filter(|(_, row)| row.ended.is_none()) {
                let scores = self.steps.scores(index)?;
                let example = request.first_example.wrapping_add(index as u64);
                let Some(chosen) = request.sampling.choose(&scores, &row.seen, example) else {
                    return Err(Error::Scores { row: index, length: row.seen.len() });
                };
                if request.stop.contains(&chosen.id) {
                    row.ended = Some(Ended::Stop(chosen.id));
                    continue;
                }
                row.seen.push(chosen.id);
                if row.seen.len() - row.prompt == request.most {
                    row.ended = Some(Ended::Most);
                } else if self.steps.limit.is_some_and(|limit| self.steps.known(index) >= limit) {
                    row.ended = Some(Ended::Context);
                }
                let token = Token { row: index, id: chosen.id, probability: chosen.probability };
                broken |= listener(token).is_break();
            }
            for row in rows.iter_mut().filter(|row| broken && row.ended.is_none()) {
                row.ended = Some(Ended::Broken);
            }
            if rows.iter().any(|row| row.ended.is_none()) {
                let going = |row: usize| rows.get(row).filter(|row| row.ended.is_none());
                self.steps.go_on(|row| going(row).and_then(|row| row.seen.last().copied()), store)?;
            }
        }
        let generated = |row: Row| Generated {
            ids: row.seen[row.prompt..].to_vec(),
            ended: row.ended.unwrap_or(Ended::Broken),
        };
        Ok(rows.into_iter().map(generated).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_models::{Gpt, GptConfig, T5, T5Config};

    #[test]
    fn what_sees_without_end_needs_a_capacity() {
        let config = T5Config { encoder_layers: 1, decoder_layers: 1, vocabulary: 9, ..T5Config::small() };
        let (t5, cpu) = (T5::new(config).unwrap(), Cpu::with(1, regard_device::Level::best()).unwrap());
        let settings = Settings { source: Some(4), ..Settings::default() };
        let text =
            Generator::with_sources(&t5, settings, &mut Store::new(0), &cpu).err().unwrap().to_string();
        assert_eq!(text, "generate: the model sees without end; give a capacity");
    }

    #[test]
    fn a_window_beyond_counting_is_as_wide_as_the_context() {
        let config = GptConfig {
            layers: 1,
            width: 8,
            heads: 2,
            vocabulary: 9,
            context: 8,
            dropout: 0.0,
            ..GptConfig::SMALL
        };
        let gpt = Gpt::new(GptConfig { window: Some(usize::MAX), ..config }).unwrap();
        let (cpu, mut store) = (Cpu::with(1, regard_device::Level::best()).unwrap(), Store::new(0));
        let mut generator = Generator::new(&gpt, Settings::default(), &mut store, &cpu).unwrap();
        assert_eq!(generator.capacity(), 8);
        // Nor does the number of the last example there can be overflow.
        let prompts = [vec![1]];
        let request = Request { first_example: u64::MAX, ..Request::greedy(&prompts, 2) };
        assert_eq!(generator.generate(&request, &mut store).unwrap()[0].ids.len(), 2);
    }
}
