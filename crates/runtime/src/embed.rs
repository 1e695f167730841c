//! Texts to vectors, as sentence-transformers make them: the hidden states of a model that offers itself as a
//! [`SentenceEncoder`](regard_models::SentenceEncoder), through a [`SentenceHead`].

use crate::batches::{Progress, in_batches, text_batch};
use crate::{Error, Result};
use regard_data::Field;
use regard_engine::{AsDevice, Program, Store};
use regard_graph::{DType, Graph, Init};
use regard_models::model::output;
use regard_models::sentence::{Pooling, SentenceHead, States};
use regard_models::{Model, Sizes};

/// What is pooled, and where the last token of each text stands, as inputs.
const POOLED: &str = "pooled";
const LAST: &str = "last";

/// A model that is ready to turn texts into vectors.
pub struct Embedder {
    program: Program,
    width: usize,
    batch: usize,
    skipped: usize,
    asks_last: bool,
}

impl Embedder {
    /// Plans the program for at most so many texts of at most so many tokens. The layers of the head are
    /// found in the store, or made there.
    pub fn new(
        model: &dyn Model,
        head: &SentenceHead,
        [batch, tokens]: [usize; 2],
        store: &mut Store,
        device: &impl AsDevice,
    ) -> Result<Embedder> {
        for declared in head.parameters()?.all() {
            store.declare(&declared.name, &declared.shape, Init::Zeros)?;
        }
        let mut g = Graph::inference();
        let sizes = Sizes { batch: batch.max(1), ids: tokens.max(1), ..Sizes::default() };
        let inputs = model.reads().declare_open(&mut g, sizes)?;
        let hidden = output(&model.pass(&mut g, &inputs)?, "hidden").ok_or_else(|| {
            let what = format!("a model of the family {} has no hidden states", model.family());
            Error::invalid(what, "let its pass name them `hidden`")
        })?;
        let row = g.shape(inputs.ids()?).clone();
        let pooled = match head.skipped {
            0 => inputs.mask,
            _ => Some(g.input(POOLED, DType::Bool, &row)?),
        };
        let asks_last = head.poolings.contains(&Pooling::Last);
        let last = if asks_last { Some(g.input(LAST, DType::Bool, &row)?) } else { None };
        let width = g.shape(hidden)[2].bound();
        let sentence = head.forward(&mut g, &States { hidden, pooled, last })?; // B T -> B N
        g.output("sentence", sentence)?;
        let program = Program::new(g, &[], store, device)?;
        let (width, batch, skipped) = (head.width(width), batch.max(1), head.skipped);
        Ok(Embedder { program, width, batch, skipped, asks_last })
    }

    /// The vector of each row of ids. Neither batch nor padding changes a bit of any.
    pub fn vectors(
        &mut self,
        rows: &[Vec<i32>],
        store: &mut Store,
        progress: &mut Progress<'_, Vec<f32>>,
    ) -> Result<Vec<Vec<f32>>> {
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        in_batches(&lengths, self.batch, progress, |batch| {
            let texts: Vec<&[i32]> = batch.iter().map(|&at| rows[at].as_slice()).collect();
            let longest = texts.iter().map(|text| text.len()).max().unwrap_or(1).max(1);
            let mut fed = text_batch(&texts, 0);
            let mut mark = |name: &'static str, is: &dyn Fn(usize, usize) -> bool| {
                let each = texts.iter().flat_map(|text| (0..longest).map(|at| is(at, text.len())));
                fed.fields.push(Field::bools(name, &[texts.len(), longest], each.collect()));
            };
            if self.skipped > 0 {
                mark(POOLED, &|at, length| at >= self.skipped && at < length);
            }
            if self.asks_last {
                mark(LAST, &|at, length| at + 1 == length);
            }
            regard_train::feed(&mut self.program, &fed, &[])?;
            self.program.run(store)?;
            let all = self.program.f32("sentence")?;
            Ok(all.chunks(self.width).take(batch.len()).map(<[f32]>::to_vec).collect())
        })
    }
}
