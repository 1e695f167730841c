//! Every public fallible function has a test of its error text, and this is the list of them.
//!
//! `goldens/error_texts.txt` has a line for each: `crate/file Item::function: file test`. The list is
//! compared with the sources, both ways; the named test must be there, of the same crate, call this type's
//! function and hold a text against its error. A function that no input makes fail says so: `none, because
//! …`. A new function fails this test until it has a line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 17] = [
    "graph", "device", "ops", "engine", "layers", "models", "data", "generate", "hub", "regard", "train",
    "recipe", "runtime", "evaluate", "evidence", "inspect", "lab",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Rust files below a folder, those of tests left out.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for item in fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && !name.starts_with("tests") && name != "mock.rs" {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The lines of a file before its unit tests, comments left out.
fn code(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().take_while(|line| *line != "mod tests {");
    lines.filter(|line| !line.trim_start().starts_with("//")).map(String::from).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// What can be named from outside a crate: everything in a `pub use`, the modules that are public, and the
/// types.
fn exported(files: &[PathBuf]) -> [BTreeSet<String>; 3] {
    let (mut items, mut modules, mut types) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for file in files {
        let text = code(file).join("\n");
        for part in text.split("pub use ").skip(1) {
            items.extend(words(part.split(';').next().unwrap_or("")).map(String::from));
        }
        for part in text.split("pub mod ").skip(1) {
            modules.extend(words(part).next().map(String::from));
        }
        for kind in ["pub struct ", "pub enum ", "pub trait "] {
            types.extend(text.split(kind).skip(1).filter_map(|part| words(part).next().map(String::from)));
        }
    }
    [items, modules, types]
}

/// A public fallible function: its name, the type or trait that it is of, and whether it takes a `self`.
struct Function {
    item: Option<String>,
    of_trait: bool,
    name: String,
    method: bool,
    /// Another type or module of its crate has one of this name.
    shared: bool,
}

/// The public fallible functions of a file. Relies on the form that `cargo fmt` gives: an item begins and
/// ends without indentation.
fn fallible(file: &Path) -> Vec<Function> {
    let lines = code(file);
    let mut found = Vec::new();
    let (mut item, mut is_trait): (Option<String>, bool) = (None, false);
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("impl") || line.starts_with("pub trait ") {
            is_trait = line.starts_with("pub trait ");
            let head = line.trim_start_matches("pub trait ").trim_start_matches("impl");
            let head =
                if head.starts_with('<') { head.split_once("> ").map_or("", |(_, rest)| rest) } else { head };
            let of_trait = !is_trait && line.contains(" for ");
            item = if of_trait { None } else { words(head).next().map(String::from) };
            continue;
        }
        if line == "}" {
            (item, is_trait) = (None, false);
        }
        let inside = line.starts_with("    ") && !line.starts_with("     ");
        let written = line.trim_start();
        let declared = match (&item, is_trait) {
            (Some(_), true) if inside => written.strip_prefix("fn "),
            (Some(_), false) if inside => written.strip_prefix("pub fn "),
            (None, _) if !line.starts_with(' ') => written.strip_prefix("pub fn "),
            _ => None,
        };
        let Some(declared) = declared else { continue };
        let name = words(declared).next().unwrap_or("").to_string();
        let mut signature = String::new();
        for line in &lines[at..] {
            signature += line;
            if line.ends_with('{') || line.ends_with(';') || line.ends_with('}') {
                break;
            }
        }
        let returned = signature.rsplit_once("->").map_or("", |(_, returned)| returned);
        if words(returned.split(" where ").next().unwrap_or("")).any(|word| word == "Result") {
            let method = has(signature.split("->").next().unwrap_or(""), "self");
            found.push(Function { item: item.clone(), of_trait: is_trait, name, method, shared: false });
        }
    }
    found
}

/// Every public fallible function, as the list names it.
fn functions() -> BTreeMap<String, Function> {
    let mut all = BTreeMap::new();
    for krate in CRATES {
        let mut found: BTreeMap<String, Function> = BTreeMap::new();
        let root = crates().join(krate).join("src");
        let files = sources(&root);
        let [items, modules, types] = exported(&files);
        for file in &files {
            let inside = file.strip_prefix(&root).unwrap().with_extension("");
            let path = inside
                .iter()
                .map(|part| part.to_string_lossy())
                .filter(|part| *part != "mod" && *part != "lib");
            let public = path.into_iter().all(|part| modules.contains(part.as_ref()));
            for function in fallible(file) {
                let Function { item, name, .. } = &function;
                let known = item.as_ref().is_none_or(|item| types.contains(item));
                if known && (public || items.contains(item.as_ref().unwrap_or(name))) {
                    let place = file.strip_prefix(&root).unwrap().display().to_string();
                    let shown = item.as_ref().map_or(name.clone(), |item| format!("{item}::{name}"));
                    found.insert(format!("{krate}/{place} {shown}"), function);
                }
            }
        }
        let mut count = BTreeMap::new();
        found.values().for_each(|function| *count.entry(function.name.clone()).or_insert(0) += 1);
        found.values_mut().for_each(|function| function.shared = count[&function.name] > 1);
        all.extend(found);
    }
    all
}

/// The body of a test; `None` if the file has no such test.
fn body(file: &str, test: &str) -> Option<String> {
    let text = fs::read_to_string(crates().join(file)).ok()?;
    let begin = text.find(&format!("fn {test}()"))?;
    let line = text[..begin].rfind('\n').map_or(0, |at| at + 1);
    let end = format!("\n{}}}", &text[line..begin]);
    let body = &text[begin..];
    Some(body[..body.find(&end)?].to_string())
}

/// Whether a text has a word, no longer one that holds it.
fn has(text: &str, wanted: &str) -> bool {
    words(text).any(|word| word == wanted)
}

/// Whether a statement makes the call and does not unwrap it at once.
fn tries(statement: &str, call: &str) -> bool {
    statement.match_indices(call).any(|(at, _)| {
        let mut depth = 0;
        let open = at + call.len() - usize::from(call.ends_with('('));
        let end = statement[open..].find(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ')' && depth == 0
        });
        end.is_none_or(|end| !statement[open + end + 1..].trim_start().starts_with(".unwrap()"))
    })
}

/// Whether one statement of a test makes the call and takes its error, or the call was named by a `let` (a
/// closure, or a result not yet looked at) and a later statement takes the error of that name.
fn takes_its_error(body: &str, calls: &[String]) -> bool {
    const TAKES: [&str; 6] = [".unwrap_err()", ".err()", "text(", "error(", "refused(", "message("];
    let mut named: Vec<&str> = Vec::new();
    for statement in body.split(";\n") {
        let called = calls.iter().any(|call| tries(statement, call));
        if !called && !named.iter().any(|name| has(statement, name)) {
            continue;
        }
        // A method of that name is somebody else's.
        let plain = statement.replace(".text(", "(").replace(".error(", "(");
        if TAKES.iter().any(|take| plain.contains(take)) {
            return true;
        }
        let bound = statement.rsplit_once("let ").filter(|_| !statement.contains(".unwrap()"));
        named.extend(bound.and_then(|(_, rest)| words(rest).find(|word| *word != "mut")));
    }
    false
}

/// Why a test is none of this function's error text. A test lies in the function's own crate, or in this one,
/// and is about the function's own type: `new` or `forward` of another type does not count.
fn fault(place: &str, function: &Function, file: &str, test: &str) -> Option<String> {
    let Some(body) = body(file, test) else { return Some(format!("there is no test `{test}` in {file}")) };
    let home = |path: &str| path.split('/').next().unwrap_or("").to_string();
    if home(file) != home(place) && home(file) != "conformance" {
        return Some(format!("{file} is not of its crate"));
    }
    let Function { item, name, method, of_trait, shared } = function;
    // Tests beside the code: in its file, in the folder of its module, or in the one named after it.
    let source = place.split(".rs").next().unwrap_or("").replacen('/', "/src/", 1);
    let own = file.starts_with(source.trim_end_matches("mod"));
    let module = place.split(".rs").next().and_then(|path| path.trim_end_matches("/mod").rsplit('/').next());
    let calls = match (item, module) {
        (Some(item), _) if !method => vec![format!("{item}::{name}")],
        (Some(item), _) => vec![format!(".{name}"), format!("{item}::{name}")],
        (None, Some(module)) if *shared && !own => vec![format!("{module}::{name}")],
        (None, _) => vec![name.clone()],
    };
    let calls: Vec<String> =
        calls.iter().flat_map(|call| ["(", "::<"].map(|open| format!("{call}{open}"))).collect();
    if let Some(item) = item.as_ref().filter(|_| *method && !of_trait) {
        let text = if *shared { body.clone() } else { fs::read_to_string(crates().join(file)).unwrap() };
        if !has(&text, item) && !has(&text, &item.to_lowercase()) {
            return Some(format!("`{test}` in {file} is not about {item}"));
        }
    }
    let quotes = body.contains('"') && takes_its_error(&body, &calls);
    (!quotes).then(|| format!("`{test}` in {file} does not hold a text against its error"))
}

#[test]
fn every_public_fallible_function_has_a_test_of_its_error_text() {
    let list = include_str!("../goldens/error_texts.txt");
    let mut listed = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (function, test) = line.split_once(": ").unwrap_or_else(|| panic!("no test in `{line}`"));
        assert!(listed.insert(function.to_string(), test).is_none(), "`{function}` is listed twice");
    }
    let functions = functions();
    assert!(functions.len() > 400, "only {} functions were found in the sources", functions.len());
    let mut wrong = Vec::new();
    for (place, function) in &functions {
        let Some(test) = listed.remove(place) else {
            wrong.push(format!("{place}: has no line"));
            continue;
        };
        if let Some(reason) = test.strip_prefix("none, because ") {
            assert!(reason.len() > 10, "{place}: give a reason");
            continue;
        }
        let (file, test) = test.split_once(' ').unwrap_or((test, ""));
        wrong.extend(fault(place, function, file, test).map(|fault| format!("{place}: {fault}")));
    }
    wrong.extend(listed.keys().map(|function| format!("{function}: is listed, but not in the sources")));
    assert!(wrong.is_empty(), "goldens/error_texts.txt:\n{}", wrong.join("\n"));
}
