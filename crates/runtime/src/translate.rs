//! Texts to texts by an encoder-decoder, many at a time, each by a search for its likeliest whole.

use crate::batches::{Progress, in_batches};
use crate::{Error, Result};
use regard_engine::{AsDevice, Store};
use regard_generate::{Beam, Beams, Generator, Rules, Settings};
use regard_graph::Precision;
use regard_models::Model;

/// How texts are translated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Translating {
    /// Texts at a time.
    pub batch: usize,
    /// How many translations are tried side by side; 1 is greedy.
    pub beams: usize,
    /// The most tokens of a translation.
    pub most: usize,
    /// Scores are divided by the length to this power.
    pub length_penalty: f64,
    /// How products are computed.
    pub precision: Precision,
}

impl Default for Translating {
    fn default() -> Self {
        Translating { batch: 8, beams: 4, most: 128, length_penalty: 1.0, precision: Precision::F32 }
    }
}

impl Translating {
    /// Refuses nonsense.
    pub fn check(&self) -> Result<()> {
        Ok(self.search(&[], &[]).check()?)
    }

    fn search<'a>(&self, prompts: &'a [Vec<i32>], stop: &'a [i32]) -> Beams<'a> {
        Beams { length_penalty: self.length_penalty, stop, ..Beams::new(prompts, self.beams, self.most) }
    }
}

/// An encoder-decoder that is ready to translate. It reads the parameters that are in the store when it runs.
pub struct Translator {
    generator: Generator,
    how: Translating,
    start: i32,
    stop: Vec<i32>,
}

impl Translator {
    /// Plans the programs, for sources of at most this many tokens. A translation begins with `start` and
    /// ends with any of `stop`.
    pub fn new(
        model: &dyn Model,
        how: Translating,
        source: usize,
        start: i32,
        stop: Vec<i32>,
        store: &mut Store,
        device: &impl AsDevice,
    ) -> Result<Translator> {
        let Some(pair) = model.as_encoder_decoder() else {
            return Err(Error::invalid(
                format!("a model of the family {} does not translate", model.family()),
                "give an encoder-decoder",
            ));
        };
        let settings = Settings {
            rows: how.batch.max(1),
            beams: how.beams.max(1),
            capacity: Some(how.most.saturating_add(1).min(pair.context().unwrap_or(usize::MAX))),
            source: Some(source.max(1)),
            precision: how.precision,
            ..Settings::default()
        };
        let generator = Generator::with_sources(pair, settings, store, device)?;
        Ok(Translator { generator, how, start, stop })
    }

    /// The same, by rules for what it writes.
    pub fn obeying(mut self, rules: Rules) -> Translator {
        self.generator.obey(rules);
        self
    }

    /// The best translation of each source.
    pub fn translate(
        &mut self,
        sources: &[Vec<i32>],
        store: &mut Store,
        progress: &mut Progress<'_, Beam>,
    ) -> Result<Vec<Beam>> {
        let lengths: Vec<usize> = sources.iter().map(Vec::len).collect();
        let Translator { generator, how, start, stop } = self;
        in_batches(&lengths, how.batch, progress, |batch| {
            let rows: Vec<Vec<i32>> = batch.iter().map(|&at| sources[at].clone()).collect();
            let starts = vec![vec![*start]; rows.len()];
            generator.read(&rows, store)?;
            let found = generator.search(&how.search(&starts, stop), store)?;
            let best = found.into_iter().zip(batch).map(|(beams, at)| {
                beams.into_iter().next().ok_or_else(|| {
                    Error::invalid(
                        format!("the search found nothing for text {}", at + 1),
                        "choose another width, or more tokens",
                    )
                })
            });
            best.collect()
        })
    }
}
