//! The loop: prompts, then a token at a time for all rows together, through one planned program. A row that
//! has used up the model's positions reads its newest half again as a fresh prompt, and goes on from there.

use crate::reader::Reader;
use crate::rules::{Rules, SoFar};
use crate::steps::{Model, Steps, check_ids, plan};
use crate::{Decoder, EncoderDecoder, Error, Result, Sampling};
use regard_engine::{AsDevice, Device, Program, Store};
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
    /// Which examples the prompts are: draws depend on that, not on the row.
    pub examples: Examples<'a>,
    /// What becomes of a row that has used up the model's positions.
    pub full: Full,
}

/// The numbers of prompts among all that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examples<'a> {
    /// One after the other, from this one on.
    From(u64),
    /// As given, a number for each prompt.
    Are(&'a [u64]),
}

impl Examples<'_> {
    fn number(self, row: usize) -> Option<u64> {
        match self {
            Examples::From(first) => Some(first.wrapping_add(row as u64)),
            Examples::Are(numbers) => numbers.get(row).copied(),
        }
    }
}

/// What a listener has had enough of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enough {
    /// This row: the others go on.
    Row,
    /// All of it. Rows that have not had the token in progress still get it.
    All,
}

/// What becomes of a row that has used up the model's positions, or the capacity that was planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// It reads the newest half of its tokens again as a fresh prompt, and goes on. What comes then is what
    /// would follow that half alone; [`Generated::reread`] and [`Token::reread`] say where.
    #[default]
    Reread,
    /// It ends there, with [`Ended::Context`].
    End,
}

impl<'a> Request<'a> {
    /// The likeliest tokens, without a stop.
    pub fn greedy(prompts: &'a [Vec<i32>], most: usize) -> Self {
        let (sampling, full) = (Sampling::greedy(), Full::Reread);
        Request { prompts, most, stop: &[], sampling, examples: Examples::From(0), full }
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
    /// Whether the row read its newest half again before it.
    pub reread: bool,
}

/// Why a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this stop token.
    Stop(i32),
    /// It has as many tokens as were asked for.
    Most,
    /// The model has no further position: where a request says so ([`Full::End`]), and always in a search,
    /// whose scores are those of a whole.
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
    /// After how many of them the newest half was read again, for want of positions; empty for most.
    pub reread: Vec<usize>,
}

/// A model that is ready to continue sequences. Its caches live in the store, one size of them at a time.
pub struct Generator {
    pub(crate) steps: Box<dyn Steps + Send>,
    pub(crate) settings: Settings,
    pub(crate) rules: Rules,
    vocabulary: usize,
}

/// A row in progress.
struct Row {
    /// The prompt, and what was generated.
    seen: Vec<i32>,
    prompt: usize,
    /// From which of them on the model knows them.
    from: usize,
    reread: Vec<usize>,
    ended: Option<Ended>,
}

impl Row {
    fn new(prompt: &[i32]) -> Row {
        Row { seen: prompt.to_vec(), prompt: prompt.len(), from: 0, reread: Vec::new(), ended: None }
    }

    fn goes(&self) -> bool {
        self.ended.is_none()
    }

    fn generated(&self) -> usize {
        self.seen.len() - self.prompt
    }

    /// What the model knows, or shall know, besides the newest.
    fn known(&self) -> &[i32] {
        &self.seen[self.from..self.seen.len() - 1]
    }
}

impl Generator {
    /// Plans the program of a model whose parameters are, or will be, in the store.
    pub fn new(
        model: &dyn Decoder,
        settings: Settings,
        store: &mut Store,
        device: &impl AsDevice,
    ) -> Result<Self> {
        Generator::planned(Model::One(model), settings, store, &device.as_device())
    }

    /// The same for a model that reads sources. What is continued is the target, from its start token on.
    pub fn with_sources(
        model: &dyn EncoderDecoder,
        settings: Settings,
        store: &mut Store,
        device: &impl AsDevice,
    ) -> Result<Self> {
        Generator::planned(Model::Pair(model), settings, store, &device.as_device())
    }

    fn planned(model: Model<'_>, settings: Settings, store: &mut Store, device: &Device) -> Result<Self> {
        let steps = plan(model, &settings, store, device)?;
        Ok(Generator { steps, settings, rules: Rules::default(), vocabulary: model.vocabulary() })
    }

    /// Obeys these rules from now on, instead of those before.
    pub fn obey(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Reads sources, one for each prompt of the requests that follow; those read before are forgotten.
    pub fn read(&mut self, sources: &[Vec<i32>], store: &mut Store) -> Result<()> {
        match self.steps.reader() {
            Some(reader) => reader.read(sources, store),
            None => Err(Error::Request {
                what: "this model has one stream, and sources were given".into(),
                advice: "give them as prompts".into(),
            }),
        }
    }

    /// The program of one step.
    pub fn program(&self) -> &Program {
        self.steps.program()
    }

    /// How many positions are remembered.
    pub fn capacity(&self) -> usize {
        self.steps.capacity()
    }

    /// The most positions of a row, after which it reads its newest half again; none if it goes on for ever.
    pub fn limit(&self) -> Option<usize> {
        self.steps.limit()
    }

    /// Continues the prompts to their ends.
    pub fn generate(&mut self, request: &Request<'_>, store: &mut Store) -> Result<Vec<Generated>> {
        self.stream(request, store, &mut |_| ControlFlow::Continue(()))
    }

    /// The same, telling of each token as it comes; the listener may break off, a row or all.
    pub fn stream(
        &mut self,
        request: &Request<'_>,
        store: &mut Store,
        listener: &mut dyn FnMut(Token) -> ControlFlow<Enough>,
    ) -> Result<Vec<Generated>> {
        request.sampling.check()?;
        self.check_prompts(request.prompts)?;
        if let Examples::Are(numbers) = request.examples
            && numbers.len() != request.prompts.len()
        {
            return Err(Error::Request {
                what: format!("{} numbers of examples for {} prompts", numbers.len(), request.prompts.len()),
                advice: "give one for each".into(),
            });
        }
        let mut rows: Vec<Row> = request.prompts.iter().map(|prompt| Row::new(prompt)).collect();
        if request.most == 0 {
            rows.iter_mut().for_each(|row| row.ended = Some(Ended::Most));
        } else {
            let prompts: Vec<&[i32]> = request.prompts.iter().map(Vec::as_slice).collect();
            self.steps.begin(&prompts, &|row| row, store)?;
        }
        while rows.iter().any(Row::goes) {
            if self.choose(request, &mut rows, listener)?.is_break() {
                rows.iter_mut().filter(|row| row.goes()).for_each(|row| row.ended = Some(Ended::Broken));
            }
            if rows.iter().any(Row::goes) {
                self.make_room(&mut rows, store)?;
                let going = |row: usize| rows.get(row).filter(|row| row.goes());
                self.steps.go_on(&|row| going(row).and_then(|row| row.seen.last().copied()), store)?;
            }
        }
        let generated = |row: Row| Generated {
            ids: row.seen[row.prompt..].to_vec(),
            ended: row.ended.unwrap_or(Ended::Broken),
            reread: row.reread,
        };
        Ok(rows.into_iter().map(generated).collect())
    }

    /// Gives every row that goes on its next token, or its end. Whether the listener wants more.
    fn choose(
        &self,
        request: &Request<'_>,
        rows: &mut [Row],
        listener: &mut dyn FnMut(Token) -> ControlFlow<Enough>,
    ) -> Result<ControlFlow<()>> {
        let mut wanted = ControlFlow::Continue(());
        for (index, row) in rows.iter_mut().enumerate().filter(|(_, row)| row.goes()) {
            let example = request.examples.number(index).unwrap_or_default();
            let scores = self.steps.scores(index)?;
            let so_far =
                SoFar { seen: &row.seen, prompt: row.prompt, most: request.most, stop: request.stop };
            let ruled = self.rules.scores(&scores, so_far);
            let scores = ruled.as_deref().unwrap_or(&scores);
            let Some(chosen) = request.sampling.choose(scores, &row.seen, example) else {
                return Err(Error::Scores { row: index, length: row.seen.len() });
            };
            if request.stop.contains(&chosen.id) {
                row.ended = Some(Ended::Stop(chosen.id));
                continue;
            }
            let reread = row.reread.last() == Some(&row.generated());
            row.seen.push(chosen.id);
            if row.generated() == request.most {
                row.ended = Some(Ended::Most);
            } else if request.full == Full::End && self.is_full(index) {
                row.ended = Some(Ended::Context);
            }
            let token = Token { row: index, id: chosen.id, probability: chosen.probability, reread };
            match listener(token) {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(Enough::Row) => row.ended = row.ended.or(Some(Ended::Broken)),
                ControlFlow::Break(Enough::All) => wanted = ControlFlow::Break(()),
            }
        }
        Ok(wanted)
    }

    fn is_full(&self, row: usize) -> bool {
        self.steps.limit().is_some_and(|limit| self.steps.known(row) >= limit)
    }

    /// Rows that have no position for their newest token begin again with the newest half of what they have.
    fn make_room(&mut self, rows: &mut [Row], store: &mut Store) -> Result<()> {
        let Some(limit) = self.steps.limit() else { return Ok(()) };
        let full: Vec<bool> =
            rows.iter().enumerate().map(|(index, row)| row.goes() && self.is_full(index)).collect();
        if !full.contains(&true) {
            return Ok(());
        }
        for (row, _) in rows.iter_mut().zip(&full).filter(|(_, full)| **full) {
            row.from = row.seen.len() - (limit / 2).max(1);
            row.reread.push(row.generated());
        }
        let known: Vec<Option<&[i32]>> = rows.iter().map(|row| row.goes().then(|| row.known())).collect();
        self.steps.restart(&known, &full, store)
    }

    /// Refuses prompts that are empty, too long, or of another vocabulary.
    pub(crate) fn check_prompts(&mut self, prompts: &[Vec<i32>]) -> Result<()> {
        let most = self.settings.rows;
        if prompts.is_empty() || prompts.len() > most {
            return Err(Error::Request {
                what: format!("{} prompts for {most} rows", prompts.len()),
                advice: "give at least one, and at most as many as there are rows".into(),
            });
        }
        let read = self.steps.reader().map(|reader| Reader::count(reader));
        if let Some(read) = read.filter(|&read| read != prompts.len()) {
            return Err(Error::Request {
                what: format!("{} prompts, but {read} sources were read", prompts.len()),
                advice: "read the sources first, and begin a target for each".into(),
            });
        }
        for (row, prompt) in prompts.iter().enumerate() {
            check_ids("prompt", row, prompt, self.vocabulary, self.steps.limit())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_engine::Cpu;
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
        assert_eq!(generator.limit(), Some(8));
        let nodes = generator.program().graph().nodes();
        assert!(nodes.iter().any(|node| node.op.name() == "cache_write"), "it keeps what it has read");
        // Nor does the number of the last example there can be overflow.
        let prompts = [vec![1]];
        let request = Request { examples: Examples::From(u64::MAX), ..Request::greedy(&prompts, 2) };
        assert_eq!(generator.generate(&request, &mut store).unwrap()[0].ids.len(), 2);
    }
}
