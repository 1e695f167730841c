//! Makes tokenizers from texts with the trainers of the package `tokenizers`. These walk hash maps and add in
//! parallel, so that ids, and for Unigram scores as well, differ from run to run; here words are counted in
//! order, every choice that was left to a hash is made before or after, and the same texts give the same
//! file.

use super::cut::{LIMITS, parts};
use super::{Kind, Tokenizer, guarded};
use crate::error::listed;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::unigram::{Unigram, UnigramTrainer};
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{BertNormalizer, NFKC, Replace, Sequence, replace::ReplacePattern};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::processors::bert::BertProcessing;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{
    AddedToken, ModelWrapper, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType,
    PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
};

/// The largest vocabulary that is learned, eight times that of the largest known models: the package makes
/// room for all of it before it begins.
const MOST_TOKENS: usize = 1 << 21;

/// How a tokenizer is made from texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Training {
    /// How texts are cut.
    pub method: Method,
    /// How many tokens there shall be, special ones included. A small text may give fewer.
    pub vocabulary: usize,
    /// The special tokens, whose ids are 0, 1, 2 and so on.
    pub specials: Vec<String>,
}

/// The ways to cut texts that can be learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Byte-level BPE, as in GPT-2: every text has ids, and they give it back exactly. Puts no token around a
    /// text.
    Bpe,
    /// WordPiece, as in BERT: words and `##` parts of words, `[CLS]` before and `[SEP]` after a text.
    WordPiece {
        /// Whether capitals become small letters and accents are dropped.
        lowercase: bool,
    },
    /// Unigram, as in T5: NFKC, white space of any length is one space, `</s>` after a text.
    Unigram,
}

impl Training {
    /// Byte-level BPE with `<pad>`, `<s>`, `</s>` and `<mask>`.
    pub fn bpe(vocabulary: usize) -> Training {
        Training::new(Method::Bpe, vocabulary, &["<pad>", "<s>", "</s>", "<mask>"])
    }

    /// WordPiece, small letters only, with `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]` and `[MASK]`.
    pub fn word_piece(vocabulary: usize) -> Training {
        let specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
        Training::new(Method::WordPiece { lowercase: true }, vocabulary, &specials)
    }

    /// Unigram with `<pad>`, `</s>` and `<unk>`.
    pub fn unigram(vocabulary: usize) -> Training {
        Training::new(Method::Unigram, vocabulary, &["<pad>", "</s>", "<unk>"])
    }

    fn new(method: Method, vocabulary: usize, specials: &[&str]) -> Training {
        Training { method, vocabulary, specials: specials.iter().map(|&name| name.into()).collect() }
    }

    /// The special tokens that the method cannot do without.
    fn demanded(&self) -> &'static [&'static str] {
        match self.method {
            Method::Bpe => &[],
            Method::WordPiece { .. } => &["[UNK]", "[CLS]", "[SEP]"],
            Method::Unigram => &["</s>", "<unk>"],
        }
    }

    fn check(&self) -> Result<()> {
        if self.vocabulary > MOST_TOKENS {
            return Err(Error::invalid(
                format!("a vocabulary of {} is more than a text can fill", self.vocabulary),
                format!("ask for at most {MOST_TOKENS}"),
            ));
        }
        let distinct: BTreeSet<&String> = self.specials.iter().collect();
        if distinct.len() < self.specials.len() || self.specials.iter().any(String::is_empty) {
            return Err(Error::invalid(
                format!("the special tokens {} are not distinct names", listed(&self.specials)),
                "give each once, and none without a name",
            ));
        }
        let absent: Vec<&&str> =
            self.demanded().iter().filter(|name| !self.specials.iter().any(|s| s == *name)).collect();
        match absent.is_empty() {
            true => Ok(()),
            false => Err(Error::invalid(
                format!("the special tokens lack {}", listed(&absent)),
                "add them: this kind of tokenizer cannot do without",
            )),
        }
    }

    /// Compares the size asked for with what there must be at least.
    fn room(&self, others: usize, what: &str) -> Result<()> {
        let least = self.specials.len() + others;
        if least <= self.vocabulary {
            return Ok(());
        }
        Err(Error::invalid(
            format!(
                "a vocabulary of {} cannot hold {} special tokens and {others} {what}",
                self.vocabulary,
                self.specials.len()
            ),
            format!("ask for at least {least}"),
        ))
    }

    fn added(&self) -> Vec<AddedToken> {
        self.specials.iter().map(|name| AddedToken::from(name.as_str(), true)).collect()
    }
}

/// Words and how often each occurs, in order.
type Words = BTreeMap<String, u32>;

impl Tokenizer {
    /// Makes a tokenizer from texts. The same texts in any order give the same one.
    pub fn train<S: AsRef<str>>(
        training: &Training,
        texts: impl IntoIterator<Item = S>,
    ) -> Result<Tokenizer> {
        training.check()?;
        let failed =
            |error| Error::invalid(format!("training the tokenizer failed: {error}"), "try other texts");
        let (normalizer, pre) = guarded(|| frame(training.method)).map_err(failed)?;
        let mut words = Words::new();
        for text in texts {
            for part in parts(text.as_ref(), LIMITS)? {
                guarded(|| count(part, normalizer.as_ref(), &pre, &mut words)).map_err(failed)?;
            }
        }
        if words.is_empty() {
            return Err(Error::invalid("there are no words to learn from", "give texts that are not empty"));
        }
        let mut inner = match training.method {
            Method::Bpe => bpe(training, words)?,
            Method::WordPiece { .. } => word_piece(training, words)?,
            Method::Unigram => unigram(training, words)?,
        };
        inner.with_normalizer(normalizer).map_err(|e| failed(e.to_string()))?;
        inner.with_pre_tokenizer(Some(pre));
        inner.add_special_tokens(training.added()).map_err(|e| failed(e.to_string()))?;
        Ok(Tokenizer { kind: Kind::HuggingFace(Box::new(inner)) })
    }
}

/// What happens to a text before the model sees it.
pub(super) fn frame(method: Method) -> tokenizers::Result<(Option<NormalizerWrapper>, PreTokenizerWrapper)> {
    Ok(match method {
        Method::Bpe => (None, ByteLevel::new(false, true, true).into()),
        Method::WordPiece { lowercase } => {
            let normalizer = BertNormalizer::new(true, true, None, lowercase);
            (Some(normalizer.into()), BertPreTokenizer.into())
        }
        Method::Unigram => {
            let spaces = Replace::new(ReplacePattern::Regex(r"\s+".into()), " ")?;
            let normalizer = Sequence::new(vec![NFKC.into(), spaces.into()]);
            (Some(normalizer.into()), Metaspace::new('▁', PrependScheme::Always, true).into())
        }
    })
}

/// Adds the words of a text.
fn count(
    text: &str,
    normalizer: Option<&NormalizerWrapper>,
    pre: &PreTokenizerWrapper,
    words: &mut Words,
) -> tokenizers::Result<()> {
    let mut text = tokenizers::NormalizedString::from(text);
    if let Some(normalizer) = normalizer {
        normalizer.normalize(&mut text)?;
    }
    let mut cut = PreTokenizedString::from(text);
    pre.pre_tokenize(&mut cut)?;
    for (word, ..) in cut.get_splits(OffsetReferential::Original, OffsetType::None) {
        // Looked up before it is copied: most words are known already.
        match words.get_mut(word) {
            Some(times) => *times = times.saturating_add(1),
            None if word.is_empty() => {}
            None => drop(words.insert(word.to_owned(), 1)),
        }
    }
    Ok(())
}

fn bpe(training: &Training, words: Words) -> Result<tokenizers::Tokenizer> {
    training.room(256, "bytes")?;
    let trainer = BpeTrainer::builder()
        .vocab_size(training.vocabulary)
        .special_tokens(training.added())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .show_progress(false)
        .build();
    let mut model = BPE::default();
    merges(&trainer, words, &mut model)?;
    let mut inner = tokenizers::Tokenizer::new(ModelWrapper::BPE(model));
    inner.with_decoder(Some(ByteLevel::default()));
    Ok(inner)
}

/// Pairs are counted in whole numbers and the lower ids win among equals, so the merges depend on nothing
/// else.
fn merges(trainer: &BpeTrainer, words: Words, model: &mut BPE) -> Result<()> {
    let words = words.into_iter().map(|(word, times)| (word.into(), u64::from(times))).collect();
    guarded(|| trainer.do_train(&words, model))
        .map(drop)
        .map_err(|error| Error::invalid(format!("training the tokenizer failed: {error}"), "try other texts"))
}

fn word_piece(training: &Training, words: Words) -> Result<tokenizers::Tokenizer> {
    const INSIDE: &str = "##";
    let letters: BTreeSet<char> = words.keys().flat_map(|word| word.chars()).collect();
    let inside: BTreeSet<char> = words.keys().flat_map(|word| word.chars().skip(1)).collect();
    training.room(letters.len() + inside.len(), "letters, at the beginning and inside of words")?;
    // The trainer gives ids to letters inside of words as it meets them in a hash map. Among the special
    // tokens they have theirs already; that they are none is said by leaving them out of the special tokens
    // of the result.
    let mut first = training.added();
    first.extend(inside.iter().map(|c| AddedToken::from(format!("{INSIDE}{c}"), false)));
    let trainer = BpeTrainer::builder()
        .vocab_size(training.vocabulary)
        .special_tokens(first)
        .continuing_subword_prefix(INSIDE.into())
        .show_progress(false)
        .build();
    let mut model = BPE::default();
    merges(&trainer, words, &mut model)?;
    let mut inner = tokenizers::Tokenizer::new(ModelWrapper::WordPiece(WordPiece::from_bpe(&model)));
    inner.with_decoder(Some(tokenizers::decoders::wordpiece::WordPiece::new(INSIDE.into(), true)));
    let place = |name: &str| (name.to_owned(), inner.token_to_id(name).unwrap_or(0));
    let (separator, class) = (place("[SEP]"), place("[CLS]"));
    inner.with_post_processor(Some(BertProcessing::new(separator, class)));
    Ok(inner)
}

fn unigram(training: &Training, words: Words) -> Result<tokenizers::Tokenizer> {
    let letters: BTreeSet<char> = words.keys().flat_map(|word| word.chars()).collect();
    training.room(letters.len(), "characters of the texts")?;
    let failed = |error| Error::invalid(format!("training the tokenizer failed: {error}"), "try other texts");
    let size =
        u32::try_from(training.vocabulary).map_err(|_| failed("the vocabulary is too large".into()))?;
    let trainer = UnigramTrainer::builder()
        .show_progress(false)
        .vocab_size(size)
        .special_tokens(training.added())
        .unk_token(Some("<unk>".into()))
        .build()
        .map_err(|e| failed(e.to_string()))?;
    // One thread: sums of floats in the order of the words, on every machine.
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(|e| failed(e.to_string()))?;
    let mut model = Unigram::default();
    alone
        .install(|| guarded(|| trainer.do_train(words.into_iter().collect(), &mut model)))
        .map_err(failed)?;
    let mut pieces: Vec<(String, f64)> = model.iter().cloned().collect();
    let mut learned = pieces.split_off(training.specials.len());
    order(&mut learned);
    fit(&mut learned, training.vocabulary - training.specials.len());
    pieces.extend(learned);
    let unknown = training.specials.iter().position(|name| name == "<unk>");
    let model = guarded(|| Unigram::from(pieces, unknown, false)).map_err(failed)?;
    let mut inner = tokenizers::Tokenizer::new(ModelWrapper::Unigram(model));
    inner.with_decoder(Some(Metaspace::new('▁', PrependScheme::Always, true)));
    let end = training.specials.iter().position(|name| name == "</s>").unwrap_or(0);
    let around = TemplateProcessing::builder()
        .try_single("$A </s>")
        .and_then(|builder| builder.try_pair("$A </s> $B </s>"))
        .map_err(|e| failed(e.to_string()))?
        .special_tokens(vec![("</s>", end as u32)])
        .build()
        .map_err(|e| failed(e.to_string()))?;
    inner.with_post_processor(Some(around));
    Ok(inner)
}

/// Characters that the trainer had dropped and puts back get the lowest score, the next 0.0001 more, and so
/// on, in the order of a hash set: here in the order of the characters. Then all by score, by text among
/// equals.
fn order(pieces: &mut [(String, f64)]) {
    const STEP: f64 = 0.0001;
    let lowest = pieces.iter().map(|piece| piece.1).fold(f64::INFINITY, f64::min);
    let single = |text: &str| text.chars().nth(1).is_none();
    let (mut back, mut scores) = (Vec::new(), Vec::new());
    let mut penalty = 0.0;
    loop {
        let here: Vec<usize> =
            (0..pieces.len()).filter(|&i| pieces[i].1 == lowest + penalty && single(&pieces[i].0)).collect();
        if here.is_empty() {
            break;
        }
        scores.extend(here.iter().map(|&i| pieces[i].1));
        back.extend(here);
        penalty += STEP;
    }
    back.sort_by(|&a, &b| pieces[a].0.cmp(&pieces[b].0));
    back.into_iter().zip(scores).for_each(|(i, score)| pieces[i].1 = score);
    pieces.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
}

/// Where characters alone fill the vocabulary, the trainer adds longer pieces all the same; the lowest of
/// these go.
fn fit(pieces: &mut Vec<(String, f64)>, most: usize) {
    let mut excess = pieces.len().saturating_sub(most);
    let mut kept: Vec<bool> = vec![true; pieces.len()];
    for (piece, kept) in pieces.iter().zip(&mut kept).rev() {
        if excess > 0 && piece.0.chars().nth(1).is_some() {
            *kept = false;
            excess -= 1;
        }
    }
    let mut kept = kept.into_iter();
    pieces.retain(|_| kept.next().unwrap_or(true));
}
