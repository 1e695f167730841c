//! Decoders that keep keys and values: prompts chunk by chunk, then a token at a time, for all rows together.
//! Rows may go on from what other rows know: keys are not copied, each row says where its own lie.

use crate::places::Places;
use crate::reader::Reader;
use crate::steps::{Model, Steps, planned, refuse};
use crate::{Result, Settings};
use regard_engine::{Device, Numbers, Program, Store};
use regard_graph::{DType, Graph, shape};
use regard_models::{Cached, Decoding, Keys};

/// The program, and what its rows know.
pub struct Caching {
    program: Program,
    reader: Option<Reader>,
    rows: usize,
    chunk: usize,
    vocabulary: usize,
    capacity: usize,
    limit: Option<usize>,
    /// Whether slots are taken over when their keys are out of sight.
    ring: bool,
    places: Places,
    /// From which row of the caches each key comes, `[B S]`; empty where rows keep to themselves.
    key_row: Vec<i32>,
}

impl Caching {
    pub fn new(
        model: Model<'_>,
        rows: usize,
        settings: &Settings,
        store: &mut Store,
        device: &Device,
    ) -> Result<Caching> {
        let Settings { beams, mut chunk, precision, .. } = *settings;
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
        if let Some(window) = model.window().filter(|_| ring) {
            // Also where a smaller ring was asked for.
            chunk = chunk.min(capacity.saturating_sub(window - 1).max(1));
        }
        let limit = match (ring, model.context()) {
            (true, context) => context,
            (false, context) => Some(context.map_or(capacity, |context| context.min(capacity))),
        };
        let reader = match model {
            Model::One(_) => None,
            Model::Pair(model) => Some(Reader::new(model, settings, store, device)?),
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
            (Model::One(model), _) => model.next(&mut g, ids, own.into())?,
            (Model::Pair(_), None) => return refuse("nothing reads the sources", "plan with a reader"),
        };
        g.output("scores", scores)?;
        let program = planned(g, rows, store, device)?;
        let key_row = vec![0; if beams == 1 { 0 } else { rows * capacity }];
        let (vocabulary, places) = (model.vocabulary(), Places::new(rows, capacity));
        Ok(Caching { program, reader, rows, chunk, vocabulary, capacity, limit, ring, places, key_row })
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

impl Steps for Caching {
    fn program(&self) -> &Program {
        &self.program
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn limit(&self) -> Option<usize> {
        self.limit
    }

    fn reader(&mut self) -> Option<&mut Reader> {
        self.reader.as_mut()
    }

    /// Prompts are padded on the left to the longest, and go through chunk by chunk.
    fn begin(
        &mut self,
        prompts: &[&[i32]],
        source: &dyn Fn(usize) -> usize,
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

    /// Rows that stay feed as many of their last tokens once more as the others take in: the same keys go to
    /// the same slots, bit for bit, where padding would need slots that a full cache does not have.
    fn restart(&mut self, texts: &[Option<&[i32]>], again: &[bool], store: &mut Store) -> Result<()> {
        let text = |row: usize| texts.get(row).copied().flatten();
        let restarts = |row: usize| text(row).filter(|_| again[row]);
        let longest = (0..self.rows).filter_map(restarts).map(<[i32]>::len).max().unwrap_or(0);
        (0..self.rows).filter(|&row| restarts(row).is_some()).for_each(|row| self.places.forget(row));
        let mut start = 0;
        while start < longest {
            let width = self.chunk.min(longest - start);
            let (mut ids, mut own) = (Vec::new(), Vec::new());
            for row in 0..self.rows {
                let part = match (restarts(row), text(row)) {
                    // Shorter ones wait, as they do for the longest prompt.
                    (Some(text), _) => {
                        let before = longest - text.len();
                        &text[start.saturating_sub(before)..(start + width).saturating_sub(before)]
                    }
                    (None, Some(text)) => {
                        let part = &text[text.len() - text.len().min(width)..];
                        self.places.rewind(row, part.len());
                        part
                    }
                    (None, None) => &[],
                };
                ids.extend(std::iter::repeat_n(0, width - part.len()));
                ids.extend_from_slice(part);
                own.push(part.len());
            }
            self.run(&ids, &own, width, store)?;
            start += width;
        }
        Ok(())
    }

    fn go_on(&mut self, newest: &dyn Fn(usize) -> Option<i32>, store: &mut Store) -> Result<()> {
        let newest: Vec<Option<i32>> = (0..self.rows).map(newest).collect();
        let ids: Vec<i32> = newest.iter().map(|id| id.unwrap_or(0)).collect();
        let own: Vec<usize> = newest.iter().map(|id| usize::from(id.is_some())).collect();
        self.run(&ids, &own, 1, store)
    }

    fn follow(&mut self, parents: &[usize]) {
        let (before, s) = (self.key_row.clone(), self.capacity);
        for (own, &parent) in self.key_row.chunks_mut(s).zip(parents) {
            own.copy_from_slice(&before[parent * s..][..s]);
        }
        self.places.follow(parents);
    }

    fn known(&self, row: usize) -> usize {
        self.places.known(row)
    }

    fn scores(&self, row: usize) -> Result<Numbers<'_, f32>> {
        let start = row * self.vocabulary;
        Ok(self.program.f32("scores")?.part(start..start + self.vocabulary))
    }
}
