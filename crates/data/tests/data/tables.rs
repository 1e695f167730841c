//! Tables in three formats, their columns and labels, and what is said of those that are broken.

use crate::noise::Noise;
use crate::scratch::Scratch;
use crate::{shared, text};
use regard_data::dataset::{Format, Labels, Table};

fn column(table: &Table, name: &str) -> Vec<String> {
    table.column(name).unwrap().iter().map(|cell| cell.unwrap().into_owned()).collect()
}

#[test]
fn three_formats_hold_the_same_cells() {
    let scratch = Scratch::new();
    let files = [
        ("a.tsv", "text\tlabel\nit's \"fine\"\t1\n\nbad, really\t0\n"),
        ("a.csv", "text,label\n\"it's \"\"fine\"\"\",1\n\n\"bad, really\",0"),
        (
            "a.jsonl",
            "{\"text\": \"it's \\\"fine\\\"\", \"label\": 1}\n\n{\"label\": 0, \"text\": \"bad, really\"}\n",
        ),
    ];
    for (name, file) in files {
        for file in [file.to_owned(), format!("\u{feff}{}", file.replace('\n', "\r\n"))] {
            let path = scratch.put(name, file);
            let table = Table::open(&path, Format::of(&path).unwrap(), true).unwrap();
            assert_eq!(table.len(), 2, "{name}");
            assert_eq!(column(&table, "text"), ["it's \"fine\"", "bad, really"], "{name}");
            assert_eq!(column(&table, "label"), ["1", "0"], "{name}");
            let labels = table.column("label").unwrap().labels().unwrap();
            assert_eq!(table.column("label").unwrap().classes(&labels).unwrap(), [1, 0]);
        }
    }
    let table = Table::open(scratch.put("b.tsv", "x\ty\nz\t\n"), Format::Tsv, false).unwrap();
    assert_eq!(
        (table.names(), column(&table, "1")),
        (&["0".into(), "1".into()][..], vec!["y".into(), "".into()])
    );
    assert_eq!(table.column_at(0).unwrap().get(1).unwrap(), "z");
    assert_eq!(text(table.column_at(2), &scratch), "no column is called `2`; b.tsv has 2 columns");
    let spaces = Table::open(scratch.put("s.tsv", "a good film 1\n"), Format::Tsv, false).unwrap();
    assert_eq!(
        text(spaces.column_at(1), &scratch),
        "no column is called `1`; s.tsv has one column, for no line of it has a tab (or, in .csv, a comma) in it; put one \
         between text and class"
    );
    assert_eq!(
        text(table.column("0").unwrap().get(2), &scratch),
        "b.tsv: has no row 3; it has 2; ask for one that is there"
    );
}

/// Quotes as in RFC 4180: line ends and quotes inside of cells; the lines of later rows stay right.
#[test]
fn quoted_cells_may_hold_anything() {
    let scratch = Scratch::new();
    let file = "a,b\r\n\"one\r\ntwo\",\"\"\"\"\r\n,\"x,y\"\r\n\"\",z\r\n";
    let table = Table::open(scratch.put("q.csv", file), Format::Csv, true).unwrap();
    assert_eq!(column(&table, "a"), ["one\r\ntwo", "", ""]);
    assert_eq!(column(&table, "b"), ["\"", "x,y", "z"]);
    let ragged = |file: &str| text(Table::open(scratch.put("r.csv", file), Format::Csv, true), &scratch);
    assert_eq!(
        ragged("a,b\n\"1\n2\",x\n\n3\n"),
        "r.csv:5: has 1 columns, expected 2 as in line 1; put a text with commas in double quotes"
    );
    assert_eq!(
        ragged("a,b\n\"1,2\nc,d\n"),
        "r.csv:2: opens a double quote and never closes it; close it, or write it twice inside of quotes"
    );
}

#[test]
fn broken_tables_are_refused_with_their_line() {
    let scratch = Scratch::new();
    let open = |name: &str, file: &[u8], header: bool| {
        let path = scratch.put(name, file);
        text(Table::open(&path, Format::of(&path).unwrap(), header), &scratch)
    };
    assert_eq!(open("a.tsv", b"", true), "a.tsv: is empty; copy or download it again");
    assert_eq!(open("a.tsv", b"\n\n", false), "a.tsv: has blank lines only; give a file with rows");
    assert_eq!(open("a.csv", b"\n\n", false), "a.csv: has blank lines only; give a file with rows");
    for name in ["a.tsv", "a.csv"] {
        assert_eq!(
            open(name, b"text\n", true),
            format!(
                "{name}: has one row, expected a header and at least one more; add rows, or say that there is no header"
            )
        );
        assert_eq!(
            open(name, b"x\n\xe9\n", true),
            format!("{name}:2: is not UTF-8: byte 1 of the line is 0xe9; save the file as UTF-8")
        );
    }
    assert_eq!(
        open("a.tsv", b"a\tb\n1\t2\n3\n", false),
        "a.tsv:3: has 1 columns, expected 2 as in line 1; separate columns by exactly one tab"
    );
    assert_eq!(
        open("a.tsv", b"a\tb\ta\n1\t2\t3\n", true),
        "a.tsv:1: names the column `a` twice; give each column a name of its own"
    );
    assert_eq!(
        open("a.jsonl", b"{\"a\": 1}\n{\"a\": }\n", true),
        "a.jsonl:2:7: expected value; write one JSON object on each line"
    );
    assert_eq!(
        open("a.jsonl", b"{\"a\": 1}\n[1]\n", true),
        "a.jsonl:2: is JSON, but no object; write {\"column\": \"text\", …} on each line"
    );
    assert_eq!(
        text(Format::of("a.xls"), &scratch),
        "a.xls: does not end in .tsv, .csv or .jsonl; say which format it has"
    );
}

/// The line in an error is right whatever lines end with, and however many a cell has.
#[test]
fn lines_are_counted_through_quotes_and_blank_ones() {
    let scratch = Scratch::new();
    let file = "a,b\n\n\"1\n\n2\",\"x\ny\"\n\n\n3\n";
    for file in [file.to_owned(), file.replace('\n', "\r\n"), format!("\u{feff}{file}")] {
        let message = text(Table::open(scratch.put("r.csv", file), Format::Csv, true), &scratch);
        assert!(message.starts_with("r.csv:9: has 1 columns, expected 2 as in line 1"), "{message}");
    }
}

/// Cut anywhere, or with any bit turned over, a table is an error or another table, never a panic.
#[test]
fn broken_tables_never_panic() {
    let scratch = Scratch::new();
    let mut noise = Noise(5);
    for (name, whole) in [
        ("a.tsv", "\u{feff}a\tb\r\n1\té\r\n\r\n2\t\r\n"),
        ("a.csv", "\u{feff}a,b\r\n\"1\n\"\"\",é\r\n\r\n2,\"\"\r\n"),
        ("a.jsonl", "\u{feff}{\"a\": \"é\", \"b\": 1}\r\n\r\n{\"a\": true, \"b\": 0.5}\r\n"),
    ] {
        let mut opened = 0;
        for _ in 0..1000 {
            let mut broken = whole.as_bytes()[..1 + noise.below(whole.len())].to_vec();
            for _ in 0..noise.below(3) {
                let at = noise.below(broken.len());
                broken[at] ^= 1 << noise.below(8);
            }
            let path = scratch.put(name, &broken);
            let Ok(table) = Table::open(&path, Format::of(&path).unwrap(), noise.below(2) == 0) else {
                continue;
            };
            opened += 1;
            for name in table.names() {
                if let Ok(column) = table.column(name) {
                    assert!(column.iter().all(|cell| cell.is_ok()), "{broken:?}");
                }
            }
        }
        assert!(opened > 20, "{name}: {opened}");
    }
}

#[test]
fn missing_columns_are_named() {
    let scratch = Scratch::new();
    let table = Table::open(scratch.put("a.csv", "sentence,label\nx,0\n"), Format::Csv, true).unwrap();
    assert_eq!(
        text(table.column("sentense"), &scratch),
        "no column is called `sentense`; a.csv has `sentence`, `label`; did you mean `sentence`?"
    );
    assert_eq!(
        text(table.column("qqq"), &scratch),
        "no column is called `qqq`; a.csv has `sentence`, `label`"
    );
    let file = "{\"a\": \"x\", \"b\": true}\n{\"a\": null}\n{\"b\": [1]}\n";
    let table = Table::open(scratch.put("a.jsonl", file), Format::Jsonl, false).unwrap();
    let advice = "give each row a string, a number or a truth there";
    assert_eq!(text(table.column("a"), &scratch), format!("a.jsonl:2: column `a` is null; {advice}"));
    assert_eq!(
        text(table.column("b"), &scratch),
        format!("a.jsonl:2: has no column `b`; it has `a`; {advice}")
    );
    // As they were written, not as they are sorted.
    let file = "{\"text\": \"x\", \"label\": 1, \"a\": {\"z\": 0}, \"text\": \"y\"}\n";
    let table = Table::open(scratch.put("o.jsonl", file), Format::Jsonl, false).unwrap();
    assert_eq!(table.names(), ["text", "label", "a"]);
    assert_eq!(table.column_at(0).unwrap().get(0).unwrap(), "y");
    let file = "{\"a\": 1}\n{\"a\": {}}\n";
    let table = Table::open(scratch.put("b.jsonl", file), Format::Jsonl, false).unwrap();
    assert_eq!(text(table.column("a"), &scratch), format!("b.jsonl:2: column `a` is an object; {advice}"));
    let table = Table::open(scratch.put("c.jsonl", "{\"a\": []}"), Format::Jsonl, false).unwrap();
    assert_eq!(text(table.column("a"), &scratch), format!("c.jsonl:1: column `a` is a list; {advice}"));
}

#[test]
fn labels_are_sorted_and_strangers_named() {
    let scratch = Scratch::new();
    let labels = Labels::of(["positive", "negative", "positive", "neutral"]).unwrap();
    assert_eq!(labels.names(), ["negative", "neutral", "positive"]);
    assert_eq!(
        (labels.class("neutral").unwrap(), labels.name(2), labels.name(3)),
        (1, Some("positive"), None)
    );
    assert_eq!(Labels::of(["10", "9", "-1"]).unwrap().names(), ["-1", "9", "10"]);
    assert_eq!(
        text(labels.class("Positiv"), &scratch),
        "no label is called `Positiv`; the nearest is `positive`"
    );
    assert_eq!(
        text(labels.class("7"), &scratch),
        "no label is called `7`; the labels of the training set are `negative`, `neutral`, `positive`"
    );
    let table =
        Table::open(scratch.put("dev.tsv", "x\tneutral\n\ny\tpositve\n"), Format::Tsv, false).unwrap();
    assert_eq!(
        text(table.column("1").unwrap().classes(&labels), &scratch),
        "dev.tsv:3: no label of the training set is called `positve`; the nearest is `positive`"
    );
    let table = Table::open(scratch.put("one.tsv", "x\tyes\ny\tyes\n"), Format::Tsv, false).unwrap();
    assert_eq!(
        text(table.column("1").unwrap().labels(), &scratch),
        "one.tsv: column `1`: all labels are `yes`, expected at least two classes; check that the right column or \
         folder was taken; classes need a column that tells them apart"
    );
    assert_eq!(
        text(Labels::of(Vec::<String>::new()), &scratch),
        "there are no labels, expected at least two classes; check that the right column or folder was taken"
    );
    assert_eq!(
        text(Labels::in_order(["b", "a", "b"]), &scratch),
        "the labels `b`, `a`, `b` are not distinct; name each class once"
    );
    let json = serde_json::to_string(&labels).unwrap();
    assert_eq!(json, r#"["negative","neutral","positive"]"#);
    assert_eq!(serde_json::from_str::<Labels>(&json).unwrap(), labels);
    assert!(serde_json::from_str::<Labels>(r#"["a","a"]"#).is_err());
}

#[test]
fn real_tables_have_the_rows_that_they_should() {
    let Some(train) = shared("sst2/train.tsv") else { return };
    let train = Table::open(train, Format::Tsv, false).unwrap();
    let labels = train.column("1").unwrap().labels().unwrap();
    assert_eq!((train.len(), labels.names()), (6920, &["0".into(), "1".into()][..]));
    let dev = Table::open(shared("sst2/dev.tsv").unwrap(), Format::Tsv, false).unwrap();
    assert_eq!(dev.column("1").unwrap().classes(&labels).unwrap().len(), 872);
    let births = Table::open(shared("a5/birth_places_train.tsv").unwrap(), Format::Tsv, false).unwrap();
    assert_eq!((births.len(), births.column("1").unwrap().get(0).unwrap().as_ref()), (2000, "Lebanon"));
    let asked = Table::open(shared("a5/birth_test_inputs.tsv").unwrap(), Format::Tsv, false).unwrap();
    assert_eq!((asked.len(), asked.names().len()), (437, 1));
}

#[test]
fn a_table_that_changes_under_its_reader_is_told() {
    use std::io::Write;
    let scratch = Scratch::new();
    let path = scratch.put("a.tsv", "one\tx\ntwo\ty\n");
    let table = Table::open(&path, Format::Tsv, false).unwrap();
    let column = table.column_at(1).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().write_all(b"one\tx\ntwo y\n").unwrap();
    assert_eq!(
        text(column.iter().collect::<Result<Vec<_>, _>>(), &scratch),
        "a.tsv:2: was changed while it was read; open it again"
    );
    let message = text(column.get(usize::MAX), &scratch);
    assert!(message.ends_with("it has 2; ask for one that is there"), "{message}");
}
