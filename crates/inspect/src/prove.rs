//! Properties by proof: the reach reader says which elements of an input can change which elements of every
//! value, the axes reader which example and which position each of them stands for, and a property holds if
//! nothing that it forbids is among them. Of a property that does not hold, the guilty node is the first in
//! the order of running whose result breaks it: everything that it reads still kept it. What could not be
//! followed is said, and what rests on it is unknown.

use crate::Result;
use regard_graph::Graph;

mod follow;
mod judge;

pub(crate) use follow::Followed;

/// A sequence that a recorded pass reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// The input with its ids, `[B T]`, or with features behind them.
    pub input: String,
    /// T.
    pub length: usize,
    /// The boolean input that says which positions are real, `[B T]`, if the model takes one.
    pub mask: Option<String>,
    /// Which positions are real, row-major: what [`Promise::Padding`] is proved for.
    pub real: Vec<bool>,
}

impl Stream {
    /// A stream without padding and without a mask.
    pub fn whole(input: &str, batch: usize, length: usize) -> Self {
        Stream { input: input.into(), length, mask: None, real: vec![true; batch * length] }
    }
}

/// A recorded pass, and what is to be proved of it.
pub struct ProofCase {
    /// The pass, at fixed sizes. Of inputs that are no stream, floats have the batch in front where there are
    /// no streams; the axes of others are found by what they meet.
    pub graph: Graph,
    /// B.
    pub batch: usize,
    /// What it reads.
    pub streams: Vec<Stream>,
    /// The elements of other integer inputs, such as positions.
    pub known: Vec<(String, Vec<i64>)>,
}

/// What a family promises. Streams are named by their inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// No position of a stream depends on a later one of the same stream. What stands for a pair of
    /// positions, such as a score, may depend on what the later of the two does.
    Causal(String),
    /// What stands at padding reaches no real position, nor any other stream, nor an output that is said
    /// about a whole example. It may reach what stands for no position (latents, a sum) as long as nothing
    /// real feels it from there.
    Padding(String),
    /// Every position of `to` can depend on every real position of `from` in the same example.
    Sees {
        /// The stream that is seen.
        from: String,
        /// The stream that sees.
        to: String,
        /// The tap or output by which that is judged.
        by: String,
    },
    /// No example depends on another.
    Batch,
}

/// What came of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is kept, by every value that it speaks of and by all outputs.
    Holds,
    /// It is not.
    Broken,
    /// Nothing breaks it, but an output that it rests on could not be followed, or nothing that it speaks of
    /// was found.
    Unknown,
}

/// The node with which a broken property begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guilty {
    /// Its dotted name.
    pub node: String,
    /// Its op.
    pub op: String,
    /// The input that can be felt where it should not.
    pub input: String,
    /// The coordinates there.
    pub from: Vec<usize>,
    /// The coordinates of the result that feels it.
    pub to: Vec<usize>,
}

/// A value that could not be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfollowed {
    /// The dotted name of its node.
    pub node: String,
    /// The node's op.
    pub op: String,
    /// Why not.
    pub reason: String,
}

/// How much of what an input can change was judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Values that the promise speaks of, each judged in all its cells.
    pub judged: usize,
    /// Values that it does not speak of: they are followed, and stand for no position or no example.
    pub aside: usize,
    /// Values of which nobody can say what they stand for. What they feel is carried on all the same.
    pub unfollowed: Vec<Unfollowed>,
}

impl Coverage {
    /// All values that the input can change.
    pub fn values(&self) -> usize {
        self.judged + self.aside + self.unfollowed.len()
    }
}

/// What came of one promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The promise.
    pub promise: Promise,
    /// Whether it is kept.
    pub outcome: Outcome,
    /// The same in a sentence.
    pub sentence: String,
    /// Where it is broken first.
    pub guilty: Option<Guilty>,
    /// What it was judged by.
    pub coverage: Coverage,
}

impl Finding {
    /// Whether the promise is kept, for certain.
    pub fn holds(&self) -> bool {
        self.outcome == Outcome::Holds
    }
}

/// Proves promises, or finds who breaks them.
pub fn prove(case: &ProofCase, promises: &[Promise]) -> Result<Vec<Finding>> {
    let followed = Followed::new(case)?;
    promises.iter().map(|promise| followed.judge(promise)).collect()
}
