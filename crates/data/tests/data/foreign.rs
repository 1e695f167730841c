//! Tables of foreign names: what they do, and that every disagreement is listed at once.

use crate::scratch::Scratch;
use regard_data::names::{apply, check, lies, one, part};
use regard_data::{Checkpoint, DType, Data, Import, Map, Save, SaveOptions, Tensor, save_file};
use std::collections::BTreeMap;
use std::ops::Range;

/// A fused qkv in the layout of GPT-2 ([in, out]) and one in that of others ([out, in]), a bias, a buffer.
fn checkpoint(scratch: &Scratch) -> Checkpoint {
    let numbers: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let list = [
        Save { name: "h.0.c_attn.weight", shape: &[2, 6], data: Data::F32(&numbers) },
        Save { name: "h.0.qkv.weight", shape: &[6, 2], data: Data::F32(&numbers) },
        Save { name: "h.0.c_attn.bias", shape: &[6], data: Data::F32(&numbers[..6]) },
        Save { name: "h.0.mask", shape: &[1, 1, 2], data: Data::F32(&numbers[..2]) },
    ];
    let path = scratch.join("x.safetensors");
    save_file(&path, &list, &SaveOptions::default()).unwrap();
    Checkpoint::open(path).unwrap()
}

fn columns(ours: &str, range: std::ops::Range<usize>) -> Import {
    Import::new(ours, &[2, 2], "h.0.c_attn.weight", Map::TransposedColumns(range))
}

fn rows(ours: &str, range: std::ops::Range<usize>) -> Import {
    Import::new(ours, &[2, 2], "h.0.qkv.weight", Map::Rows(range))
}

#[test]
fn a_table_is_carried_out() {
    let scratch = Scratch::new();
    let checkpoint = checkpoint(&scratch);
    let table = [
        columns("a.query", 0..2),
        columns("a.key", 2..4),
        columns("a.value", 4..6),
        rows("b.query", 0..2),
        rows("b.rest", 2..4),
        rows("b.last", 4..6),
        Import::new("whole", &[6, 2], "h.0.c_attn.weight", Map::Transposed),
        Import::same("bias", &[6], "h.0.c_attn.bias"),
        Import::new("folded", &[3, 2], "h.0.c_attn.bias", Map::Reshaped),
    ];
    let mut got = BTreeMap::new();
    let report = apply(&table, &checkpoint, &["h.*.mask"], |import, values| {
        got.insert(import.ours.clone(), values.to_vec());
        Ok(())
    })
    .unwrap();
    assert_eq!((report.tensors, report.numbers), (9, 6 * 4 + 12 + 6 + 6));
    assert_eq!(report.ignored, ["h.0.mask"]);
    // c_attn is [[0 1 2 3 4 5], [6 7 8 9 10 11]]: its columns are our rows.
    assert_eq!(got["a.query"], [0.0, 6.0, 1.0, 7.0]);
    assert_eq!(got["a.value"], [4.0, 10.0, 5.0, 11.0]);
    assert_eq!(got["whole"], [0.0, 6.0, 1.0, 7.0, 2.0, 8.0, 3.0, 9.0, 4.0, 10.0, 5.0, 11.0]);
    assert_eq!(got["b.rest"], [4.0, 5.0, 6.0, 7.0]);
    assert_eq!(got["bias"], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(got["folded"], got["bias"]);
}

#[test]
fn everything_that_does_not_fit_is_listed_at_once_and_nothing_is_taken() {
    let scratch = Scratch::new();
    let checkpoint = checkpoint(&scratch);
    let table = [
        columns("a.query", 0..2),
        columns("a.value", 4..6),
        rows("b.query", 0..3),
        rows("b.none", 5..7),
        Import::same("bias", &[7], "h.0.c_attn.bias"),
        Import::same("bias", &[6], "h.0.c_attn.bias"),
        Import::same("head", &[1], "lm_head.weight"),
        Import::same("norm", &[1], "ln_f.weight"),
        Import::new("flat", &[6], "h.0.c_attn.bias", Map::Transposed),
        Import::new("folded", &[5], "h.0.c_attn.bias", Map::Reshaped),
    ];
    let mut taken = 0;
    let error = apply(&table, &checkpoint, &[], |_, _| {
        taken += 1;
        Ok(())
    })
    .unwrap_err();
    assert_eq!(taken, 0);
    assert_eq!(
        error.to_string(),
        "the checkpoint does not fit the model
  2 missing from the checkpoint (is it another kind of model, or a part of one?):
    `head` ← `lm_head.weight`
    `norm` ← `ln_f.weight`
  5 of another shape (compare the sizes in its config.json):
    `b.query` ← `h.0.qkv.weight`: ours is [2, 2], but Rows(0..3) of theirs [6, 2] is [3, 2]
    `b.none` ← `h.0.qkv.weight`: theirs is [6, 2], which has no rows 5..7
    `bias` ← `h.0.c_attn.bias`: ours is [7], theirs [6]
    `flat` ← `h.0.c_attn.bias`: theirs is [6]; only a matrix can be transposed
    `folded` ← `h.0.c_attn.bias`: ours is [5], theirs [6] holds another number of elements
  3 in the checkpoint but not in the model (use its own model, or pass over them: --ignore):
    2..4 of `h.0.c_attn.weight` [2, 6]
    `h.0.mask` [1, 1, 2]
    3..5 of `h.0.qkv.weight` [6, 2]
  1 listed twice in the table of names (mend the table):
    `bias`"
    );
}

#[test]
fn a_pattern_stands_for_one_part() {
    let scratch = Scratch::new();
    let checkpoint = checkpoint(&scratch);
    let ignored = |pattern: &str| check(&[], &checkpoint, &[pattern]).unwrap_err().to_string();
    assert!(!ignored("*.*.mask").contains("mask"));
    for other in ["h.mask", "*", "h.*", "h.0.mask.*", "h.*.mas"] {
        assert!(ignored(other).contains("`h.0.mask`"), "{other}");
    }
}

#[test]
fn who_takes_may_refuse() {
    let scratch = Scratch::new();
    let checkpoint = checkpoint(&scratch);
    let table = [Import::same("bias", &[6], "h.0.c_attn.bias")];
    let others = ["h.0.mask", "h.*.c_attn.weight", "h.*.qkv.weight"];
    let error = apply(&table, &checkpoint, &others, |_, _| Err("no room".into())).unwrap_err();
    assert_eq!(error.to_string(), "`bias` was read, but not taken: no room");
}

#[test]
fn one_tensor_is_read_if_it_fits() {
    let scratch = Scratch::new();
    let checkpoint = checkpoint(&scratch);
    let tensor = checkpoint.get("h.0.c_attn.weight").unwrap();
    let part = |shape: &[usize]| Import::new("key", shape, tensor.name, Map::TransposedColumns(2..4));
    assert_eq!(one(&part(&[2, 2]), &tensor).unwrap(), [2., 8., 3., 9.]);
    let message = one(&part(&[2, 3]), &tensor).unwrap_err().to_string();
    assert!(message.contains("`key` ← `h.0.c_attn.weight`: ours is [2, 3], but "), "{message}");
}

#[test]
fn some_of_a_tensor_are_those_of_the_whole() {
    let scratch = Scratch::new();
    let checkpoint = checkpoint(&scratch);
    let tensor = checkpoint.get("h.0.c_attn.weight").unwrap();
    // [[0 1 2 3 4 5], [6 7 8 9 10 11]]
    let lines = [
        Import::same("same", &[2, 6], tensor.name),
        Import::new("folded", &[3, 4], tensor.name, Map::Reshaped),
        Import::new("row", &[1, 6], tensor.name, Map::Rows(1..2)),
        Import::new("turned", &[6, 2], tensor.name, Map::Transposed),
        Import::new("key", &[3, 2], tensor.name, Map::TransposedColumns(2..5)),
    ];
    for line in &lines {
        let whole = one(line, &tensor).unwrap();
        let lies = lies(line, &tensor).map(|bytes| bytes.len());
        assert_eq!(lies, (!line.ours.starts_with(['t', 'k'])).then_some(whole.len() * 4), "{}", line.ours);
        for start in 0..whole.len() {
            for end in start..=whole.len() {
                let mut got = vec![f32::NAN; end - start];
                part(line, &tensor, start..end, &mut got).unwrap();
                assert_eq!(got, whole[start..end], "{} {start}..{end}", line.ours);
            }
        }
    }
    let wrong = Import::same("wrong", &[3, 6], tensor.name);
    assert_eq!(lies(&wrong, &tensor), None);
    let message = part(&wrong, &tensor, 0..2, &mut [0.0; 2]).unwrap_err().to_string();
    assert!(message.contains("`wrong` ← `h.0.c_attn.weight`: ours is [3, 6], theirs [2, 6]"), "{message}");
}

/// A fused vector of blocks, which files of strangers may hold: its parts are whole blocks or are refused.
#[test]
fn rows_of_blocks_are_whole_blocks() {
    let bytes: Vec<u8> = (0..3 * 34).map(|at| if at % 34 == 1 { 0x3c } else { (at % 7) as u8 }).collect();
    let tensor = Tensor { name: "fused", dtype: DType::Q8_0, shape: &[96], bytes: &bytes };
    let line = |rows: Range<usize>| Import::new("part", &[rows.len()], "fused", Map::Rows(rows));
    let all = tensor.f32s();
    for rows in [0..32, 32..64, 32..96] {
        assert_eq!(one(&line(rows.clone()), &tensor).unwrap(), all[rows.clone()]);
        assert_eq!(lies(&line(rows.clone()), &tensor).unwrap().len(), rows.len() / 32 * 34);
        let mut some = [0.0; 5];
        part(&line(rows.clone()), &tensor, 7..12, &mut some).unwrap();
        assert_eq!(some, all[rows.start + 7..rows.start + 12]);
    }
    let inside = line(16..48);
    assert_eq!(lies(&inside, &tensor), None);
    for message in [
        one(&inside, &tensor).unwrap_err().to_string(),
        part(&inside, &tensor, 0..5, &mut [0.0; 5]).unwrap_err().to_string(),
    ] {
        assert!(message.contains("rows 16..48 of theirs [96] begin or end inside of a block"), "{message}");
    }
}

#[test]
fn what_was_passed_is_still_there() {
    let scratch = Scratch::new();
    let checkpoint = checkpoint(&scratch);
    let before = checkpoint.get("h.0.c_attn.weight").unwrap().f32s();
    checkpoint.passed("h.0.c_attn.weight", 0..48);
    checkpoint.passed("h.0.c_attn.weight", 0..usize::MAX);
    checkpoint.passed("nobody", 0..1);
    assert_eq!(checkpoint.get("h.0.c_attn.weight").unwrap().f32s(), before);
}

#[test]
fn empty_tensors_cost_no_time() {
    let scratch = Scratch::new();
    let header = format!(r#"{{"w":{{"dtype":"F32","shape":[0,{}],"data_offsets":[0,0]}}}}"#, 1u64 << 60);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    let checkpoint = Checkpoint::open(scratch.put("x.safetensors", bytes)).unwrap();
    let wide = 1usize << 60;
    for (shape, map) in [([wide, 0], Map::Transposed), ([0, wide], Map::Rows(0..0)), ([0, wide], Map::Same)] {
        let table = [Import::new("w", &shape, "w", map)];
        let taken = apply(&table, &checkpoint, &[], |_, values| {
            assert!(values.is_empty());
            Ok(())
        });
        assert_eq!(taken.unwrap().numbers, 0);
    }
}
