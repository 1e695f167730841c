//! The bytes of a GGUF file. Nothing in them is believed: counts and lengths are compared with the bytes that
//! are left before memory is asked for, tensors must lie in the file, at their alignment, and apart.

use super::{MAGIC, TYPES, Value};
use crate::checkpoint::Entry;
use crate::error::shown;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const AGAIN: &str = "copy or download it again";

/// The most elements of all lists of settings: sixteen of the largest known vocabularies.
const MOST_ELEMENTS: usize = 1 << 24;

/// The longest text; the largest known template of chats has a hundredth of it.
const MOST_TEXT: usize = 1 << 24;

/// The most extents of a tensor, as the format has it.
const MOST_AXES: usize = 4;

pub(super) struct Parsed {
    pub settings: BTreeMap<String, Value>,
    pub tensors: Vec<(String, Entry)>,
}

/// Reads everything but the numbers of the tensors.
pub(super) fn parse(path: &Path, file: &[u8]) -> Result<Parsed> {
    let mut cursor = Cursor { path, file, at: 0, elements: 0 };
    if cursor.take(4).ok() != Some(MAGIC) {
        return Err(Error::file(
            path,
            "does not begin as a GGUF file",
            "name a .gguf file, or copy it again",
        ));
    }
    match cursor.u32()? {
        2 | 3 => {}
        version if version.swap_bytes() <= 3 => {
            let what = "has its bytes in the other order";
            return Err(Error::file(path, what, "convert it for a little-endian machine"));
        }
        version => {
            let what = format!("is GGUF of version {version}; read are 2 and 3");
            return Err(Error::file(path, what, "convert the model again with a newer llama.cpp"));
        }
    }
    // A tensor takes at least 24 bytes here, a setting 13.
    let tensors = cursor.count("tensors", 24)?;
    let count = cursor.count("settings", 13)?;
    let mut settings = BTreeMap::new();
    for _ in 0..count {
        let key = cursor.text()?;
        let value = cursor.value(&key)?;
        if settings.insert(key.clone(), value).is_some() {
            return Err(Error::file(path, format!("says `{}` twice", shown(&key)), AGAIN));
        }
    }
    let infos: Vec<Info> = (0..tensors).map(|_| cursor.info()).collect::<Result<_>>()?;
    let alignment = alignment(path, &settings)?;
    let begin = cursor.at.div_ceil(alignment) * alignment;
    let tensors = place(path, file.len(), begin, alignment, infos)?;
    Ok(Parsed { settings, tensors })
}

fn alignment(path: &Path, settings: &BTreeMap<String, Value>) -> Result<usize> {
    let Some(value) = settings.get("general.alignment") else { return Ok(32) };
    let number = value.as_int().and_then(|n| usize::try_from(n).ok());
    number.filter(|n| n.is_power_of_two() && (8..=1 << 20).contains(n)).ok_or_else(|| {
        let what = format!("`general.alignment` is {}, expected a power of two of at least 8", value.kind());
        Error::file(path, what, AGAIN)
    })
}

/// A tensor as the file speaks of it.
struct Info {
    name: String,
    shape: Vec<usize>,
    kind: u32,
    offset: u64,
}

/// Compares the tensors with the file and with each other.
fn place(
    path: &Path,
    size: usize,
    begin: usize,
    alignment: usize,
    infos: Vec<Info>,
) -> Result<Vec<(String, Entry)>> {
    let mut tensors = Vec::with_capacity(infos.len());
    let mut names = BTreeSet::new();
    for Info { name, shape, kind, offset } in infos {
        let wrong = |what: String, advice: &str| Err(Error::tensor(path, &name, what, advice));
        let Some(&(_, dtype)) = TYPES.iter().find(|(number, _)| *number == kind) else {
            let known: Vec<&str> = TYPES.iter().map(|(_, dtype)| dtype.name()).collect();
            let what = format!("has the type {kind}; read are {}", known.join(", "));
            return wrong(what, "convert the model again in one of these");
        };
        let (block, _) = dtype.block();
        if dtype.is_quantised() && !shape.last().is_some_and(|row| row.is_multiple_of(block)) {
            return wrong(format!("{dtype} {shape:?} has rows that are no whole blocks of {block}"), AGAIN);
        }
        let elements = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        let Some(bytes) = elements.and_then(|n| dtype.size(n)) else {
            return wrong(format!("has the shape {shape:?}, more elements than can be counted"), AGAIN);
        };
        let start = usize::try_from(offset).ok().and_then(|offset| begin.checked_add(offset));
        let end = start.and_then(|start| start.checked_add(bytes)).filter(|&end| end <= size);
        let (Some(start), Some(end)) = (start, end) else {
            let what = format!(
                "{dtype} {shape:?} lies at {offset} and needs {bytes} bytes, beyond the file of {size}"
            );
            return wrong(what, &format!("it is cut short: {AGAIN}"));
        };
        if !offset.is_multiple_of(alignment as u64) {
            return wrong(format!("lies at {offset}, which is not aligned to {alignment}"), AGAIN);
        }
        if !names.insert(name.clone()) {
            return wrong("occurs twice".into(), AGAIN);
        }
        tensors.push((name, Entry { source: 0, dtype, shape, range: start..end }));
    }
    let mut order: Vec<&(String, Entry)> = tensors.iter().filter(|(_, e)| !e.range.is_empty()).collect();
    order.sort_by_key(|(_, entry)| entry.range.start);
    match order.windows(2).find(|pair| pair[0].1.range.end > pair[1].1.range.start) {
        None => Ok(tensors),
        Some(pair) => {
            let what = format!("begins inside of `{}`", shown(&pair[0].0));
            Err(Error::tensor(path, &pair[1].0, what, AGAIN))
        }
    }
}

struct Cursor<'a> {
    path: &'a Path,
    file: &'a [u8],
    at: usize,
    /// Elements of lists so far.
    elements: usize,
}

impl<'a> Cursor<'a> {
    fn wrong(&self, what: String) -> Error {
        Error::file(
            self.path,
            format!("{what}, at byte {}", self.at),
            format!("it is damaged or cut short: {AGAIN}"),
        )
    }

    fn left(&self) -> usize {
        self.file.len() - self.at
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.file[self.at..].split_at_checked(count) {
            Some((bytes, _)) => {
                self.at += count;
                Ok(bytes)
            }
            None => Err(self.wrong(format!("needs {count} bytes and has {}", self.left()))),
        }
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.fixed().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.fixed().map(u64::from_le_bytes)
    }

    /// A count of things of at least so many bytes each, which must be there.
    fn count(&mut self, what: &str, each: usize) -> Result<usize> {
        let count = self.u64()?;
        match usize::try_from(count).ok().filter(|&n| n <= self.left() / each) {
            Some(count) => Ok(count),
            None => Err(self.wrong(format!("claims {count} {what}, and {} bytes are left", self.left()))),
        }
    }

    fn text(&mut self) -> Result<String> {
        let length = self.count("bytes of a text", 1)?;
        if length > MOST_TEXT {
            return Err(self.wrong(format!("has a text of {length} bytes; at most {MOST_TEXT} are read")));
        }
        let bytes = self.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(self.wrong("has a text that is not UTF-8".into())),
        }
    }

    fn value(&mut self, key: &str) -> Result<Value> {
        let kind = self.u32()?;
        match kind {
            0..=5 | 10 | 11 => self.int(kind).map(Value::Int),
            6 => self.fixed().map(|bytes| Value::Float(f64::from(f32::from_le_bytes(bytes)))),
            12 => self.fixed().map(|bytes| Value::Float(f64::from_le_bytes(bytes))),
            7 => self.truth().map(Value::Bool),
            8 => self.text().map(Value::Text),
            9 => self.list(key),
            other => Err(self.wrong(format!("`{}` has the unknown type {other}", shown(key)))),
        }
    }

    fn list(&mut self, key: &str) -> Result<Value> {
        let kind = self.u32()?;
        let each = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => return Err(self.wrong(format!("`{}` is a list of lists, which nothing needs", shown(key)))),
            other => return Err(self.wrong(format!("`{}` lists the unknown type {other}", shown(key)))),
        };
        let count = self.count("elements of a list", each)?;
        self.elements += count;
        if self.elements > MOST_ELEMENTS {
            return Err(self.wrong(format!("has lists of more than {MOST_ELEMENTS} elements")));
        }
        Ok(match kind {
            6 => Value::Floats(
                (0..count).map(|_| self.fixed().map(f32::from_le_bytes)).collect::<Result<_>>()?,
            ),
            12 => {
                let wide = (0..count).map(|_| self.fixed().map(|bytes| f64::from_le_bytes(bytes) as f32));
                Value::Floats(wide.collect::<Result<_>>()?)
            }
            7 => Value::Bools((0..count).map(|_| self.truth()).collect::<Result<_>>()?),
            8 => Value::Texts((0..count).map(|_| self.text()).collect::<Result<_>>()?),
            kind => Value::Ints((0..count).map(|_| self.int(kind)).collect::<Result<_>>()?),
        })
    }

    fn truth(&mut self) -> Result<bool> {
        match self.fixed()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(self.wrong(format!("has the truth {other}"))),
        }
    }

    fn int(&mut self, kind: u32) -> Result<i64> {
        Ok(match kind {
            0 => i64::from(u8::from_le_bytes(self.fixed()?)),
            1 => i64::from(i8::from_le_bytes(self.fixed()?)),
            2 => i64::from(u16::from_le_bytes(self.fixed()?)),
            3 => i64::from(i16::from_le_bytes(self.fixed()?)),
            4 => i64::from(u32::from_le_bytes(self.fixed()?)),
            5 => i64::from(i32::from_le_bytes(self.fixed()?)),
            11 => i64::from_le_bytes(self.fixed()?),
            _ => i64::try_from(self.u64()?).map_err(|_| self.wrong("has a number over 2^63".into()))?,
        })
    }

    fn info(&mut self) -> Result<Info> {
        let name = self.text()?;
        let axes = self.u32()? as usize;
        if axes > MOST_AXES {
            return Err(
                self.wrong(format!("tensor `{}` has {axes} axes; the format has at most 4", shown(&name)))
            );
        }
        let mut shape = Vec::with_capacity(axes);
        for _ in 0..axes {
            let extent = self.u64()?;
            shape
                .push(usize::try_from(extent).map_err(|_| self.wrong(format!("has an extent of {extent}")))?);
        }
        shape.reverse();
        Ok(Info { name, shape, kind: self.u32()?, offset: self.u64()? })
    }
}
