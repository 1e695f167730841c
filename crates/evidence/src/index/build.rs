//! Makes an index: copies the files behind one another, counting lines, then sorts the suffixes of one shard
//! after the other, as many at a time as there are threads, each by the C library libsais. Memory: five times
//! a shard for each thread, whatever the text has. The file appears when all of it is on the disk.

use super::Index;
use super::format::{Directory, MAGIC, MARK, SEPARATOR, Shard, SourceFile, VERSION, hex};
use crate::{Error, Result};
use libsais::SuffixArrayConstruction;
use regard_data::whole;
use sha2::{Digest, Sha256};
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// How an index is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of text that are sorted together, at most 1 GiB. Building takes five times as much memory for
    /// each thread; asking takes about a microsecond for each shard and letter looked at.
    pub shard: usize,
    /// Shards that are sorted at the same time.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        Settings { shard: 64 << 20, threads: threads.min(16) }
    }
}

/// The largest shard: positions in it, and in what follows it, fit an i32.
const LARGEST_SHARD: usize = 1 << 30;
/// How far a shard is sorted into the next: strings up to this length are found wherever they stand.
pub(super) const OVERLAP: u64 = 1 << 16;
/// Bytes that are read or written at a time.
const CHUNK: usize = 1 << 18;

impl Index {
    /// Indexes files, in this order, into one file. `progress` hears how much is done, from 0 to 1.
    pub fn build(
        files: &[PathBuf],
        path: impl AsRef<Path>,
        settings: &Settings,
        progress: &mut dyn FnMut(f64),
    ) -> Result<()> {
        let Settings { shard, threads } = *settings;
        if shard == 0 || shard > LARGEST_SHARD || threads == 0 {
            return Err(Error::invalid(
                format!("shards of {shard} bytes, sorted by {threads} threads"),
                format!("choose from 1 to {LARGEST_SHARD} bytes, and at least one thread"),
            ));
        }
        let path = path.as_ref();
        let mut sources = Vec::with_capacity(files.len());
        for file in files {
            sources.push(Source::look(file)?);
        }
        let all: u64 = sources.iter().map(|source| source.bytes).sum();
        if all == 0 {
            return Err(Error::invalid(
                format!("{} files to index have no text", files.len()),
                "give at least one file with text in it",
            ));
        }
        // What went wrong with a source is not to be told as what went wrong with the index.
        let mut failed = None;
        // The index holds the text: whoever may not read one must not read the other.
        let access = whole::Access::of(files);
        let written = whole::write_for(path, access, |out| {
            let result = write(out, &sources, settings, progress);
            result.map_err(|problem| match problem {
                Problem::Source(path, error) => {
                    failed = Some(Error::from(regard_data::Error::io("read", &path, error)));
                    io::Error::other("a source could not be read")
                }
                Problem::Sorting(what) => {
                    failed = Some(Error::invalid(what, "give it smaller shards"));
                    io::Error::other("suffixes could not be sorted")
                }
                Problem::Index(error) => error,
            })
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(written?),
        }
    }
}

impl Index {
    /// Indexes a text in memory, for those who have no disk. It is known by this name, and is never stale to
    /// who does not ask.
    pub fn of_text(name: &str, text: &str) -> Result<Index> {
        if text.is_empty() {
            return Err(Error::invalid(format!("the text `{name}` is empty"), "give it words"));
        }
        let source = Source {
            path: PathBuf::from(name),
            name: name.to_string(),
            bytes: text.len() as u64,
            modified: None,
            text: Some(text.as_bytes().to_vec()),
        };
        let mut out = io::Cursor::new(Vec::new());
        let written =
            write(&mut out, &[source], &Settings { threads: 1, ..Settings::default() }, &mut |_| {});
        written.map_err(|problem| match problem {
            Problem::Sorting(what) => Error::invalid(what, "give a shorter text"),
            Problem::Source(_, error) | Problem::Index(error) => Error::invalid(
                format!("the text `{name}` could not be indexed: {error}"),
                "give a shorter one",
            ),
        })?;
        Index::held(PathBuf::from(name), super::Held::Owned(out.into_inner()))
    }
}

/// A text that is to be indexed.
struct Source {
    path: PathBuf,
    name: String,
    bytes: u64,
    modified: Option<(u64, u32)>,
    /// The text itself, where it is in no file.
    text: Option<Vec<u8>>,
}

impl Source {
    fn look(file: &Path) -> Result<Source> {
        let wrong = |doing| move |error| Error::from(regard_data::Error::io(doing, file, error));
        let path = fs::canonicalize(file).map_err(wrong("open"))?;
        let known = fs::metadata(&path).map_err(wrong("open"))?;
        if !known.is_file() {
            return Err(Error::invalid(
                format!("{} is no file", file.display()),
                "name files of text, one after the other",
            ));
        }
        let Some(name) = path.to_str().map(str::to_owned) else {
            return Err(Error::invalid(
                format!("the path {} is not UTF-8, and an index keeps it as text", path.display()),
                "rename the file or its folder",
            ));
        };
        Ok(Source { name, bytes: known.len(), modified: modified(&known), path, text: None })
    }

    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match &self.text {
            Some(text) => Box::new(text.as_slice()),
            None => Box::new(File::open(&self.path)?),
        })
    }
}

/// When a file was last changed.
pub(super) fn modified(known: &Metadata) -> Option<(u64, u32)> {
    let since = known.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((since.as_secs(), since.subsec_nanos()))
}

/// What can be wrong while an index is written.
enum Problem {
    Source(PathBuf, io::Error),
    Index(io::Error),
    Sorting(String),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem::Index(error)
    }
}

/// What an index is written to.
trait Out: Read + Write + Seek {}

impl<T: Read + Write + Seek> Out for T {}

fn write(
    out: &mut impl Out,
    sources: &[Source],
    settings: &Settings,
    progress: &mut dyn FnMut(f64),
) -> Result<(), Problem> {
    out.write_all(MAGIC)?;
    let (files, text, marks) = copy(out, sources)?;
    let mut digest = Sha256::new();
    let mut buffered = BufWriter::with_capacity(CHUNK, &mut *out);
    for mark in marks {
        digest.update(mark.to_le_bytes());
        buffered.write_all(&mark.to_le_bytes())?;
    }
    buffered.flush()?;
    drop(buffered);
    let marks = hex(&digest.finalize());
    let shards = sort(out, text, settings, progress)?;
    let directory = Directory { version: VERSION, files, text, marks, shards };
    out.seek(SeekFrom::End(0))?;
    out.write_all(&directory.tail())?;
    Ok(())
}

/// Copies the sources, and gives their descriptions, the bytes of all and the marks of lines.
fn copy(out: &mut impl Out, sources: &[Source]) -> Result<(Vec<SourceFile>, u64, Vec<u64>), Problem> {
    let mut out = BufWriter::with_capacity(CHUNK, out);
    let mut lines = LineMarks { at: 0, newlines: 0, marks: vec![0] };
    let mut files = Vec::with_capacity(sources.len());
    let mut buffer = vec![0; CHUNK];
    for (number, source) in sources.iter().enumerate() {
        let wrong = |error| Problem::Source(source.path.clone(), error);
        if number > 0 {
            out.write_all(&[SEPARATOR])?;
            lines.add(&[SEPARATOR]);
        }
        let (mut file, mut digest, mut bytes) = (source.open().map_err(wrong)?, Sha256::new(), 0);
        loop {
            let read = file.read(&mut buffer).map_err(wrong)?;
            if read == 0 {
                break;
            }
            digest.update(&buffer[..read]);
            lines.add(&buffer[..read]);
            out.write_all(&buffer[..read])?;
            bytes += read as u64;
        }
        // A file that grew while it was read has another size than it had: what was read is what counts.
        files.push(SourceFile {
            path: source.name.clone(),
            bytes,
            modified: source.modified,
            sha256: hex(&digest.finalize()),
        });
    }
    out.flush()?;
    Ok((files, lines.at, lines.marks))
}

/// Counts ends of lines while text goes by.
struct LineMarks {
    at: u64,
    newlines: u64,
    marks: Vec<u64>,
}

impl LineMarks {
    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let left = (MARK - self.at % MARK) as usize;
            let (own, rest) = bytes.split_at(left.min(bytes.len()));
            self.newlines += own.iter().filter(|&&byte| byte == b'\n').count() as u64;
            self.at += own.len() as u64;
            if self.at.is_multiple_of(MARK) {
                self.marks.push(self.newlines);
            }
            bytes = rest;
        }
    }
}

/// Sorts the suffixes of all shards, and writes them to the end of the file.
fn sort(
    out: &mut impl Out,
    text: u64,
    settings: &Settings,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Shard>, Problem> {
    let size = settings.shard as u64;
    let starts: Vec<u64> = (0..text.div_ceil(size)).map(|number| number * size).collect();
    let mut shards = Vec::with_capacity(starts.len());
    for group in starts.chunks(settings.threads) {
        let mut texts = Vec::with_capacity(group.len());
        for &start in group {
            let end = (start + size + OVERLAP).min(text);
            let mut own = vec![0; (end - start) as usize];
            out.seek(SeekFrom::Start(MAGIC.len() as u64 + start))?;
            out.read_exact(&mut own)?;
            texts.push(own);
        }
        let sorted: Vec<Result<Vec<i32>, String>> = std::thread::scope(|scope| {
            let workers: Vec<_> = texts
                .into_iter()
                .zip(group)
                .map(|(own, &start)| {
                    let length = size.min(text - start) as usize;
                    scope.spawn(move || suffixes(&own, length))
                })
                .collect();
            let gone = || Err("a thread that sorted suffixes has ended".to_string());
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| gone())).collect()
        });
        out.seek(SeekFrom::End(0))?;
        for (&start, sorted) in group.iter().zip(sorted) {
            let sorted = sorted.map_err(Problem::Sorting)?;
            let sha256 = append(out, &sorted)?;
            shards.push(Shard { start, length: sorted.len() as u64, sha256 });
            progress((start + sorted.len() as u64) as f64 / text as f64);
        }
    }
    Ok(shards)
}

/// The suffixes that begin in the first `length` bytes of a text, sorted.
fn suffixes(text: &[u8], length: usize) -> Result<Vec<i32>, String> {
    let sorted = SuffixArrayConstruction::for_text(text).in_owned_buffer32().single_threaded().run();
    let mut sorted =
        sorted.map_err(|error| format!("{} bytes could not be sorted: {error}", text.len()))?.into_vec();
    if length < text.len() {
        sorted.retain(|&suffix| (suffix as usize) < length);
    }
    Ok(sorted)
}

/// Writes suffixes, and gives their digest.
fn append(out: &mut impl Out, sorted: &[i32]) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut bytes = Vec::with_capacity(CHUNK);
    for part in sorted.chunks(CHUNK / 4) {
        bytes.clear();
        bytes.extend(part.iter().flat_map(|suffix| suffix.to_le_bytes()));
        digest.update(&bytes);
        out.write_all(&bytes)?;
    }
    Ok(hex(&digest.finalize()))
}
