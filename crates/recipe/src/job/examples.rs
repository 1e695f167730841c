//! Examples as numbers, and the batches that are made of them. What is longer than the model has room for is
//! cut, or left out where a cut would make it wrong, and counted, so that it can be said.

use super::read::Raw;
use crate::{Bounds, Error, Result};
use regard_data::batching::{
    Augmentation, ByLength, Classified, Couples, Order, Padding, Pairs, Pictures, Plan, Sequences, TokenRows,
};
use regard_data::corruption::{Example, IGNORE, Line, Masked, Salient, Spans, answer, facts};
use regard_data::dataset::Images;
use regard_data::reading::{Passage, Reading};
use regard_data::tokenizer::Special;
use regard_data::{Source, Tokenizer};
use regard_runtime::{Companions, PixelScale, Replies};
use std::sync::Arc;

/// Examples as numbers.
#[derive(Clone, Debug)]
pub(crate) struct Examples {
    kind: Numbers,
    /// The longest of them, in tokens: of all, and of the target side of pairs.
    pub longest: [usize; 2],
    /// How many were cut, or left out.
    pub shortened: usize,
    fingerprint: u64,
}

#[derive(Clone, Debug)]
enum Numbers {
    Text(Arc<[u32]>),
    Lines(Arc<Vec<Vec<u32>>>),
    Classes(Arc<Vec<(Vec<u32>, i32)>>),
    Pairs(Arc<Vec<(Vec<u32>, Vec<u32>)>>),
    Images(Arc<Images>, Arc<Vec<usize>>),
    Spans(Arc<Vec<Line>>),
    Questions(Arc<Vec<Passage>>),
    Chats(Arc<Vec<Example>>),
    Couples(Arc<Vec<(Vec<u32>, Vec<u32>)>>),
    Both(Arc<Vec<Line>>, Arc<Vec<Passage>>),
}

/// How batches are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Examples of a batch; the most of them, where tokens are given.
    pub batch: usize,
    /// Tokens of a batch.
    pub tokens: Option<usize>,
    /// Tokens that rows of biographies are padded to.
    pub pad_to: Option<usize>,
    /// The most positions of a row of running text.
    pub context: usize,
    /// Of every draw.
    pub seed: u64,
    /// Whether the order, and what is drawn, changes from epoch to epoch.
    pub shuffle: bool,
    /// By how many pixels images are moved, and whether they are mirrored.
    pub augment: Option<(usize, bool)>,
    /// The share of questions with a line whose answers are exchanged.
    pub exchanged: f64,
    /// How often the span that is taken out of a line is a fact.
    pub salient: f64,
    /// Whether lines are cut to a random length first.
    pub cut: bool,
}

impl How {
    fn corruption(&self, companions: &Companions) -> Result<Salient> {
        let mark = companions.tokenizer()?.needed(Special::Mask)?;
        let spans = Spans { whole: !self.cut, ..Spans::new(self.seed, mark, self.context)? };
        Ok(Salient { spans, share: self.salient })
    }

    fn reading(&self, companions: &Companions) -> Result<Reading> {
        let mark = companions.tokenizer()?.needed(Special::Mask)?;
        Ok(Reading::new(self.seed, mark, self.context, self.exchanged)?)
    }
}

impl Examples {
    /// Examples as numbers. With `leave_out`, pairs that are too long are left out, for a target that was cut
    /// would teach to stop too soon; otherwise all stay, so that each has its answer.
    pub fn new(
        raw: &Raw,
        companions: &Companions,
        context: Option<usize>,
        leave_out: bool,
    ) -> Result<Examples> {
        let mut encoding = Encoding {
            companions,
            room: context.unwrap_or(usize::MAX),
            print: Fingerprint::default(),
            longest: [0, 0],
            shortened: 0,
        };
        let kind = match raw {
            Raw::Text(text) => encoding.text(text)?,
            Raw::Lines(lines) => Numbers::Lines(Arc::new(encoding.lines(lines)?)),
            Raw::Spans(lines) => Numbers::Spans(Arc::new(encoding.spans(lines)?)),
            Raw::Classes(texts) => encoding.classes(texts)?,
            Raw::Pairs(pairs) => encoding.pairs(pairs, leave_out)?,
            Raw::Chats(all, _) => encoding.chats(all)?,
            Raw::Couples(all) => encoding.couples(all)?,
            Raw::Images(images, rows) => encoding.images(images, rows),
            Raw::Questions(questions) => Numbers::Questions(Arc::new(encoding.questions(questions)?)),
            Raw::Both(lines, questions) => {
                let lines = encoding.spans(lines)?;
                Numbers::Both(Arc::new(lines), Arc::new(encoding.questions(questions)?))
            }
        };
        let Encoding { print, longest, shortened, .. } = encoding;
        Ok(Examples { kind, longest, shortened, fingerprint: print.0 })
    }

    /// What decides a run about its data, in a few words.
    pub fn fact(&self) -> String {
        let count = match &self.kind {
            Numbers::Text(ids) => format!("{} tokens", ids.len()),
            Numbers::Lines(all) => format!("{} lines", all.len()),
            Numbers::Spans(all) => format!("{} lines", all.len()),
            Numbers::Classes(all) => format!("{} texts", all.len()),
            Numbers::Pairs(all) => format!("{} pairs", all.len()),
            Numbers::Images(_, rows) => format!("{} images", rows.len()),
            Numbers::Questions(all) => format!("{} questions", all.len()),
            Numbers::Chats(all) => format!("{} conversations", all.len()),
            Numbers::Couples(all) => format!("{} pairs", all.len()),
            Numbers::Both(lines, all) => format!("{} lines and {} questions", lines.len(), all.len()),
        };
        format!("{count}, fingerprint {:016x}", self.fingerprint)
    }

    /// The largest sizes of a batch.
    pub fn bounds(&self, how: &How) -> Bounds {
        let [first, second] = self.longest;
        match &self.kind {
            Numbers::Text(_) => Bounds { batch: how.batch, length: how.context, source: 0 },
            Numbers::Pairs(_) => Bounds { batch: how.batch, length: second.max(1), source: first.max(1) },
            Numbers::Couples(_) => Bounds { batch: how.batch, length: first.max(1), source: second.max(1) },
            // Another answer may be longer than the own one.
            Numbers::Questions(_) if how.exchanged > 0.0 => {
                Bounds { batch: how.batch, length: how.context, source: 0 }
            }
            _ => Bounds { batch: how.batch, length: first.max(how.pad_to.unwrap_or(1)), source: 0 },
        }
    }

    /// The tokens of running text.
    pub fn text(&self) -> Option<&[u32]> {
        match &self.kind {
            Numbers::Text(ids) => Some(ids),
            _ => None,
        }
    }

    /// Both sides of pairs that belong together.
    pub fn couples(&self) -> [Vec<Vec<i32>>; 2] {
        let ids = |ids: &[u32]| ids.iter().map(|&id| id as i32).collect::<Vec<_>>();
        match &self.kind {
            Numbers::Couples(all) => [
                all.iter().map(|(first, _)| ids(first)).collect(),
                all.iter().map(|(_, second)| ids(second)).collect(),
            ],
            _ => Default::default(),
        }
    }

    /// The targets of conversations, those that count.
    pub fn said(&self) -> Option<impl Iterator<Item = i32> + '_> {
        match &self.kind {
            Numbers::Chats(all) => Some(
                all.iter().flat_map(|one| one.targets.iter().copied()).filter(|target| *target != IGNORE),
            ),
            _ => None,
        }
    }

    /// The sources of pairs, one for each, in order.
    pub fn sources(&self) -> Vec<Vec<i32>> {
        match &self.kind {
            Numbers::Pairs(all) => {
                all.iter().map(|(source, _)| source.iter().map(|&id| id as i32).collect()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The batches.
    pub fn source(&self, how: &How, companions: &Companions) -> Result<Arc<dyn Source>> {
        let How { batch, context, seed, .. } = *how;
        let order = if how.shuffle { Order::Shuffled { seed } } else { Order::Sequential };
        let padding = Padding::right(companions.pad());
        let wide = how.pad_to.map_or(padding, |length| padding.to(length));
        let fixed = |count: usize| Plan::fixed(count, batch, order, false);
        Ok(match &self.kind {
            Numbers::Text(text) if how.shuffle => {
                // As many rows in an epoch as the text has, from anywhere in it.
                let batches = text.len().div_ceil(context * batch).max(1);
                Arc::new(TokenRows::random(text.clone(), context, batch, batches, seed)?)
            }
            Numbers::Text(text) => {
                Arc::new(TokenRows::consecutive(text.clone(), context, batch, order, false)?)
            }
            Numbers::Lines(lines) => {
                let tokenizer = companions.tokenizer()?;
                let special: Vec<u32> =
                    [Special::Pad, Special::Class, Special::Separator, Special::Begin, Special::End]
                        .into_iter()
                        .filter_map(|part| tokenizer.special(part))
                        .collect();
                let mask = tokenizer.needed(Special::Mask)?;
                let masked = Masked::new(seed, mask, tokenizer.vocabulary(), &special)?;
                let lines_of = lines.clone();
                let make = move |epoch, line: usize| masked.example(epoch, line as u64, &lines_of[line]);
                Arc::new(Sequences::new(fixed(lines.len())?, padding, make).with_mask())
            }
            Numbers::Classes(all) => {
                let examples = all.clone();
                let make = move |_, row: usize| Ok(examples[row].clone());
                Arc::new(Classified::new(fixed(all.len())?, padding, make))
            }
            Numbers::Pairs(all) => {
                let plan = match how.tokens {
                    None => fixed(all.len())?,
                    Some(most) => by_length(all, most, batch, order)?,
                };
                let examples = all.clone();
                let make = move |_, row: usize| Ok(examples[row].clone());
                let id = |id: i32| u32::try_from(id).unwrap_or_default();
                let start = id(companions.start(None)?);
                let end = companions.stop().first().copied().map(id);
                Arc::new(Pairs::new(plan, padding, start, end, make))
            }
            Numbers::Images(images, rows) => {
                let dims = [images.channels(), images.height(), images.width()];
                let (pictures, own) = (images.clone(), rows.clone());
                let make = move |_, row: usize| {
                    Ok((pictures.pixels(own[row]).to_vec(), pictures.label(own[row]) as i32))
                };
                let mut source = Pictures::from_fn(fixed(rows.len())?, dims, make)?;
                if let Some(PixelScale { mean, std, .. }) = &companions.pixels {
                    source = source.normalised(mean, std)?;
                }
                if let Some((shift, flip)) = how.augment.filter(|(shift, flip)| *shift > 0 || *flip) {
                    source = source.augmented(Augmentation { seed, shift, flip });
                }
                Arc::new(source)
            }
            Numbers::Spans(lines) => {
                let salient = how.corruption(companions)?;
                let lines_of = lines.clone();
                let make = move |epoch, line: usize| salient.example(epoch, line as u64, &lines_of[line]);
                Arc::new(Sequences::new(fixed(lines.len())?, wide, make))
            }
            Numbers::Both(lines, all) => {
                let salient = how.corruption(companions)?;
                let reading = how.reading(companions)?;
                let (lines_of, passages) = (lines.clone(), all.clone());
                let make = move |epoch, row: usize| match lines_of.get(row) {
                    Some(line) => salient.example(epoch, row as u64, line),
                    None => reading.example(epoch, row - lines_of.len(), &passages),
                };
                Arc::new(Sequences::new(fixed(lines.len() + all.len())?, wide, make))
            }
            Numbers::Couples(all) => {
                let examples = all.clone();
                let make = move |_, row: usize| Ok(examples[row].clone());
                Arc::new(Couples::new(fixed(all.len())?, padding, make))
            }
            Numbers::Chats(all) => {
                let examples = all.clone();
                let make = move |_, row: usize| Ok(examples[row].clone());
                Arc::new(Sequences::new(fixed(all.len())?, padding, make))
            }
            Numbers::Questions(all) => {
                let reading = how.reading(companions)?;
                let passages = all.clone();
                let make = move |epoch, row: usize| reading.example(epoch, row, &passages);
                Arc::new(Sequences::new(fixed(all.len())?, wide, make))
            }
        })
    }
}

/// Batches of pairs of about the same length, of so many tokens at most.
fn by_length(all: &[(Vec<u32>, Vec<u32>)], tokens: usize, batch: usize, order: Order) -> Result<Plan> {
    let longer = |(source, target): &(Vec<u32>, Vec<u32>)| source.len().max(target.len() + 1) as u32;
    let lengths = all.iter().map(longer).collect();
    // Sorted a hundred batches at a time: little padding, and company that changes.
    let settings = ByLength { tokens, examples: batch, window: 100 * batch };
    Ok(Plan::by_length(lengths, settings, order)?)
}

/// The ids of a text that is classified, and whether it had to be cut.
pub(crate) fn text_ids(tokenizer: &Tokenizer, text: &str, room: usize) -> Result<(Vec<u32>, bool)> {
    let mut ids = tokenizer.encode(text)?;
    let was_cut = cut(&mut ids, room, true);
    Ok((ids, was_cut))
}

/// Cuts ids; what closes a text stays at its end.
fn cut(ids: &mut Vec<u32>, room: usize, closed: bool) -> bool {
    if ids.len() <= room {
        return false;
    }
    let end = ids[ids.len() - 1];
    ids.truncate(room);
    if let Some(last) = ids.last_mut().filter(|_| closed) {
        *last = end;
    }
    true
}

/// Raw examples on their way to numbers.
struct Encoding<'a> {
    companions: &'a Companions,
    /// Tokens that the model has room for.
    room: usize,
    print: Fingerprint,
    longest: [usize; 2],
    shortened: usize,
}

impl Encoding<'_> {
    fn text(&mut self, text: &str) -> Result<Numbers> {
        let ids = self.companions.tokenizer()?.encode_bare(text)?;
        self.print.ids(&ids);
        self.longest[0] = self.room.min(ids.len());
        Ok(Numbers::Text(ids.into()))
    }

    fn lines(&mut self, lines: &[String]) -> Result<Vec<Vec<u32>>> {
        let tokenizer = self.companions.tokenizer()?;
        lines.iter().map(|line| Ok(self.line(tokenizer.encode(line)?, 0))).collect()
    }

    /// Span corruption adds marks to a line: they need room.
    fn spans(&mut self, lines: &[String]) -> Result<Vec<Line>> {
        const MARKS: usize = 2;
        let tokenizer = self.companions.tokenizer()?;
        let one = |line: &String| {
            let ids = self.line(tokenizer.encode_bare(line)?, MARKS);
            let tokens = |to: usize| Ok::<usize, Error>(tokenizer.encode_bare(&line[..to])?.len());
            let (title, found) = facts(line);
            let title = tokens(title)?;
            let mut facts = Vec::with_capacity(found.len());
            for range in found {
                let range = tokens(range.start)?..tokens(range.end)?;
                // What was cut off cannot be asked for.
                if title <= range.start && range.start < range.end && range.end <= ids.len() {
                    facts.push(range);
                }
            }
            Ok(Line { ids, title, facts })
        };
        lines.iter().map(one).collect()
    }

    /// A line, cut to the room that marks leave; one without marks keeps its end.
    fn line(&mut self, mut ids: Vec<u32>, marks: usize) -> Vec<u32> {
        self.shortened += usize::from(cut(&mut ids, self.room.saturating_sub(marks), marks == 0));
        self.print.ids(&ids);
        self.longest[0] = self.longest[0].max(ids.len() + marks);
        ids
    }

    fn classes(&mut self, texts: &[(String, usize)]) -> Result<Numbers> {
        let mut all = Vec::with_capacity(texts.len());
        for (row, (text, class)) in texts.iter().enumerate() {
            let (ids, was_cut) = text_ids(self.companions.tokenizer()?, text, self.room)?;
            if ids.is_empty() {
                return Err(Error::invalid(
                    format!("example {} has no text: its tokens are none", row + 1),
                    "give it words, or leave the line out",
                ));
            }
            self.shortened += usize::from(was_cut);
            self.print.ids(&ids);
            self.print.number(*class as u64);
            self.longest[0] = self.longest[0].max(ids.len());
            all.push((ids, *class as i32));
        }
        Ok(Numbers::Classes(Arc::new(all)))
    }

    fn pairs(&mut self, pairs: &[(String, String)], leave_out: bool) -> Result<Numbers> {
        let (tokenizer, room) = (self.companions.tokenizer()?, self.room);
        let mut all = Vec::with_capacity(pairs.len());
        for (source, target) in pairs {
            let mut source = tokenizer.encode(source)?;
            let mut target = tokenizer.encode_bare(target)?;
            let long = source.len() > room || target.len() + 1 > room;
            self.shortened += usize::from(long);
            if long && leave_out {
                continue;
            }
            source.truncate(room);
            target.truncate(room.saturating_sub(1));
            self.print.ids(&source);
            self.print.ids(&target);
            self.longest = [self.longest[0].max(source.len()), self.longest[1].max(target.len() + 1)];
            all.push((source, target));
        }
        if all.is_empty() {
            return Err(Error::invalid(
                format!("all {} pairs are longer than the {room} tokens of the model", pairs.len()),
                "give it a longer context: model.context",
            ));
        }
        Ok(Numbers::Pairs(Arc::new(all)))
    }

    fn couples(&mut self, couples: &[(String, String)]) -> Result<Numbers> {
        let (tokenizer, room) = (self.companions.tokenizer()?, self.room);
        let mut all = Vec::with_capacity(couples.len());
        for (first, second) in couples {
            let ((first, one), (second, two)) =
                (text_ids(tokenizer, first, room)?, text_ids(tokenizer, second, room)?);
            self.shortened += usize::from(one || two);
            self.print.ids(&first);
            self.print.ids(&second);
            self.longest = [self.longest[0].max(first.len()), self.longest[1].max(second.len())];
            all.push((first, second));
        }
        Ok(Numbers::Couples(Arc::new(all)))
    }

    /// Every token of the model's own parts is a target of the position before it; others are not asked for.
    /// What is too long loses its end.
    fn chats(&mut self, chats: &[Replies]) -> Result<Numbers> {
        let (tokenizer, room) = (self.companions.tokenizer()?, self.room.saturating_add(1));
        let mut all = Vec::with_capacity(chats.len());
        for Replies { text, parts } in chats {
            let (mut ids, mut places) = tokenizer.encode_places(text)?;
            self.shortened += usize::from(ids.len() > room);
            ids.truncate(room);
            places.truncate(room);
            let is_said = |place: usize| parts.iter().any(|part| part.contains(&place));
            let target = |(&id, &place): (&u32, &usize)| if is_said(place) { id as i32 } else { IGNORE };
            let targets: Vec<i32> = ids.iter().zip(&places).skip(1).map(target).collect();
            if targets.iter().all(|target| *target == IGNORE) {
                continue;
            }
            ids.pop();
            self.print.ids(&ids);
            targets.iter().for_each(|target| self.print.number(*target as u64));
            self.longest[0] = self.longest[0].max(ids.len());
            all.push(Example { ids, targets });
        }
        if all.is_empty() {
            return Err(Error::invalid(
                format!(
                    "in {} conversations no reply begins within the {} tokens of the model",
                    chats.len(),
                    self.room
                ),
                "give it a longer context: model.context",
            ));
        }
        Ok(Numbers::Chats(Arc::new(all)))
    }

    fn images(&mut self, images: &Arc<Images>, rows: &[usize]) -> Numbers {
        for &row in rows {
            self.print.bytes(images.pixels(row));
            self.print.number(images.label(row) as u64);
        }
        Numbers::Images(images.clone(), Arc::new(rows.to_vec()))
    }

    fn questions(&mut self, questions: &[(String, String)]) -> Result<Vec<Passage>> {
        let (tokenizer, room) = (self.companions.tokenizer()?, self.room);
        let mark = tokenizer.needed(Special::Mask)?;
        let mut all = Vec::with_capacity(questions.len());
        for (question, place) in questions {
            // What there is to read stands before the question, on lines of its own.
            let (line, asked) = question.rsplit_once('\n').unwrap_or(("", question));
            let line = if line.is_empty() { String::new() } else { format!("{line}\n") };
            let passage = Passage {
                line: tokenizer.encode_bare(&line)?,
                question: tokenizer.encode_bare(asked)?,
                answer: tokenizer.encode_bare(place)?,
            };
            let length = passage.question.len() + passage.answer.len() + 1;
            if length > room {
                return Err(Error::invalid(
                    format!("`{asked}` has {length} characters with its answer"),
                    format!("the model has room for {room}: give it a longer context"),
                ));
            }
            let whole = [passage.line.as_slice(), &passage.question].concat();
            let example = answer(&whole, &passage.answer, mark)?;
            self.shortened += usize::from(example.ids.len() > room);
            self.print.ids(&example.ids);
            self.longest[0] = self.longest[0].max(example.ids.len().min(room));
            all.push(passage);
        }
        Ok(all)
    }
}

/// FNV-1a over everything that a model learns from: two sets of data that differ anywhere have different
/// ones.
struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn ids(&mut self, ids: &[u32]) {
        self.number(ids.len() as u64);
        ids.iter().for_each(|id| self.bytes(&id.to_le_bytes()));
    }
}
