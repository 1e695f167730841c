//! The index against a search that looks everywhere; what is damaged or has changed is told.

mod scratch;

use regard_evidence::{Index, Settings, Stale};
use scratch::{Draws, Scratch};
use std::fs;
use std::path::PathBuf;

fn built(scratch: &Scratch, files: &[PathBuf], shard: usize) -> Index {
    let path = scratch.0.join(format!("{shard}.index"));
    Index::build(files, &path, &Settings { shard, threads: 2 }, &mut |_| {}).unwrap();
    let index = Index::open(&path).unwrap();
    index.verify().unwrap();
    index
}

/// Every place of a string in files, by looking at every byte: file, line, offset.
fn naive(files: &[Vec<u8>], wanted: &[u8]) -> Vec<(usize, u64, u64)> {
    let mut found = Vec::new();
    for (number, bytes) in files.iter().enumerate() {
        for at in 0..bytes.len().saturating_sub(wanted.len() - 1) {
            if bytes[at..].starts_with(wanted) {
                let line = 1 + bytes[..at].iter().filter(|&&byte| byte == b'\n').count() as u64;
                found.push((number, line, at as u64));
            }
        }
    }
    found
}

/// Text of few letters, so that strings come again; lines, several bytes a letter, and bytes that are no
/// UTF-8.
fn drawn(draws: &mut Draws, length: usize) -> Vec<u8> {
    const PARTS: [&[u8]; 9] =
        [b"a", b"b", b"ab", b" ", b"\n", "é".as_bytes(), "東".as_bytes(), b"\xff", b"\x00"];
    let mut text = Vec::new();
    while text.len() < length {
        text.extend(PARTS[draws.below(PARTS.len())]);
    }
    text
}

#[test]
fn every_place_is_found_that_a_plain_search_finds() {
    let mut draws = Draws(7);
    for round in 0..40 {
        let scratch = Scratch::new();
        let texts: Vec<Vec<u8>> = (0..1 + round % 4)
            .map(|_| {
                let length = draws.below(300);
                drawn(&mut draws, length)
            })
            .collect();
        if texts.iter().all(Vec::is_empty) {
            continue;
        }
        let files: Vec<PathBuf> =
            texts.iter().enumerate().map(|(at, text)| scratch.put(&format!("{at}.txt"), text)).collect();
        let shard = [1, 7, 64, 1 << 20][round % 4];
        let index = built(&scratch, &files, shard);
        for _ in 0..60 {
            // Strings of the text, and of another one.
            let from = &texts[draws.below(texts.len())];
            let (at, length) = (draws.below(from.len()), 1 + draws.below(12));
            let wanted = match draws.below(4) {
                0 => String::from_utf8_lossy(&drawn(&mut draws, length)).into_owned(),
                _ => String::from_utf8_lossy(&from[at..from.len().min(at + length)]).into_owned(),
            };
            if wanted.is_empty() {
                continue;
            }
            let expected = naive(&texts, wanted.as_bytes());
            let found = index.find(&wanted).unwrap();
            assert_eq!(found.count(), expected.len() as u64, "{wanted:?} in shards of {shard}");
            let places = found.places(usize::MAX).unwrap();
            let places: Vec<_> = places.iter().map(|place| (place.file, place.line, place.offset)).collect();
            assert_eq!(places, expected, "{wanted:?} in shards of {shard}");
            assert_eq!(found.places(2).unwrap().len(), expected.len().min(2));
            let longest = index.longest(&wanted).unwrap();
            let whole = (0..=wanted.len()).rev().filter(|&end| wanted.is_char_boundary(end));
            let plain = whole
                .into_iter()
                .find(|&end| end == 0 || !naive(&texts, &wanted.as_bytes()[..end]).is_empty());
            assert_eq!(Some(longest), plain, "{wanted:?} in shards of {shard}");
        }
    }
}

#[test]
fn huge_counts_are_counted() {
    let scratch = Scratch::new();
    let file = scratch.put("a.txt", "a".repeat(3_000_000));
    let index = built(&scratch, &[file], 1 << 20);
    assert_eq!(index.find("a").unwrap().count(), 3_000_000);
    assert_eq!(index.find("aaa").unwrap().count(), 2_999_998, "also across shards");
    let places = index.find("aa").unwrap().places(3).unwrap();
    assert_eq!(places.len(), 3);
    assert!(places.is_sorted());
    assert_eq!(index.longest(&"a".repeat(70_000)).unwrap(), 1 << 16);
    let text = index.find(&"a".repeat(70_000)).err().unwrap().to_string();
    assert_eq!(text, "the string has 70000 bytes; look for at most 65536 at a time");
    let line = index.line(&places[2]);
    let shown = 2048 + places[2].offset.min(2048) as usize;
    assert!(line.cut && line.text.len() == shown, "a line without end is cut");
    assert_eq!(index.find("").unwrap().count(), 0);
}

#[test]
fn lines_are_shown_as_text() {
    let scratch = Scratch::new();
    let one = scratch.put("one.txt", "first\r\nsecond line\r\n\nlast");
    let two = scratch.put("two.txt", b"Besan\xe7on and Besan\xc3\xa7on\n".as_slice());
    let index = built(&scratch, &[one, two], 8);
    let line = |text: &str| {
        let place = index.find(text).unwrap().places(1).unwrap().remove(0);
        let line = index.line(&place);
        (line.place.file, line.place.line, line.place.offset, line.text, line.cut)
    };
    assert_eq!(line("cond"), (0, 2, 7, "second line".into(), false));
    assert_eq!(line("last"), (0, 4, 21, "last".into(), false));
    assert_eq!(line("Besançon"), (1, 1, 0, "Besan\u{fffd}on and Besançon".into(), false));
    assert_eq!(index.find("lastBesan").unwrap().count(), 0, "nothing is found across files");
    assert_eq!((index.files().len(), index.bytes()), (2, 25 + 23));
    let words = |text: &str| {
        let found = index.find(text).unwrap();
        assert_eq!(found.count_of_words(9).unwrap(), found.places_of_words(9).unwrap().len());
        found.count_of_words(9).unwrap()
    };
    assert_eq!(
        [words("line"), words("lin"), words("Besan"), words("on")],
        [1, 0, 1, 1],
        "between bytes that are no letters"
    );
}

#[test]
fn a_text_in_memory_is_asked_like_a_file() {
    let index = Index::of_text("notes", "one line\nand another line\n").unwrap();
    index.verify().unwrap();
    let places = index.find("line").unwrap().places(9).unwrap();
    assert_eq!(places.iter().map(|place| (place.line, place.offset)).collect::<Vec<_>>(), [(1, 4), (2, 21)]);
    assert_eq!(index.line(&places[1]).text, "and another line");
    assert_eq!(index.files()[0].path, "notes");
    assert_eq!(
        Index::of_text("notes", "").unwrap_err().to_string(),
        "the text `notes` is empty; give it words"
    );
}

#[test]
fn files_that_have_changed_are_named() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.put("one.txt", "some text"), scratch.put("two.txt", "more text"));
    let index = built(&scratch, &[one.clone(), two.clone()], 1 << 20);
    assert_eq!(index.stale(), []);
    assert!(index.is_of(&[one.clone(), two.clone()]) && !index.is_of(&[two.clone(), one.clone()]));
    // The same bytes at another time are the same text.
    fs::write(&one, "some text").unwrap();
    assert_eq!(index.stale(), []);
    fs::write(&one, "other txt").unwrap();
    assert_eq!(index.stale(), [Stale::Changed(one.clone())], "of the same size");
    fs::write(&one, "longer text than before").unwrap();
    fs::remove_file(&two).unwrap();
    let stale: Vec<String> = index.stale().iter().map(ToString::to_string).collect();
    assert_eq!(
        stale,
        [
            format!("{} has changed since it was indexed", one.display()),
            format!("{} was indexed and is not there any more", two.display())
        ]
    );
    assert!(!index.is_of(&[one, two]));
    assert_eq!(index.find("some text").unwrap().count(), 1, "the index still has what it was made of");
}

#[test]
fn a_damaged_index_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.put("text.txt", "where the text was\nthe text is\n".repeat(300));
    let index = built(&scratch, &[file], 4096);
    let whole = fs::read(index.path()).unwrap();
    let open = |bytes: &[u8]| Index::open(scratch.put("damaged.index", bytes));
    let path = scratch.0.join("damaged.index");
    let say = |what: &str| {
        format!(
            "{}: {what}; the index is damaged or none of ours: remove it, and build it again",
            path.display()
        )
    };
    assert_eq!(
        open(b"some text").unwrap_err().to_string(),
        say("does not begin as an index of evidence does")
    );
    let cut = say("does not end as an index of evidence does: it was cut");
    for length in [16, 17, 60, whole.len() / 2, whole.len() - 1] {
        assert_eq!(open(&whole[..length]).unwrap_err().to_string(), cut, "{length}");
    }
    let mut long = whole.clone();
    let tail = long.len() - 48;
    long[tail..tail + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(
        open(&long).unwrap_err().to_string(),
        say("its directory is said to have 18446744073709551615 bytes, more than the file has")
    );
    let mut other = whole.clone();
    other[tail - 5] ^= 1;
    assert_eq!(open(&other).unwrap_err().to_string(), say("its directory does not fit its digest"));
    // A byte too many between text and directory.
    let mut grown = whole.clone();
    grown.insert(100, b'x');
    let sizes = format!("the sizes in its directory do not make up its {} bytes", grown.len());
    assert_eq!(open(&grown).unwrap_err().to_string(), say(&sizes));

    // Damage inside is found by reading all of it, and asking never panics.
    let mut changes = 0;
    for at in (16..tail - 600).step_by(397) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        let index = open(&bytes).unwrap();
        let text = index.verify().unwrap_err().to_string();
        assert!(
            text.ends_with("the index is damaged or none of ours: remove it, and build it again"),
            "{text}"
        );
        let _ = index.find("text").and_then(|found| found.places(10));
        let _ = index.longest("the text is new");
        changes += 1;
    }
    assert!(changes > 20);
    let mut bytes = whole.clone();
    let suffixes = 16 + 9300 + 8 * 3;
    bytes[suffixes..suffixes + 4 * 4096].fill(0xff);
    let text = open(&bytes).unwrap().find("text").err().unwrap().to_string();
    assert!(text.contains("of shard 1 begins at 4294967295, behind its end"), "{text}");
    let text = open(&bytes).unwrap().longest("text").unwrap_err().to_string();
    assert!(text.contains("of shard 1 begins at 4294967295, behind its end"), "{text}");
}

#[test]
fn a_damaged_suffix_that_is_met_late_is_told() {
    let scratch = Scratch::new();
    let file = scratch.put("text.txt", "the text\n".repeat(300));
    let whole = fs::read(built(&scratch, &[file], 4096).path()).unwrap();
    // One suffix that halving passes over, among those that begin with the string.
    let damaged = |number: usize| {
        let mut bytes = whole.clone();
        let at = 16 + 2700 + 8 + 4 * number;
        bytes[at..at + 4].fill(0xff);
        Index::open(scratch.put("damaged.index", bytes)).unwrap()
    };
    let late = |index: &Index| index.find("text").is_ok_and(|found| found.places(1).is_err());
    let index = (0..2700).step_by(7).map(damaged).find(late).unwrap();
    let found = index.find("text").unwrap();
    let text = found.places(1).unwrap_err().to_string();
    assert!(text.contains("of shard 1 begins at 4294967295, behind its end"), "{text}");
    assert_eq!(found.places_of_words(1).unwrap_err().to_string(), text);
    assert_eq!(found.count_of_words(1000).unwrap_err().to_string(), text);
}

#[test]
fn what_cannot_be_indexed_is_said() {
    let scratch = Scratch::new();
    let empty = scratch.put("empty.txt", "");
    let full = scratch.put("full.txt", "text");
    let out = scratch.0.join("out.index");
    let build = |files: &[PathBuf], settings: &Settings| {
        Index::build(files, &out, settings, &mut |_| {}).unwrap_err().to_string()
    };
    let usual = Settings::default();
    assert_eq!(build(&[], &usual), "0 files to index have no text; give at least one file with text in it");
    assert_eq!(
        build(std::slice::from_ref(&empty), &usual),
        "1 files to index have no text; give at least one file with text in it"
    );
    assert_eq!(
        build(std::slice::from_ref(&scratch.0), &usual),
        format!("{} is no file; name files of text, one after the other", scratch.0.display())
    );
    let missing = scratch.0.join("missing.txt");
    assert!(
        build(std::slice::from_ref(&missing), &usual)
            .starts_with(&format!("cannot open {}", missing.display()))
    );
    assert_eq!(
        build(std::slice::from_ref(&full), &Settings { shard: 0, threads: 2 }),
        "shards of 0 bytes, sorted by 2 threads; choose from 1 to 1073741824 bytes, and at least one thread"
    );
    assert!(!out.exists(), "nothing was left behind");
    // An empty file among others is no harm.
    let index = built(&scratch, &[empty.clone(), full, empty], 2);
    assert_eq!(index.find("text").unwrap().places(9).unwrap()[0].file, 1);
    let nowhere = Index::open(scratch.0.join("no.index")).unwrap_err().to_string();
    assert!(nowhere.starts_with("cannot open ") && nowhere.ends_with("; check the path"), "{nowhere}");
}
