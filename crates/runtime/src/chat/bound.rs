//! Templates come from strangers, and the language has no limit of its own on how long a value may get:
//! thirty times `a = a ~ a` is a gigabyte. A value can only double where it is bound to a name, so every
//! binding is given a guard here, before the template is compiled: `{% set a = E %}` becomes `{% set a = (E)
//! | within %}`, and what a loop, a macro or a `with` binds is guarded in the first line of its body. Within
//! one expression growth is bounded by the operators in it, which are counted.
//!
//! The same pass turns the `generation` tags of transformers, which mark what the model wrote, into a filter.

use std::fmt::Write;

/// The filter that refuses values that are too large.
pub(super) const GUARD: &str = "within";
/// The filter that marks what stands between the `generation` tags.
pub(super) const REPLY: &str = "reply_of_the_model";
/// The most `~` and `+` in one tag: each can add the largest value.
const MOST_JOINED: usize = 128;
/// The largest number by which a list can be multiplied.
const MOST_TIMES: u32 = 100;

/// A template with guards.
#[derive(Debug)]
pub(super) struct Guarded {
    pub source: String,
    /// The longest text outside of tags: what one instruction can write.
    pub longest_text: usize,
    /// Whether it marks what the model wrote.
    pub has_marks: bool,
}

/// Puts guards into a template; or says what cannot be guarded.
pub(super) fn guarded(source: &str) -> Result<Guarded, String> {
    let mut out =
        Guarded { source: String::with_capacity(source.len() * 2), longest_text: 0, has_marks: false };
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let (text, after) = rest.split_at(at);
        let kind = after.as_bytes().get(1).copied();
        let end = match kind {
            Some(b'#') => after.find("#}").map(|end| end + 2),
            Some(b'%') => end_of(after, "%}"),
            Some(b'{') => end_of(after, "}}"),
            _ => {
                // A brace by itself is text.
                out.longest_text = out.longest_text.max(at + 1);
                out.source.push_str(&rest[..at + 1]);
                rest = &rest[at + 1..];
                continue;
            }
        };
        out.longest_text = out.longest_text.max(text.len());
        out.source.push_str(text);
        // What is not closed is the compiler's to refuse.
        let Some(end) = end else {
            out.source.push_str(after);
            rest = "";
            break;
        };
        let tag = &after[..end];
        rest = &after[end..];
        if kind == Some(b'#') {
            out.source.push_str(tag);
            continue;
        }
        if joined(tag) > MOST_JOINED {
            return Err(format!("one of its tags joins more than {MOST_JOINED} values"));
        }
        check_products(tag)?;
        if kind == Some(b'{') {
            out.source.push_str(tag);
        } else if word(inside(tag)) == "raw" {
            let Some(end) = end_of_raw(rest) else {
                out.source.push_str(tag);
                out.source.push_str(rest);
                rest = "";
                break;
            };
            out.longest_text = out.longest_text.max(end);
            out.source.push_str(tag);
            out.source.push_str(&rest[..end]);
            rest = &rest[end..];
        } else {
            out.statement(tag)?;
        }
    }
    out.longest_text = out.longest_text.max(rest.len());
    out.source.push_str(rest);
    Ok(out)
}

impl Guarded {
    /// One `{% … %}`, with its guard.
    fn statement(&mut self, tag: &str) -> Result<(), String> {
        let inner = inside(tag);
        let keyword = word(inner);
        let (open, close) = markers(tag);
        let body = inner[keyword.len()..].trim();
        match keyword {
            "generation" | "endgeneration" if body.is_empty() => {
                self.has_marks = true;
                let own =
                    if keyword == "generation" { format!("filter {REPLY}") } else { "endfilter".into() };
                let _ = write!(self.source, "{{%{open} {own} {close}%}}");
            }
            "set" => match assignment(body) {
                Some(at) => {
                    let (names, value) = (body[..at].trim(), body[at + 1..].trim());
                    let _ = write!(self.source, "{{%{open} set {names} = ({value}) | {GUARD} {close}%}}");
                }
                None => self.source.push_str(tag),
            },
            "for" => {
                let end = body.find(" in ").unwrap_or(body.len());
                self.binding(tag, close, &body[..end]);
            }
            "macro" | "call" => {
                let begin = body.find('(').filter(|at| keyword == "macro" || *at == 0);
                let parameters = begin.map(|at| {
                    let end = closing(&body[at..]).unwrap_or(body.len() - at);
                    body[at + 1..at + end].to_owned()
                });
                self.binding(tag, close, &parameters.unwrap_or_default());
            }
            "with" => self.binding(tag, close, body),
            "autoescape" => return Err("it turns on escaping, which texts for models do not have".into()),
            _ => self.source.push_str(tag),
        }
        Ok(())
    }

    /// A tag that binds names, and a guard for each at the beginning of its body.
    fn binding(&mut self, tag: &str, close: &str, names: &str) {
        self.source.push_str(tag);
        for part in top_level(names, b',') {
            let name = part.split('=').next().unwrap_or_default();
            let name = name.trim().trim_matches(|c| "()[] ".contains(c));
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if is_name {
                // What the tag does to the white space behind it is done behind the guard.
                let _ = write!(self.source, "{{% set {name} = {name} | {GUARD} {close}%}}");
            }
        }
    }
}

/// What stands in a tag, without its signs.
fn inside(tag: &str) -> &str {
    let inner = tag.get(2..tag.len() - 2).unwrap_or_default();
    inner.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim()
}

/// The signs that say what a tag does to the white space around it.
fn markers(tag: &str) -> (&str, &str) {
    let inner = tag.get(2..tag.len() - 2).unwrap_or_default();
    let open = if inner.starts_with(['-', '+']) { &inner[..1] } else { "" };
    let close = if inner.len() > 1 && inner.ends_with(['-', '+']) { &inner[inner.len() - 1..] } else { "" };
    (open, close)
}

fn word(inner: &str) -> &str {
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
    &inner[..end]
}

/// Walks a tag, passing over texts in quotes: the place and the depth in brackets of every other byte.
fn walk(text: &str) -> impl Iterator<Item = (usize, u8, usize)> + '_ {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    std::iter::from_fn(move || {
        loop {
            let &byte = bytes.get(at)?;
            let place = at;
            at += 1;
            match byte {
                b'\'' | b'"' => {
                    while let Some(&inner) = bytes.get(at) {
                        at += if inner == b'\\' { 2 } else { 1 };
                        if inner == byte {
                            break;
                        }
                    }
                }
                b'(' | b'[' | b'{' => {
                    depth += 1;
                    return Some((place, byte, depth));
                }
                b')' | b']' | b'}' => {
                    // As deep as what it closes.
                    let own = depth;
                    depth = depth.saturating_sub(1);
                    return Some((place, byte, own));
                }
                _ => return Some((place, byte, depth)),
            }
        }
    })
}

/// Where a tag ends, its signs included: not in brackets, as `}}` of a dictionary would be.
fn end_of(text: &str, sign: &str) -> Option<usize> {
    let (sign, bytes) = (sign.as_bytes(), text.as_bytes());
    walk(text.get(2..)?).map(|(at, byte, depth)| (at + 2, byte, depth)).find_map(|(at, byte, depth)| {
        (byte == sign[0] && bytes.get(at + 1) == Some(&sign[1]) && depth == 0).then_some(at + 2)
    })
}

/// Where `endraw` ends.
fn end_of_raw(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find("{%").map(|at| at + from) {
        let end = text[at..].find("%}").map(|end| at + end + 2)?;
        if inside(&text[at..end]) == "endraw" {
            return Some(end);
        }
        from = at + 2;
    }
    None
}

/// Where the bracket at the beginning closes.
fn closing(text: &str) -> Option<usize> {
    walk(text).find(|(at, byte, depth)| *at > 0 && *byte == b')' && *depth == 1).map(|(at, ..)| at)
}

/// The first `=` that assigns.
fn assignment(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    walk(text).find_map(|(at, byte, depth)| {
        let assigns = byte == b'=' && depth == 0 && bytes.get(at + 1) != Some(&b'=');
        let compares = at > 0 && b"=!<>".contains(&bytes[at - 1]);
        (assigns && !compares).then_some(at)
    })
}

/// Parts between commas that stand in no bracket.
fn top_level(text: &str, sign: u8) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, byte, depth) in walk(text) {
        if byte == sign && depth == 0 {
            parts.push(&text[from..at]);
            from = at + 1;
        }
    }
    parts.push(&text[from..]);
    parts
}

/// A list times a number is as long as one likes: one such product in a tag, with a number that stands there.
/// Texts that are repeated have a limit of their own.
fn check_products(tag: &str) -> Result<(), String> {
    let bytes = tag.as_bytes();
    let mut times = 0;
    for (at, _, _) in walk(tag).filter(|(_, byte, _)| *byte == b'*') {
        let (before, after) = (tag[..at].trim_end(), tag[at + 1..].trim_start());
        let is_power = bytes.get(at + 1) == Some(&b'*') || before.ends_with('*');
        if is_power || before.ends_with(['\'', '"']) || after.starts_with(['\'', '"']) {
            continue;
        }
        times += 1;
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let last = before.len() - before.bytes().rev().take_while(u8::is_ascii_digit).count();
        let factors = [&before[last..], &after[..digits(after)]];
        let is_small =
            factors.iter().any(|text| text.parse::<u32>().is_ok_and(|number| number <= MOST_TIMES));
        if !is_small || times > 1 {
            return Err(format!(
                "one of its tags multiplies by something else than one number up to {MOST_TIMES}"
            ));
        }
    }
    Ok(())
}

/// How many operators of a tag join values.
fn joined(tag: &str) -> usize {
    walk(tag).filter(|(_, byte, _)| b"~+".contains(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_guards(source: &str) -> String {
        guarded(source).unwrap().source
    }

    #[test]
    fn every_binding_is_guarded() {
        for (source, expected) in [
            ("a{% set x = y ~ '=' %}b", "a{% set x = (y ~ '=') | within %}b"),
            ("{%- set ns.x = a == b -%}", "{%- set ns.x = (a == b) | within -%}"),
            ("{% set x %}a{% endset %}", "{% set x %}a{% endset %}"),
            (
                "{%- for k, v in d|items if v -%}\n",
                "{%- for k, v in d|items if v -%}{% set k = k | within -%}{% set v = v | within -%}\n",
            ),
            (
                "{% macro f(a, b=[1, 2]) %}",
                "{% macro f(a, b=[1, 2]) %}{% set a = a | within %}{% set b = b | within %}",
            ),
            ("{% call(x) f('(') %}", "{% call(x) f('(') %}{% set x = x | within %}"),
            ("{% call f(x) %}", "{% call f(x) %}"),
            ("{% with a = b ~ b %}", "{% with a = b ~ b %}{% set a = a | within %}"),
            ("{# {% set x = 1 %} #}", "{# {% set x = 1 %} #}"),
            ("{% raw %}{% set x = 1 %}{% endraw %}", "{% raw %}{% set x = 1 %}{% endraw %}"),
            ("{{ {'a': {'b': '}}'}} }}{% set x = 1 %}", "{{ {'a': {'b': '}}'}} }}{% set x = (1) | within %}"),
            ("{% set x = '%}' %}", "{% set x = ('%}') | within %}"),
            ("a { b } {% if x %}", "a { b } {% if x %}"),
            ("{% set open", "{% set open"),
        ] {
            assert_eq!(with_guards(source), expected);
        }
    }

    #[test]
    fn marks_become_a_filter_with_the_same_white_space() {
        let out = guarded("{%- generation -%} a {% endgeneration %}").unwrap();
        assert_eq!(out.source, "{%- filter reply_of_the_model -%} a {% endfilter %}");
        assert!(out.has_marks && !guarded("generation").unwrap().has_marks);
        assert_eq!(guarded("12345{{ x }}123{% raw %}1234567{% endraw %}").unwrap().longest_text, 19);
    }

    #[test]
    fn what_cannot_be_bounded_is_refused() {
        let many = format!("{{{{ {} }}}}", vec!["a"; 200].join(" ~ "));
        assert_eq!(guarded(&many).unwrap_err(), "one of its tags joins more than 128 values");
        for (tag, fine) in [
            ("['a'] * 99", true),
            ("n * ['a']", false),
            ("['a'] * 101", false),
            ("2 ** 5 * 3", true),
            ("[1] * 9 * 9", false),
            ("'-' * n * 3", true),
        ] {
            assert_eq!(guarded(&format!("{{{{ {tag} }}}}")).is_ok(), fine, "{tag}");
        }
        let text = guarded("{% autoescape true %}").unwrap_err();
        assert_eq!(text, "it turns on escaping, which texts for models do not have");
    }
}
