//! The map against the land: who depends on whom, who does I/O, and that no room but `models` enumerates
//! families; how long files, functions and lines of comments are. What ARCHITECTURE.md and CONTRIBUTING.md
//! say is compared with manifests and sources.

use regard_models::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names of all crates.
fn crates() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let mut names: Vec<String> =
        folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// All Rust files below a folder: path and text.
fn rust_files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

/// The Rust sources of a crate, without its tests: path and text.
fn sources(name: &str) -> Vec<(String, String)> {
    let all = rust_files(&root().join("crates").join(name).join("src")).into_iter();
    all.filter(|(path, _)| {
        let file = path.rsplit('/').next().unwrap();
        !file.ends_with("tests.rs") && !file.starts_with("tests_")
    })
    .map(|(path, text)| (path, text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_string()))
    .collect()
}

/// The lines of a block of ARCHITECTURE.md that begins with this line.
fn block(first: &str) -> Vec<String> {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let lines: Vec<String> = map
        .lines()
        .skip_while(|line| *line != first)
        .skip(1)
        .skip_while(|line| *line != "```")
        .skip(1)
        .take_while(|line| *line != "```")
        .map(str::to_string)
        .collect();
    assert!(!lines.is_empty(), "ARCHITECTURE.md has no block after `{first}`");
    lines
}

/// `name ← others` of a block, as sets.
fn arrows(lines: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    lines
        .iter()
        .map(|line| {
            let (name, others) = line.split_once('→').unwrap_or_else(|| panic!("no arrow: {line}"));
            (name.trim().to_string(), others.split_whitespace().map(str::to_string).collect())
        })
        .collect()
}

/// The rooms that a manifest names as dependencies.
fn named(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if let Some(name) = line.split(['.', ' ', '=']).next().filter(|_| inside) {
            match name.strip_prefix("regard-") {
                Some(room) => drop(found.insert(room.to_string())),
                None if name == "regard" => drop(found.insert(name.to_string())),
                None => {}
            }
        }
    }
    found
}

#[test]
fn the_arrows_of_the_map_are_those_of_the_manifests() {
    let map = arrows(&block("### Who names whom"));
    assert_eq!(map.keys().cloned().collect::<Vec<_>>(), crates(), "a line for every crate");
    for name in crates() {
        let manifest = fs::read_to_string(root().join("crates").join(&name).join("Cargo.toml")).unwrap();
        assert_eq!(map[&name], named(&manifest), "{name}");
    }
}

#[test]
fn only_those_do_io_that_the_map_says() {
    let map = arrows(&block("### Who does I/O"));
    let kinds = [
        ("files", &["std::fs", "use std::{fs", "memmap2", "File::open"][..]),
        ("network", &["std::net", "TcpStream", "TcpListener", "UdpSocket"]),
        ("processes", &["std::process::Command", "process::Command"]),
    ];
    for name in crates() {
        let mut found = BTreeSet::new();
        for (path, text) in sources(&name) {
            for (kind, words) in kinds {
                if let Some(word) = words.iter().find(|word| text.contains(**word)) {
                    let allowed = map.get(&name).is_some_and(|own| own.contains(kind));
                    assert!(allowed, "{path} names `{word}`: {name} is not said to touch {kind}");
                    found.insert(kind.to_string());
                }
            }
        }
        assert_eq!(map.get(&name).cloned().unwrap_or_default(), found, "{name} does less than the map says");
    }
}

/// Rooms whose sources may name the types of models: `models` itself, what shows or times known models by
/// name, and the birth-place study, which compares two of them.
const MAY_NAME: [&str; 5] = [
    "crates/models/",
    "crates/lab/",
    "crates/conformance/",
    "crates/cli/src/bench/",
    "crates/recipe/src/study/",
];

#[test]
fn no_room_but_models_enumerates_families() {
    let registry = Registry::standard();
    let types = ["Gpt", "Perceiver", "Bert", "Transformer", "T5", "Vit"];
    for name in crates() {
        for (path, text) in sources(&name) {
            if MAY_NAME.iter().any(|room| path.contains(room)) {
                continue;
            }
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for (number, line) in code.enumerate() {
                for own in types {
                    let whole = line.match_indices(own).any(|(at, _)| {
                        let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
                        let (before, after) =
                            (line[..at].chars().last(), line[at + own.len()..].chars().next());
                        let config = line[at + own.len()..].starts_with("Config");
                        edge(before) && (edge(after) || config) && !in_text(line, at)
                    });
                    assert!(
                        !whole,
                        "{path}: line of code {}: names the model type {own}: {line}",
                        number + 1
                    );
                }
                // A `match` on the name of a family is an enumeration in other words.
                for own in registry.model_types() {
                    let arm = format!("\"{own}\" =>");
                    assert!(!line.contains(&arm), "{path}: line of code {}: {line}", number + 1);
                }
            }
        }
    }
}

/// What a reader holds in mind at once: past these lengths, a file is two things, and a function has steps
/// with names.
const LONGEST_FILE: usize = 600;
const LONGEST_FUNCTION: usize = 100;
const WIDEST_COMMENT: usize = 110;

/// The functions of a file and how many lines they have, by the form that `cargo fmt` gives them: a function
/// ends with the first brace that stands where it began, one without a body with its parenthesis.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str| {
        let head = line.split('(').next().unwrap_or("");
        head.split_whitespace().any(|word| word == "fn")
            && !head.contains("//")
            && !line.ends_with([';', '}', ','])
    };
    let ends = |line: &str| line.starts_with('}') || (line.starts_with(')') && line.ends_with(';'));
    let length = |start: usize| {
        let (first, rest) = (lines[start], &lines[start + 1..]);
        let last = rest.iter().position(|line| indent(line) == indent(first) && ends(line.trim_start()));
        last.map_or(rest.len() + 1, |last| last + 2)
    };
    let found = lines.iter().enumerate().filter(|(_, line)| begins(line));
    found.map(|(start, first)| (first.trim(), length(start))).collect()
}

#[test]
fn files_and_functions_can_be_held_in_mind() {
    let mut long = Vec::new();
    for (path, text) in crates().iter().flat_map(|name| sources(name)) {
        if text.lines().count() > LONGEST_FILE {
            long.push(format!("{path}: {} lines; ask which two things it is", text.lines().count()));
        }
        let over = functions(&text).into_iter().filter(|(_, lines)| *lines > LONGEST_FUNCTION);
        long.extend(
            over.map(|(name, lines)| format!("{path}: `{name}` has {lines} lines; cut it along its steps")),
        );
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn comments_fit_the_width_of_the_code() {
    let mut wide = Vec::new();
    for (path, text) in ["crates", "examples", "bench"].iter().flat_map(|part| rust_files(&root().join(part)))
    {
        for (at, line) in text.lines().enumerate() {
            let text = line.trim_start();
            // Rows of tables and addresses cannot be broken.
            let whole = text.starts_with("//! |") || text.starts_with("/// |") || text.contains("://");
            if text.starts_with("//") && !whole && line.chars().count() > WIDEST_COMMENT {
                wide.push(format!("{path}:{}: {} wide", at + 1, line.chars().count()));
            }
        }
    }
    assert!(wide.is_empty(), "comments are at most {WIDEST_COMMENT} wide:\n{}", wide.join("\n"));
}

/// Whether a place of a line lies inside of quotes.
fn in_text(line: &str, at: usize) -> bool {
    line[..at].matches('"').count() % 2 == 1
}

#[test]
fn the_search_finds_what_it_is_for() {
    assert!(in_text("bail!(\"T5 or\")", 7) && !in_text("AnyModel::T5(t5) => \"\"", 10));
    assert_eq!(
        named(
            "[package]\nname = \"regard-x\"\n[dependencies]\nregard-data.workspace = true\nregard.workspace = true\n"
        ),
        BTreeSet::from(["data".to_string(), "regard".to_string()])
    );
    assert!(!sources("models").is_empty() && crates().len() > 10);
    let code =
        "impl A {\n    pub fn one(&self) -> u32 {\n        if true {\n        }\n    }\n}\n\nfn two();\n";
    assert_eq!(functions(code), [("pub fn one(&self) -> u32 {", 4)]);
}
