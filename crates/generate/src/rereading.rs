//! Decoders that keep nothing: every run is given the whole text of each row that goes on, padded on the
//! right, and where it ends. A step costs what the text costs; rows that are over cost nothing.

use crate::reader::Reader;
use crate::steps::{Steps, planned, refuse};
use crate::{Decoder, Error, Result, Settings};
use regard_engine::{Device, Numbers, Program, Store};
use regard_graph::{DType, Graph, shape};
use regard_models::Known;
use regard_models::inputs::padded_to;

/// The program, and the texts of its rows.
pub struct Rereading {
    program: Program,
    vocabulary: usize,
    limit: usize,
    texts: Vec<Vec<i32>>,
    /// Which place of the last run each row had; none if it rested.
    place: Vec<Option<usize>>,
}

impl Rereading {
    pub fn new(
        model: &dyn Decoder,
        rows: usize,
        settings: &Settings,
        store: &mut Store,
        device: &Device,
    ) -> Result<Rereading> {
        let limit = match (model.context(), settings.capacity) {
            (Some(context), Some(capacity)) => context.min(capacity),
            (Some(most), None) | (None, Some(most)) => most,
            (None, None) => return refuse("the model sees without end", "give a capacity"),
        };
        let mut g = Graph::inference();
        g.set_precision(settings.precision);
        let (b, t) = (g.open('B', rows)?, g.open('T', limit)?);
        let ids = g.input("ids", DType::I32, shape![b, t])?;
        let last = g.input("last", DType::I32, shape![b, 1])?;
        let scores = model.next(&mut g, ids, Known::Nothing { last })?;
        g.output("scores", scores)?;
        let program = planned(g, rows, store, device)?;
        let (vocabulary, texts, place) = (model.vocabulary(), vec![Vec::new(); rows], vec![None; rows]);
        Ok(Rereading { program, vocabulary, limit, texts, place })
    }

    /// Reads the texts of some rows.
    fn read(&mut self, goes: &dyn Fn(usize) -> bool, store: &mut Store) -> Result<()> {
        let going: Vec<usize> = (0..self.texts.len()).filter(|&row| goes(row)).collect();
        let texts: Vec<&[i32]> = going.iter().map(|&row| self.texts[row].as_slice()).collect();
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let ids = padded_to(&texts, 0, longest).values;
        let last: Vec<i32> = texts.iter().map(|text| text.len() as i32 - 1).collect();
        self.place.fill(None);
        for (place, &row) in going.iter().enumerate() {
            self.place[row] = Some(place);
        }
        self.program.set_i32("ids", &[going.len(), longest], &ids)?;
        self.program.set_i32("last", &[going.len(), 1], &last)?;
        Ok(self.program.run(store)?)
    }
}

impl Steps for Rereading {
    fn program(&self) -> &Program {
        &self.program
    }

    fn rows(&self) -> usize {
        self.texts.len()
    }

    fn capacity(&self) -> usize {
        self.limit
    }

    fn limit(&self) -> Option<usize> {
        Some(self.limit)
    }

    fn reader(&mut self) -> Option<&mut Reader> {
        None
    }

    fn begin(
        &mut self,
        prompts: &[&[i32]],
        _source: &dyn Fn(usize) -> usize,
        store: &mut Store,
    ) -> Result<()> {
        for (row, text) in self.texts.iter_mut().enumerate() {
            *text = prompts.get(row).copied().unwrap_or_default().to_vec();
        }
        self.read(&|row| prompts.get(row).is_some_and(|prompt| !prompt.is_empty()), store)
    }

    fn restart(&mut self, texts: &[Option<&[i32]>], again: &[bool], _store: &mut Store) -> Result<()> {
        for (row, text) in texts.iter().enumerate().filter(|(row, _)| again[*row]) {
            self.texts[row] = text.unwrap_or_default().to_vec();
        }
        Ok(())
    }

    fn go_on(&mut self, newest: &dyn Fn(usize) -> Option<i32>, store: &mut Store) -> Result<()> {
        for (row, text) in self.texts.iter_mut().enumerate() {
            text.extend(newest(row));
        }
        self.read(&|row| newest(row).is_some(), store)
    }

    fn follow(&mut self, parents: &[usize]) {
        self.texts = parents.iter().map(|&parent| self.texts[parent].clone()).collect();
    }

    fn known(&self, row: usize) -> usize {
        self.texts[row].len()
    }

    fn scores(&self, row: usize) -> Result<Numbers<'_, f32>> {
        let Some(place) = self.place[row] else {
            return Err(Error::Request {
                what: format!("row {row} rested, and its scores were asked for"),
                advice: "ask rows that go on".into(),
            });
        };
        let start = place * self.vocabulary;
        Ok(self.program.f32("scores")?.part(start..start + self.vocabulary))
    }
}
