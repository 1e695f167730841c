//! What is asked of a model that writes, and what it wrote: a continuation of each prompt by a decoder, an
//! answer to each by an encoder-decoder, drawn token by token or searched for, as text and as ids.

use crate::pieces::Pieces;
use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_engine::Store;
use regard_generate::{Beam, Beams, Ended, Enough, Examples, Full, Generated, Generator, Request, Sampling};
use std::fmt;
use std::ops::ControlFlow;

/// What is to be continued or answered.
#[derive(Clone, Copy, Debug)]
pub enum Prompts<'a> {
    /// Texts, by the model's tokenizer. They end where the model's own texts end.
    Texts(&'a [String]),
    /// Texts that hold their special tokens themselves, as chat templates write them. They end where a reply
    /// ends.
    Rendered(&'a [String]),
    /// Ids. They need no tokenizer, and have no end of their own.
    Ids(&'a [Vec<i32>]),
}

/// How a model writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Writing {
    /// The most new tokens for each prompt.
    pub most: usize,
    /// How tokens are chosen, where nothing is searched for.
    pub sampling: Sampling,
    /// A search for the likeliest whole, instead of drawing tokens.
    pub search: Option<Searching>,
    /// Texts before which to end.
    pub stop: Vec<String>,
    /// The token with which an encoder-decoder begins; as its folder says if not given.
    pub start: Option<i32>,
    /// Prompts at a time.
    pub batch: usize,
    /// What becomes of texts that have used up the model's positions.
    pub full: Full,
}

/// How a search goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Searching {
    /// How many continuations go on together.
    pub width: usize,
    /// Scores are divided by the length to this power.
    pub length_penalty: f64,
}

impl Default for Writing {
    fn default() -> Self {
        let (sampling, full) = (Sampling::greedy(), Full::Reread);
        Writing { most: 128, sampling, search: None, stop: Vec::new(), start: None, batch: 8, full }
    }
}

/// A token as it comes, and the text that can be shown with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece<'a> {
    /// Which prompt it continues.
    pub prompt: usize,
    /// The token; none where text comes after the last.
    pub id: Option<i32>,
    /// What can be shown now; may be empty, and is without a tokenizer.
    pub text: &'a str,
    /// Whether the newest half was read again before it.
    pub reread: bool,
}

/// Who hears of pieces as they come; may break off.
pub type Listener<'a> = dyn FnMut(Piece<'_>) -> ControlFlow<()> + 'a;

/// What became of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The ids of the prompt.
    pub given: Vec<i32>,
    /// The new tokens.
    pub ids: Vec<i32>,
    /// Their text; none without a tokenizer.
    pub text: Option<String>,
    /// Why there are no more.
    pub end: End,
    /// After how many of them the newest half was read again, for want of positions.
    pub reread: Vec<usize>,
    /// Of a search, all that it kept, the best first.
    pub beams: Vec<Beam>,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this token.
    Token(i32),
    /// Before one of the texts to stop at.
    Text,
    /// It has as many tokens as were asked for.
    Most,
    /// The model has no further position.
    Context,
    /// The listener wanted no more.
    Broken,
}

impl From<Ended> for End {
    fn from(ended: Ended) -> End {
        match ended {
            Ended::Stop(id) => End::Token(id),
            Ended::Most => End::Most,
            Ended::Context => End::Context,
            Ended::Broken => End::Broken,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Token(_) => "end of text",
            End::Text => "stop text",
            End::Most => "max",
            End::Context => "context",
            End::Broken => "interrupted",
        })
    }
}

impl Writing {
    /// Refuses nonsense.
    pub fn check(&self) -> Result<()> {
        self.sampling.check()?;
        if let Some(search) = self.search {
            self.beams(search, &[], &[]).check()?;
        }
        if let Some(at) = self.stop.iter().position(String::is_empty) {
            return Err(Error::invalid(
                format!("stop text {} is empty, which every text ends with", at + 1),
                "give it letters",
            ));
        }
        Ok(())
    }

    fn beams<'a>(&self, search: Searching, prompts: &'a [Vec<i32>], stop: &'a [i32]) -> Beams<'a> {
        let beams = Beams::new(prompts, search.width, self.most);
        Beams { length_penalty: search.length_penalty, stop, ..beams }
    }

    /// Continues some prompts, which are these of all. `begun` is what the model goes on from.
    pub(crate) fn run(
        &self,
        generator: &mut Generator,
        store: &mut Store,
        batch: &Batch<'_>,
        listener: &mut Listener<'_>,
    ) -> Result<Vec<Written>> {
        match self.search {
            None => self.stream(generator, store, batch, listener),
            Some(search) => self.searched(search, generator, store, batch, listener),
        }
    }

    fn stream(
        &self,
        generator: &mut Generator,
        store: &mut Store,
        batch: &Batch<'_>,
        listener: &mut Listener<'_>,
    ) -> Result<Vec<Written>> {
        let request = Request {
            stop: batch.stop,
            sampling: self.sampling,
            examples: Examples::Are(&batch.numbers),
            full: self.full,
            ..Request::greedy(&batch.begun, self.most)
        };
        let mut pieces = batch.pieces(&self.stop);
        let (mut failed, mut broken) = (None, false);
        let generated = generator.stream(&request, store, &mut |token| {
            let text = match pieces[token.row].push(token.id) {
                Ok(text) => text,
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(Enough::All);
                }
            };
            let prompt = batch.numbers[token.row] as usize;
            let piece = Piece { prompt, id: Some(token.id), text: &text, reread: token.reread };
            if listener(piece).is_break() {
                broken = true;
                ControlFlow::Break(Enough::All)
            } else if pieces[token.row].stopped() {
                ControlFlow::Break(Enough::Row)
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let mut written = Vec::with_capacity(generated.len());
        for ((row, Generated { ids, ended, reread }), mut pieces) in
            generated.into_iter().enumerate().zip(pieces)
        {
            let prompt = batch.numbers[row] as usize;
            let text = pieces.finish()?;
            if !text.is_empty() && !broken {
                let piece = Piece { prompt, id: None, text: &text, reread: false };
                broken |= listener(piece).is_break();
            }
            written.push(Written {
                given: batch.given[row].clone(),
                ids,
                end: if pieces.stopped() { End::Text } else { ended.into() },
                text: pieces.text().map(str::to_owned),
                reread,
                beams: Vec::new(),
            });
        }
        Ok(written)
    }

    fn searched(
        &self,
        search: Searching,
        generator: &mut Generator,
        store: &mut Store,
        batch: &Batch<'_>,
        listener: &mut Listener<'_>,
    ) -> Result<Vec<Written>> {
        let found = generator.search(&self.beams(search, &batch.begun, batch.stop), store)?;
        let mut written = Vec::with_capacity(found.len());
        for ((row, beams), mut pieces) in found.into_iter().enumerate().zip(batch.pieces(&self.stop)) {
            let prompt = batch.numbers[row] as usize;
            let Some(best) = beams.first() else {
                return Err(Error::invalid("the search found nothing", "choose another width"));
            };
            let mut end = End::from(best.ended);
            for &id in &best.ids {
                let text = pieces.push(id)?;
                if listener(Piece { prompt, id: Some(id), text: &text, reread: false }).is_break() {
                    end = End::Broken;
                    break;
                }
                if pieces.stopped() {
                    end = End::Text;
                    break;
                }
            }
            let text = pieces.finish()?;
            if !text.is_empty() && end != End::Broken {
                let _ = listener(Piece { prompt, id: None, text: &text, reread: false });
            }
            written.push(Written {
                given: batch.given[row].clone(),
                ids: best.ids.clone(),
                end,
                text: pieces.text().map(str::to_owned),
                reread: Vec::new(),
                beams,
            });
        }
        Ok(written)
    }
}

/// Some of the prompts.
pub(crate) struct Batch<'a> {
    /// Which they are.
    pub numbers: Vec<u64>,
    /// Their ids.
    pub given: Vec<Vec<i32>>,
    /// What the model goes on from: the same, or what begins an answer.
    pub begun: Vec<Vec<i32>>,
    /// The tokenizer of what is written.
    pub tokenizer: Option<&'a Tokenizer>,
    pub stop: &'a [i32],
}

impl Batch<'_> {
    fn pieces<'a>(&'a self, stop: &'a [String]) -> Vec<Pieces<'a>> {
        self.begun.iter().map(|begun| Pieces::new(self.tokenizer, begun, stop)).collect()
    }
}
