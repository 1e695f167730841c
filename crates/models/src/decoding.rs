//! Where the decoder of an encoder-decoder stands that writes one piece after another: what it keeps of its own
//! positions, and what is kept of the memory that it reads.

use crate::decoder::{Cached, Keys};
use regard_graph::{Error, Graph, Result, Var};
use regard_layers::{Context, Source, Stack};
use regard_ops::AttentionMask;

/// A run of a decoder with caches. The batch is fixed: each example has a row of its own in all caches.
#[derive(Clone, Copy, Debug)]
pub struct Decoding {
    /// Where the new tokens stand, and what is known of those before.
    pub own: Cached,
    /// S, the most positions of the memory.
    pub memory_capacity: usize,
    /// Which slots of the memory count, bool [B S]. Those that were never written must not.
    pub memory_mask: Var,
}

impl Decoding {
    /// What the tokens see of each other, out of the caches; what was kept of the memory, and who sees that.
    pub(crate) fn contexts(&self, g: &Graph, target: Var) -> Result<(Context, Source, Context)> {
        let Cached { position, slot, capacity, keys } = self.own;
        let rows = fixed_rows(g, target)?;
        let cached = Some(regard_layers::Cached { slot, rows, capacity });
        let mut own = Context { query_position: Some(position), cached, ..Context::causal() };
        match keys {
            Keys::Below(lengths) => own.mask.key_lengths = Some(lengths),
            Keys::Placed { position, mask } => {
                own.key_position = Some(position);
                own.mask.key_mask = Some(mask);
            }
        }
        let source = Source::Kept { rows, capacity: self.memory_capacity };
        Ok((own, source, padded(Some(self.memory_mask))))
    }
}

/// All positions but the padding: `mask` is true where there is a token.
pub(crate) fn padded(mask: Option<Var>) -> Context {
    Context { mask: AttentionMask { key_mask: mask, ..Default::default() }, ..Default::default() }
}

/// Keeps what a decoder needs of a memory B S C in caches of `capacity` slots; `slot` is i32 [B S].
pub(crate) fn keep(g: &mut Graph, decoder: &Stack, memory: Var, slot: Var, capacity: usize) -> Result<()> {
    let rows = fixed_rows(g, memory)?;
    g.scope("decoder", |g| decoder.keep(g, memory, &regard_layers::Cached { slot, rows, capacity }))
}

fn fixed_rows(g: &Graph, var: Var) -> Result<usize> {
    g.shape(var).first().and_then(|batch| batch.fixed()).ok_or_else(|| {
        Error::invalid(
            "decoding",
            "the batch of a run with caches is open",
            "give ids of a fixed batch: each example has a row of its own in the caches",
        )
    })
}
