//! Ids with the places in the text that they come from: for who learns from parts of a text alone.

use super::{Kind, Tokenizer, check_room, cut, guarded, no_ids};
use crate::{Error, Result};
use regard_device::machine;

impl Tokenizer {
    /// The ids of a text without the special tokens around it, and for each the byte at which it begins.
    pub fn encode_places(&self, text: &str) -> Result<(Vec<u32>, Vec<usize>)> {
        match &self.kind {
            Kind::HuggingFace(inner) => {
                cut::check_lines(text, cut::LIMITS)?;
                check_room(text.len(), machine::memory_available())?;
                let encoding = guarded(|| inner.encode(text, false)).map_err(no_ids)?;
                let begins = encoding.get_offsets().iter().map(|(begin, _)| *begin).collect();
                Ok((encoding.get_ids().to_vec(), begins))
            }
            Kind::Characters(characters) => {
                Ok((characters.encode(text)?, text.char_indices().map(|(at, _)| at).collect()))
            }
            Kind::Bytes => Ok((text.bytes().map(u32::from).collect(), (0..text.len()).collect())),
            Kind::Pieces(_) => Err(Error::invalid(
                "a tokenizer of llama2.c does not say where its tokens stand in a text",
                "use a tokenizer.json of the same model",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reserved;
    use super::*;

    #[test]
    fn every_token_has_its_place() {
        assert_eq!(Tokenizer::bytes().encode_places("aé").unwrap().1, [0, 1, 2]);
        let characters = Tokenizer::characters(["aéb"], Reserved::default()).unwrap();
        let (ids, places) = characters.encode_places("béa").unwrap();
        assert_eq!((ids.len(), places), (3, vec![0, 1, 3]));
        let message = characters.encode_places("x").unwrap_err().to_string();
        assert!(message.contains("`x`"), "{message}");
    }
}
