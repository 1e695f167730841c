//! How BLEU cuts a line into words, as sacrebleu does: `13a` (mteval's, the default), `intl` (mteval-v14's,
//! for any script), single characters, or at spaces alone.

use regex::Regex;
use std::sync::LazyLock;

/// How a line is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tokens {
    /// `13a`: punctuation of Western languages, with care for numbers; four HTML entities are read.
    #[default]
    V13a,
    /// `intl`: Unicode punctuation and symbols, with care for numbers.
    International,
    /// `char`: every character.
    Characters,
    /// `none`: at spaces.
    None,
}

impl Tokens {
    /// Its name in a signature.
    pub fn name(self) -> &'static str {
        match self {
            Tokens::V13a => "13a",
            Tokens::International => "intl",
            Tokens::Characters => "char",
            Tokens::None => "none",
        }
    }

    /// The words of a line.
    pub fn cut(self, line: &str) -> Vec<String> {
        let spaced = match self {
            Tokens::V13a => western(line),
            Tokens::International => replaced(&INTERNATIONAL, line.into()),
            Tokens::Characters => line.chars().flat_map(|c| [c, ' ']).collect(),
            Tokens::None => line.into(),
        };
        words(&spaced).map(str::to_owned).collect()
    }
}

/// Pieces between spaces, of which Python knows four more than Unicode: the separators U+001C to U+001F.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(is_space).filter(|word| !word.is_empty())
}

pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

type Rule = (Regex, &'static str);

fn rules(rules: &[(&str, &'static str)]) -> Vec<Rule> {
    let compiled =
        |(pattern, with): &(&str, &'static str)| Regex::new(pattern).ok().map(|rule| (rule, *with));
    rules.iter().filter_map(compiled).collect()
}

/// Each rule once over the whole line, from left to right without overlap.
fn replaced(rules: &[Rule], line: String) -> String {
    rules.iter().fold(line, |line, (rule, with)| rule.replace_all(&line, *with).into_owned())
}

static WESTERN: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    rules(&[
        // ASCII punctuation stands alone, but for ' , - and .
        (r"([{-~\[-` -&(-+:-@/])", " $1 "),
        // A period or comma does, unless it stands in a number.
        (r"([^0-9])([.,])", "$1 $2 "),
        (r"([.,])([^0-9])", " $1 $2"),
        // So does a dash after a digit.
        (r"([0-9])(-)", "$1 $2 "),
    ])
});

static INTERNATIONAL: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    rules(&[(r"(\P{N})(\p{P})", "$1 $2 "), (r"(\p{P})(\P{N})", " $1 $2"), (r"(\p{S})", " $1 ")])
});

fn western(line: &str) -> String {
    let mut line = line.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    for (entity, character) in [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
        line = line.replace(entity, character);
    }
    replaced(&WESTERN, format!(" {line} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_compiles() {
        assert_eq!((WESTERN.len(), INTERNATIONAL.len()), (4, 3));
    }

    #[test]
    fn lines_are_cut_as_mteval_cuts_them() {
        let line = "He said: &quot;1,234.5 km&quot;, in 1990-91.";
        let cut = |tokens: Tokens, line: &str| tokens.cut(line).join("|");
        assert_eq!(cut(Tokens::V13a, line), "He|said|:|\"|1,234.5|km|\"|,|in|1990|-|91|.");
        assert_eq!(cut(Tokens::International, "«Да», 1,5 €. 7."), "«|Да|»|,|1,5|€|.|7.");
        assert_eq!(cut(Tokens::Characters, "a b."), "a|b|.");
        assert_eq!(cut(Tokens::None, " a  b.\u{1f}c"), "a|b.|c");
    }
}
