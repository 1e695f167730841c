//! What the loop asks of a planned model: prompts through it, then a token at a time, for all rows together.
//! A model that keeps keys and values goes on through its [`caches`](crate::caches); one that keeps nothing
//! reads its texts again ([`rereading`](crate::rereading)). Rows may go on from what other rows know.

use crate::caches::Caching;
use crate::reader::Reader;
use crate::rereading::Rereading;
use crate::{Decoder, EncoderDecoder, Error, Result, Settings};
use regard_engine::{Device, Numbers, Program, Store};
use regard_graph::Graph;
use regard_models::Caches;

/// What is planned: a model of one stream, or one that reads a source.
#[derive(Clone, Copy)]
pub enum Model<'a> {
    One(&'a dyn Decoder),
    Pair(&'a dyn EncoderDecoder),
}

impl Model<'_> {
    pub fn context(self) -> Option<usize> {
        match self {
            Model::One(model) => model.context(),
            Model::Pair(model) => model.context(),
        }
    }

    pub fn window(self) -> Option<usize> {
        match self {
            Model::One(model) => model.window(),
            Model::Pair(_) => None,
        }
    }

    pub fn vocabulary(self) -> usize {
        match self {
            Model::One(model) => model.vocabulary(),
            Model::Pair(model) => model.vocabulary(),
        }
    }
}

/// A planned model and what its rows know.
pub trait Steps {
    /// The program of a step.
    fn program(&self) -> &Program;

    /// How many rows there are: as many as prompts times beams.
    fn rows(&self) -> usize;

    /// How many positions are remembered.
    fn capacity(&self) -> usize;

    /// The most positions of a row.
    fn limit(&self) -> Option<usize>;

    /// What reads sources, for models that have them.
    fn reader(&mut self) -> Option<&mut Reader>;

    /// Forgets all, and runs the prompts through. `source` says which source each row reads.
    fn begin(&mut self, prompts: &[&[i32]], source: &dyn Fn(usize) -> usize, store: &mut Store)
    -> Result<()>;

    /// Rows of which `again` is true forget what they knew, and know `texts` instead. The others stay as they
    /// are: their texts are what they know already. Rows without a text are over.
    fn restart(&mut self, texts: &[Option<&[i32]>], again: &[bool], store: &mut Store) -> Result<()>;

    /// Feeds each row its newest token; rows without one rest.
    fn go_on(&mut self, newest: &dyn Fn(usize) -> Option<i32>, store: &mut Store) -> Result<()>;

    /// From now on row r knows what row `parents[r]` knew.
    fn follow(&mut self, parents: &[usize]);

    /// How many positions a row knows.
    fn known(&self, row: usize) -> usize;

    /// The scores of a row's next token, `[V]`, after a run in which it did not rest.
    fn scores(&self, row: usize) -> Result<Numbers<'_, f32>>;
}

/// Plans a model as its caches ask for.
pub fn plan(
    model: Model<'_>,
    settings: &Settings,
    store: &mut Store,
    device: &Device,
) -> Result<Box<dyn Steps + Send>> {
    if settings.rows == 0 || settings.chunk == 0 || settings.capacity == Some(0) {
        return refuse("rows, chunk or capacity is 0", "give each at least 1");
    }
    if settings.beams == 0 {
        return refuse("beams is 0", "1 is a single continuation of each prompt, more are for a search");
    }
    let Some(rows) = settings.rows.checked_mul(settings.beams) else {
        return refuse("rows times beams is beyond counting", "choose fewer");
    };
    match model {
        Model::One(model) if model.caches() == Caches::None => {
            Ok(Box::new(Rereading::new(model, rows, settings, store, device)?))
        }
        _ => Ok(Box::new(Caching::new(model, rows, settings, store, device)?)),
    }
}

/// Plans a program for several texts at once, unless what it needs besides the weights is more than the
/// memory that is there: each text and each beam has a row of everything. A single row is tried as it is:
/// where there is little room, what a long context would need is not touched before the text is that long.
pub fn planned(g: Graph, rows: usize, store: &mut Store, device: &Device) -> Result<Program> {
    let available = device.memory_available().filter(|_| rows > 1);
    let new = g.stored().iter().filter(|stored| store.fact(&stored.name).is_err());
    let kept: u64 = new.map(|stored| stored.fact.bytes() as u64).fold(0, u64::saturating_add);
    check_room(rows, kept, available)?;
    let program = Program::new(g, &[], store, device)?;
    // Reserved, but not touched before the first run; what is kept was made by now.
    let memory = program.memory();
    check_room(rows, (memory.arena + memory.io) as u64 + kept, available)?;
    Ok(program)
}

fn check_room(rows: usize, needed: u64, available: Option<u64>) -> Result<()> {
    match available.filter(|&available| needed > available) {
        None => Ok(()),
        Some(available) => refuse(
            &format!(
                "{rows} rows, one for each beam of each text, take {needed} bytes, and {available} are there"
            ),
            "take fewer beams, fewer texts at a time, or a smaller capacity",
        ),
    }
}

pub fn refuse<T>(what: &str, advice: &str) -> Result<T> {
    Err(Error::Request { what: what.into(), advice: advice.into() })
}

/// Refuses ids that are none, too many, or of another vocabulary.
pub fn check_ids(
    what: &'static str,
    row: usize,
    ids: &[i32],
    vocabulary: usize,
    limit: Option<usize>,
) -> Result<()> {
    let wrong = |problem: String, advice: &str| Err(Error::Ids { what, row, problem, advice: advice.into() });
    if ids.is_empty() {
        return wrong("it is empty".into(), "begin with at least one token");
    }
    if let Some(id) = ids.iter().find(|id| !(0..vocabulary as i64).contains(&i64::from(**id))) {
        let problem = format!("it has the token {id}, the vocabulary has {vocabulary}");
        return wrong(problem, "use the tokenizer of this model");
    }
    if let Some(limit) = limit.filter(|&limit| ids.len() > limit) {
        return wrong(format!("it has {} tokens, there is room for {limit}", ids.len()), "shorten it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_memory_cannot_hold_are_refused() {
        assert_eq!(
            check_room(512, 1 << 30, Some(1 << 20)).unwrap_err().to_string(),
            "generate: 512 rows, one for each beam of each text, take 1073741824 bytes, and 1048576 are there; take \
             fewer beams, fewer texts at a time, or a smaller capacity"
        );
        check_room(512, 1 << 20, Some(1 << 20)).unwrap();
        check_room(512, u64::MAX, None).unwrap();
    }
}
