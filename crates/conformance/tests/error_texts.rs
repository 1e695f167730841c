//! Every public fallible function has a test of its error text, and this is the list of them.
//!
//! `goldens/error_texts.txt` has a line for each: `crate/file Item::function: file test`. The list is compared with
//! the sources, both ways; the named test must be there, call the function and hold a text against it. A function that no
//! input makes fail says so: `none, because …`. A new function fails this test until it has a line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 10] =
    ["graph", "device", "ops", "engine", "layers", "models", "data", "generate", "hub", "regard"];

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

/// What can be named from outside a crate: everything in a `pub use`, the modules that are public, and the types.
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

/// The public fallible functions of a file as `Item::function`, or `function` where it is free. Relies on the form that
/// `cargo fmt` gives: an item begins and ends without indentation.
fn fallible(file: &Path) -> Vec<(Option<String>, String)> {
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
            found.push((item.clone(), name));
        }
    }
    found
}

/// Every public fallible function, as the list names it.
fn functions() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for krate in CRATES {
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
            for (item, function) in fallible(file) {
                let known = item.as_ref().is_none_or(|item| types.contains(item));
                if known && (public || items.contains(item.as_ref().unwrap_or(&function))) {
                    let place = file.strip_prefix(&root).unwrap().display().to_string();
                    let shown = item.map_or(function.clone(), |item| format!("{item}::{function}"));
                    all.insert(format!("{krate}/{place} {shown}"), function);
                }
            }
        }
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

fn calls(body: &str, function: &str) -> bool {
    body.contains(&format!("{function}(")) || body.contains(&format!("{function}::<"))
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
    assert!(functions.len() > 250, "only {} functions were found in the sources", functions.len());
    let mut wrong = Vec::new();
    for (function, name) in &functions {
        let Some(test) = listed.remove(function) else {
            wrong.push(format!("{function}: has no line"));
            continue;
        };
        if let Some(reason) = test.strip_prefix("none, because ") {
            assert!(reason.len() > 10, "{function}: give a reason");
            continue;
        }
        let (file, test) = test.split_once(' ').unwrap_or((test, ""));
        match body(file, test) {
            None => wrong.push(format!("{function}: there is no test `{test}` in {file}")),
            Some(body) if !calls(&body, name) || !body.contains('"') => {
                wrong.push(format!(
                    "{function}: `{test}` in {file} does not call it, or holds no text against it"
                ));
            }
            Some(_) => {}
        }
    }
    wrong.extend(listed.keys().map(|function| format!("{function}: is listed, but not in the sources")));
    assert!(wrong.is_empty(), "goldens/error_texts.txt:\n{}", wrong.join("\n"));
}
