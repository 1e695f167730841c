//! The header of a `safetensors` file: eight bytes of length, then JSON, then the tensors. It comes from
//! anywhere, so that nothing in it is believed: every length is compared with the file before it is used,
//! arithmetic is checked, and memory grows with the bytes that are really there, never with a number that
//! they spell.

use super::{DType, Entry};
use crate::error::{shown, shown_text};
use crate::{Error, Result};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The longest header that is read, as in the reference implementation, so that what others write is read:
/// over a million tensors fit, and the worst header of this length (all short metadata) takes a gigabyte to
/// parse. A file that claims more is hostile or not of this format.
pub(crate) const MAX_HEADER: u64 = 100_000_000;

/// The most extents of a shape, as in PyTorch: two bytes of header (`1,`) must not become eight of memory for
/// long.
const MAX_RANK: usize = 64;

/// The bytes before the JSON.
const PREFIX: usize = 8;

const AGAIN: &str = "copy or download it again";

/// What a header says, checked against its file.
pub(super) struct Header {
    pub metadata: BTreeMap<String, String>,
    pub tensors: Vec<(String, Entry)>,
}

/// Reads and checks the header of a whole file.
pub(super) fn parse(path: &Path, file: &[u8]) -> Result<Header> {
    let size = file.len();
    let Some((prefix, rest)) = file.split_first_chunk::<PREFIX>() else {
        let what = format!("has {size} bytes; a safetensors file has at least 8, the length of its header");
        return Err(Error::file(path, what, AGAIN));
    };
    let claimed = u64::from_le_bytes(*prefix);
    if claimed > MAX_HEADER {
        let what = format!(
            "claims a header of {claimed} bytes; at most {MAX_HEADER} are read, here and in other programs"
        );
        return Err(Error::file(path, what, "it is damaged, hostile or no safetensors file"));
    }
    let Some((json, data)) = usize::try_from(claimed).ok().and_then(|n| rest.split_at_checked(n)) else {
        let what = format!("claims a header of {claimed} bytes, but only {} bytes follow", rest.len());
        return Err(Error::file(path, what, format!("it is cut short or no safetensors file: {AGAIN}")));
    };
    let json = std::str::from_utf8(json).map_err(|e| {
        let what = format!("the header is not UTF-8 (byte {})", PREFIX + e.valid_up_to());
        Error::file(path, what, "it is damaged or no safetensors file")
    })?;
    let raw: Raw = serde_json::from_str(json).map_err(|e| {
        let what = format!("the header is not what it should be: {}", shown_text(&e.to_string()));
        Error::file(path, what, "it is damaged or no safetensors file")
    })?;
    place(path, raw, PREFIX + json.len(), data.len())
}

/// Checks dtypes, shapes and offsets, and finds each tensor's place in the file.
fn place(path: &Path, raw: Raw, begin: usize, room: usize) -> Result<Header> {
    let mut order: Vec<(String, Info)> = raw.tensors.into_iter().collect();
    // By offset, and an empty tensor before the one that begins where it lies.
    order.sort_by_key(|(_, info)| info.data_offsets);
    let mut tensors = Vec::with_capacity(order.len());
    let mut end = 0;
    for (name, info) in order {
        let wrong = |what: String, advice: &str| Err(Error::tensor(path, &name, what, advice));
        let Some(dtype) = DType::named(&info.dtype) else {
            let known: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
            let what = format!("has the dtype {}; read are {}", shown(&info.dtype), known.join(", "));
            return wrong(what, "convert it to one of these");
        };
        let shape = info.shape.0;
        let (from, to) = info.data_offsets;
        let (Ok(from), Ok(to)) = (usize::try_from(from), usize::try_from(to)) else {
            return wrong(format!("lies at {from}..{to}, beyond any file"), AGAIN);
        };
        if to < from {
            return wrong(format!("ends at {to}, before its begin {from}"), AGAIN);
        }
        if to > room {
            let what = format!("lies at {from}..{to}, but the file holds {room} bytes of tensors");
            return wrong(what, &format!("it is cut short: {AGAIN}"));
        }
        let elements = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        let Some(bytes) = elements.and_then(|n| dtype.size(n)) else {
            return wrong(format!("has the shape {shape:?}, more elements than can be counted"), AGAIN);
        };
        if bytes != to - from {
            let what = format!("{dtype} {shape:?} needs {bytes} bytes, but {} are set aside", to - from);
            return wrong(what, AGAIN);
        }
        if from < end {
            return wrong(
                format!("begins at {from}, inside of the tensor before it, which ends at {end}"),
                AGAIN,
            );
        }
        if from > end {
            return wrong(format!("begins at {from}, but the tensor before it ends at {end}: a hole"), AGAIN);
        }
        end = to;
        tensors.push((name, Entry { source: 0, dtype, shape, range: begin + from..begin + to }));
    }
    if end != room {
        let what = format!("has {} bytes after the last tensor, which belong to none", room - end);
        return Err(Error::file(path, what, AGAIN));
    }
    Ok(Header { metadata: raw.metadata, tensors })
}

/// The JSON as it is written.
#[derive(Default)]
struct Raw<'a> {
    metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, Info<'a>>,
}

#[derive(Deserialize)]
struct Info<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Extents,
    data_offsets: (u64, u64),
}

struct Extents(Vec<usize>);

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(RawVisitor)
    }
}

/// A visitor of our own, because a map would let a second tensor of the same name replace the first in
/// silence.
struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Raw<'de>, A::Error> {
        let mut raw = Raw::default();
        let mut described = false;
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                if described {
                    return Err(A::Error::custom("`__metadata__` occurs twice"));
                }
                described = true;
                raw.metadata = map
                    .next_value::<Option<_>>()
                    .map_err(|e| A::Error::custom(format!("`__metadata__`: {e}")))?
                    .unwrap_or_default();
                continue;
            }
            let info =
                map.next_value().map_err(|e| A::Error::custom(format!("tensor `{}`: {e}", short(&name))))?;
            if raw.tensors.contains_key(&name) {
                return Err(A::Error::custom(format!("tensor `{}` occurs twice", short(&name))));
            }
            raw.tensors.insert(name, info);
        }
        Ok(raw)
    }
}

/// The name inside of a longer message, which is escaped as a whole later.
fn short(name: &str) -> String {
    if name.chars().nth(60).is_some() { name.chars().take(60).chain(['…']).collect() } else { name.into() }
}

impl<'de> Deserialize<'de> for Extents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_seq(ExtentsVisitor)
    }
}

struct ExtentsVisitor;

impl<'de> Visitor<'de> for ExtentsVisitor {
    type Value = Extents;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of extents")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Extents, A::Error> {
        let mut extents = Vec::new();
        while let Some(extent) = seq.next_element()? {
            if extents.len() == MAX_RANK {
                return Err(A::Error::custom(format!("a shape of more than {MAX_RANK} extents")));
            }
            extents.push(extent);
        }
        Ok(Extents(extents))
    }
}
