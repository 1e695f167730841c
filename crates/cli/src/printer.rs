//! Prints tokens as they come: as text, with what may be the beginning of a stop text held back, or as ids.

use anyhow::Result;
use regard::data::Tokenizer;
use regard::data::tokenizer::Stream;
use std::io::{self, IsTerminal, Write, stdout};

/// Prints tokens as they come; holds back what may be the beginning of a stop text.
pub struct Printer<'a> {
    stream: Option<(&'a Tokenizer, Stream<'a>)>,
    stop: &'a [String],
    quiet: bool,
    terminal: bool,
    /// All new text that is out.
    pub text: String,
    held: String,
    /// Whether a stop text was met.
    pub stopped: bool,
}

impl<'a> Printer<'a> {
    /// A printer of text, or of ids without a tokenizer, for what comes after `prompt`. A quiet one prints nothing and only
    /// keeps the text.
    pub fn new(
        tokenizer: Option<&'a Tokenizer>,
        prompt: &[i32],
        stop: &'a [String],
        quiet: bool,
    ) -> Printer<'a> {
        let after: Vec<u32> = prompt.iter().filter_map(|&id| u32::try_from(id).ok()).collect();
        let stream = tokenizer.map(|tokenizer| (tokenizer, tokenizer.stream(&after)));
        let (text, held) = (String::new(), String::new());
        Printer { stream, stop, quiet, terminal: stdout().is_terminal(), text, held, stopped: false }
    }

    /// Takes a token; false if a stop text is there.
    pub fn token(&mut self, id: i32) -> Result<bool> {
        match &mut self.stream {
            None => {
                self.write(&format!("{id} "))?;
                Ok(true)
            }
            Some((tokenizer, stream)) => {
                let id = u32::try_from(id)?;
                // A model may draw one of the ids that only round up its size.
                let new = if tokenizer.knows(id) { stream.push(id)? } else { "\u{fffd}".into() };
                self.take(&new, false)
            }
        }
    }

    fn take(&mut self, new: &str, last: bool) -> Result<bool> {
        self.held.push_str(new);
        if let Some(at) = self.stop.iter().filter_map(|stop| self.held.find(stop)).min() {
            self.held.truncate(at);
            self.stopped = true;
        }
        let kept = if last || self.stopped { 0 } else { beginning(&self.held, self.stop) };
        let out = self.held[..self.held.len() - kept].to_owned();
        self.held.drain(..out.len());
        self.write(&out)?;
        self.text.push_str(&out);
        Ok(!self.stopped)
    }

    /// Prints what was held back, and ends the line.
    pub fn finish(&mut self) -> Result<()> {
        if let Some((_, stream)) = self.stream.as_mut().filter(|_| !self.stopped) {
            let rest = stream.finish()?;
            self.take(&rest, true)?;
        }
        Ok(self.write("\n")?)
    }

    /// Prints text as it is.
    pub fn write(&self, text: &str) -> io::Result<()> {
        if self.quiet || text.is_empty() {
            return Ok(());
        }
        let mut out = stdout().lock();
        if self.terminal {
            // A model may have learned to paint terminals.
            let plain = |c: char| if c.is_control() && !"\n\t".contains(c) { '\u{fffd}' } else { c };
            write!(out, "{}", text.chars().map(plain).collect::<String>())?;
        } else {
            write!(out, "{text}")?;
        }
        out.flush()
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
}
