//! Which column of a table holds the texts and which their classes. A recipe names them; where it does not,
//! the first two of a table without a header are meant, and of rows that name their cells those of the usual
//! names. Whatever would have to be guessed is refused: a model learns the wrong thing as readily as the
//! right one.

use crate::{Error, Result};
use regard_data::dataset::{Column, Format, Table};
use std::path::Path;

/// What people call a column of texts.
const TEXTS: [&str; 8] =
    ["text", "sentence", "review", "content", "comment", "question", "title", "utterance"];
/// What people call a column of classes.
const CLASSES: [&str; 9] =
    ["label", "labels", "class", "category", "sentiment", "target", "topic", "polarity", "intent"];

/// The columns of the texts and of their classes, by the names that a recipe gives them, or by none.
pub(super) fn columns<'a>(table: &'a Table, format: Format, named: &[String]) -> Result<[Column<'a>; 2]> {
    match named {
        [text, class] => Ok([table.column(text)?, table.column(class)?]),
        [] if format == Format::Jsonl => by_usual_names(table),
        [] => {
            let both = [table.column_at(0)?, table.column_at(1)?];
            refuse_header(table.path(), &both)?;
            Ok(both)
        }
        other => Err(Error::invalid(
            format!("data.columns has {} names", other.len()),
            "give two: that of the text, and that of its class",
        )),
    }
}

/// Of rows whose cells have names and no order, those with the usual names, if each is there once.
fn by_usual_names(table: &Table) -> Result<[Column<'_>; 2]> {
    let one = |usual: &[&str]| {
        let mut found = table.names().iter().filter(|name| usual.contains(&name.to_lowercase().as_str()));
        found.next().filter(|_| found.next().is_none())
    };
    match (one(&TEXTS), one(&CLASSES)) {
        (Some(text), Some(class)) => Ok([table.column(text)?, table.column(class)?]),
        _ => Err(Error::invalid(
            format!(
                "{}: its cells have names and no order, and which of {} is the text and which its class is not said",
                table.path().display(),
                table.names().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ),
            "name them: data.columns = [\"text\", \"label\"]",
        )),
    }
}

/// The first row of a table whose columns nobody named is an example, unless all speaks for a header: its
/// class is met nowhere else, and has a usual name of columns, or is a word above numbers.
fn refuse_header(path: &Path, both: &[Column<'_>; 2]) -> Result<()> {
    let [texts, classes] = both;
    let (text, class) = (texts.get(0)?, classes.get(0)?);
    let (text, class) = (text.trim(), class.trim());
    let is_number = |cell: &str| cell.trim().parse::<f64>().is_ok();
    let (mut again, mut numbers) = (false, true);
    for cell in classes.iter().skip(1) {
        let cell = cell?;
        again |= cell.trim() == class;
        numbers &= is_number(&cell);
    }
    let usual =
        TEXTS.contains(&text.to_lowercase().as_str()) || CLASSES.contains(&class.to_lowercase().as_str());
    if again || classes.len() < 2 || !(usual || numbers && !is_number(class)) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("{}:1: is a header, it seems: `{text}` and `{class}`", path.display()),
        format!(
            "name its columns: data.columns = [\"{text}\", \"{class}\"]; if it is an example after all, write a header \
             above it and name that"
        ),
    ))
}
