//! `regard data inspect`: what a file or a folder holds, as training would see it.

use anyhow::{Result, bail};
use clap::Args;
use regard_data::dataset::{FolderOptions, Format, Images, Lines, Table};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `regard data inspect`.
#[derive(Args)]
#[command(after_help = "Examples:  regard data inspect README.md\n           \
                        regard data inspect people/train.tsv\n\n\
                        The second after regard data generate people.")]
pub struct Options {
    /// A text, .tsv, .csv or .jsonl file, a CIFAR-10 .bin file, a folder with a folder of images for each
    /// class; or an idx file of images and one of labels
    #[arg(required = true, num_args = 1..=2)]
    files: Vec<PathBuf>,
    /// The first line of the table names its columns
    #[arg(long)]
    header: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// More distinct values than this are no labels.
const MOST_LABELS: usize = 50;

/// Runs the command.
pub fn run(options: &Options) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let found = look(options)?;
    if options.json {
        writeln!(out, "{found}")?;
        return Ok(());
    }
    print_object(&mut out, &found, 0)
}

fn look(options: &Options) -> Result<Value> {
    let path = &options.files[0];
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    if let [images, labels] = options.files.as_slice() {
        return Ok(pictures(images, &Images::idx(images, labels)?));
    }
    if path.is_dir() {
        return Ok(pictures(path, &Images::folder(path, &FolderOptions::default())?));
    }
    if plain.ends_with(".bin") {
        return Ok(pictures(path, &Images::cifar10(&[path])?));
    }
    if plain.contains("idx3-ubyte") || plain.contains("idx1-ubyte") {
        bail!("{name} is one of two: give the idx file of images, then the one of labels");
    }
    match Format::of(path) {
        Ok(format) => table(path, &Table::open(path, format, options.header)?),
        Err(_) => text(path, &Lines::open(path)?),
    }
}

/// Lines of text.
fn text(path: &Path, lines: &Lines) -> Result<Value> {
    let mut characters: BTreeMap<char, u64> = BTreeMap::new();
    let mut lengths = Vec::with_capacity(lines.len());
    for line in lines.iter() {
        let line = line?;
        lengths.push(line.chars().count());
        line.chars().for_each(|c| *characters.entry(c).or_default() += 1);
    }
    let total: u64 = characters.values().sum();
    let rare = characters.iter().filter(|(_, count)| **count == 1).count();
    Ok(json!({
        "file": path.display().to_string(), "kind": "text", "lines": lines.len(), "characters": total,
        "distinct_characters": characters.len(), "characters_seen_once": rare,
        "empty_lines": lengths.iter().filter(|&&length| length == 0).count(),
        "line_length": spread(&mut lengths), "first_line": shortened(lines.get(0)?),
    }))
}

/// Columns of a table.
fn table(path: &Path, table: &Table) -> Result<Value> {
    let mut columns = Vec::new();
    for (index, name) in table.names().iter().enumerate() {
        let mut lengths = Vec::with_capacity(table.len());
        let mut values: BTreeMap<String, u64> = BTreeMap::new();
        let column = table.column_at(index)?;
        for value in column.iter() {
            let value = value?;
            lengths.push(value.chars().count());
            if values.len() <= MOST_LABELS || values.contains_key(value.as_ref()) {
                *values.entry(value.into_owned()).or_default() += 1;
            }
        }
        let mut about =
            json!({"name": name, "length": spread(&mut lengths), "first": shortened(&column.get(0)?)});
        if values.len() <= MOST_LABELS {
            about["values"] = json!(values);
        }
        columns.push(about);
    }
    Ok(json!({"file": path.display().to_string(), "kind": "table", "rows": table.len(), "columns": columns}))
}

/// Images and their classes.
fn pictures(path: &Path, images: &Images) -> Value {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for index in 0..images.len() {
        *counts.entry(images.labels().name(images.label(index)).unwrap_or("?")).or_default() += 1;
    }
    json!({"file": path.display().to_string(), "kind": "images", "images": images.len(), "width": images.width(),
           "height": images.height(), "channels": images.channels(), "classes": counts})
}

/// Least, median, 99 of 100, most.
fn spread(lengths: &mut [usize]) -> Value {
    lengths.sort_unstable();
    let at = |share: f64| lengths[((lengths.len() - 1) as f64 * share) as usize];
    match lengths.is_empty() {
        true => Value::Null,
        false => {
            json!({"least": at(0.0), "median": at(0.5), "most_of_99_percent": at(0.99), "most": at(1.0)})
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Prints an object as indented lines.
fn print_object(out: &mut impl Write, value: &Value, depth: usize) -> Result<()> {
    let pad = "  ".repeat(depth);
    let Value::Object(map) = value else { return Ok(()) };
    for (name, value) in map {
        let name = name.replace('_', " ");
        match value {
            Value::Object(_) => {
                writeln!(out, "{pad}{name}:")?;
                print_object(out, value, depth + 1)?;
            }
            Value::Array(items) => {
                for item in items {
                    writeln!(out, "{pad}{}:", name.trim_end_matches('s'))?;
                    print_object(out, item, depth + 1)?;
                }
            }
            Value::String(text) => writeln!(out, "{pad}{name}: {text}")?,
            other => writeln!(out, "{pad}{name}: {other}")?,
        }
    }
    Ok(())
}
