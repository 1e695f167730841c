//! Where a decoder stands that writes one piece after another: what it keeps of its own positions, and what is kept of
//! the memory that it reads. Shared by the encoder-decoders.

use regard_graph::{Graph, Result, Var};
use regard_layers::{Cached, Context, Source};
use regard_ops::AttentionMask;

/// A run of a decoder with caches. The batch has as many examples as the caches have rows.
#[derive(Clone, Copy, Debug)]
pub struct Decoding {
    /// The position of each new token, i32 [B T]: its key and value go to the same slot of the caches.
    pub position: Var,
    /// B, rows of all caches.
    pub rows: usize,
    /// The most positions of the decoder.
    pub capacity: usize,
    /// The most positions of the memory.
    pub memory_capacity: usize,
    /// Which slots of the memory count, bool [B memory_capacity]. Slots that were never written must not.
    pub memory_mask: Var,
}

impl Decoding {
    /// Who sees whom among the decoder's own positions: each itself and what came before, out of the caches.
    pub(crate) fn own(&self) -> Context {
        let cached = Cached { slot: self.position, rows: self.rows, capacity: self.capacity };
        Context { query_position: Some(self.position), cached: Some(cached), ..Context::causal() }
    }

    /// What was kept of the memory, and who sees it.
    pub(crate) fn memory(&self) -> (Source, Context) {
        let source = Source::Kept { rows: self.rows, capacity: self.memory_capacity };
        (source, padded(Some(self.memory_mask)))
    }
}

/// All positions but the padding: `mask` is true where there is a token.
pub(crate) fn padded(mask: Option<Var>) -> Context {
    Context { mask: AttentionMask { key_mask: mask, ..Default::default() }, ..Default::default() }
}

/// Keeps what a decoder needs of a memory B S C, one slot for each position; `slot` is i32 [B S].
pub(crate) fn keep(
    g: &mut Graph,
    decoder: &regard_layers::Stack,
    memory: Var,
    slot: Var,
    [rows, capacity]: [usize; 2],
) -> Result<()> {
    g.scope("decoder", |g| decoder.keep(g, memory, &Cached { slot, rows, capacity }))
}
