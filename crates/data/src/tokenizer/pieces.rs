//! The tokenizer of llama2.c, as its `run.c` encodes and decodes. A text gets a space in front; each
//! character becomes its piece, or one piece for each of its bytes; then neighbours are merged, the best
//! score first, the leftmost among equals. `run.c` looks through all pairs for each merge; a heap of
//! candidates gives the same merges in less time.

use super::Special;
use crate::llama2c::Tokenizer;
use crate::{Error, Result};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

/// Stands for what has no piece; with a piece for each byte, nothing needs it.
const UNKNOWN: u32 = 0;
/// Begins a text.
const BEGIN: u32 = 1;
/// Ends a text.
const END: u32 = 2;
/// Scores at or below this one are never merged, as in `run.c`.
const LOWEST: f32 = -1e10;

/// The pieces, and where each is.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    pieces: Vec<Piece>,
    ids: HashMap<Vec<u8>, u32>,
}

#[derive(Clone, Debug)]
struct Piece {
    bytes: Vec<u8>,
    score: f32,
    /// What it prints as: one byte for `<0x41>`, nothing for the two that begin and end a text.
    printed: Vec<u8>,
}

impl Pieces {
    pub(super) fn new(file: Tokenizer) -> Pieces {
        let mut ids = HashMap::new();
        let mut pieces = Vec::with_capacity(file.pieces.len());
        for (id, piece) in (0u32..).zip(file.pieces) {
            ids.entry(piece.bytes.clone()).or_insert(id);
            let printed = match byte(&piece.bytes) {
                Some(byte) => vec![byte],
                None if [BEGIN, END].contains(&id) => Vec::new(),
                None => piece.bytes.clone(),
            };
            pieces.push(Piece { bytes: piece.bytes, score: piece.score, printed });
        }
        Pieces { pieces, ids }
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    pub(super) fn id(&self, bytes: &[u8]) -> Option<u32> {
        self.ids.get(bytes).copied()
    }

    /// A piece as the file has it.
    pub(super) fn token(&self, id: u32) -> Option<&[u8]> {
        self.pieces.get(id as usize).map(|piece| piece.bytes.as_slice())
    }

    /// The three that every file has in front.
    pub(super) fn special(&self, special: Special) -> Option<u32> {
        let id = match special {
            Special::Unknown => UNKNOWN,
            Special::Begin => BEGIN,
            Special::End => END,
            Special::Pad | Special::Mask | Special::Class | Special::Separator => return None,
        };
        ((id as usize) < self.len()).then_some(id)
    }

    /// The text of a piece; the first one of a text loses the space that was put in front.
    pub(super) fn decode(&self, before: Option<u32>, id: u32) -> &[u8] {
        let printed = &self.pieces[id as usize].printed;
        match before {
            Some(BEGIN) => printed.strip_prefix(b" ").unwrap_or(printed),
            _ => printed,
        }
    }

    /// The ids of a text, the one that begins it first.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        if self.len() <= END as usize {
            return Err(Error::invalid(
                format!("a tokenizer of {} pieces cannot begin a text", self.len()),
                "use the tokenizer that came with the model",
            ));
        }
        let mut ids = vec![BEGIN];
        if !text.is_empty() {
            let mut single = Vec::with_capacity(text.len() + 1);
            for c in std::iter::once(' ').chain(text.chars()) {
                self.character(c, &mut single)?;
            }
            self.merge(&single, &mut ids);
        }
        Ok(ids)
    }

    /// The piece of a character, else those of its bytes.
    fn character(&self, c: char, ids: &mut Vec<u32>) -> Result<()> {
        let mut buffer = [0; 4];
        let bytes = c.encode_utf8(&mut buffer).as_bytes();
        if let Some(id) = self.id(bytes) {
            ids.push(id);
            return Ok(());
        }
        for byte in bytes {
            let id = self.id(format!("<0x{byte:02X}>").as_bytes()).ok_or_else(|| {
                let what = format!("the tokenizer has no piece for {c:?}, nor for its byte {byte:#04x}");
                Error::invalid(what, "leave it out, or use the tokenizer that came with the model")
            })?;
            ids.push(id);
        }
        Ok(())
    }

    /// Merges neighbours while any two are a piece together, and appends what is left.
    fn merge(&self, single: &[u32], out: &mut Vec<u32>) {
        // A list linked by places: `ids[i]` is none once it was merged into one on its left.
        let mut ids: Vec<Option<u32>> = single.iter().map(|&id| Some(id)).collect();
        let mut after: Vec<usize> = (1..=single.len()).collect();
        let mut before: Vec<Option<usize>> = (0..single.len()).map(|i| i.checked_sub(1)).collect();
        let mut heap = BinaryHeap::new();
        let propose = |heap: &mut BinaryHeap<Merge>, ids: &[Option<u32>], left: usize, right: usize| {
            let (Some(a), Some(b)) = (ids[left], ids.get(right).copied().flatten()) else { return };
            let bytes = [&*self.pieces[a as usize].bytes, &*self.pieces[b as usize].bytes].concat();
            let Some(id) = self.id(&bytes) else { return };
            let score = self.pieces[id as usize].score;
            if score > LOWEST {
                heap.push(Merge { score, left: Reverse(left), right, pair: (a, b), id });
            }
        };
        for left in 0..single.len() {
            propose(&mut heap, &ids, left, left + 1);
        }
        while let Some(Merge { left: Reverse(left), right, pair: (a, b), id, .. }) = heap.pop() {
            // Either side may have changed since this was proposed.
            if ids[left] != Some(a) || ids[right] != Some(b) || after[left] != right {
                continue;
            }
            ids[left] = Some(id);
            ids[right] = None;
            after[left] = after[right];
            if let Some(next) = before.get_mut(after[left]) {
                *next = Some(left);
            }
            propose(&mut heap, &ids, left, after[left]);
            if let Some(previous) = before[left] {
                propose(&mut heap, &ids, previous, left);
            }
        }
        out.extend(ids.into_iter().flatten());
    }
}

/// Two neighbours that are a piece together. The largest is merged first.
struct Merge {
    score: f32,
    left: Reverse<usize>,
    right: usize,
    pair: (u32, u32),
    id: u32,
}

impl Ord for Merge {
    fn cmp(&self, other: &Self) -> Ordering {
        // The total order of floats tells -0 from 0, which `run.c` does not.
        (self.score + 0.0).total_cmp(&(other.score + 0.0)).then(self.left.cmp(&other.left))
    }
}

impl PartialOrd for Merge {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Merge {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Merge {}

/// The byte of a piece such as `<0x41>`.
fn byte(piece: &[u8]) -> Option<u8> {
    let digits = piece.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 2)?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llama2c::Piece as Read;

    fn pieces(merges: &[(&str, f32)]) -> Pieces {
        let mut all: Vec<Read> = ["<unk>", "\n<s>\n", "\n</s>\n"]
            .iter()
            .map(|text| Read { score: 0.0, bytes: text.as_bytes().to_vec() })
            .collect();
        all.extend((0..=255).map(|b| Read { score: 0.0, bytes: format!("<0x{b:02X}>").into_bytes() }));
        all.extend(merges.iter().map(|&(text, score)| Read { score, bytes: text.as_bytes().to_vec() }));
        Pieces::new(Tokenizer { longest: 16, pieces: all })
    }

    /// `run.c`, word for word: look through all pairs, merge the best, begin again.
    fn as_run_c(pieces: &Pieces, mut ids: Vec<u32>) -> Vec<u32> {
        loop {
            let mut best = (LOWEST, None);
            for i in 0..ids.len().saturating_sub(1) {
                let text: Vec<u8> =
                    ids[i..i + 2].iter().flat_map(|&id| pieces.pieces[id as usize].bytes.clone()).collect();
                if let Some(id) = pieces.id(&text)
                    && pieces.pieces[id as usize].score > best.0
                {
                    best = (pieces.pieces[id as usize].score, Some((i, id)));
                }
            }
            let Some((i, id)) = best.1 else { return ids };
            ids.splice(i..i + 2, [id]);
        }
    }

    #[test]
    fn merges_go_as_in_run_c() {
        let merges = [("a", 0.0), ("b", 0.0), (" ", 0.0), ("ab", -1.0), ("ba", -1.0), ("aa", -2.0)];
        let longer =
            [("aba", -3.0), ("aab", -0.5), (" a", -0.0), ("abab", -4.0), ("bb", f32::NAN), ("  ", -2e10)];
        let pieces = pieces(&[&merges[..], &longer[..]].concat());
        // Every text of up to nine letters out of three.
        for length in 0..=9u32 {
            for number in 0..3usize.pow(length) {
                let letter = |i: u32| ["a", "b", " "][number / 3usize.pow(i) % 3];
                let text: String = (0..length).map(letter).collect();
                let ids = pieces.encode(&text).unwrap();
                let single: Vec<u32> = format!(" {text}")
                    .chars()
                    .map(|c| pieces.id(c.to_string().as_bytes()).unwrap())
                    .collect();
                let expected = if text.is_empty() { vec![] } else { as_run_c(&pieces, single) };
                assert_eq!(ids[1..], expected, "{text:?}");
                let printed: Vec<u8> =
                    ids.windows(2).flat_map(|pair| pieces.decode(Some(pair[0]), pair[1]).to_vec()).collect();
                assert_eq!(String::from_utf8(printed).unwrap(), text);
            }
        }
    }

    #[test]
    fn characters_without_a_piece_become_bytes() {
        let pieces = pieces(&[(" ", 0.0), ("é", 0.0)]);
        assert_eq!(pieces.encode("é€").unwrap(), [1, 259, 260, 3 + 0xe2, 3 + 0x82, 3 + 0xac]);
        assert_eq!(pieces.decode(None, 3 + 0xe2), [0xe2]);
        assert_eq!(pieces.encode("").unwrap(), [1]);
    }

    #[test]
    fn only_two_digits_are_a_byte() {
        assert_eq!(byte(b"<0x0A>"), Some(10));
        for other in [&b"<0x+A>"[..], b"<0xA>", b"<0x0AA>", b"0x0A", b"<0x0G>", b"", b"<0x\xff\xff>"] {
            assert_eq!(byte(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        let file = |texts: &[&str]| Tokenizer {
            longest: 8,
            pieces: texts.iter().map(|t| Read { score: 0.0, bytes: t.as_bytes().to_vec() }).collect(),
        };
        let few = Pieces::new(file(&["<unk>", "<s>", "</s>", " "]));
        assert_eq!(
            few.encode("a").unwrap_err().to_string(),
            "the tokenizer has no piece for 'a', nor for its byte 0x61; leave it out, or use the tokenizer that came \
             with the model"
        );
        assert_eq!(
            Pieces::new(file(&["<unk>"])).encode("").unwrap_err().to_string(),
            "a tokenizer of 1 pieces cannot begin a text; use the tokenizer that came with the model"
        );
    }
}
