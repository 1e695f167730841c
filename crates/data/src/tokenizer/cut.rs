//! Long texts, a part at a time. The package `tokenizers` keeps a text as a whole while it cuts it, with the
//! place that every byte came from: 120 bytes for each. Where a tokenizer looks at words by themselves, a
//! text can be cut between two words beforehand and has the same ids; where nobody knows what it looks at, a
//! line has a limit.

use super::train::{Method, frame};
use super::{check_room, guarded, no_ids};
use crate::{Error, Result};
use regard_device::machine;

/// How much goes to the package at once, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// From here on a text is cut.
    pub part: usize,
    /// The most without a place where it can be cut, or of a line of a text that cannot.
    pub most: usize,
}

/// A hundred and twenty megabytes for a part.
pub(super) const LIMITS: Limits = Limits { part: 1 << 20, most: 4 << 20 };

/// The ids of a text, without special tokens around it.
pub(super) fn encode(inner: &tokenizers::Tokenizer, text: &str, limits: Limits) -> Result<Vec<u32>> {
    let ids = |text: &str| -> Result<Vec<u32>> {
        Ok(guarded(|| inner.encode_fast(text, false)).map_err(no_ids)?.get_ids().to_vec())
    };
    if text.len() <= limits.part {
        return ids(text);
    }
    if !looks_at_words(inner) {
        check_lines(text, limits)?;
        check_room(text.len(), machine::memory_available())?;
        return ids(text);
    }
    let mut all = Vec::new();
    for part in parts(text, limits)? {
        all.extend(ids(part)?);
    }
    Ok(all)
}

/// A text in parts that have the words of the whole. They are cut before a single space or line end between
/// two characters that stand for themselves, at the first such place after `limits.part` bytes.
pub(super) fn parts(text: &str, limits: Limits) -> Result<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > limits.part {
        let Some(place) = place(rest, limits) else {
            if rest.len() <= limits.most {
                break;
            }
            let begins = text.len() - rest.len() + limits.part;
            return Err(too_long(&text.as_bytes()[..begins], "without a space between two words", limits));
        };
        let (part, after) = rest.split_at(place);
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    Ok(parts)
}

/// Where a text can be cut first, between the limits.
fn place(text: &str, limits: Limits) -> Option<usize> {
    let from = text.ceil_char_boundary(limits.part.max(1));
    let to = text.len().min(limits.most);
    let bytes = text.as_bytes();
    (from..to).find(|&at| {
        matches!(bytes[at], b' ' | b'\n')
            && text[..at].chars().next_back().is_some_and(stands_for_itself)
            && text[at + 1..].chars().next().is_some_and(stands_for_itself)
    })
}

/// Characters that neither join with their neighbours nor vanish when a text is brought into its normal form.
fn stands_for_itself(c: char) -> bool {
    c.is_alphanumeric() || c.is_ascii_graphic() || matches!(c, '、' | '。')
}

/// Refuses a line that is too long for a text that cannot be cut.
pub(super) fn check_lines(text: &str, limits: Limits) -> Result<()> {
    let mut begins = 0;
    for line in text.split_inclusive('\n') {
        if line.len() > limits.most {
            return Err(too_long(&text.as_bytes()[..begins], "in one line", limits));
        }
        begins += line.len();
    }
    Ok(())
}

fn too_long(before: &[u8], how: &str, limits: Limits) -> Error {
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    Error::invalid(
        format!(
            "line {line} of the text has more than {} bytes {how}, too many to cut into tokens",
            limits.most
        ),
        "divide it into several lines of words, or use a tokenizer of characters or bytes",
    )
}

/// Whether a tokenizer looks at words by themselves: if what it does to a text first is what those do that
/// are made here, which is what GPT-2 and BERT do, and no special token has a space in it or takes one up.
fn looks_at_words(inner: &tokenizers::Tokenizer) -> bool {
    let methods = [
        Method::Bpe,
        Method::WordPiece { lowercase: true },
        Method::WordPiece { lowercase: false },
        Method::Unigram,
    ];
    let own = (serde_json::to_value(inner.get_normalizer()), serde_json::to_value(inner.get_pre_tokenizer()));
    let (Ok(normalizer), Ok(pre)) = own else { return false };
    let known = methods.into_iter().filter_map(|method| frame(method).ok()).any(|frame| {
        serde_json::to_value(frame.0).is_ok_and(|value| value == normalizer)
            && serde_json::to_value(frame.1).is_ok_and(|value| value == pre)
    });
    let added = inner.get_added_tokens_decoder();
    known && added.values().all(|token| !token.rstrip && !token.content.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Tokenizer, Training};
    use super::*;

    const FEW: Limits = Limits { part: 24, most: 96 };

    fn text() -> String {
        let line = "The cat's \u{e9}t\u{e9} cost 12,50 \u{20ac}...  or two;\tdon't (ask) why\u{3002}\n\u{4f60}\u{597d} w\u{f6}rld  \n\n'tis fine \u{301}x\r\n";
        line.repeat(9)
    }

    #[test]
    fn a_text_in_parts_has_the_ids_of_the_whole() {
        let text = text();
        for training in [Training::bpe(300), Training::word_piece(120), Training::unigram(80)] {
            let tokenizer = Tokenizer::train(&training, [&text]).unwrap();
            let Kind::HuggingFace(inner) = &tokenizer.kind else { panic!("one of the package") };
            assert!(looks_at_words(inner), "{training:?}");
            assert!(parts(&text, FEW).unwrap().len() > 12);
            let whole = encode(inner, &text, LIMITS).unwrap();
            for part in [16, 24, 31, 50] {
                assert_eq!(encode(inner, &text, Limits { part, most: 200 }).unwrap(), whole, "{training:?}");
            }
        }
    }

    #[test]
    fn what_has_no_place_to_cut_is_refused_by_its_line() {
        let long = format!("one two\nthree\n{}\nfour", "x".repeat(200));
        assert_eq!(
            parts(&long, FEW).unwrap_err().to_string(),
            "line 3 of the text has more than 96 bytes without a space between two words, too many to cut into tokens; \
             divide it into several lines of words, or use a tokenizer of characters or bytes"
        );
        assert_eq!(
            check_lines(&long, FEW).unwrap_err().to_string(),
            "line 3 of the text has more than 96 bytes in one line, too many to cut into tokens; divide it into several \
             lines of words, or use a tokenizer of characters or bytes"
        );
        let short = "x".repeat(90);
        assert_eq!(parts(&short, FEW).unwrap(), [&short], "what is left may be as long as the most");
    }

    #[test]
    fn a_tokenizer_that_looks_across_words_is_told() {
        let tokenizer = Tokenizer::train(&Training::bpe(300), [&text()]).unwrap();
        let Kind::HuggingFace(mut inner) = tokenizer.kind else { panic!("one of the package") };
        inner.with_pre_tokenizer(None::<tokenizers::PreTokenizerWrapper>);
        assert!(!looks_at_words(&inner));
        let message = encode(&inner, &"x".repeat(200), FEW).unwrap_err().to_string();
        assert!(message.starts_with("line 1 of the text has more than 96 bytes in one line"), "{message}");
    }
}
