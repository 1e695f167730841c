//! What a model offers to those that continue sequences: the scores of the next token, with keys and values kept
//! from run to run. Letters: B rows, T new positions, S slots of the caches, V vocabulary.

use regard_graph::{Graph, Result, Var};

/// A model that continues a sequence, whatever it is made of.
pub trait Decoder {
    /// V, how many tokens there are.
    fn vocabulary(&self) -> usize;

    /// The most positions of a sequence; none if it may go on for ever.
    fn context(&self) -> Option<usize>;

    /// How many keys a position sees, its own among them; none if all that came before.
    fn window(&self) -> Option<usize>;

    /// The scores of what follows the last of these ids: B T -> B V, f32. B is fixed: each row has its own caches.
    fn next(&self, g: &mut Graph, ids: Var, cached: Cached) -> Result<Var>;
}

/// Where the ids of a run stand, and what is known from earlier runs. The caches are states
/// `cache.<layer>.key` and `.value`, `[B S G D]`.
#[derive(Clone, Copy, Debug)]
pub struct Cached {
    /// The position of each id, i32 `[B T]`.
    pub position: Var,
    /// The slot for its key and value, i32 `[B T]`; no slot twice in a row. Padding needs one, too: one whose key does
    /// not count.
    pub slot: Var,
    /// S.
    pub capacity: usize,
    /// Which keys count.
    pub keys: Keys,
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
    /// Caches that grow: position p has slot p, and `lengths` `[B]` positions are known, those of this run among them.
    pub fn growing(position: Var, lengths: Var, capacity: usize) -> Self {
        Cached { position, slot: position, capacity, keys: Keys::Below(lengths) }
    }
}
