//! A model that was opened, with everything that it takes to use it. Opening costs the headers of files;
//! weights and tokenizer are read when they are first needed, programs are planned at the first use and kept
//! for the next.

mod answering;

use crate::batches::{Progress, image_batch, in_batches, text_batch, unheard};
use crate::classify::{Classifier, Problem};
use crate::companions::Companions;
use crate::embed::Embedder;
use crate::open::{OpenOptions, open};
use crate::pixels::PixelScale;
use crate::sentence::{Prompt, SentenceForm};
use crate::translate::{Translating, Translator};
use crate::write::{Batch, End, Listener, Prompts, Writing, Written};
use crate::{Error, Result};
use regard_data::tokenizer::Special;
use regard_engine::{AsDevice, Device, Store};
use regard_generate::{Beam, Generator, Settings};
use regard_graph::Precision;
use regard_hub::Opened;
use regard_hub::forward::{self, Answer};
use regard_models::Model;
use regard_models::model::Labels;
use regard_ops::Weights;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Examples that are classified, embedded or asked at a time.
const BATCH: usize = 32;

/// A model that was opened, with everything that it takes to use it.
pub struct Session {
    name: String,
    opened: Opened,
    companions: Companions,
    weights: Weights,
    store: Option<Store>,
    device: Device,
    writer: Option<(Settings, Generator)>,
}

/// What a text or an image was taken for.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// The score of each class.
    pub scores: Vec<f32>,
    /// The probability of each class; empty where scores are values and no classes ([`Problem::Values`]).
    pub probabilities: Vec<f64>,
}

impl Classified {
    /// The classes with their probabilities, the likeliest first, the first of equals first.
    pub fn ranked(&self) -> Vec<(usize, f64)> {
        let mut classes: Vec<(usize, f64)> = self.probabilities.iter().copied().enumerate().collect();
        classes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        classes
    }
}

/// What becomes of texts that are longer than the model has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TooLong {
    /// They are refused.
    #[default]
    Refuse,
    /// They are cut; what closes a text stays at its end.
    Cut,
}

impl Session {
    /// Opens a model: a folder, a run, a name in a local Hugging Face cache, or a file of llama2.c.
    pub fn open(name: &str, options: &OpenOptions<'_>, device: &impl AsDevice) -> Result<Session> {
        let mut opened = open(name, options)?;
        // What prepares pictures decides how large they are, where the model can see any size.
        if let Some(own) = opened.model.reads().pixels
            && let Some(asked) = PixelScale::asked_size(&opened.path)?
            && asked != [own.height, own.width]
            && let Some(resized) = opened.model.for_images(asked)?
        {
            opened.model = resized;
        }
        let companions = Companions::open(&*opened.model, &opened.config, &opened.path)?;
        let (name, weights, device) = (name.to_owned(), options.weights, device.as_device());
        Ok(Session { name, opened, companions, weights, store: None, device, writer: None })
    }

    /// The model.
    pub fn model(&self) -> &dyn Model {
        &*self.opened.model
    }

    /// Its files.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// What lies beside its weights.
    pub fn companions(&self) -> &Companions {
        &self.companions
    }

    /// A store with its weights, which are read now if they were not.
    pub fn store(&mut self) -> Result<&mut Store> {
        let loaded = match self.store.take() {
            Some(store) => store,
            None => {
                let mut store = Store::new(0);
                store.hold_weights(self.weights);
                self.opened.lend_to(&mut store)?;
                store
            }
        };
        Ok(self.store.insert(loaded))
    }

    /// A store without what earlier programs kept: caches of other sizes would stand in the way.
    fn without_caches(&mut self) -> Result<&mut Store> {
        self.writer = None;
        let model = Arc::clone(&self.opened.model);
        self.store()?;
        let parameters: HashSet<&str> = model.parameters().all().map(|one| one.name.as_str()).collect();
        self.store = self.store.take().map(|store| store.only(|name| parameters.contains(name)));
        self.store()
    }

    fn unable(&self, asked: &'static str, needs: &'static str) -> Error {
        let model = self.model();
        let (kind, family) = (model.kind().into(), model.family().into());
        Error::Unable { model: self.name.clone(), kind, family, asked, needs }
    }

    /// Continues prompts with a decoder, or answers them with an encoder-decoder. The listener hears of every
    /// piece as it comes, those of a batch in turns, and may break off: what there is then is what comes
    /// back. What a prompt becomes does not depend on the others.
    pub fn generate(
        &mut self,
        prompts: Prompts<'_>,
        writing: &Writing,
        listener: &mut Listener<'_>,
    ) -> Result<Vec<Written>> {
        writing.check()?;
        let model = Arc::clone(&self.opened.model);
        let is_pair = match (model.as_decoder(), model.as_encoder_decoder()) {
            (_, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => return Err(self.unable("generate", "a decoder or an encoder-decoder")),
        };
        if writing.start.is_some() && !is_pair {
            return Err(Error::invalid(
                "a start token is for encoder-decoders",
                "leave it out: a decoder begins with the prompt",
            ));
        }
        let given = self.given(prompts)?;
        let mut settings = settings(&*model, writing, &given)?;
        if let (Prompts::Rendered(_), Some(capacity)) = (prompts, &mut settings.capacity) {
            // The next turn of a conversation is longer: it finds its programs planned.
            let room = model.context().unwrap_or(usize::MAX);
            *capacity = capacity.next_multiple_of(512).min(room).max(*capacity);
        }
        let begun: Vec<Vec<i32>> = match is_pair {
            true => vec![vec![self.companions.start(writing.start)?]; given.len()],
            false => given.clone(),
        };
        let is_text = !matches!(prompts, Prompts::Ids(_));
        let tokenizer = if is_text { Some(self.companions.target()?.clone()) } else { None };
        let stop = match prompts {
            Prompts::Texts(_) => self.companions.stop(),
            Prompts::Rendered(_) => self.companions.end_of_reply()?,
            Prompts::Ids(_) => Vec::new(),
        };
        let rules = self.companions.rules(&stop);
        self.plan_writer(settings)?;
        let (Some((_, generator)), Some(store)) = (&mut self.writer, &mut self.store) else {
            return Err(Error::invalid("nothing was planned", "give at least one prompt"));
        };
        generator.obey(rules);
        let mut order: Vec<usize> = (0..given.len()).collect();
        order.sort_by_key(|&at| given[at].len());
        let mut results: Vec<Option<Written>> = given.iter().map(|_| None).collect();
        for some in order.chunks(settings.rows) {
            let of = |all: &[Vec<i32>]| some.iter().map(|&at| all[at].clone()).collect::<Vec<_>>();
            let numbers = some.iter().map(|&at| at as u64).collect();
            let batch = Batch {
                numbers,
                given: of(&given),
                begun: of(&begun),
                tokenizer: tokenizer.as_ref(),
                stop: &stop,
            };
            if is_pair {
                generator.read(&batch.given, store)?;
            }
            let written = writing.run(generator, store, &batch, listener)?;
            let broken = written.iter().any(|written| written.end == End::Broken);
            for (&at, written) in some.iter().zip(written) {
                results[at] = Some(written);
            }
            if broken {
                break;
            }
        }
        let unwritten = |given: Vec<i32>| Written {
            given,
            ids: Vec::new(),
            text: tokenizer.as_ref().map(|_| String::new()),
            end: End::Broken,
            reread: Vec::new(),
            beams: Vec::new(),
        };
        Ok(results
            .into_iter()
            .zip(given)
            .map(|(one, given)| one.unwrap_or_else(|| unwritten(given)))
            .collect())
    }

    /// The ids of prompts.
    fn given(&self, prompts: Prompts<'_>) -> Result<Vec<Vec<i32>>> {
        let given = match prompts {
            Prompts::Ids(all) => all.to_vec(),
            Prompts::Rendered(texts) => {
                texts.iter().map(|text| self.companions.encode_rendered(text)).collect::<Result<_>>()?
            }
            Prompts::Texts(texts) => {
                texts.iter().map(|text| self.companions.encode(text)).collect::<Result<_>>()?
            }
        };
        if given.is_empty() {
            return Err(Error::invalid("there is no prompt", "give at least one"));
        }
        match given.iter().position(Vec::is_empty) {
            None => Ok(given),
            Some(at) => Err(Error::invalid(
                format!("prompt {} is empty, and this model has no token that begins a text", at + 1),
                "give it a word to begin with",
            )),
        }
    }

    /// Keeps the writer that there is, if it has room enough, or plans another.
    fn plan_writer(&mut self, settings: Settings) -> Result<()> {
        if self.writer.as_ref().is_some_and(|(planned, _)| covers(planned, &settings)) {
            return Ok(());
        }
        let (model, device) = (Arc::clone(&self.opened.model), self.device.clone());
        let store = self.without_caches()?;
        let generator = match (model.as_encoder_decoder(), model.as_decoder()) {
            (Some(pair), _) => Generator::with_sources(pair, settings, store, &device)?,
            (None, Some(decoder)) => Generator::new(decoder, settings, store, &device)?,
            (None, None) => return Err(self.unable("generate", "a decoder or an encoder-decoder")),
        };
        self.writer = Some((settings, generator));
        Ok(())
    }

    /// The best translation of each text, by an encoder-decoder, as ids with their score. Texts without a
    /// word stay so. `start`, where given, begins each.
    pub fn translate(
        &mut self,
        texts: &[String],
        how: Translating,
        start: Option<i32>,
        progress: &mut Progress<'_, Translation>,
    ) -> Result<Vec<Translation>> {
        how.check()?;
        let model = Arc::clone(&self.opened.model);
        let Some(pair) = model.as_encoder_decoder() else {
            return Err(self.unable("translate", "an encoder-decoder"));
        };
        let mut sources = Vec::new();
        for (at, text) in texts.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let ids = self.companions.encode(text)?;
            if let Some(room) = pair.context().filter(|&room| ids.len() > room) {
                let (number, tokens) = (at + 1, ids.len());
                return Err(Error::TooLong { number, tokens, room, advice: "split it" });
            }
            sources.push((at, ids));
        }
        let mut translations = vec![Translation::default(); texts.len()];
        if sources.is_empty() {
            return Ok(translations);
        }
        // Before the weights are read: what can be wrong is said first.
        self.companions.target()?;
        let (start, stop) = (self.companions.start(start)?, self.companions.stop());
        let rules = self.companions.rules(&stop);
        let longest = sources.iter().map(|(_, ids)| ids.len()).max().unwrap_or(1);
        let how = Translating { batch: how.batch.min(sources.len()), ..how };
        let device = self.device.clone();
        let store = self.without_caches()?;
        let translator = Translator::new(&*model, how, longest, start, stop, store, &device)?;
        let mut translator = translator.obeying(rules);
        let (places, sources): (Vec<usize>, Vec<Vec<i32>>) = sources.into_iter().unzip();
        let Session { companions, store: Some(store), .. } = self else { return Ok(translations) };
        let mut failed = None;
        translator.translate(&sources, store, &mut |at, beam| {
            let text = companions.decode(&beam.ids).unwrap_or_else(|error| {
                failed = Some(error);
                String::new()
            });
            let translation = Translation { text, beam: Some(beam.clone()) };
            let flow = progress(places[at], &translation);
            translations[places[at]] = translation;
            if failed.is_some() { ControlFlow::Break(()) } else { flow }
        })?;
        failed.map_or(Ok(translations), Err)
    }

    /// The classes of texts.
    pub fn classify_texts(&mut self, texts: &[String], long: TooLong) -> Result<Vec<Classified>> {
        let model = self.classifier()?;
        if model.reads().ids.is_none() {
            return Err(Error::invalid(format!("{} classifies images", self.name), "give it images"));
        }
        let rows = self.rows(texts, long, None)?;
        let (pad, problem) = (i32::try_from(self.companions.pad()).unwrap_or(0), self.companions.problem);
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        let (longest, batch) = (lengths.iter().copied().max().unwrap_or(1), BATCH.min(texts.len()));
        let device = self.device.clone();
        let store = self.store()?;
        let mut classifier = Classifier::new(&*model, batch, longest, Precision::F32, store, &device)?;
        in_batches(&lengths, BATCH, &mut unheard, |some| {
            let texts: Vec<&[i32]> = some.iter().map(|&at| rows[at].as_slice()).collect();
            Ok(classified(classifier.scores(&text_batch(&texts, pad), store)?, problem))
        })
    }

    /// The classes of PNG or JPEG files, which are brought to the size that the model takes.
    pub fn classify_images<P: AsRef<Path>>(&mut self, paths: &[P]) -> Result<Vec<Classified>> {
        let model = self.classifier()?;
        let (Some(size), Some(scale)) = (model.reads().pixels, self.companions.pixels.clone()) else {
            return Err(Error::invalid(format!("{} classifies texts", self.name), "give it texts"));
        };
        let (device, problem) = (self.device.clone(), self.companions.problem);
        let store = self.store()?;
        let mut classifier =
            Classifier::new(&*model, BATCH.min(paths.len()), 1, Precision::F32, store, &device)?;
        let mut all = Vec::with_capacity(paths.len());
        for some in paths.chunks(BATCH) {
            let images: Vec<Vec<f32>> =
                some.iter().map(|path| scale.read(path.as_ref(), size)).collect::<Result<_>>()?;
            let images: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
            all.extend(classified(classifier.scores(&image_batch(&images, size)?, store)?, problem));
        }
        Ok(all)
    }

    fn classifier(&self) -> Result<Arc<dyn Model>> {
        match self.model().task() {
            Some(task) if task.labels == Labels::Example => Ok(Arc::clone(&self.opened.model)),
            _ => Err(self.unable("classify", "a classifier: train one, see recipes/sentiment.toml")),
        }
    }

    /// The ids of texts that are read as a whole, of at most so many tokens where the model has room for
    /// more.
    fn rows(&self, texts: &[String], long: TooLong, most: Option<usize>) -> Result<Vec<Vec<i32>>> {
        let room = self.model().reads().context().unwrap_or(usize::MAX).min(most.unwrap_or(usize::MAX));
        let mut rows = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            let mut ids = self.companions.encode(text)?;
            let (number, tokens) = (at + 1, ids.len());
            if ids.is_empty() {
                return Err(Error::invalid(
                    format!("text {number} has no tokens"),
                    "give it words; or is the tokenizer not the model's own?",
                ));
            }
            if let Some((_, read)) = self.model().reads().given() {
                forward::refuse_filler(&ids, read, &format!("text {number}"))?;
            }
            if tokens > room {
                if long == TooLong::Refuse {
                    return Err(Error::TooLong { number, tokens, room, advice: "shorten it, or say --cut" });
                }
                let end = ids[tokens - 1];
                ids.truncate(room);
                ids[room - 1] = end;
            }
            rows.push(ids);
        }
        Ok(rows)
    }

    /// A vector for each text, and how many tokens each has: as the modules of a sentence-transformer's
    /// folder make it, and the mean at length 1 where there are none.
    pub fn embed(&mut self, texts: &[String], long: TooLong) -> Result<Vec<Embedded>> {
        self.embed_with(texts, long, Prompt::Default)
    }

    /// The same with a prompt of the folder's before each text.
    pub fn embed_with(
        &mut self,
        texts: &[String],
        long: TooLong,
        prompt: Prompt<'_>,
    ) -> Result<Vec<Embedded>> {
        let model = Arc::clone(&self.opened.model);
        if model.as_sentence_encoder().is_none() {
            return Err(self.unable("embed", "an encoder of text, such as a model of the BERT family"));
        }
        let mut form = SentenceForm::read(&self.opened.path, prompt)?;
        let texts: Vec<String> = texts.iter().map(|text| form.text(text)).collect();
        let rows = self.rows(&texts, long, form.most)?;
        if let Some(prompt) = form.unpooled() {
            form.head.skipped = self.prompt_tokens(&prompt)?;
            if let Some(at) = rows.iter().position(|row| row.len() <= form.head.skipped) {
                let (number, tokens) = (at + 1, rows[at].len());
                return Err(Error::invalid(
                    format!(
                        "the {tokens} tokens of text {number} are all the prompt's, of which none are pooled"
                    ),
                    "give a text with words of its own, or a shorter prompt",
                ));
            }
        }
        let longest = rows.iter().map(Vec::len).max().unwrap_or(1);
        let device = self.device.clone();
        let store = self.store()?;
        let mut embedder =
            Embedder::new(&*model, &form.head, [BATCH.min(rows.len()), longest], store, &device)?;
        for (name, numbers) in &form.weights {
            store.set_f32(name, numbers)?;
        }
        let vectors = embedder.vectors(&rows, store, &mut unheard)?;
        let embedded = |(row, vector): (Vec<i32>, Vec<f32>)| Embedded { tokens: row.len(), vector };
        Ok(rows.into_iter().zip(vectors).map(embedded).collect())
    }

    /// How many tokens of a text are its prompt's: all but the one that closes a text, if there is one.
    fn prompt_tokens(&self, prompt: &str) -> Result<usize> {
        let tokenizer = self.companions.tokenizer()?;
        let ids = self.companions.encode(prompt)?;
        let closing = [Special::Separator, Special::End].map(|special| tokenizer.special(special));
        let is_closed = ids.last().is_some_and(|&id| closing.contains(&u32::try_from(id).ok()));
        Ok(ids.len() - usize::from(is_closed))
    }

    /// One pass: its outputs and the taps asked for.
    pub fn forward(&mut self, batch: &forward::Batch, taps: &[&str]) -> Result<Vec<Answer>> {
        let (model, device) = (Arc::clone(&self.opened.model), self.device.clone());
        Ok(forward::forward(&*model, self.store()?, &device, batch, taps)?)
    }
}

/// A text as a vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// How many tokens it has.
    pub tokens: usize,
    /// Its vector.
    pub vector: Vec<f32>,
}

/// A text in another language, or whatever an encoder-decoder learned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The text; empty for a text without words.
    pub text: String,
    /// Its ids, its score and how it ended; none for a text without words.
    pub beam: Option<Beam>,
}

fn classified(scores: Vec<Vec<f32>>, problem: Problem) -> Vec<Classified> {
    let one = |scores: Vec<f32>| Classified { probabilities: problem.probabilities(&scores), scores };
    scores.into_iter().map(one).collect()
}

/// What has to be planned for some prompts.
fn settings(model: &dyn Model, writing: &Writing, given: &[Vec<i32>]) -> Result<Settings> {
    let longest = given.iter().map(Vec::len).max().unwrap_or(1);
    let mut settings = Settings {
        rows: writing.batch.clamp(1, given.len().max(1)),
        beams: writing.search.map_or(1, |search| search.width),
        ..Settings::default()
    };
    if let Some(pair) = model.as_encoder_decoder() {
        let room = pair.context().unwrap_or(usize::MAX);
        if longest > room {
            return Err(Error::invalid(
                format!("the prompt has {longest} tokens, the model has room for {room}"),
                "shorten it",
            ));
        }
        settings.capacity = Some(writing.most.saturating_add(1).min(room));
        settings.source = Some(longest);
    } else if let Some(decoder) = model.as_decoder() {
        let room = decoder.context().unwrap_or(usize::MAX);
        if longest >= room {
            return Err(Error::invalid(
                format!(
                    "the prompt has {longest} tokens, the model has room for {room} and needs one for the answer"
                ),
                "shorten it",
            ));
        }
        settings.capacity = match decoder.window() {
            Some(_) => None,
            None => Some(longest.saturating_add(writing.most).min(room)),
        };
    }
    Ok(settings)
}

/// Whether what was planned has room for what is needed.
fn covers(planned: &Settings, needed: &Settings) -> bool {
    let room = |planned: Option<usize>, needed: Option<usize>| match (planned, needed) {
        (Some(planned), Some(needed)) => planned >= needed,
        (None, None) => true,
        _ => false,
    };
    planned.rows >= needed.rows
        && (planned.beams, planned.chunk, planned.precision) == (needed.beams, needed.chunk, needed.precision)
        && room(planned.capacity, needed.capacity)
        && room(planned.source, needed.source)
}
