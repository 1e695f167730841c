//! The loop: prompts in chunks, then a token at a time for all rows together, through one planned program.

use crate::places::Places;
use crate::{Decoder, Error, Result, Sampling};
use regard_engine::{Cpu, Program, Store};
use regard_graph::{DType, Graph, Precision, shape};
use regard_models::{Cached, Keys};
use std::ops::ControlFlow;

/// What is planned for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The most prompts at a time.
    pub rows: usize,
    /// The most ids of a prompt in one run: more is faster, and takes more memory.
    pub chunk: usize,
    /// How many keys are remembered; as many as the model can see if not given.
    pub capacity: Option<usize>,
    /// How products are computed.
    pub precision: Precision,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { rows: 1, chunk: 64, capacity: None, precision: Precision::F32 }
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
    program: Program,
    settings: Settings,
    vocabulary: usize,
    capacity: usize,
    ring: bool,
    /// The most positions of a row.
    limit: Option<usize>,
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
        let Settings { rows, mut chunk, precision, .. } = settings;
        let refuse =
            |what: &str, advice: &str| Err(Error::Request { what: what.into(), advice: advice.into() });
        if rows == 0 || chunk == 0 || settings.capacity == Some(0) {
            return refuse("rows, chunk or capacity is 0", "give each at least 1");
        }
        chunk = chunk.min(settings.capacity.or(model.context()).unwrap_or(chunk));
        let seen = match (model.window(), model.context()) {
            // What the first id of a chunk sees must outlive the chunk.
            (Some(window), Some(context)) => (window + chunk - 1).min(context),
            (Some(window), None) => window + chunk - 1,
            (None, Some(context)) => context,
            (None, None) => {
                let Some(capacity) = settings.capacity else {
                    return refuse("the model sees without end", "give a capacity");
                };
                capacity
            }
        };
        let capacity = settings.capacity.unwrap_or(seen);
        let ring = model.window().is_some() && model.context().is_none_or(|context| capacity < context);
        let limit = match (ring, model.context()) {
            (true, context) => context,
            (false, context) => Some(context.map_or(capacity, |context| context.min(capacity))),
        };

        let mut g = Graph::inference();
        g.set_precision(precision);
        let t = g.open('T', chunk)?;
        let ids = g.input("ids", DType::I32, shape![rows, t])?;
        let position = g.input("position", DType::I32, shape![rows, t])?;
        let slot = g.input("slot", DType::I32, shape![rows, t])?;
        let keys = if ring {
            Keys::Placed {
                position: g.input("key_position", DType::I32, [rows, capacity])?,
                mask: g.input("key_mask", DType::Bool, [rows, capacity])?,
            }
        } else {
            Keys::Below(g.input("lengths", DType::I32, [rows])?)
        };
        let scores = model.next(&mut g, ids, Cached { position, slot, capacity, keys })?;
        g.output("scores", scores)?;
        let program = Program::new(g, &[], store, cpu)?;
        let settings = Settings { chunk, ..settings };
        Ok(Generator { program, settings, vocabulary: model.vocabulary(), capacity, ring, limit })
    }

    /// The program of one step.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// How many keys are remembered.
    pub fn capacity(&self) -> usize {
        self.capacity
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
        self.check_prompts(request.prompts)?;
        let mut rows: Vec<Row> = request
            .prompts
            .iter()
            .map(|prompt| Row {
                seen: prompt.clone(),
                prompt: prompt.len(),
                ended: (request.most == 0).then_some(Ended::Most),
            })
            .collect();
        let mut places = Places::new(self.settings.rows, self.capacity);
        if rows.iter().any(|row| row.ended.is_none()) {
            self.read_prompts(request.prompts, &mut places, store)?;
        }
        while rows.iter().any(|row| row.ended.is_none()) {
            let mut broken = false;
            for (index, row) in rows.iter_mut().enumerate().filter(|(_, row)| row.ended.is_none()) {
                let scores = &self.program.f32("scores")?[index * self.vocabulary..][..self.vocabulary];
                let example = request.first_example + index as u64;
                let Some(chosen) = request.sampling.choose(scores, &row.seen, example) else {
                    return Err(Error::Scores { row: index, length: row.seen.len() });
                };
                if request.stop.contains(&chosen.id) {
                    row.ended = Some(Ended::Stop(chosen.id));
                    continue;
                }
                row.seen.push(chosen.id);
                if row.seen.len() - row.prompt == request.most {
                    row.ended = Some(Ended::Most);
                } else if self.limit.is_some_and(|limit| places.known(index) >= limit) {
                    row.ended = Some(Ended::Context);
                }
                let token = Token { row: index, id: chosen.id, probability: chosen.probability };
                broken |= listener(token).is_break();
            }
            for row in rows.iter_mut().filter(|row| broken && row.ended.is_none()) {
                row.ended = Some(Ended::Broken);
            }
            if rows.iter().any(|row| row.ended.is_none()) {
                self.go_on(&rows, &mut places, store)?;
            }
        }
        let generated = |row: Row| Generated {
            ids: row.seen[row.prompt..].to_vec(),
            ended: row.ended.unwrap_or(Ended::Broken),
        };
        Ok(rows.into_iter().map(generated).collect())
    }

    fn check_prompts(&self, prompts: &[Vec<i32>]) -> Result<()> {
        if prompts.is_empty() || prompts.len() > self.settings.rows {
            return Err(Error::Request {
                what: format!("{} prompts for {} rows", prompts.len(), self.settings.rows),
                advice: "give at least one, and at most as many as there are rows".into(),
            });
        }
        for (row, prompt) in prompts.iter().enumerate() {
            let wrong = |what: String, advice: &str| Err(Error::Prompt { row, what, advice: advice.into() });
            if prompt.is_empty() {
                return wrong("it is empty".into(), "begin with at least one token");
            }
            if let Some(id) = prompt.iter().find(|id| !(0..self.vocabulary as i64).contains(&i64::from(**id)))
            {
                let advice = "use the tokenizer of this model";
                return wrong(
                    format!("it has the token {id}, the vocabulary has {}", self.vocabulary),
                    advice,
                );
            }
            if let Some(limit) = self.limit.filter(|&limit| prompt.len() > limit) {
                let what = format!("it has {} tokens, there is room for {limit}", prompt.len());
                return wrong(what, "shorten it");
            }
        }
        Ok(())
    }

    /// Runs the prompts through, padded on the left to the longest, chunk by chunk.
    fn read_prompts(&mut self, prompts: &[Vec<i32>], places: &mut Places, store: &mut Store) -> Result<()> {
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
        let mut start = 0;
        while start < longest {
            let width = self.settings.chunk.min(longest - start);
            let (mut ids, mut own) = (Vec::new(), Vec::new());
            for row in 0..self.settings.rows {
                let prompt = prompts.get(row).map_or(&[][..], Vec::as_slice);
                let padding = (longest - prompt.len()).saturating_sub(start).min(width);
                ids.extend((0..padding).map(|_| 0));
                let from = (start + padding + prompt.len()).saturating_sub(longest);
                ids.extend_from_slice(&prompt[from..from + width - padding]);
                own.push(width - padding);
            }
            self.run(&ids, &own, width, places, store)?;
            start += width;
        }
        Ok(())
    }

    /// Feeds the newest token of each row that goes on.
    fn go_on(&mut self, rows: &[Row], places: &mut Places, store: &mut Store) -> Result<()> {
        let going = |row: usize| rows.get(row).filter(|row| row.ended.is_none());
        let newest = |row| going(row).and_then(|row| row.seen.last().copied());
        let ids: Vec<i32> = (0..self.settings.rows).map(|row| newest(row).unwrap_or(0)).collect();
        let own: Vec<usize> = (0..self.settings.rows).map(|row| usize::from(going(row).is_some())).collect();
        self.run(&ids, &own, 1, places, store)
    }

    fn run(
        &mut self,
        ids: &[i32],
        own: &[usize],
        width: usize,
        places: &mut Places,
        store: &mut Store,
    ) -> Result<()> {
        places.step(own, width);
        let rows = self.settings.rows;
        self.program.set_i32("ids", &[rows, width], ids)?;
        self.program.set_i32("position", &[rows, width], &places.position)?;
        self.program.set_i32("slot", &[rows, width], &places.slot)?;
        if self.ring {
            places.place_keys();
            self.program.set_i32("key_position", &[rows, self.capacity], &places.key_position)?;
            self.program.set_bools("key_mask", &[rows, self.capacity], &places.key_mask)?;
        } else {
            self.program.set_i32("lengths", &[rows], &places.lengths)?;
        }
        Ok(self.program.run(store)?)
    }
}
