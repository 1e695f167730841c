//! Opens a file of data, and says what is there instead if it is not: a folder, a name that is nearly the
//! same, nothing. Files that end in `.gz`, or begin as such files do, are unpacked as they are read.

use super::nearest::nearest;
use crate::checkpoint::Bytes;
use crate::error::{shown, shown_path};
use crate::whole::folder_of;
use crate::{Error, Result};
use flate2::read::MultiGzDecoder;
use std::fs::{self, File, Metadata};
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

/// What is known of a regular file that is not empty.
pub(super) fn known(path: &Path) -> Result<Metadata> {
    let known = fs::metadata(path).map_err(|error| missing(path, error))?;
    if known.is_dir() {
        return Err(Error::file(path, "is a folder, expected a file", "name a file in it"));
    }
    if !known.is_file() {
        return Err(Error::file(path, "is not a regular file", "copy it to a file first"));
    }
    if known.len() == 0 {
        return Err(Error::file(path, "is empty", "copy or download it again"));
    }
    Ok(known)
}

/// Maps a file.
pub(super) fn map(path: &Path) -> Result<Bytes> {
    known(path)?;
    Bytes::map(path)
}

/// The error for something that cannot be looked at; a missing name gets the nearest one of its folder.
pub(super) fn missing(path: &Path, error: std::io::Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return Error::io("open", path, error);
    }
    let folder = folder_of(path);
    let Ok(items) = fs::read_dir(folder) else {
        let advice = format!("there is no folder {} either; check the path", shown_path(folder));
        return Error::Io { doing: "open", path: shown_path(path), source: error, advice };
    };
    let mut names: Vec<String> =
        items.flatten().map(|item| item.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let wanted = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let advice = match nearest(&wanted, &names) {
        Some(name) => format!("the nearest name in that folder is `{}`", shown(name)),
        None => format!("no name among the {} in that folder is like it; check the path", names.len()),
    };
    Error::Io { doing: "open", path: shown_path(path), source: error, advice }
}

/// A file of numbers, plain or packed by gzip, read from front to back.
pub(super) struct Reading<'a> {
    path: &'a Path,
    from: Box<dyn Read>,
    /// The most bytes that can still come out, so that no claim is believed beyond it.
    most: u64,
    packed: bool,
}

/// What a packed file may become: up to a thousand bytes of one are possible, and more than a hundred are no
/// pictures.
const MOST_OF_ONE: u64 = 100;
/// Small files may be as blank as they like.
const MOST_OF_FEW: u64 = 64 << 20;

impl<'a> Reading<'a> {
    pub fn open(path: &'a Path) -> Result<Reading<'a>> {
        let length = known(path)?.len();
        let failed = |error| Error::io("read", path, error);
        let mut first = [0; 2];
        let packed =
            File::open(path).map_err(failed)?.read_exact(&mut first).is_ok() && first == [0x1f, 0x8b];
        let file = BufReader::new(File::open(path).map_err(failed)?);
        Ok(match packed {
            true => {
                let from = Box::new(MultiGzDecoder::new(file));
                let most = length.saturating_mul(MOST_OF_ONE).max(MOST_OF_FEW);
                Reading { path, from, most, packed }
            }
            false => Reading { path, from: Box::new(file), most: length, packed },
        })
    }

    /// Exactly this many bytes more; `what` they are is for the error.
    pub fn take(&mut self, bytes: u64, what: &str) -> Result<Vec<u8>> {
        if bytes > self.most {
            return Err(self.short(bytes, self.most, what, "at most "));
        }
        let mut out = Vec::new();
        let got = (&mut self.from).take(bytes).read_to_end(&mut out).map_err(|e| self.failed(e))? as u64;
        self.most -= got;
        if got < bytes {
            return Err(self.short(bytes, got, what, ""));
        }
        Ok(out)
    }

    /// All that is left, which must be whole records of this size, and no more than `most` bytes: a packed
    /// file of a few bytes can become any number.
    pub fn records(&mut self, size: usize, most: u64, what: &str) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let room = most.min(self.most);
        (&mut self.from).take(room.saturating_add(1)).read_to_end(&mut out).map_err(|e| self.failed(e))?;
        if out.len() as u64 > most {
            let got = format!("holds more than {most} bytes, the most that is read");
            return Err(Error::file(self.path, got, "divide it into several files"));
        }
        if out.len() as u64 > room {
            let got = format!("unpacks to more than {room} bytes, a hundred times its own size");
            return Err(Error::file(self.path, got, "unpack it yourself, if it is what it should be"));
        }
        if out.is_empty() || out.len() % size != 0 {
            let got = format!("holds {} bytes, expected a multiple of {size}: {what}", out.len());
            return Err(Error::file(self.path, got, "it is cut off or another format: copy it again"));
        }
        Ok(out)
    }

    /// Says so if anything is left.
    pub fn end(mut self) -> Result<()> {
        let mut more = [0];
        match self.from.read(&mut more) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Error::file(
                self.path,
                "goes on after the last of what its header promises",
                "it is damaged or another format: copy or download it again",
            )),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn short(&self, wanted: u64, got: u64, what: &str, most: &str) -> Error {
        let what = format!("ends too soon: expected {wanted} bytes of {what}, got {most}{got}");
        Error::file(self.path, what, "it is cut off or another format: copy or download it again")
    }

    fn failed(&self, error: std::io::Error) -> Error {
        match self.packed {
            true => {
                let what = format!("cannot be unpacked as gzip: {error}");
                Error::file(self.path, what, "it is damaged: copy or download it again")
            }
            false => Error::io("read", self.path, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_packed_file_cannot_swell_without_end() {
        let path = std::env::temp_dir().join(format!("regard-swell-{}.gz", std::process::id()));
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(&[0; 1 << 20]).unwrap();
        fs::write(&path, packer.finish().unwrap()).unwrap();
        let read = |most| Reading::open(&path).unwrap().records(1 << 10, most, "zeros");
        assert_eq!(read(1 << 20).unwrap().len(), 1 << 20);
        let message = read((1 << 20) - 1).unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        let expected = "holds more than 1048575 bytes, the most that is read; divide it into several files";
        assert!(message.ends_with(expected), "{message}");
    }

    #[test]
    fn few_bytes_do_not_become_a_thousand_times_as_many() {
        let path = std::env::temp_dir().join(format!("regard-bomb-{}.gz", std::process::id()));
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        for _ in 0..65 {
            packer.write_all(&[0; 1 << 20]).unwrap();
        }
        fs::write(&path, packer.finish().unwrap()).unwrap();
        let all = Reading::open(&path).unwrap().records(1 << 10, u64::MAX, "zeros").unwrap_err().to_string();
        let some = Reading::open(&path).unwrap().take(65 << 20, "zeros").unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        let expected = "unpacks to more than 67108864 bytes, a hundred times its own size; unpack it yourself, if it is \
                        what it should be";
        assert!(all.ends_with(expected), "{all}");
        assert!(
            some.contains("ends too soon: expected 68157440 bytes of zeros, got at most 67108864"),
            "{some}"
        );
    }
}
