//! Reads sources for an encoder-decoder: the encoder runs once, and the keys and values that the decoder
//! needs of its memory are kept. Sources are padded on the right, and what is padding is seen by nobody.

use crate::steps::check_ids;
use crate::{EncoderDecoder, Error, Result, Settings};
use regard_engine::{Device, Program, Store};
use regard_graph::{DType, Graph, shape};
use regard_models::inputs::{Padded, padded};

/// The program that reads, and what it read last.
pub struct Reader {
    program: Program,
    rows: usize,
    vocabulary: usize,
    /// The most positions of a source.
    pub capacity: usize,
    lengths: Vec<usize>,
}

impl Reader {
    pub fn new(
        model: &dyn EncoderDecoder,
        settings: &Settings,
        store: &mut Store,
        device: &Device,
    ) -> Result<Reader> {
        let rows = settings.rows;
        let Some(capacity) = settings.source.or(model.context()).filter(|&capacity| capacity > 0) else {
            let (what, advice) =
                ("the model reads sources of any length", "give the most positions of a source");
            return Err(Error::Request { what: what.into(), advice: advice.into() });
        };
        let mut g = Graph::inference();
        g.set_precision(settings.precision);
        let s = g.open('S', capacity)?;
        let source = g.input("source", DType::I32, shape![rows, s])?;
        let mask = g.input("mask", DType::Bool, shape![rows, s])?;
        let slot = g.input("slot", DType::I32, shape![rows, s])?;
        let memory = model.encode(&mut g, source, Some(mask))?;
        model.keep(&mut g, memory, slot, capacity)?;
        let program = Program::new(g, &[], store, device)?;
        Ok(Reader { program, rows, vocabulary: model.source_vocabulary(), capacity, lengths: Vec::new() })
    }

    /// How many sources were read.
    pub fn count(&self) -> usize {
        self.lengths.len()
    }

    /// Reads sources, and forgets those before.
    pub fn read(&mut self, sources: &[Vec<i32>], store: &mut Store) -> Result<()> {
        if sources.is_empty() || sources.len() > self.rows {
            return Err(Error::Request {
                what: format!("{} sources for {} rows", sources.len(), self.rows),
                advice: "give at least one, and at most as many as there are rows".into(),
            });
        }
        for (row, source) in sources.iter().enumerate() {
            check_ids("source", row, source, self.vocabulary, Some(self.capacity))?;
        }
        // A row without a source reads one token, whatever it is: nobody asks it.
        let own = (0..self.rows).map(|row| sources.get(row).map_or(&[0][..], Vec::as_slice));
        let Padded { values, mask, width } = padded(&own.collect::<Vec<_>>(), 0);
        let slot: Vec<i32> = (0..self.rows).flat_map(|_| 0..width as i32).collect();
        let shape = [self.rows, width];
        self.program.set_i32("source", &shape, &values)?;
        self.program.set_bools("mask", &shape, &mask)?;
        self.program.set_i32("slot", &shape, &slot)?;
        self.lengths.clear();
        self.program.run(store)?;
        self.lengths.extend(sources.iter().map(Vec::len));
        Ok(())
    }

    /// Tells the rows of a decoder which source each of them reads.
    pub fn show(
        &self,
        program: &mut Program,
        rows: usize,
        shared: bool,
        source: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let read = |row: usize| source(row).min(self.lengths.len().saturating_sub(1));
        let length = |row: usize| self.lengths.get(read(row)).copied().unwrap_or(0);
        let mask: Vec<bool> = (0..rows)
            .flat_map(|row| (0..self.capacity).map(move |at| (row, at)))
            .map(|(row, at)| at < length(row))
            .collect();
        program.set_bools("memory_mask", &[rows, self.capacity], &mask)?;
        if shared {
            let from: Vec<i32> =
                (0..rows).flat_map(|row| std::iter::repeat_n(read(row) as i32, self.capacity)).collect();
            program.set_i32("memory_row", &[rows, self.capacity], &from)?;
        }
        Ok(())
    }
}
