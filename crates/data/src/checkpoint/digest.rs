//! The checksum of a checkpoint: SHA-256 over names, dtypes, shapes and bytes. Tensors are digested one by
//! one and then together in the order of their names, so that neither the order in a file nor the division
//! into shards changes it.

use super::{DType, Tensor};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;

/// A SHA-256 digest of tensors; its text is 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The key in `__metadata__` under which a file carries its own checksum.
    pub const KEY: &'static str = "sha256";

    /// The digest of these tensors, in whatever order they come.
    pub fn of<'a>(tensors: impl Iterator<Item = Tensor<'a>>) -> Digest {
        let mut all = Digests::default();
        for tensor in tensors {
            let mut one = Sha256::new();
            one.update(tensor.bytes);
            all.add(tensor.name, tensor.dtype, tensor.shape, one);
        }
        all.finish()
    }
}

/// Digests of single tensors, gathered while they are read or written.
#[derive(Clone, Default)]
pub(super) struct Digests(BTreeMap<String, [u8; 32]>);

impl Digests {
    /// Adds a tensor whose bytes went through `content`.
    pub fn add(&mut self, name: &str, dtype: DType, shape: &[usize], content: Sha256) {
        // Every part is closed by its length or has a fixed one: no two lists of tensors give the same
        // stream.
        let mut one = Sha256::new();
        one.update(dtype.name());
        one.update([0]);
        one.update((shape.len() as u64).to_le_bytes());
        for &extent in shape {
            one.update((extent as u64).to_le_bytes());
        }
        one.update(content.finalize());
        self.0.insert(name.to_owned(), one.finalize().into());
    }

    /// Takes in the tensors of another file.
    pub fn extend(&mut self, other: &Digests) {
        self.0.extend(other.0.iter().map(|(name, digest)| (name.clone(), *digest)));
    }

    /// All of them together.
    pub fn finish(&self) -> Digest {
        let mut all = Sha256::new();
        for (name, digest) in &self.0 {
            all.update((name.len() as u64).to_le_bytes());
            all.update(name);
            all.update(digest);
        }
        Digest(all.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
