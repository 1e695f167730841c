//! What a model offers to those that continue sequences: the scores of the next token, with keys and values
//! kept from run to run, or from whole sequences by a model that keeps nothing. Letters: B rows, T positions
//! of a run, S slots of the caches, V vocabulary.

use regard_graph::{Error, Graph, Result, Shape, Var};
use regard_layers::Context;
use regard_ops::prelude::*;

/// A model that continues a sequence, whatever it is made of.
pub trait Decoder {
    /// V, how many tokens there are.
    fn vocabulary(&self) -> usize;

    /// The most positions of a sequence; none if it may go on for ever.
    fn context(&self) -> Option<usize>;

    /// How many keys a position sees, its own among them; none if all that came before.
    fn window(&self) -> Option<usize>;

    /// What it keeps of a sequence from run to run, which decides with which [`Known`] it is asked.
    fn caches(&self) -> Caches;

    /// The stream at these ids: B T -> B T C. With caches B is fixed: each row has its own.
    fn resume(&self, g: &mut Graph, ids: Var, known: Known) -> Result<Var>;

    /// The scores that a stream amounts to: … C -> … V, f32.
    fn scores(&self, g: &mut Graph, x: Var) -> Result<Var>;

    /// The scores of what follows these ids: B T -> B V, f32.
    fn next(&self, g: &mut Graph, ids: Var, known: Known) -> Result<Var> {
        let x = self.resume(g, ids, known)?;
        let x = match known {
            Known::Cached(_) => last(g, x)?,
            Known::Nothing { last } => at(g, x, last)?,
        };
        self.scores(g, x)
    }
}

/// What a decoder keeps from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// The keys and values of every position: a run is given new ids alone. An attention layer has one pair
    /// of caches, so that this is not for models that apply a layer more than once in a pass.
    Keys,
    /// Nothing: every run is given all that there is of a sequence.
    None,
}

/// What a run begins with.
#[derive(Clone, Copy, Debug)]
pub enum Known {
    /// Keys and values of earlier runs, which the ids follow.
    Cached(Cached),
    /// Nothing. The ids are whole sequences, padded on the right; `last` is where each ends, i32 `[B 1]`.
    Nothing {
        /// The last position of each row that is its own.
        last: Var,
    },
}

impl From<Cached> for Known {
    fn from(cached: Cached) -> Self {
        Known::Cached(cached)
    }
}

/// Where the ids of a run stand, and what is known from earlier runs. The caches are states
/// `cache.<layer>.key` and `.value`, `[B S G D]`.
#[derive(Clone, Copy, Debug)]
pub struct Cached {
    /// The position of each id, i32 `[B T]`.
    pub position: Var,
    /// The slot for its key and value, i32 `[B T]`; no slot twice in a row. Padding needs one, too: one whose
    /// key does not count.
    pub slot: Var,
    /// S.
    pub capacity: usize,
    /// Which keys count.
    pub keys: Keys,
    /// For beam search: from which row of the caches each key comes, i32 `[B S]`; from the example's own if
    /// not given.
    pub key_row: Option<Var>,
}

/// Which slots of the caches hold keys that count, once those of this run are in.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// As many as an example has positions, i32 `[B]`; slot s holds position s.
    Below(Var),
    /// Any, as in a ring, where a slot is taken over when its key is out of sight.
    Placed {
        /// The position of each slot's key, i32 `[B S]`.
        position: Var,
        /// Whether it counts, bool `[B S]`.
        mask: Var,
    },
}

impl Cached {
    /// Caches that grow: position p has slot p, and `lengths` `[B]` positions are known, those of this run
    /// among them.
    pub fn growing(position: Var, lengths: Var, capacity: usize) -> Self {
        Cached { position, slot: position, capacity, keys: Keys::Below(lengths), key_row: None }
    }

    /// What the ids of a run see: all that came before, out of the caches.
    pub fn context(&self, g: &Graph, ids: Var) -> Result<Context> {
        let rows = fixed_rows(g, ids)?;
        let mut context = Context::causal();
        self.apply_to(&mut context, rows);
        Ok(context)
    }

    /// Tells attention about the caches, which have this many rows.
    pub(crate) fn apply_to(&self, context: &mut Context, rows: usize) {
        let Cached { position, slot, capacity, keys, key_row } = *self;
        context.query_position = Some(position);
        context.key_row = key_row;
        match keys {
            Keys::Below(lengths) => context.mask.key_lengths = Some(lengths),
            Keys::Placed { position, mask } => {
                context.key_position = Some(position);
                context.mask.key_mask = Some(mask);
            }
        }
        context.cached = Some(regard_layers::Cached { slot, rows, capacity });
    }
}

/// The last position of each row: B T C -> B C.
pub(crate) fn last(g: &mut Graph, x: Var) -> Result<Var> {
    let x = g.slice_last(x, 1, 1)?; // B T C -> B 1 C
    let [rows, _, width] = g.dims(x, "B T C")?;
    g.reshape(x, Shape::new(vec![rows, width]))
}

/// The position of each row that `position` [B 1] names: B T C -> B C.
pub(crate) fn at(g: &mut Graph, x: Var, position: Var) -> Result<Var> {
    let x = g.gather_rows(x, position)?; // B T C -> B 1 C
    let [rows, _, width] = g.dims(x, "B T C")?;
    g.reshape(x, Shape::new(vec![rows, width]))
}

/// How many rows there are, which caches must know before the run.
pub(crate) fn fixed_rows(g: &Graph, var: Var) -> Result<usize> {
    g.check_operands("decoding", &[var])?;
    g.shape(var).first().and_then(|batch| batch.fixed()).ok_or_else(|| {
        Error::invalid(
            "decoding",
            "the batch of a run with caches is open",
            "give ids of a fixed batch: each example has a row of its own in the caches",
        )
    })
}
