//! Words of a text, and when two of them are the same to a reader who does not mind capitals and accents.

use std::ops::Range;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A word of a text, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The word.
    pub text: &'a str,
    /// Its bytes in the text.
    pub at: Range<usize>,
}

impl Word<'_> {
    /// Whether it begins with a capital letter, as names do.
    pub fn is_capital(&self) -> bool {
        self.text.chars().next().is_some_and(char::is_uppercase)
    }
}

/// Whether a character is of one word with a letter beside it.
pub(crate) fn joins(c: char) -> bool {
    (c.is_alphanumeric() || is_combining_mark(c)) && !stands_alone(c)
}

/// Letters of scripts that are written without spaces count as words by themselves.
fn stands_alone(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff            // Thai, Lao
        | 0x1000..=0x109f          // Myanmar
        | 0x1780..=0x17ff          // Khmer
        | 0x3040..=0x30ff          // Hiragana, Katakana
        | 0x3400..=0x9fff          // Han
        | 0xf900..=0xfaff
        | 0x20000..=0x3ffff)
}

/// The words of a text: runs of letters and digits, with apostrophes, hyphens and points that stand between
/// two of them ("O'Neill", "Stratford-upon-Avon", "3.5").
pub fn words(text: &str) -> Vec<Word<'_>> {
    let mut found: Vec<Word<'_>> = Vec::new();
    let mut begin: Option<usize> = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        if joins(c) {
            begin.get_or_insert(at);
            continue;
        }
        let goes_on = "'’-.".contains(c) && characters.peek().is_some_and(|&(_, next)| joins(next));
        if begin.is_some() && goes_on {
            continue;
        }
        if let Some(from) = begin.take() {
            found.push(Word { text: &text[from..at], at: from..at });
        }
        if c.is_alphanumeric() {
            let end = at + c.len_utf8();
            found.push(Word { text: &text[at..end], at: at..end });
        }
    }
    if let Some(from) = begin {
        found.push(Word { text: &text[from..], at: from..text.len() });
    }
    found
}

/// A word without the ending of a possessive: "London's" is about London.
pub(crate) fn base(word: &str) -> &str {
    word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word)
}

/// The words of a text, folded, and without the endings of possessives.
pub(crate) fn folded_words(text: &str) -> Vec<String> {
    words(text).iter().map(|word| folded(base(word.text))).collect()
}

/// A text as a reader has it who minds neither capitals nor accents: "Besançon" as "besancon", "Łódź" as
/// "lodz", "Straße" as "strasse".
pub fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.nfkd().filter(|&c| !is_combining_mark(c)).flat_map(char::to_lowercase) {
        match c {
            // Letters with a stroke, and joined ones, have no decomposition.
            'ł' => out.push('l'),
            'ø' => out.push('o'),
            'đ' | 'ð' => out.push('d'),
            'ħ' => out.push('h'),
            'ı' => out.push('i'),
            'ß' => out.push_str("ss"),
            'æ' => out.push_str("ae"),
            'œ' => out.push_str("oe"),
            'þ' => out.push_str("th"),
            '’' => out.push('\''),
            // Capital İ becomes an i with a dot above.
            c if is_combining_mark(c) => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        words(text).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(texts("Where was Ada O'Neill born?"), ["Where", "was", "Ada", "O'Neill", "born"]);
        assert_eq!(texts("St. Stratford-upon-Avon, 3.5 km."), ["St", "Stratford-upon-Avon", "3.5", "km"]);
        assert_eq!(texts("-- 'a' - b-"), ["a", "b"]);
        assert_eq!(texts(""), [""; 0]);
        assert_eq!(texts("東京ab京"), ["東", "京", "ab", "京"], "scripts without spaces");
        assert_eq!(texts("e\u{301}te\u{301}"), ["e\u{301}te\u{301}"], "accents of their own");
        let word = &words("né à Łódź.")[2];
        assert_eq!((word.text, word.at.clone(), word.is_capital()), ("Łódź", 7..14, true));
    }

    #[test]
    fn possessives_are_of_their_words() {
        assert_eq!(folded_words("Ada's and James’s son's Paris"), ["ada", "and", "james", "son", "paris"]);
    }

    #[test]
    fn capitals_and_accents_fold_away() {
        for (text, expected) in [
            ("Besançon", "besancon"),
            ("BESANC\u{327}ON", "besancon"),
            ("Łódź", "lodz"),
            ("Ærøskøbing", "aeroskobing"),
            ("Straße", "strasse"),
            ("İstanbul", "istanbul"),
            ("ﬁne", "fine"),
            ("Αθήνα", "αθηνα"),
        ] {
            assert_eq!(folded(text), expected, "{text}");
        }
    }
}
