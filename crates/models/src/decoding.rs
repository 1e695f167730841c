//! Encoder-decoders as those see them that write one token after another: the source is read once, what the
//! decoder needs of it is kept, and so is what it knows of its own positions. [`EncoderDecoder`] is to them
//! what [`crate::Decoder`] is to models of one stream.

use crate::decoder::{Cached, fixed_rows, last};
use regard_graph::{Graph, Result, Var};
use regard_layers::{Context, KeySource, Stack};
use regard_ops::AttentionMask;

/// A model that reads a source and writes a target. Letters: B rows, S source positions, T target positions,
/// C width, V vocabulary of the target.
pub trait EncoderDecoder {
    /// V, how many tokens of the target there are.
    fn vocabulary(&self) -> usize;

    /// How many tokens of the source there are.
    fn source_vocabulary(&self) -> usize;

    /// The most positions of source and of target; none if they may go on for ever.
    fn context(&self) -> Option<usize>;

    /// The memory: B S -> B S C. `mask` is bool [B S], true where there is a token.
    fn encode(&self, g: &mut Graph, source: Var, mask: Option<Var>) -> Result<Var>;

    /// The decoder's stream at its end: B T -> B T C, with what it sees of itself and of the memory.
    fn stream(&self, g: &mut Graph, target: Var, own: &Context, memory: (KeySource, &Context))
    -> Result<Var>;

    /// The scores that a stream amounts to: … C -> … V, f32.
    fn scores(&self, g: &mut Graph, x: Var) -> Result<Var>;

    /// The decoder's blocks.
    fn decoder(&self) -> &Stack;

    /// Keeps every block's keys and values of a memory B S C for later runs, in caches of `capacity` slots:
    /// `slot` is i32 [B S], 0 1 2 …
    fn keep(&self, g: &mut Graph, memory: Var, slot: Var, capacity: usize) -> Result<()> {
        let rows = fixed_rows(g, memory)?;
        g.scope("decoder", |g| {
            self.decoder().keep(g, memory, &regard_layers::Cached { slot, rows, capacity })
        })
    }

    /// The scores at positions that follow those of earlier runs, after [`EncoderDecoder::keep`]: B T -> B T
    /// V. The bits are those of the whole target at once.
    fn decode(&self, g: &mut Graph, target: Var, decoding: &Decoding) -> Result<Var> {
        let x = self.resume(g, target, decoding)?;
        self.scores(g, x)
    }

    /// The scores of what follows the last of these tokens: B T -> B V.
    fn next(&self, g: &mut Graph, target: Var, decoding: &Decoding) -> Result<Var> {
        let x = self.resume(g, target, decoding)?;
        let x = last(g, x)?;
        self.scores(g, x)
    }

    /// The stream at positions that follow those of earlier runs: B T -> B T C.
    fn resume(&self, g: &mut Graph, target: Var, decoding: &Decoding) -> Result<Var> {
        let (own, source, memory) = decoding.contexts(g, target)?;
        self.stream(g, target, &own, (source, &memory))
    }
}

/// A run of a decoder with caches. The batch is fixed: each example has a row of its own in its caches.
#[derive(Clone, Copy, Debug)]
pub struct Decoding {
    /// Where the new tokens stand, and what is known of those before.
    pub own: Cached,
    /// S, the most positions of the memory.
    pub memory_capacity: usize,
    /// Which slots of the memory count, bool [B S]. Those that were never written must not.
    pub memory_mask: Var,
    /// For several rows that read one source: how many sources are kept, and from which each key comes, i32
    /// [B S]. Row b reads source b if not given.
    pub memory_row: Option<(usize, Var)>,
}

impl Decoding {
    /// What the tokens see of each other, out of the caches; what was kept of the memory, and who sees that.
    fn contexts(&self, g: &Graph, target: Var) -> Result<(Context, KeySource, Context)> {
        let rows = fixed_rows(g, target)?;
        let mut own = Context::causal();
        self.own.apply_to(&mut own, rows);
        let mut memory = padded(Some(self.memory_mask));
        memory.key_row = self.memory_row.map(|(_, row)| row);
        let rows = self.memory_row.map_or(rows, |(sources, _)| sources);
        Ok((own, KeySource::Kept { rows, capacity: self.memory_capacity }, memory))
    }
}

/// All positions but the padding: `mask` is true where there is a token.
pub(crate) fn padded(mask: Option<Var>) -> Context {
    Context { mask: AttentionMask { key_mask: mask, ..Default::default() }, ..Default::default() }
}
