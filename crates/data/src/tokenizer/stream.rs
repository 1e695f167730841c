//! Ids to text as they come. Some tokens hold a part of a character only, and some decoders look at what
//! stands before: so text is held back until it ends with a whole character, and never longer than one can
//! be.

use super::{Kind, Tokenizer};
use crate::Result;

/// Tokens that may stand before the new ones when these are decoded; no decoder looks further back.
const BEFORE: usize = 8;
/// A character has at most this many bytes, so no more tokens can be waiting for its end.
const WAITING: usize = 4;

/// Turns ids to text as they come: see [`Tokenizer::stream`].
#[derive(Debug)]
pub struct Stream<'a> {
    tokenizer: &'a Tokenizer,
    /// The last ids whose text is out, then those that wait.
    ids: Vec<u32>,
    /// How many of `ids` are out.
    out: usize,
    /// Bytes that wait for the rest of their character; used where ids have bytes of their own.
    bytes: Vec<u8>,
}

impl<'a> Stream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, after: &[u32]) -> Stream<'a> {
        let ids = after[after.len().saturating_sub(BEFORE)..].to_vec();
        Stream { tokenizer, out: ids.len(), ids, bytes: Vec::new() }
    }

    /// The text that is whole once this id is there; empty while a character is not.
    pub fn push(&mut self, id: u32) -> Result<String> {
        match &self.tokenizer.kind {
            Kind::HuggingFace(_) => {
                self.tokenizer.known(id)?;
                self.ids.push(id);
                self.take(false)
            }
            Kind::Pieces(_) | Kind::Characters(_) | Kind::Bytes => {
                let bytes = self.tokenizer.raw(self.ids.last().copied(), id)?;
                self.bytes.extend_from_slice(bytes);
                self.ids = vec![id];
                Ok(whole(&mut self.bytes))
            }
        }
    }

    /// What still waits, with `�` for what never became a character.
    pub fn finish(&mut self) -> Result<String> {
        match &self.tokenizer.kind {
            Kind::HuggingFace(_) => self.take(true),
            Kind::Pieces(_) | Kind::Characters(_) | Kind::Bytes => {
                Ok(String::from_utf8_lossy(&std::mem::take(&mut self.bytes)).into_owned())
            }
        }
    }

    /// What the ids that wait add to those before.
    fn take(&mut self, all: bool) -> Result<String> {
        let before = self.tokenizer.decode(&self.ids[..self.out])?;
        let text = self.tokenizer.decode(&self.ids)?;
        let waiting = self.ids.len() - self.out;
        if text.ends_with('\u{fffd}') && waiting < WAITING && !all {
            return Ok(String::new());
        }
        // A decoder that changes what stood before changes it in few places: what is longer is new.
        let shared = before.chars().zip(text.chars()).take_while(|(a, b)| a == b).count();
        let shared = if text.starts_with(&before) { before.chars().count() } else { shared };
        let new = text.chars().skip(shared).collect();
        let forgotten = self.ids.len().saturating_sub(BEFORE);
        self.ids.drain(..forgotten);
        self.out = self.ids.len();
        Ok(new)
    }
}

/// Takes all whole characters from the front. Bytes that can no longer become one are `�`.
fn whole(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut taken = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        taken += chunk.valid().len();
        let wrong = chunk.invalid();
        let at_the_end = taken + wrong.len() == bytes.len();
        // At the end it may only be short, which `Utf8Error` tells from wrong.
        let short = at_the_end && std::str::from_utf8(wrong).is_err_and(|e| e.error_len().is_none());
        if wrong.is_empty() || short {
            break;
        }
        text.push('\u{fffd}');
        taken += wrong.len();
    }
    bytes.drain(..taken);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_come_whole() {
        let tokenizer = Tokenizer::bytes();
        let text = "aé€😀z";
        let mut stream = tokenizer.stream(&[]);
        let parts: Vec<String> = text.bytes().map(|b| stream.push(u32::from(b)).unwrap()).collect();
        assert_eq!(parts, ["a", "", "é", "", "", "€", "", "", "", "😀", "z"]);
        assert_eq!(stream.finish().unwrap(), "");
    }

    #[test]
    fn bytes_that_are_no_character_are_marked_and_hold_nothing_back() {
        let tokenizer = Tokenizer::bytes();
        let every: Vec<u32> = (0..=255).chain([0xf0, 0x9f, 0x41, 0xe2, 0x82]).collect();
        let mut stream = tokenizer.stream(&[]);
        let mut text = String::new();
        for &id in &every {
            text += &stream.push(id).unwrap();
        }
        assert!(text.ends_with("\u{fffd}A"), "{text:?}");
        text += &stream.finish().unwrap();
        assert_eq!(text, tokenizer.decode(&every).unwrap());
    }
}
