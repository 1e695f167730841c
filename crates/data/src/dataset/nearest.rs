//! The known name that somebody may have meant: the one with the fewest letters to change.

use strsim::generic_levenshtein;

/// The nearest of some names, if any is near: at most a third of its letters differ, or one is a part of the
/// other.
pub(super) fn nearest<S: AsRef<str>>(name: &str, known: impl IntoIterator<Item = S>) -> Option<S> {
    let wanted: Vec<char> = name.to_lowercase().chars().take(LONGEST).collect();
    let mut best: Option<(usize, S)> = None;
    for candidate in known {
        let letters: Vec<char> = candidate.as_ref().to_lowercase().chars().take(LONGEST).collect();
        let changes = generic_levenshtein(&wanted, &letters);
        let allowed = wanted.len().max(letters.len()).div_ceil(3);
        let part = !wanted.is_empty()
            && !letters.is_empty()
            && (contains(&wanted, &letters) || contains(&letters, &wanted));
        if (changes <= allowed || part) && best.as_ref().is_none_or(|(fewest, _)| changes < *fewest) {
            best = Some((changes, candidate));
        }
    }
    best.map(|(_, name)| name)
}

/// Longer names are compared by their beginnings.
const LONGEST: usize = 64;

fn contains(long: &[char], short: &[char]) -> bool {
    long.windows(short.len()).any(|window| window == short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_changes_win() {
        assert_eq!(nearest("trian.tsv", ["dev.tsv", "train.tsv", "train.tsv.gz"]), Some("train.tsv"));
        assert_eq!(nearest("Positive", ["negative", "positive"]), Some("positive"));
        assert_eq!(nearest("train.txt", ["train.txt.gz", "readme"]), Some("train.txt.gz"));
        assert_eq!(nearest("weather", ["0", "1"]), None);
        assert_eq!(nearest("", ["", "a"]), Some(""));
        assert_eq!(nearest("x", Vec::<&str>::new()), None);
    }
}
