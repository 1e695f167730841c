//! The zip of `torch.save`: entries that are stored, never packed, so that tensors lie in the file as they
//! are. The central directory at its end says where; every number in it is compared with the file, entries
//! may not overlap, and the header in front of each must say the same name.

use super::machine::{Program, whole};
use super::tensors::Storages;
use super::{AGAIN, broken};
use crate::error::shown;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

const END: &[u8; 4] = b"PK\x05\x06";
const END_64: &[u8; 4] = b"PK\x06\x06";
const LOCATOR_64: &[u8; 4] = b"PK\x06\x07";
const DIRECTORY: &[u8; 4] = b"PK\x01\x02";
const LOCAL: &[u8; 4] = b"PK\x03\x04";

/// The longest pickle that is read: names and shapes of a million tensors fit.
const MOST_PICKLE: usize = 256 << 20;

/// The pickle of a zip, and where its storages lie.
pub(super) fn load<'a>(path: &Path, file: &'a [u8]) -> Result<(Program<'a>, Storages)> {
    let entries = entries(path, file)?;
    let pickle = entries.keys().find(|name| name.ends_with("/data.pkl") && name.matches('/').count() == 1);
    let Some(pickle) = pickle else {
        let what = "is a zip without a data.pkl: no file of `torch.save`";
        return Err(Error::file(path, what, "name the file that holds the weights, unpacked if need be"));
    };
    let folder = pickle.trim_end_matches("data.pkl").to_owned();
    if let Some(order) = entries.get(&format!("{folder}byteorder"))
        && file[order.clone()] != *b"little"
    {
        let what = "was written by a machine with its bytes in the other order";
        return Err(Error::file(path, what, "save it again on one whose numbers are little-endian"));
    }
    let range = entries[pickle].clone();
    if range.len() > MOST_PICKLE {
        let what = format!("has a pickle of {} bytes; at most {MOST_PICKLE} are read", range.len());
        return Err(Error::file(path, what, "it cannot be a table of tensors"));
    }
    let program = whole(path, &file[range])?;
    let prefix = format!("{folder}data/");
    let storages =
        entries.into_iter().filter_map(|(name, range)| Some((name.strip_prefix(&prefix)?.to_owned(), range)));
    let storages = storages.collect();
    Ok((program, storages))
}

/// Where each entry lies, by its name.
fn entries(path: &Path, file: &[u8]) -> Result<BTreeMap<String, Range<usize>>> {
    let (count, directory) = directory(path, file)?;
    let mut all = BTreeMap::new();
    let mut at = directory.start;
    for _ in 0..count {
        let (name, range, next) = entry(path, file, at, directory.clone())?;
        at = next;
        // Folders are entries of their own in some zips.
        if !name.ends_with('/') && all.insert(name.clone(), range).is_some() {
            return Err(broken(path, format!("the zip has two entries `{}`", shown(&name))));
        }
    }
    let mut order: Vec<&Range<usize>> = all.values().filter(|range| !range.is_empty()).collect();
    order.sort_by_key(|range| range.start);
    match order.windows(2).find(|pair| pair[0].end > pair[1].start) {
        None => Ok(all),
        Some(pair) => Err(broken(path, format!("entries of the zip overlap at byte {}", pair[1].start))),
    }
}

/// How many entries there are, and where the directory lies.
fn directory(path: &Path, file: &[u8]) -> Result<(u64, Range<usize>)> {
    // At the end, before a comment of at most 65535 bytes.
    let from = file.len().saturating_sub(22 + 65535);
    let end = (from..=file.len().saturating_sub(22)).rev().find(|&at| {
        file[at..].starts_with(END) && at + 22 + field::<2>(file, at + 20).unwrap_or(0) as usize == file.len()
    });
    let Some(end) = end else {
        return Err(broken(
            path,
            "is a zip without its directory: it is cut short, which a whole copy is not",
        ));
    };
    let mut count = field::<2>(file, end + 10);
    let mut size = field::<4>(file, end + 12);
    let mut start = field::<4>(file, end + 16);
    if count == Some(0xffff) || size == Some(0xffff_ffff) || start == Some(0xffff_ffff) {
        let locator = end.checked_sub(20).filter(|&at| file[at..].starts_with(LOCATOR_64));
        let record = locator.and_then(|at| usize::try_from(field::<8>(file, at + 8)?).ok());
        let record = record.filter(|&at| file.get(at..).is_some_and(|rest| rest.starts_with(END_64)));
        let Some(at) = record else { return Err(broken(path, "the zip has no directory of large files")) };
        (count, size, start) =
            (field::<8>(file, at + 32), field::<8>(file, at + 40), field::<8>(file, at + 48));
    }
    let range = start.zip(size).and_then(|(start, size)| Some(start..start.checked_add(size)?));
    let range = range.and_then(|r| Some(usize::try_from(r.start).ok()?..usize::try_from(r.end).ok()?));
    match (count, range.filter(|range| range.end <= end)) {
        // An entry of the directory has 46 bytes and a name.
        (Some(count), Some(range)) if count <= (range.len() / 47) as u64 => Ok((count, range)),
        _ => Err(broken(path, "the directory of the zip does not lie in the file")),
    }
}

/// One entry of the directory: its name, where its bytes lie, and where the next entry stands.
fn entry(
    path: &Path,
    file: &[u8],
    at: usize,
    directory: Range<usize>,
) -> Result<(String, Range<usize>, usize)> {
    let lost = || broken(path, format!("the directory of the zip is broken at byte {at}"));
    let small = |offset: usize| field::<2>(file, at + offset).map(|n| n as usize);
    if at + 46 > directory.end || !file[at..].starts_with(DIRECTORY) {
        return Err(lost());
    }
    let (flags, method) = (small(8).unwrap_or(0), small(10).unwrap_or(0));
    let (mut packed, mut size) = (field::<4>(file, at + 20), field::<4>(file, at + 24));
    let mut local = field::<4>(file, at + 42);
    let (name, extra) = (small(28).unwrap_or(0), small(30).unwrap_or(0));
    let next = at + 46 + name + extra + small(32).unwrap_or(0);
    if next > directory.end {
        return Err(lost());
    }
    let text = std::str::from_utf8(&file[at + 46..at + 46 + name]).map_err(|_| lost())?.to_owned();
    // Sizes over four gigabytes stand behind the name, those that need it in this order.
    let mut wide = wide_sizes(&file[at + 46 + name..at + 46 + name + extra]);
    for number in [&mut size, &mut packed, &mut local] {
        if *number == Some(0xffff_ffff) {
            *number = wide.next();
        }
    }
    if flags & 1 != 0 || method != 0 {
        let what = format!("`{}` is packed or locked in the zip", shown(&text));
        return Err(Error::file(path, what, "unpack the zip; `torch.save` packs nothing"));
    }
    let range = (|| {
        let local = usize::try_from(local?).ok()?;
        let header = file.get(local..).filter(|rest| rest.starts_with(LOCAL))?;
        let (own, more) = (field::<2>(header, 26)? as usize, field::<2>(header, 28)? as usize);
        if header.get(30..30 + own)? != text.as_bytes() || size? != packed? {
            return None;
        }
        let start = local + 30 + own + more;
        let end = start.checked_add(usize::try_from(size?).ok()?)?;
        (end <= directory.start).then_some(start..end)
    })();
    match range {
        Some(range) => Ok((text, range, next)),
        None => {
            let what = format!("entry `{}` of the zip is not where its directory says", shown(&text));
            Err(Error::file(path, what, format!("it is damaged: {AGAIN}")))
        }
    }
}

/// The eight-byte numbers of the extra field 1.
fn wide_sizes(mut extra: &[u8]) -> impl Iterator<Item = u64> {
    let mut found: &[u8] = &[];
    while let (Some(kind), Some(length)) = (field::<2>(extra, 0), field::<2>(extra, 2)) {
        let Some(body) = extra.get(4..4 + length as usize) else { break };
        if kind == 1 {
            found = body;
        }
        extra = &extra[4 + length as usize..];
    }
    found.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect::<Vec<_>>().into_iter()
}

/// A little-endian number.
fn field<const N: usize>(file: &[u8], at: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}
