//! The planned program of a decoder and what is fed to it: prompts chunk by chunk, then a token at a time, for all rows
//! together. Rows may go on from what other rows know: keys are not copied, each row says where its own lie.

use crate::places::Places;
use crate::reader::Reader;
use crate::{Decoder, EncoderDecoder, Error, Result, Settings};
use regard_engine::{Cpu, Numbers, Program, Store};
use regard_graph::{DType, Graph, shape};
use regard_models::{Cached, Decoding, Keys};

/// What is planned: a model of one stream, or one that reads a source.
#[derive(Clone, Copy)]
pub enum Model<'a> {
    One(&'a dyn Decoder),
    Pair(&'a dyn EncoderDecoder),
}

impl Model<'_> {
    fn context(self) -> Option<usize> {
        match self {
            Model::One(model) => model.context(),
            Model::Pair(model) => model.context(),
        }
    }

    fn window(self) -> Option<usize> {
        match self {
            Model::One(model) => model.window(),
            Model::Pair(_) => None,
        }
    }

    fn vocabulary(self) -> usize {
        match self {
            Model::One(model) => model.vocabulary(),
            Model::Pair(model) => model.vocabulary(),
        }
    }
}

/// The program, and what its rows know.
pub struct Steps {
    pub program: Program,
    /// What reads sources, for models that have them.
    pub reader: Option<Reader>,
    /// Rows of the program: as many as prompts times beams.
    pub rows: usize,
    pub chunk: usize,
    pub vocabulary: usize,
    pub capacity: usize,
    /// The most positions of a row.
    pub limit: Option<usize>,
    ring: bool,
    places: Places,
    /// From which row of the caches each key comes, `[B S]`; empty where rows keep to themselves.
    key_row: Vec<i32>,
}

impl Steps {
    pub fn new(model: Model<'_>, settings: &Settings, store: &mut Store, cpu: &Cpu) -> Result<Steps> {
        let Settings { rows, beams, mut chunk, precision, .. } = *settings;
        let refuse =
            |what: &str, advice: &str| Err(Error::Request { what: what.into(), advice: advice.into() });
        if rows == 0 || chunk == 0 || settings.capacity == Some(0) {
            return refuse("rows, chunk or capacity is 0", "give each at least 1");
        }
        if beams == 0 {
            return refuse("beams is 0", "1 is a single continuation of each prompt, more are for a search");
        }
        chunk = chunk.min(settings.capacity.or(model.context()).unwrap_or(chunk));
        let seen = match (model.window(), model.context()) {
            // What the first id of a chunk sees must outlive the chunk.
            (Some(window), Some(context)) => window.saturating_add(chunk - 1).min(context),
            (Some(window), None) => window.saturating_add(chunk - 1),
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
        let reader = match model {
            Model::One(_) => None,
            Model::Pair(model) => Some(Reader::new(model, settings, store, cpu)?),
        };

        let Some(rows) = rows.checked_mul(beams) else {
            return refuse("rows times beams is beyond counting", "choose fewer");
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
        let key_row = match beams {
            1 => None,
            _ => Some(g.input("key_row", DType::I32, [rows, capacity])?),
        };
        let own = Cached { position, slot, capacity, keys, key_row };
        let scores = match (model, &reader) {
            (Model::Pair(model), Some(reader)) => {
                let memory_capacity = reader.capacity;
                let memory_mask = g.input("memory_mask", DType::Bool, [rows, memory_capacity])?;
                let memory_row = match beams {
                    1 => None,
                    _ => {
                        let row = g.input("memory_row", DType::I32, [rows, memory_capacity])?;
                        Some((settings.rows, row))
                    }
                };
                model.next(&mut g, ids, &Decoding { own, memory_capacity, memory_mask, memory_row })?
            }
            (Model::One(model), _) => model.next(&mut g, ids, own)?,
            (Model::Pair(_), None) => return refuse("nothing reads the sources", "plan with a reader"),
        };
        g.output("scores", scores)?;
        let program = Program::new(g, &[], store, cpu)?;
        let key_row = vec![0; if beams == 1 { 0 } else { rows * capacity }];
        let (vocabulary, places) = (model.vocabulary(), Places::new(rows, capacity));
        Ok(Steps { program, reader, rows, chunk, vocabulary, capacity, limit, ring, places, key_row })
    }

    /// Refuses prompts that are empty, too long, or of another vocabulary.
    pub fn check_prompts(&self, prompts: &[Vec<i32>], most: usize) -> Result<()> {
        if prompts.is_empty() || prompts.len() > most {
            return Err(Error::Request {
                what: format!("{} prompts for {most} rows", prompts.len()),
                advice: "give at least one, and at most as many as there are rows".into(),
            });
        }
        if let Some(read) = self.reader.as_ref().map(Reader::count).filter(|&read| read != prompts.len()) {
            return Err(Error::Request {
                what: format!("{} prompts, but {read} sources were read", prompts.len()),
                advice: "read the sources first, and begin a target for each".into(),
            });
        }
        for (row, prompt) in prompts.iter().enumerate() {
            check_ids("prompt", row, prompt, self.vocabulary, self.limit)?;
        }
        Ok(())
    }

    /// Forgets all, and runs the prompts through, padded on the left to the longest, chunk by chunk. `source` says
    /// which source each row reads.
    pub fn begin(
        &mut self,
        prompts: &[&[i32]],
        source: impl Fn(usize) -> usize,
        store: &mut Store,
    ) -> Result<()> {
        self.places = Places::new(self.rows, self.capacity);
        for (row, own) in self.key_row.chunks_mut(self.capacity).enumerate() {
            own.fill(row as i32);
        }
        if let Some(reader) = &self.reader {
            reader.show(&mut self.program, self.rows, !self.key_row.is_empty(), source)?;
        }
        let longest = prompts.iter().map(|prompt| prompt.len()).max().unwrap_or(0);
        let mut start = 0;
        while start < longest {
            let width = self.chunk.min(longest - start);
            let (mut ids, mut own) = (Vec::new(), Vec::new());
            for row in 0..self.rows {
                let prompt = prompts.get(row).copied().unwrap_or_default();
                let padding = (longest - prompt.len()).saturating_sub(start).min(width);
                ids.extend((0..padding).map(|_| 0));
                let from = (start + padding + prompt.len()).saturating_sub(longest);
                ids.extend_from_slice(&prompt[from..from + width - padding]);
                own.push(width - padding);
            }
            self.run(&ids, &own, width, store)?;
            start += width;
        }
        Ok(())
    }

    /// Feeds each row its newest token; rows without one rest.
    pub fn go_on(&mut self, newest: impl Fn(usize) -> Option<i32>, store: &mut Store) -> Result<()> {
        let newest: Vec<Option<i32>> = (0..self.rows).map(newest).collect();
        let ids: Vec<i32> = newest.iter().map(|id| id.unwrap_or(0)).collect();
        let own: Vec<usize> = newest.iter().map(|id| usize::from(id.is_some())).collect();
        self.run(&ids, &own, 1, store)
    }

    /// From now on row r knows what row `parents[r]` knew.
    pub fn follow(&mut self, parents: &[usize]) {
        let (before, s) = (self.key_row.clone(), self.capacity);
        for (own, &parent) in self.key_row.chunks_mut(s).zip(parents) {
            own.copy_from_slice(&before[parent * s..][..s]);
        }
        self.places.follow(parents);
    }

    /// How many positions a row knows.
    pub fn known(&self, row: usize) -> usize {
        self.places.known(row)
    }

    /// The scores of a row's next token, `[V]`.
    pub fn scores(&self, row: usize) -> Result<Numbers<'_, f32>> {
        let start = row * self.vocabulary;
        Ok(self.program.f32("scores")?.part(start..start + self.vocabulary))
    }

    fn run(&mut self, ids: &[i32], own: &[usize], width: usize, store: &mut Store) -> Result<()> {
        self.places.step(own, width);
        let (rows, places) = (self.rows, &mut self.places);
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
        if !self.key_row.is_empty() {
            for (row, keys) in self.key_row.chunks_mut(self.capacity).enumerate() {
                let slots = &places.slot[row * width..][width - own[row]..width];
                slots.iter().for_each(|&slot| keys[slot as usize] = row as i32);
            }
            self.program.set_i32("key_row", &[rows, self.capacity], &self.key_row)?;
        }
        Ok(self.program.run(store)?)
    }
}

/// Refuses ids that are none, too many, or of another vocabulary.
pub fn check_ids(
    what: &'static str,
    row: usize,
    ids: &[i32],
    vocabulary: usize,
    limit: Option<usize>,
) -> Result<()> {
    let wrong = |said: String, advice: &str| Err(Error::Ids { what, row, said, advice: advice.into() });
    if ids.is_empty() {
        return wrong("it is empty".into(), "begin with at least one token");
    }
    if let Some(id) = ids.iter().find(|id| !(0..vocabulary as i64).contains(&i64::from(**id))) {
        let said = format!("it has the token {id}, the vocabulary has {vocabulary}");
        return wrong(said, "use the tokenizer of this model");
    }
    if let Some(limit) = limit.filter(|&limit| ids.len() > limit) {
        return wrong(format!("it has {} tokens, there is room for {limit}", ids.len()), "shorten it");
    }
    Ok(())
}
