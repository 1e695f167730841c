//! Texts by line and document, pairs of files, and how rows are divided; and what is said of files that are
//! none.

use crate::scratch::Scratch;
use crate::{shared, text};
use regard_data::dataset::{
    Amount, Cut, Format, Lines, MOST_OF_A_TEXT, Parallel, Part, Table, TextRows, held_out,
};

fn message<T>(result: regard_data::Result<T>) -> String {
    result.err().expect("an error").to_string()
}

fn rows(scratch: &Scratch, file: &[u8], cut: Cut) -> Vec<String> {
    let rows = TextRows::open(scratch.put("text.txt", file), cut).unwrap();
    let all: Vec<String> = rows.iter().map(|row| row.unwrap().into_owned()).collect();
    assert_eq!(all.len(), rows.len());
    all
}

#[test]
fn lines_end_as_they_do() {
    let scratch = Scratch::new();
    for (file, expected) in [
        ("a", vec!["a"]),
        ("a\n", vec!["a"]),
        ("a\nb", vec!["a", "b"]),
        ("a\r\nb\r\n", vec!["a", "b"]),
        ("\u{feff}a\n\nb\n", vec!["a", "", "b"]),
        ("\n", vec![""]),
        ("a\rb\n é😀\n", vec!["a\rb", " é😀"]),
    ] {
        let lines = Lines::open(scratch.put("lines.txt", file)).unwrap();
        let all: Vec<&str> = lines.iter().map(|line| line.unwrap()).collect();
        assert_eq!((all, lines.len()), (expected.clone(), expected.len()), "{file:?}");
        assert_eq!(
            text(lines.get(expected.len()), &scratch),
            format!(
                "lines.txt: has no line {}; it has {}; ask for one that is there",
                expected.len() + 1,
                expected.len()
            )
        );
    }
}

#[test]
fn texts_are_cut_three_ways() {
    let scratch = Scratch::new();
    let file = "one\ntwo\n\n\nthree\n \nfour\n";
    for file in [file.to_owned(), format!("\u{feff}{}", file.replace('\n', "\r\n"))] {
        let file = file.as_bytes();
        assert_eq!(rows(&scratch, file, Cut::Lines), ["one", "two", "three", "four"]);
        assert_eq!(rows(&scratch, file, Cut::Documents), ["one\ntwo", "three", "four"]);
        assert_eq!(rows(&scratch, file, Cut::Whole), ["one\ntwo\n\n\nthree\n \nfour\n"]);
    }
    let rows = TextRows::open(scratch.put("text.txt", file), Cut::Documents).unwrap();
    assert_eq!((rows.line(0), rows.line(1), rows.line(2)), (1, 5, 7));
    assert_eq!(text(rows.get(3), &scratch), "text.txt: has no row 4; it has 3; ask for one that is there");
    // A document that is the whole file has no line end behind it.
    assert_eq!(
        TextRows::open(scratch.put("one.txt", "a\nb\n"), Cut::Documents).unwrap().get(0).unwrap(),
        "a\nb"
    );
}

#[test]
fn a_line_that_is_too_long_for_a_text_is_named() {
    let scratch = Scratch::new();
    let long = "b".repeat(MOST_OF_A_TEXT + 3);
    let path = scratch.put("long.tsv", format!("a\tx\n{long}\tb\n"));
    let expected = |bytes: usize| {
        format!(
            "long.tsv:2: has {bytes} bytes, and the most of one text are 1048576; divide it into several lines"
        )
    };
    let lines = Lines::open(&path).unwrap();
    assert_eq!(text(lines.check_lengths(), &scratch), expected(MOST_OF_A_TEXT + 6));
    assert_eq!(text(TextRows::open(&path, Cut::Lines), &scratch), expected(MOST_OF_A_TEXT + 6));
    assert_eq!(text(Parallel::open(&path, &path), &scratch), expected(MOST_OF_A_TEXT + 6));
    for format in [Format::Tsv, Format::Csv] {
        let message = text(Table::open(&path, format, false), &scratch);
        assert!(message.starts_with("long.tsv:2: has 10485"), "{message}");
    }
    // A text that is read as a whole may be one line of any length.
    assert_eq!(TextRows::open(&path, Cut::Whole).unwrap().get(0).unwrap().len(), long.len() + 7);
    let short = scratch.put("short.txt", "b".repeat(MOST_OF_A_TEXT));
    Lines::open(short).unwrap().check_lengths().unwrap();
}

#[test]
fn what_is_no_text_is_said() {
    let scratch = Scratch::new();
    let open = |name: &str| text(Lines::open(scratch.join(name)), &scratch);
    scratch.put("train.txt", "a\n");
    scratch.put("empty.txt", "");
    scratch.put("mark.txt", b"\xef\xbb\xbf");
    scratch.put("latin.txt", b"fine\nna\xefve\n");
    scratch.put("wide.txt", b"\xff\xfea\0");
    assert_eq!(open("empty.txt"), "empty.txt: is empty; copy or download it again");
    assert_eq!(open("mark.txt"), "mark.txt: has a byte order mark and no text; copy or download it again");
    assert_eq!(
        open("latin.txt"),
        "latin.txt:2: is not UTF-8: byte 3 of the line is 0xef; save the file as UTF-8"
    );
    assert_eq!(
        open("wide.txt"),
        "wide.txt:1: is not UTF-8: byte 1 of the line is 0xff; save the file as UTF-8"
    );
    let missing = open("trian.txt");
    assert!(missing.starts_with("cannot open trian.txt: "), "{missing}");
    assert!(missing.ends_with("; the nearest name in that folder is `train.txt`"), "{missing}");
    let missing = open("zzzzzzzzzzzzzzzzz");
    assert!(
        missing.ends_with("; no name among the 5 in that folder is like it; check the path"),
        "{missing}"
    );
    let missing = open("nowhere/train.txt");
    assert!(missing.ends_with("; there is no folder nowhere either; check the path"), "{missing}");
    assert_eq!(
        text(Lines::open(scratch.path()), &scratch),
        "DIR: is a folder, expected a file; name a file in it"
    );
    for cut in [Cut::Lines, Cut::Documents, Cut::Whole] {
        assert_eq!(
            text(TextRows::open(scratch.put("blank.txt", "\n \n\t\n"), cut), &scratch),
            "blank.txt: has 3 lines, and all are blank; give a file with text"
        );
    }
}

#[test]
fn parallel_texts_have_as_many_lines() {
    let scratch = Scratch::new();
    let (german, english) = (scratch.put("a.de", "eins\r\nzwei\r\n"), scratch.put("a.en", "one\ntwo"));
    let pairs = Parallel::open(&german, &english).unwrap();
    assert_eq!((pairs.len(), pairs.get(1).unwrap()), (2, ("zwei", "two")));
    assert_eq!(text(pairs.get(2), &scratch), "a.de: has no line 3; it has 2; ask for one that is there");
    assert_eq!(
        text(Parallel::open(&german, scratch.put("b.en", "one\n")), &scratch),
        "a.de has 2 lines, b.en has 1, expected as many; line i of one belongs to line i of the other: copy both again"
    );
    assert_eq!(
        text(Parallel::open(&german, scratch.put("b.en", "one\n \n")), &scratch),
        "b.en:2: is blank, expected a text; leave this line out of both files"
    );
}

#[test]
fn rows_are_held_out_by_seed() {
    let (left, held) = held_out(1000, Amount::Fraction(0.1), 7).unwrap();
    assert_eq!((left.len(), held.len()), (900, 100));
    let mut all = [left.clone(), held.clone()].concat();
    all.sort();
    assert!(all.into_iter().eq(0..1000));
    assert!(left.is_sorted() && held.is_sorted());
    assert_eq!(held_out(1000, Amount::Count(100), 7).unwrap(), (left, held.clone()));
    assert_ne!(held_out(1000, Amount::Count(100), 8).unwrap().1, held);
    // More held out keeps those that were.
    let more = held_out(1000, Amount::Count(200), 7).unwrap().1;
    assert!(held.iter().all(|row| more.contains(row)));
    // Spread evenly: within five standard deviations in each half.
    let front = more.iter().filter(|&&row| row < 500).count();
    assert!((72..=128).contains(&front), "{front}");
    // Fixed for ever: changing the draw would change every run.
    assert_eq!(held_out(10, Amount::Count(3), 1).unwrap().1, [7, 8, 9]);
    // Over seeds, every row is held out as often: 300 times of 1000, within five standard deviations.
    let mut times = [0; 10];
    for seed in 0..1000 {
        held_out(10, Amount::Count(3), seed).unwrap().1.iter().for_each(|&row| times[row] += 1);
    }
    assert!(times.iter().all(|time| (228..=372).contains(time)), "{times:?}");
    assert_eq!(held_out(2, Amount::Fraction(0.01), 0).unwrap().1.len(), 1);
    assert_eq!(held_out(2, Amount::Fraction(0.99), 0).unwrap().1.len(), 1);
    assert_eq!(
        message(held_out(1, Amount::Fraction(0.1), 0)),
        "1 row cannot be divided into training and held out; give at least two rows, or a second file to evaluate on"
    );
    assert_eq!(
        message(held_out(5, Amount::Count(5), 0)),
        "5 of 5 rows would be held out; leave at least one row on either side"
    );
    assert_eq!(
        message(held_out(5, Amount::Count(6), 0)),
        "6 rows were asked for, but there are 5; ask for fewer, or for a fraction"
    );
    assert_eq!(
        message(held_out(5, Amount::Fraction(f64::NAN), 0)),
        "NaN is no fraction; give one from 0 to 1, or a number of rows"
    );
}

#[test]
fn parts_are_read_and_cut() {
    let part = |text: &str| text.parse::<Part>().and_then(|part| part.of(200));
    assert_eq!(part("all").unwrap(), 0..200);
    assert_eq!(part("first 90 %").unwrap(), 0..180);
    assert_eq!(part(" last 10% ").unwrap(), 180..200);
    assert_eq!(part("last 0.25").unwrap(), 150..200);
    assert_eq!(part("last 5").unwrap(), 195..200);
    assert_eq!(part("10..20").unwrap(), 10..20);
    assert_eq!(
        message(part("last 201")),
        "201 rows were asked for, but there are 200; ask for fewer, or for a fraction"
    );
    assert_eq!(
        message(part("100..201")),
        "there are no rows 100..201, but 0..200; give a range inside of these"
    );
    #[allow(clippy::reversed_empty_ranges)] // such a range is what is refused
    let backwards = Part::Rows(5..4).of(200);
    assert_eq!(message(backwards), "there are no rows 5..4, but 0..200; give a range inside of these");
    assert_eq!(
        message(part("middle")),
        "`middle` is no part of the rows; write `all`, `first 90 %`, `last 500` or `100..200`"
    );
    for wrong in ["last x", "last 110 %", "last -1", "last 1.5", "last NaN%", "last .", "last "] {
        let text = message(part(wrong));
        assert!(
            text.contains("is no amount of rows; write a number such as 500") || wrong == "last ",
            "{text}"
        );
    }
}

#[test]
fn real_texts_have_the_lines_that_they_should() {
    let Some(wiki) = shared("a5/wiki.txt") else { return };
    assert_eq!(TextRows::open(wiki, Cut::Lines).unwrap().len(), 2937);
    let shakespeare = shared("tinyshakespeare/input.txt").unwrap();
    let lines = Lines::open(&shakespeare).unwrap();
    assert_eq!((lines.len(), lines.get(0).unwrap()), (40_000, "First Citizen:"));
    let whole = TextRows::open(&shakespeare, Cut::Whole).unwrap();
    assert_eq!(whole.get(0).unwrap(), std::fs::read_to_string(&shakespeare).unwrap());
    assert_eq!(TextRows::open(&shakespeare, Cut::Documents).unwrap().len(), 7222);
    let [german, english] = ["de", "en"].map(|end| shared(&format!("multi30k/train.{end}")).unwrap());
    let pairs = Parallel::open(german, english).unwrap();
    assert_eq!(pairs.len(), 29_000);
    assert_eq!(pairs.get(0).unwrap().1, "Two young, White males are outside near many bushes.");
}

/// Puts other bytes where a mapped file has its own, as an editor might.
fn overwrite(path: &std::path::Path, bytes: &[u8]) {
    use std::io::Write;
    std::fs::OpenOptions::new().write(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_file_that_changes_under_its_reader_is_told() {
    let scratch = Scratch::new();
    let path = scratch.put("lines.txt", "ab\ncd\n");
    let (lines, rows) = (Lines::open(&path).unwrap(), TextRows::open(&path, Cut::Lines).unwrap());
    overwrite(&path, b"ab\n\xff\xff\n");
    let message = "lines.txt:2: was changed while it was read; open it again";
    assert_eq!(text(lines.iter().collect::<Result<Vec<_>, _>>(), &scratch), message);
    assert_eq!(text(rows.iter().collect::<Result<Vec<_>, _>>(), &scratch), message);
    assert_eq!(lines.get(0).unwrap(), "ab");
    // The largest index there can be is no line either.
    let message = text(lines.get(usize::MAX), &scratch);
    assert!(message.ends_with("it has 2; ask for one that is there"), "{message}");
}

/// A header of very many columns costs what its bytes do: comparing each with each would take minutes.
#[test]
fn a_row_may_have_very_many_columns() {
    let scratch = Scratch::new();
    let names: Vec<String> = (0..150_000).map(|i| format!("{i:x}")).collect();
    let path = scratch.put("wide.tsv", format!("{}\n{}\n", names.join("\t"), names.join("\t")));
    let table = Table::open(&path, Format::Tsv, true).unwrap();
    assert_eq!((table.names().len(), table.len()), (150_000, 1));
    let cells: Vec<String> = names[..90_000].iter().map(|name| format!("\"{name}\":1")).collect();
    let path = scratch.put("wide.jsonl", format!("{{{}}}\n", cells.join(",")));
    assert_eq!(Table::open(&path, Format::Jsonl, false).unwrap().names().len(), 90_000);
}
