//! Dotted names: `block.0.attention.linear#2`.

/// Whether a dotted name lies under a prefix of whole components.
pub(crate) fn is_under(name: &str, prefix: &str) -> bool {
    prefix.is_empty()
        || name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// `a.b.c` → `a`, `a.b`, `a.b.c`.
pub(crate) fn prefixes(name: &str) -> impl Iterator<Item = &str> {
    let ends = name.match_indices('.').map(|(at, _)| at).chain(std::iter::once(name.len()));
    ends.map(move |end| &name[..end])
}

/// `a.b.c` → `a.b` and `c`.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_whole_components() {
        assert!(is_under("block.1.norm", "block.1") && is_under("block.1", "block.1") && is_under("x", ""));
        assert!(!is_under("block.10.norm", "block.1") && !is_under("norm#2", "norm"));
        assert_eq!(prefixes("a.b.c").collect::<Vec<_>>(), ["a", "a.b", "a.b.c"]);
        assert_eq!((split("a.b.c"), split("c")), (("a.b", "c"), ("", "c")));
    }
}
