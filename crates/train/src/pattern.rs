//! Patterns for dotted names: letters stand for themselves, `*` for any run of characters, dots included. So
//! `block.0.*` is a prefix, `*.bias` a suffix, `*` everything.

/// True if the whole name fits the pattern.
///
/// ```
/// use regard_train::matches;
/// assert!(matches("*.bias", "block.0.attention.query.bias"));
/// assert!(matches("block.*.norm.*", "block.11.norm.weight"));
/// assert!(!matches("block.1.*", "block.11.norm.weight"));
/// ```
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        // The earliest place leaves the most for what follows.
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_anything_and_letters_for_themselves() {
        for (pattern, name, fits) in [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("a.b", "xa.b", false),
            ("*", "", true),
            ("*", "anything.at.all", true),
            ("", "a", false),
            ("a*", "a", true),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a.b.b.c", true),
            ("a*b*c", "a.c.b", false),
            ("*.norm.*", "block.0.norm.weight", true),
            ("*.norm.*", "block.0.norms.weight", false),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
