//! What kernels find wrong with numbers: a word for each node that can find something, and one that stops
//! what outlives a run from being changed. The host looks at them when it waits, and makes a sentence of the
//! first.

use crate::{Error, Result};
use regard_device::cuda::{Address, Memory, Stream};
use regard_ops::FaultSentence;

/// Nodes of all programs of a card that can find something.
const WORDS: usize = 1 << 16;
const NOTHING: u64 = u64::MAX;

pub(crate) struct Faults {
    /// The word that stops, then one for each node.
    words: Memory,
    nodes: Vec<Option<Node>>,
}

struct Node {
    name: String,
    sentence: FaultSentence,
}

impl Faults {
    pub fn new(stream: &Stream) -> Result<Faults> {
        let mut words = Memory::new(stream.card(), (WORDS + 1) * 8)?;
        words.write(stream, 0, &[0u64])?;
        words.write(stream, 8, &vec![NOTHING; WORDS])?;
        Ok(Faults { words, nodes: Vec::new() })
    }

    /// The word that stops.
    pub fn stop(&self) -> Address {
        self.words.start()
    }

    /// The word of an index.
    pub fn word(&self, index: usize) -> Address {
        self.words.start().after((index + 1) * 8)
    }

    /// A free word for a node, by its index; `None` where all are taken, and then nothing is found.
    pub fn take(&mut self, name: &str, sentence: FaultSentence) -> Option<usize> {
        let node = Some(Node { name: name.into(), sentence });
        match self.nodes.iter().position(Option::is_none) {
            Some(free) => {
                self.nodes[free] = node;
                Some(free)
            }
            None if self.nodes.len() < WORDS => {
                self.nodes.push(node);
                Some(self.nodes.len() - 1)
            }
            None => None,
        }
    }

    /// The sentence of a word that is taken, when sizes have changed.
    pub fn replace(&mut self, index: usize, sentence: FaultSentence) {
        if let Some(node) = &mut self.nodes[index] {
            node.sentence = sentence;
        }
    }

    pub fn give_back(&mut self, index: usize) {
        self.nodes[index] = None;
    }

    /// The error of what was found since this was last asked, once the stream has passed. Everything is as
    /// before then.
    pub fn report(&mut self, stream: &Stream) -> Result<()> {
        let mut stop = [0u64];
        self.words.read(stream, 0, &mut stop)?;
        if stop[0] == 0 {
            return Ok(());
        }
        let mut words = vec![0u64; self.nodes.len()];
        self.words.read(stream, 8, &mut words)?;
        self.words.write(stream, 0, &[0u64])?;
        self.words.write(stream, 8, &vec![NOTHING; self.nodes.len()])?;
        for (node, word) in self.nodes.iter().zip(words) {
            if let (Some(Node { name, sentence }), true) = (node, word != NOTHING) {
                let fault = sentence((word >> 32) as u32, word as u32 as i32);
                return Err(Error::Fault { node: name.clone(), fault });
            }
        }
        Ok(())
    }
}
