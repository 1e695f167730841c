//! What templates of transformers may call besides the language itself: its filters as Jinja has them where
//! ours would differ, methods of Python's strings and dictionaries, `raise_exception` and `strftime_now`.
//! Everything that makes a value larger than its operands has a limit. What is not Python's: `~` writes what
//! is no text in the words of minijinja (`true`, `none`, double quotes); no template of the goldens does
//! that. A tuple is printed as a list.

use super::bound::{GUARD, REPLY};
use super::date;
use super::python_text::{Dumping, Unwritten, dumped, printed};
use super::template::{MOST_OF_A_VALUE, MOST_OUTPUT};
use minijinja::value::{Kwargs, Object, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Instant;

/// What stands around what the model wrote, until it is taken out: no text has them, they are no characters.
pub(super) const BEGIN: char = '\u{fdd0}';
/// The other end.
pub(super) const END: char = '\u{fdd1}';
/// The values of one list, and of what it holds.
const MOST_ITEMS: usize = 100_000;
/// How deep lists and dictionaries may hold others.
const MOST_DEPTH: usize = 64;

/// What a template refuses with `raise_exception` has this in front.
pub(super) const RAISED: &str = "raised: ";

/// The longest that one rendering may take: an instruction may work on a long text, and there are many.
const MOST_SECONDS: u64 = 10;

/// What one rendering has used up.
#[derive(Debug)]
struct Used {
    printed: AtomicUsize,
    began: Instant,
}

impl Object for Used {}

/// That of the rendering at hand; ends it where it takes too long.
fn used(state: &State<'_, '_>) -> Result<Arc<Used>, Error> {
    let begin = || Used { printed: AtomicUsize::new(0), began: Instant::now() };
    let used = state.get_or_set_temp_object("used", begin);
    match used.began.elapsed().as_secs() >= MOST_SECONDS {
        false => Ok(used),
        true => Err(invalid(format!("it takes longer than {MOST_SECONDS} seconds"))),
    }
}

/// Gives an environment all of it.
pub(super) fn furnish(environment: &mut Environment<'static>, now: Arc<AtomicI64>) {
    environment.set_formatter(print);
    environment.set_unknown_method_callback(method);
    // These grow with a number that is given, and no template of a model needs them.
    for name in ["format", "batch", "slice", "pprint", "chain", "zip", "lines", "split"] {
        environment.remove_filter(name);
    }
    environment.add_filter(GUARD, within);
    environment.add_filter(REPLY, |text: String| format!("{BEGIN}{text}{END}"));
    environment.add_filter("tojson", tojson);
    environment.add_filter("string", |value: Value| text_of(&value));
    // What is no text becomes one first, as Python writes it.
    environment.add_filter("trim", |value: Value, signs: Option<String>| {
        text_of(&value).map(|text| match &signs {
            None => text.trim().to_owned(),
            Some(signs) => text.trim_matches(|c| signs.contains(c)).to_owned(),
        })
    });
    environment.add_filter("upper", |value: Value| text_of(&value).map(|text| text.to_uppercase()));
    environment.add_filter("lower", |value: Value| text_of(&value).map(|text| text.to_lowercase()));
    environment.add_filter("replace", |text: String, from: String, to: String| replaced(&text, &from, &to));
    environment.add_filter("join", join);
    environment.add_filter("indent", indent);
    environment
        .add_test("iterable", |value: Value| value.kind() == ValueKind::String || holds_others(&value));
    environment
        .add_test("sequence", |value: Value| value.kind() == ValueKind::String || holds_others(&value));
    environment.add_function("raise_exception", |text: Value| -> Result<Value, Error> {
        Err(invalid(format!("{RAISED}{text}")))
    });
    environment.add_function("strftime_now", move |format: &str| {
        date::formatted(now.load(Ordering::Relaxed), format)
            .map_err(|directive| invalid(format!("strftime_now does not know `{directive}`")))
    });
}

fn invalid(text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, text)
}

fn too_large() -> Error {
    invalid(format!("a value has more than {MOST_OF_A_VALUE} bytes"))
}

fn unwritten(reason: Unwritten) -> Error {
    match reason {
        Unwritten::TooLong => too_large(),
        Unwritten::NoJson(kind) => invalid(format!("what is {kind} has no JSON")),
    }
}

fn text_of(value: &Value) -> Result<String, Error> {
    printed(value, MOST_OF_A_VALUE).map_err(unwritten)
}

fn holds_others(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
}

/// Prints a value, and counts: what is caught in a variable never meets the writer at the end.
fn print(out: &mut Output<'_>, state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let text = printed(value, MOST_OUTPUT).map_err(unwritten)?;
    if used(state)?.printed.fetch_add(text.len(), Ordering::Relaxed) + text.len() > MOST_OUTPUT {
        return Err(invalid(format!("it prints more than {MOST_OUTPUT} bytes")));
    }
    out.write_str(&text).map_err(|_| invalid("the text could not be written"))
}

/// A value that is not too large, as it is.
fn within(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    used(state)?;
    let (mut bytes, mut items) = (0, 0);
    measure(&value, 0, &mut bytes, &mut items)?;
    Ok(value)
}

fn measure(value: &Value, depth: usize, bytes: &mut usize, items: &mut usize) -> Result<(), Error> {
    *items += 1;
    *bytes += value.as_str().map_or(0, str::len);
    if *bytes > MOST_OF_A_VALUE {
        return Err(too_large());
    }
    if *items > MOST_ITEMS || depth > MOST_DEPTH {
        return Err(invalid(format!(
            "a value holds more than {MOST_ITEMS} others, or {MOST_DEPTH} in each other"
        )));
    }
    // Functions and namespaces are no values that grow; what a namespace is given was guarded.
    let plain = matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map);
    if plain {
        for item in value.try_iter()? {
            if value.kind() == ValueKind::Map {
                measure(&value.get_item(&item).unwrap_or_default(), depth + 1, bytes, items)?;
            }
            measure(&item, depth + 1, bytes, items)?;
        }
    }
    Ok(())
}

/// `json.dumps`, with the options that transformers hands on.
fn tojson(value: Value, options: Kwargs) -> Result<Value, Error> {
    let indent = match options.get::<Option<Value>>("indent")? {
        Some(value) if value.as_str().is_some() => value.as_str().map(str::to_owned),
        Some(value) if !value.is_none() => {
            let width = value.as_usize().filter(|width| *width <= 64);
            Some(" ".repeat(width.ok_or_else(|| invalid("tojson takes an indent from 0 to 64"))?))
        }
        _ => None,
    };
    let usual = if indent.is_some() { "," } else { ", " };
    let separators = match options.get::<Option<Value>>("separators")? {
        Some(pair) if !pair.is_none() => {
            let at = |at: i64| {
                pair.get_item(&Value::from(at)).ok().and_then(|one| one.as_str().map(str::to_owned))
            };
            match (at(0), at(1)) {
                (Some(items), Some(keys)) => (items, keys),
                _ => return Err(invalid("tojson takes two texts as separators")),
            }
        }
        _ => (usual.into(), ": ".into()),
    };
    let how = Dumping {
        ensure_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        separators,
    };
    options.assert_all_used()?;
    Ok(Value::from_safe_string(dumped(&value, &how, MOST_OF_A_VALUE).map_err(unwritten)?))
}

fn replaced(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let places = if from.is_empty() { text.chars().count() + 1 } else { text.matches(from).count() };
    if text.len().saturating_add(places.saturating_mul(to.len())) > MOST_OF_A_VALUE {
        return Err(too_large());
    }
    Ok(text.replace(from, to))
}

fn join(value: Value, joiner: Option<String>, options: Kwargs) -> Result<String, Error> {
    let attribute = options.get::<Option<String>>("attribute")?;
    options.assert_all_used()?;
    let joiner = joiner.unwrap_or_default();
    let mut text = String::new();
    for (at, item) in value.try_iter()?.enumerate() {
        if at > MOST_ITEMS {
            return Err(invalid(format!("a list of more than {MOST_ITEMS} values is joined")));
        }
        let item = match &attribute {
            Some(name) => item.get_attr(name)?,
            None => item,
        };
        let item = printed(&item, MOST_OF_A_VALUE).map_err(unwritten)?;
        if text.len() + item.len() + joiner.len() > MOST_OF_A_VALUE {
            return Err(too_large());
        }
        text.push_str(if at > 0 { &joiner } else { "" });
        text.push_str(&item);
    }
    Ok(text)
}

/// Jinja's: every line but the first is moved to the right, blank ones not.
fn indent(
    text: String,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let width = options.get::<Option<Value>>("width")?.or(width);
    let first = options.get::<Option<bool>>("first")?.or(first).unwrap_or(false);
    let blank = options.get::<Option<bool>>("blank")?.or(blank).unwrap_or(false);
    options.assert_all_used()?;
    let space = match width {
        None => " ".repeat(4),
        Some(value) => match (value.as_str(), value.as_usize().filter(|width| *width <= 256)) {
            (Some(space), _) if space.len() <= 256 => space.to_owned(),
            (_, Some(width)) => " ".repeat(width),
            _ => return Err(invalid("indent takes at most 256 spaces")),
        },
    };
    let lines = text.split('\n').count();
    if text.len().saturating_add(lines.saturating_mul(space.len())) > MOST_OF_A_VALUE {
        return Err(too_large());
    }
    let mut out = String::new();
    for (at, line) in text.split('\n').enumerate() {
        out.push_str(if at > 0 { "\n" } else { "" });
        let moves = if at == 0 { first } else { blank || !line.is_empty() };
        out.push_str(if moves { &space } else { "" });
        out.push_str(line);
    }
    Ok(out)
}

/// Python's `title`: a letter behind none is large, all others are small.
fn titled(text: &str) -> String {
    let (mut out, mut inside) = (String::with_capacity(text.len()), false);
    for letter in text.chars() {
        match inside {
            true => out.extend(letter.to_lowercase()),
            false => out.extend(letter.to_uppercase()),
        }
        inside = letter.is_alphabetic();
    }
    out
}

/// Methods of Python's strings, lists and dictionaries.
fn method(state: &State<'_, '_>, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    match (name, value.as_str()) {
        ("format", _) => Err(invalid("the method `format` is not known; join texts with ~")),
        ("title", Some(text)) => Ok(Value::from(titled(text))),
        ("replace", Some(text)) => {
            let (from, to, count): (&str, &str, Rest<Value>) = minijinja::value::from_args(arguments)?;
            match count.first() {
                None => replaced(text, from, to).map(Value::from),
                Some(count) => {
                    // Bounded by what replacing all of them would come to.
                    replaced(text, from, to)?;
                    let count =
                        count.as_usize().ok_or_else(|| invalid("replace takes a number as its third"))?;
                    Ok(Value::from(text.replacen(from, to, count)))
                }
            }
        }
        ("join", Some(joiner)) => {
            let (items,): (Value,) = minijinja::value::from_args(arguments)?;
            join(items, Some(joiner.to_owned()), Kwargs::from_iter::<[(String, Value); 0]>([]))
                .map(Value::from)
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, arguments),
    }
}
