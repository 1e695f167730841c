//! Values as Python writes them: `str` for what a template prints (`None`, `True`, lists with quotes), and
//! `json.dumps` for its filter `tojson`. Both end when they have grown past a limit, which a value that holds
//! itself many times over would do.

use minijinja::Value;
use minijinja::value::ValueKind;

/// Text that may not grow past a limit.
pub(super) struct Bounded {
    text: String,
    most: usize,
}

/// The limit was met, or a value cannot be written.
#[derive(Debug, PartialEq)]
pub(super) enum Unwritten {
    TooLong,
    NoJson(String),
}

impl Bounded {
    fn push(&mut self, text: &str) -> Result<(), Unwritten> {
        if self.text.len() + text.len() > self.most {
            return Err(Unwritten::TooLong);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// As Python's `str` has it.
pub(super) fn printed(value: &Value, most: usize) -> Result<String, Unwritten> {
    let mut out = Bounded { text: String::new(), most };
    match value.as_str() {
        Some(text) => out.push(text)?,
        None => represent(value, &mut out)?,
    }
    Ok(out.text)
}

fn represent(value: &Value, out: &mut Bounded) -> Result<(), Unwritten> {
    match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::None => out.push("None"),
        ValueKind::Bool => out.push(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push(&number(value)),
        ValueKind::String => quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push("[")?;
            for (at, item) in value.try_iter().into_iter().flatten().enumerate() {
                out.push(if at > 0 { ", " } else { "" })?;
                represent(&item, out)?;
            }
            out.push("]")
        }
        ValueKind::Map => {
            out.push("{")?;
            for (at, key) in value.try_iter().into_iter().flatten().enumerate() {
                out.push(if at > 0 { ", " } else { "" })?;
                represent(&key, out)?;
                out.push(": ")?;
                represent(&value.get_item(&key).unwrap_or_default(), out)?;
            }
            out.push("}")
        }
        _ => out.push(&value.to_string()),
    }
}

/// A number: whole ones as they are, others in the shortest form that reads back, as Python writes it.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    f64::try_from(value.clone()).map(float).unwrap_or_else(|_| value.to_string())
}

fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{x:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if x != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{x:?}"),
    }
}

/// A text in quotes, as Python's `repr` has it.
fn quoted(text: &str, out: &mut Bounded) -> Result<(), Unwritten> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote.encode_utf8(&mut [0; 4]))?;
    for letter in text.chars() {
        match letter {
            '\n' => out.push("\\n")?,
            '\r' => out.push("\\r")?,
            '\t' => out.push("\\t")?,
            '\\' => out.push("\\\\")?,
            _ if letter == quote => out.push(&format!("\\{quote}"))?,
            _ if letter.is_control() => out.push(&format!("\\x{:02x}", letter as u32))?,
            _ => out.push(letter.encode_utf8(&mut [0; 4]))?,
        }
    }
    out.push(quote.encode_utf8(&mut [0; 4]))
}

/// How `json.dumps` writes.
pub(super) struct Dumping {
    pub ensure_ascii: bool,
    pub indent: Option<String>,
    pub separators: (String, String),
    pub sort_keys: bool,
}

/// As Python's `json.dumps` has it.
pub(super) fn dumped(value: &Value, how: &Dumping, most: usize) -> Result<String, Unwritten> {
    let mut out = Bounded { text: String::new(), most };
    dump(value, how, 0, &mut out)?;
    Ok(out.text)
}

fn dump(value: &Value, how: &Dumping, depth: usize, out: &mut Bounded) -> Result<(), Unwritten> {
    let line = |out: &mut Bounded, depth: usize| match &how.indent {
        None => Ok(()),
        Some(indent) => {
            out.push("\n")?;
            (0..depth).try_for_each(|_| out.push(indent))
        }
    };
    match value.kind() {
        ValueKind::None => out.push("null"),
        ValueKind::Bool => out.push(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => {
            let text = number(value);
            out.push(match text.as_str() {
                "nan" => "NaN",
                "inf" => "Infinity",
                "-inf" => "-Infinity",
                other => other,
            })
        }
        ValueKind::String => json_text(value.as_str().unwrap_or_default(), how.ensure_ascii, out),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut any = false;
            out.push("[")?;
            for item in value.try_iter().into_iter().flatten() {
                out.push(if any { &how.separators.0 } else { "" })?;
                line(out, depth + 1)?;
                dump(&item, how, depth + 1, out)?;
                any = true;
            }
            if any {
                line(out, depth)?;
            }
            out.push("]")
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter().into_iter().flatten().collect();
            if how.sort_keys {
                keys.sort();
            }
            out.push("{")?;
            for (at, key) in keys.iter().enumerate() {
                out.push(if at > 0 { &how.separators.0 } else { "" })?;
                line(out, depth + 1)?;
                match key.as_str() {
                    Some(text) => json_text(text, how.ensure_ascii, out)?,
                    None => {
                        let mut plain = Bounded { text: String::new(), most: out.most };
                        dump(key, how, 0, &mut plain)?;
                        json_text(&plain.text, how.ensure_ascii, out)?;
                    }
                }
                out.push(&how.separators.1)?;
                dump(&value.get_item(key).unwrap_or_default(), how, depth + 1, out)?;
            }
            if !keys.is_empty() {
                line(out, depth)?;
            }
            out.push("}")
        }
        other => Err(Unwritten::NoJson(other.to_string())),
    }
}

fn json_text(text: &str, ensure_ascii: bool, out: &mut Bounded) -> Result<(), Unwritten> {
    out.push("\"")?;
    for letter in text.chars() {
        match letter {
            '"' => out.push("\\\"")?,
            '\\' => out.push("\\\\")?,
            '\n' => out.push("\\n")?,
            '\r' => out.push("\\r")?,
            '\t' => out.push("\\t")?,
            '\u{8}' => out.push("\\b")?,
            '\u{c}' => out.push("\\f")?,
            _ if (letter as u32) < 0x20 => out.push(&format!("\\u{:04x}", letter as u32))?,
            _ if ensure_ascii && (letter as u32) > 0x7e => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    out.push(&format!("\\u{unit:04x}"))?;
                }
            }
            _ => out.push(letter.encode_utf8(&mut [0; 4]))?,
        }
    }
    out.push("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn values_are_printed_as_python_prints_them() {
        let shown = |json: &str| printed(&value(json), 1000).unwrap();
        assert_eq!(shown("null"), "None");
        assert_eq!(shown("\"it's\""), "it's");
        assert_eq!(
            shown(r#"[true, null, 1, 1.0, "a'b", "c\n\\", "\"'"]"#),
            r#"[True, None, 1, 1.0, "a'b", 'c\n\\', '"\'']"#
        );
        assert_eq!(shown(r#"{"z": {"b": []}, "a": 0.1}"#), "{'z': {'b': []}, 'a': 0.1}");
        for (x, text) in [
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1e-5, "1e-05"),
            (-1.5e300, "-1.5e+300"),
            (0.0001, "0.0001"),
        ] {
            assert_eq!(float(x), text);
        }
        assert_eq!(printed(&value("[1, 2, 3]"), 5), Err(Unwritten::TooLong));
    }

    #[test]
    fn json_is_that_of_python() {
        let plain = Dumping {
            ensure_ascii: false,
            indent: None,
            separators: (", ".into(), ": ".into()),
            sort_keys: false,
        };
        let item = value(r#"{"b": [1, 2.5, null, true], "a": "é\u0001\"\n", "c": {}, "d": []}"#);
        assert_eq!(
            dumped(&item, &plain, 1000).unwrap(),
            "{\"b\": [1, 2.5, null, true], \"a\": \"é\\u0001\\\"\\n\", \"c\": {}, \"d\": []}"
        );
        let wide = Dumping {
            ensure_ascii: true,
            indent: Some("  ".into()),
            separators: (",".into(), ": ".into()),
            sort_keys: true,
        };
        assert_eq!(
            dumped(&value(r#"{"b": [1], "a": "😀é"}"#), &wide, 1000).unwrap(),
            "{\n  \"a\": \"\\ud83d\\ude00\\u00e9\",\n  \"b\": [\n    1\n  ]\n}"
        );
        assert_eq!(dumped(&Value::UNDEFINED, &plain, 10), Err(Unwritten::NoJson("undefined".into())));
    }
}
