//! Targets of a classification: what is checked of them, and which rows they leave alive.

use crate::Fault;
use regard_graph::*;

/// The advice of a target outside of the vocabulary.
const ADVICE: &str = "targets lie in 0..V; give rows without one the ignore index";

/// Checks that targets are integers.
pub fn check_target_dtype(op: &str, dtype: DType) -> Result<()> {
    if dtype == DType::I32 {
        return Ok(());
    }
    Err(Error::DType {
        op: op.into(),
        operand: "targets".into(),
        got: dtype.to_string(),
        expected: "i32".into(),
        advice: "give the ids of the right classes".into(),
    })
}

/// Checks the settings of a cross-entropy.
pub fn check_options(op: &str, label_smoothing: f32) -> Result<()> {
    if (0.0..1.0).contains(&label_smoothing) {
        return Ok(());
    }
    Err(Error::invalid(
        op,
        format!("label_smoothing is {label_smoothing}"),
        "give a number from 0 (none) to below 1",
    ))
}

/// Refuses the first target that is neither ignored nor one of `classes`.
pub fn check_targets(
    op: &'static str,
    targets: impl Iterator<Item = i64>,
    classes: usize,
    ignore_index: i32,
) -> std::result::Result<(), Fault> {
    for (row, id) in targets.enumerate() {
        if id != ignore_index as i64 && !(0..classes as i64).contains(&id) {
            return Err(no_such_class(op, row, id, classes));
        }
    }
    Ok(())
}

/// A target that is neither ignored nor one of `classes`.
pub fn no_such_class(op: &'static str, row: usize, id: i64, classes: usize) -> Fault {
    let what = format!("the target of row {row} is {id}, but V is {classes}");
    Fault { op, what, advice: ADVICE }
}

/// How many rows have a target that counts; all of them, where the targets are not known.
pub fn live_rows(call: &Concrete<'_>, input: usize, ignore_index: i32) -> usize {
    match call.integers[input] {
        Some(targets) => targets.iter().filter(|&&id| id != ignore_index as i64).count(),
        None => call.inputs[input].count(),
    }
}

/// The largest number of listed coordinates: beyond it, ignored rows are not told apart.
const MOST_LISTED: usize = 1 << 20;

/// The relation `axes`, which rows with ignored targets do not have. The result's axes are those of the
/// targets (operand `input`), then possibly one of `width` classes, 0 where there is none.
pub fn only_live(
    call: &Concrete<'_>,
    input: usize,
    ignore_index: i32,
    mut axes: Vec<Along>,
    width: usize,
) -> Relation {
    let Some(targets) = call.integers[input] else { return Relation::Axes(axes) };
    if targets.iter().all(|&id| id != ignore_index as i64) {
        return Relation::Axes(axes);
    }
    let rows = call.inputs[input];
    let Some(last) = axes.last_mut() else {
        return Relation::Nothing; // a single row, and it is ignored
    };
    // The last axis lists its coordinates row by row, none where the target is ignored.
    let size = call.inputs[0].last_size();
    let by_column = matches!(last, Along::Same(axis) if *axis == rows.len());
    let per_row = if by_column { width } else { 1 };
    let entries = if matches!(last, Along::All) { size } else { 1 };
    if rows.count().saturating_mul(per_row).saturating_mul(entries) > MOST_LISTED {
        return Relation::Axes(axes);
    }
    let mut lists = Vec::new();
    for (row, &id) in targets.iter().enumerate() {
        for column in 0..per_row {
            lists.push(match last {
                _ if id == ignore_index as i64 => Vec::new(),
                Along::All => (0..size).collect(),
                _ if by_column => vec![column],
                _ => vec![rows.coordinates(row)[rows.len() - 1]],
            });
        }
    }
    let selecting = if by_column { rows.len() + 1 } else { rows.len() };
    *last = Along::Listed { axes: (0..selecting).collect(), lists };
    Relation::Axes(axes)
}
