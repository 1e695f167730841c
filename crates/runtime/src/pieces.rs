//! Tokens as they come, to text as it can be shown: characters once they are whole, and with what may be the
//! beginning of a stop text held back until it is known.

use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_data::tokenizer::Stream;

/// The text of one row in progress.
pub struct Pieces<'a> {
    stream: Option<(&'a Tokenizer, Stream<'a>)>,
    stop: &'a [String],
    /// All text that is out.
    text: String,
    held: String,
    stopped: bool,
}

impl<'a> Pieces<'a> {
    /// For what comes after `prompt`. Without a tokenizer there is no text.
    pub fn new(tokenizer: Option<&'a Tokenizer>, prompt: &[i32], stop: &'a [String]) -> Pieces<'a> {
        let after: Vec<u32> = prompt.iter().filter_map(|&id| u32::try_from(id).ok()).collect();
        let stream = tokenizer.map(|tokenizer| (tokenizer, tokenizer.stream(&after)));
        Pieces { stream, stop, text: String::new(), held: String::new(), stopped: false }
    }

    /// Takes a token, and gives the text that can be shown now.
    pub fn push(&mut self, id: i32) -> Result<String> {
        let Some((tokenizer, stream)) = &mut self.stream else { return Ok(String::new()) };
        let id = u32::try_from(id)
            .map_err(|_| Error::invalid(format!("{id} is no token"), "give the ids that a model wrote"))?;
        // A model may draw one of the ids that only round up its size.
        let new = if tokenizer.knows(id) { stream.push(id)? } else { "\u{fffd}".into() };
        Ok(self.take(&new, false))
    }

    /// What was held back.
    pub fn finish(&mut self) -> Result<String> {
        match self.stream.as_mut().filter(|_| !self.stopped) {
            None => Ok(String::new()),
            Some((_, stream)) => {
                let rest = stream.finish()?;
                Ok(self.take(&rest, true))
            }
        }
    }

    /// Whether a stop text was met.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// All of the text, if there is a tokenizer for one.
    pub fn text(&self) -> Option<&str> {
        self.stream.as_ref().map(|_| self.text.as_str())
    }

    /// All of the text.
    pub fn into_text(self) -> String {
        self.text
    }

    fn take(&mut self, new: &str, last: bool) -> String {
        self.held.push_str(new);
        if let Some(at) = self.stop.iter().filter_map(|stop| self.held.find(stop)).min() {
            self.held.truncate(at);
            self.stopped = true;
        }
        let kept = if last || self.stopped { 0 } else { beginning(&self.held, self.stop) };
        let out = self.held[..self.held.len() - kept].to_owned();
        self.held.drain(..out.len());
        self.text.push_str(&out);
        out
    }
}

/// How many of the last bytes of a text are the beginning of one of these.
fn beginning(text: &str, stops: &[String]) -> usize {
    let longest = |stop: &String| {
        let lengths = (1..stop.len()).rev().filter(|&length| stop.is_char_boundary(length));
        lengths.into_iter().find(|&length| text.ends_with(&stop[..length])).unwrap_or(0)
    };
    stops.iter().map(longest).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_stop_text_is_held_back() {
        let stops = ["###".to_owned(), "é!".to_owned()];
        assert_eq!(beginning("a", &stops), 0);
        assert_eq!(beginning("a#", &stops), 1);
        assert_eq!(beginning("a##", &stops), 2);
        assert_eq!(beginning("café", &stops), 2);
        assert_eq!(beginning("", &stops), 0);
        assert_eq!(beginning("a#", &[]), 0);
    }

    #[test]
    fn text_comes_as_soon_as_it_is_known() {
        let (bytes, stops) = (Tokenizer::bytes(), ["##".to_owned()]);
        let mut pieces = Pieces::new(Some(&bytes), &[], &stops);
        let mut out = |text: &str| -> Vec<String> {
            text.bytes().map(|byte| pieces.push(i32::from(byte)).unwrap()).collect()
        };
        assert_eq!(out("é"), ["", "é"], "whole characters only");
        assert_eq!(out("a#b"), ["a", "", "#b"], "what was no stop text after all");
        assert_eq!(out("##"), ["", ""]);
        assert!(pieces.stopped());
        assert_eq!((pieces.finish().unwrap().as_str(), pieces.text()), ("", Some("éa#b")));
        assert_eq!(
            Pieces::new(Some(&bytes), &[], &[]).push(-3).unwrap_err().to_string(),
            "-3 is no token; give the ids that a model wrote"
        );
        assert_eq!(Pieces::new(None, &[], &[]).push(5).unwrap(), "");
    }
}
