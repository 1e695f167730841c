//! Tables: tab-separated lines, CSV with quotes as in RFC 4180, or one JSON object a line. The file stays
//! mapped, with the place of each row; cells are cut out when they are asked for. All rows are checked when
//! the table is opened.

use super::lines::{at, check, check_length};
use super::nearest::nearest;
use super::{Labels, file};
use crate::checkpoint::Bytes;
use crate::error::{listed, shown, shown_path, shown_text};
use crate::{Error, Result};
use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// How the cells of a table are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A row is a line, cells are separated by tabs, and quotes are letters like others.
    Tsv,
    /// Cells are separated by commas. One in double quotes may hold commas, line ends, and double quotes
    /// twice.
    Csv,
    /// A row is a line with a JSON object; cells are its strings, numbers and truths.
    Jsonl,
}

/// Rows of named cells. Blank lines are left out.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    bytes: Bytes,
    format: Format,
    names: Vec<String>,
    rows: Vec<Row>,
}

/// Where a row begins.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: u64,
    line: u64,
}

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    table: &'a Table,
    index: usize,
}

impl Format {
    /// The format that the name of a file tells by its ending.
    pub fn of(path: impl AsRef<Path>) -> Result<Format> {
        let path = path.as_ref();
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref() {
            Some("tsv" | "tab") => Ok(Format::Tsv),
            Some("csv") => Ok(Format::Csv),
            Some("jsonl" | "ndjson") => Ok(Format::Jsonl),
            _ => Err(Error::file(path, "does not end in .tsv, .csv or .jsonl", "say which format it has")),
        }
    }
}

impl Table {
    /// Opens a table. With `header`, the first row names the columns; without, they are called `0`, `1` and
    /// so on. In JSON each row names its cells itself, and those of the first row are the columns.
    pub fn open(path: impl AsRef<Path>, format: Format, header: bool) -> Result<Table> {
        let path = path.as_ref().to_path_buf();
        let bytes = file::map(&path)?;
        let mut table = Table { path, bytes, format, names: Vec::new(), rows: Vec::new() };
        table.rows = match format {
            Format::Csv => table.quoted_rows()?,
            Format::Tsv | Format::Jsonl => table.lines()?,
        };
        let Some(&first) = table.rows.first() else {
            return Err(Error::file(&table.path, "has blank lines only", "give a file with rows"));
        };
        if format == Format::Jsonl {
            for (i, &row) in table.rows.iter().enumerate() {
                table.object(row)?;
                if i == 0 {
                    table.names = names_in_order(table.line(row)?);
                }
            }
            return Ok(table);
        }
        let cells = table.cells(first)?;
        let width = cells.len();
        table.names = match header {
            true => cells.iter().map(|cell| cell.trim().to_owned()).collect(),
            false => (0..width).map(|i| i.to_string()).collect(),
        };
        let mut known = HashSet::new();
        if let Some(name) = table.names.iter().find(|name| !known.insert(name.as_str())) {
            let what = format!("names the column `{}` twice", shown(name));
            return Err(at(&table.path, first.line as usize, what, "give each column a name of its own"));
        }
        for &row in &table.rows[1..] {
            let got = table.cells(row)?.len();
            if got != width {
                let what = format!("has {got} columns, expected {width} as in line {}", first.line);
                let advice = match format {
                    Format::Tsv => "separate columns by exactly one tab",
                    _ => "put a text with commas in double quotes",
                };
                return Err(at(&table.path, row.line as usize, what, advice));
            }
        }
        if header {
            table.rows.remove(0);
            if table.rows.is_empty() {
                let what = "has one row, expected a header and at least one more";
                return Err(Error::file(&table.path, what, "add rows, or say that there is no header"));
            }
        }
        Ok(table)
    }

    /// How many rows there are, without the header.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// False: a table without rows is an error when it is opened.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The column of this name; without a header, `0` is the first.
    pub fn column(&self, name: &str) -> Result<Column<'_>> {
        let Some(index) = self.names.iter().position(|known| known == name) else {
            let near = nearest(name, &self.names).map(|near| format!("; did you mean `{}`?", shown(near)));
            let advice =
                format!("{} has {}{}", shown_path(&self.path), listed(&self.names), near.unwrap_or_default());
            return Err(Error::Unknown { kind: "column", name: shown(name), advice });
        };
        let column = Column { table: self, index };
        if self.format == Format::Jsonl {
            // Only here it is known which cells must be there.
            (0..self.len()).try_for_each(|row| column.get(row).map(drop))?;
        }
        Ok(column)
    }

    /// The column at this place, the first one being 0.
    pub fn column_at(&self, index: usize) -> Result<Column<'_>> {
        match self.names.get(index) {
            Some(name) => self.column(name),
            None => Err(Error::Unknown {
                kind: "column",
                name: index.to_string(),
                advice: match self.names.len() {
                    1 => format!(
                        "{} has one column, for no line of it has a tab (or, in .csv, a comma) in it; put one between \
                         text and class",
                        shown_path(&self.path)
                    ),
                    columns => format!("{} has {columns} columns", shown_path(&self.path)),
                },
            }),
        }
    }

    /// The text after a byte order mark, and how long that is.
    fn text(&self) -> (&[u8], usize) {
        let all = self.bytes.as_slice();
        let text = all.strip_prefix(b"\xef\xbb\xbf").unwrap_or(all);
        (text, all.len() - text.len())
    }

    fn lines(&self) -> Result<Vec<Row>> {
        let (text, mut start) = self.text();
        let mut rows = Vec::new();
        for (i, line) in text.split(|&b| b == b'\n').enumerate() {
            check(&self.path, i + 1, line)?;
            check_length(&self.path, i + 1, line.len())?;
            if !line.trim_ascii().is_empty() {
                rows.push(Row { start: start as u64, line: i as u64 + 1 });
            }
            start += line.len() + 1;
        }
        Ok(rows)
    }

    fn quoted_rows(&self) -> Result<Vec<Row>> {
        let (text, skipped) = self.text();
        let mut reader = reader(text);
        let mut record = csv::ByteRecord::new();
        let (mut rows, mut line, mut from) = (Vec::new(), 1, 0);
        while reader.read_byte_record(&mut record).map_err(|error| self.unreadable(line, &error))? {
            let to = reader.position().byte() as usize;
            // The reader steps over blank lines before a row.
            while matches!(text.get(from), Some(b'\n' | b'\r')) {
                line += usize::from(text[from] == b'\n');
                from += 1;
            }
            let row = &text[from..to];
            check_length(&self.path, line, row.len())?;
            for (i, part) in row.split(|&b| b == b'\n').enumerate() {
                check(&self.path, line + i, part)?;
            }
            if row.iter().filter(|&&b| b == b'"').count() % 2 == 1 {
                let what = "opens a double quote and never closes it";
                return Err(at(&self.path, line, what, "close it, or write it twice inside of quotes"));
            }
            if !row.trim_ascii().is_empty() {
                rows.push(Row { start: (skipped + from) as u64, line: line as u64 });
            }
            line += row.iter().filter(|&&b| b == b'\n').count();
            from = to;
        }
        Ok(rows)
    }

    fn unreadable(&self, line: usize, error: &csv::Error) -> Error {
        at(&self.path, line, format!("cannot be read: {}", shown_text(&error.to_string())), "mend it")
    }

    /// The line of a row that is no longer than a line.
    fn line(&self, row: Row) -> Result<&str> {
        let rest = &self.bytes.as_slice()[row.start as usize..];
        let line = rest.split(|&b| b == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        std::str::from_utf8(line).map_err(|_| self.changed(row))
    }

    fn changed(&self, row: Row) -> Error {
        at(&self.path, row.line as usize, "was changed while it was read", "open it again")
    }

    /// The cells of a row of tabs or commas.
    fn cells(&self, row: Row) -> Result<Vec<Cow<'_, str>>> {
        if self.format == Format::Tsv {
            return Ok(self.line(row)?.split('\t').map(Cow::Borrowed).collect());
        }
        let text = |cell| {
            match cell {
                Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).ok(),
                Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).ok(),
            }
            .ok_or_else(|| self.changed(row))
        };
        split(&self.bytes.as_slice()[row.start as usize..]).into_iter().map(text).collect()
    }

    fn object(&self, row: Row) -> Result<Map<String, Value>> {
        let line = self.line(row)?;
        match serde_json::from_str(line) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => {
                let what = "is JSON, but no object";
                Err(at(&self.path, row.line as usize, what, "write {\"column\": \"text\", …} on each line"))
            }
            Err(error) => {
                let text = error.to_string();
                Err(Error::Json {
                    path: shown_path(&self.path),
                    line: row.line as usize,
                    column: error.column(),
                    what: shown_text(text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what)),
                    advice: "write one JSON object on each line".into(),
                })
            }
        }
    }
}

/// The names of an object's cells as they were written; `Map` sorts them.
fn names_in_order(line: &str) -> Vec<String> {
    struct Names;
    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut cells: A) -> std::result::Result<Vec<String>, A::Error> {
            let (mut names, mut known) = (Vec::new(), HashSet::new());
            while let Some((name, _)) = cells.next_entry::<String, IgnoredAny>()? {
                // Of cells of one name the last counts, as everywhere in JSON.
                if known.insert(name.clone()) {
                    names.push(name);
                }
            }
            Ok(names)
        }
    }
    // The line was read as an object already.
    serde_json::Deserializer::from_str(line).deserialize_map(Names).unwrap_or_default()
}

fn reader(text: &[u8]) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new().has_headers(false).flexible(true).buffer_capacity(1 << 12).from_reader(text)
}

/// The cells of the row that a text begins with. `csv` finds the rows; to set it up again for each of them
/// would take a hundred times as long as to cut one.
fn split(mut rest: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let mut cells = Vec::new();
    loop {
        let mut inside = None;
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            let cell = inside.insert(Vec::new());
            rest = quoted;
            // Up to the quote that is not followed by another one.
            loop {
                let end = rest.iter().position(|&b| b == b'"').unwrap_or(rest.len());
                cell.extend_from_slice(&rest[..end]);
                rest = rest.get(end + 1..).unwrap_or_default();
                let Some(more) = rest.strip_prefix(b"\"") else { break };
                cell.push(b'"');
                rest = more;
            }
        }
        let end = rest.iter().position(|b| b",\r\n".contains(b)).unwrap_or(rest.len());
        cells.push(match inside {
            Some(cell) => Cow::Owned([&cell, &rest[..end]].concat()),
            None => Cow::Borrowed(&rest[..end]),
        });
        match rest.get(end) {
            Some(b',') => rest = &rest[end + 1..],
            _ => return cells,
        }
    }
}

impl<'a> Column<'a> {
    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// False: a table without rows is an error when it is opened.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The name.
    pub fn name(&self) -> &'a str {
        &self.table.names[self.index]
    }

    /// A cell, the first one being 0.
    pub fn get(&self, index: usize) -> Result<Cow<'a, str>> {
        let table = self.table;
        let Some(&row) = table.rows.get(index) else {
            return Err(Error::file(
                &table.path,
                format!("has no row {}; it has {}", index.saturating_add(1), table.len()),
                "ask for one that is there",
            ));
        };
        if table.format != Format::Jsonl {
            return table.cells(row)?.into_iter().nth(self.index).ok_or_else(|| table.changed(row));
        }
        let mut object = table.object(row)?;
        let name = self.name();
        let wrong = |what: String| {
            let advice = "give each row a string, a number or a truth there";
            Err(at(&table.path, row.line as usize, what, advice))
        };
        match object.remove(name) {
            Some(Value::String(text)) => Ok(Cow::Owned(text)),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Cow::Owned(value.to_string())),
            Some(Value::Null) => wrong(format!("column `{}` is null", shown(name))),
            Some(Value::Array(_)) => wrong(format!("column `{}` is a list", shown(name))),
            Some(Value::Object(_)) => wrong(format!("column `{}` is an object", shown(name))),
            None => {
                let there: Vec<&String> = object.keys().collect();
                wrong(format!("has no column `{}`; it has {}", shown(name), listed(&there)))
            }
        }
    }

    /// All cells, in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Cow<'a, str>>> {
        let column = *self;
        (0..column.len()).map(move |index| column.get(index))
    }

    /// The distinct cells as labels.
    pub fn labels(&self) -> Result<Labels> {
        let all: Vec<Cow<'a, str>> = self.iter().collect::<Result<_>>()?;
        Labels::of(all).map_err(|error| {
            let what = format!("column `{}`: {error}", shown(self.name()));
            Error::file(&self.table.path, what, "classes need a column that tells them apart")
        })
    }

    /// The class of each cell. A label that the training set does not have is an error that names its line.
    pub fn classes(&self, labels: &Labels) -> Result<Vec<usize>> {
        let class = |index: usize| {
            let cell = self.get(index)?;
            labels.class(&cell).map_err(|error| {
                let line = self.table.rows[index].line as usize;
                let place = format!("{}:{line}", shown_path(&self.table.path));
                match error {
                    Error::Unknown { kind, name, advice } => Error::File {
                        path: place,
                        what: format!("no {kind} of the training set is called `{name}`"),
                        advice,
                    },
                    other => other,
                }
            })
        };
        (0..self.len()).map(class).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every text of up to six out of five bytes: rows whose quotes are closed have the cells that `csv`
    /// finds.
    #[test]
    fn rows_are_split_as_csv_splits_them() {
        let mut rows = 0;
        for length in 1..=6u32 {
            for number in 0..5usize.pow(length) {
                let byte = |i: u32| b"a,\"\n\r"[number / 5usize.pow(i) % 5];
                let text: Vec<u8> = (0..length).map(byte).collect();
                let mut reader = reader(&text);
                let mut record = csv::ByteRecord::new();
                let mut from = 0;
                while reader.read_byte_record(&mut record).unwrap() {
                    let to = reader.position().byte() as usize;
                    while matches!(text.get(from), Some(b'\n' | b'\r')) {
                        from += 1;
                    }
                    if text[from..to].iter().filter(|&&b| b == b'"').count() % 2 == 1 {
                        break;
                    }
                    let cells = split(&text[from..]);
                    assert!(cells.iter().map(|cell| &**cell).eq(record.iter()), "{text:?} from {from}");
                    rows += 1;
                    from = to;
                }
            }
        }
        assert!(rows > 5000, "{rows}");
    }
}
