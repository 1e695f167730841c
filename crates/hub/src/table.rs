//! A family's table of names in both directions: with our shapes, as the reader of checkpoints wants it, and
//! backwards, as tensors in their layout: transposed back, fused parts joined.

use crate::{Error, Result};
use regard_data::{Import, Map, Tensor, names};
use regard_engine::Store;
use regard_models::{Model, import};
use std::borrow::Cow;
use std::collections::HashMap;

/// The table of a model with the shapes of our parameters.
pub fn imports(model: &dyn Model, table: &[import::Import]) -> Result<Vec<Import>> {
    let shapes = shapes(model);
    table
        .iter()
        .map(|line| {
            let shape = shape_of(&shapes, line)?;
            Ok(Import::new(&line.ours, shape, &line.theirs, map_of(line.map, shape)))
        })
        .collect()
}

/// One of our tensors out of theirs, as loading a whole model does it. What shape ours has is seen from
/// theirs.
pub fn ours(line: &import::Import, theirs: &Tensor) -> Result<Vec<f32>> {
    let part = |extent: usize, parts: usize| extent / parts.max(1);
    let shape = match (line.map, theirs.shape) {
        (import::Map::Transposed, &[rows, columns]) => vec![columns, rows],
        (import::Map::Split { parts, .. }, [rows, rest @ ..]) => [&[part(*rows, parts)], rest].concat(),
        (import::Map::Rows { period, count, .. }, [rows, rest @ ..]) => {
            [&[rows / period.max(1) * count], rest].concat()
        }
        (import::Map::SplitTransposed { parts, .. }, &[rows, columns]) => vec![part(columns, parts), rows],
        (import::Map::SplitTransposed { parts, .. }, &[all]) => vec![part(all, parts)],
        (_, theirs) => theirs.to_vec(),
    };
    let line = Import::new(&line.ours, &shape, &line.theirs, map_of(line.map, &shape));
    Ok(names::one(&line, theirs)?)
}

/// A tensor as their files hold it.
pub(crate) struct Foreign<'a> {
    pub name: String,
    pub shape: Vec<usize>,
    pub numbers: Cow<'a, [f32]>,
}

/// All parameters of a store under their names, in their layout, in the order of the table. What needs no
/// change is not copied.
pub(crate) fn foreign<'a>(model: &dyn Model, store: &'a Store) -> Result<Vec<Foreign<'a>>> {
    let shapes = shapes(model);
    let table = model.files(None).imports;
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut tensors: Vec<Vec<&import::Import>> = Vec::new();
    for line in &table {
        let place = *places.entry(&line.theirs).or_insert(tensors.len());
        match tensors.get_mut(place) {
            Some(lines) => lines.push(line),
            None => tensors.push(vec![line]),
        }
    }
    tensors.iter().map(|lines| joined(store, &shapes, lines)).collect()
}

/// One tensor of theirs from all of ours that are parts of it.
fn joined<'a>(
    store: &'a Store,
    shapes: &HashMap<&str, Vec<usize>>,
    lines: &[&import::Import],
) -> Result<Foreign<'a>> {
    let mut parts = Vec::new();
    for line in lines {
        let shape = shape_of(shapes, line)?;
        let numbers = store.f32(&line.ours)?;
        if numbers.len() != shape.iter().product::<usize>() {
            return Err(Error::invalid(
                format!(
                    "`{}` is {} in the store, {shape:?} in the model",
                    line.ours,
                    store.fact(&line.ours)?
                ),
                "save a model with the store that it was loaded into or trained in",
            ));
        }
        parts.push((*line, shape, numbers));
    }
    let (first, shape) = (parts[0].0, parts[0].1);
    let name = first.theirs.clone();
    match (first.map, shape) {
        (import::Map::Same | import::Map::Reshaped, _) | (import::Map::Transposed, [_]) => {
            let shape = first.shape.clone().unwrap_or_else(|| shape.to_vec());
            let (_, _, numbers) = parts.swap_remove(0);
            Ok(Foreign { name, shape, numbers: numbers.into() })
        }
        (import::Map::Transposed | import::Map::SplitTransposed { .. }, &[_, inputs]) => {
            parts.sort_by_key(|(line, ..)| index(line.map));
            let outputs: usize = parts.iter().map(|(_, shape, _)| shape[0]).sum();
            let mut whole = vec![0.0; inputs * outputs];
            let columns = parts.iter().flat_map(|(_, shape, numbers)| numbers.chunks(shape[1].max(1)));
            for (column, ours) in columns.enumerate() {
                ours.iter().enumerate().for_each(|(row, &x)| whole[row * outputs + column] = x);
            }
            Ok(Foreign { name, shape: vec![inputs, outputs], numbers: Cow::Owned(whole) })
        }
        (import::Map::Rows { .. }, _) => {
            parts.sort_by_key(|(line, ..)| index(line.map));
            let row: usize = shape[1..].iter().product();
            let rows: usize = parts.iter().map(|(_, shape, _)| shape[0]).sum();
            // A share of each of ours in turn, until all are used up.
            let mut left: Vec<&[f32]> = parts.iter().map(|(_, _, numbers)| &**numbers).collect();
            let mut whole = Vec::with_capacity(rows * row);
            while left.iter().any(|left| !left.is_empty()) {
                for (left, (line, ..)) in left.iter_mut().zip(&parts) {
                    let share = share_of(line.map).saturating_mul(row).clamp(1, left.len().max(1));
                    let (now, later) = left.split_at(share.min(left.len()));
                    whole.extend_from_slice(now);
                    *left = later;
                }
            }
            Ok(Foreign { name, shape: [&[rows], &shape[1..]].concat(), numbers: Cow::Owned(whole) })
        }
        _ => {
            parts.sort_by_key(|(line, ..)| index(line.map));
            let rows: usize = parts.iter().map(|(_, shape, _)| shape[0]).sum();
            let whole = parts.iter().flat_map(|(_, _, numbers)| numbers.iter().copied()).collect();
            Ok(Foreign { name, shape: [&[rows], &shape[1..]].concat(), numbers: Cow::Owned(whole) })
        }
    }
}

fn index(map: import::Map) -> usize {
    match map {
        import::Map::Split { index, .. } | import::Map::SplitTransposed { index, .. } => index,
        import::Map::Rows { from, .. } => from,
        _ => 0,
    }
}

/// How many rows of ours stand together in theirs.
fn share_of(map: import::Map) -> usize {
    match map {
        import::Map::Rows { count, .. } => count,
        _ => 1,
    }
}

/// How theirs becomes ours, in numbers of rows and columns. A vector is its own transpose.
fn map_of(map: import::Map, ours: &[usize]) -> Map {
    let part = |index: usize| {
        let size = ours.first().copied().unwrap_or(0);
        index * size..(index + 1) * size
    };
    match map {
        import::Map::Same => Map::Same,
        import::Map::Reshaped => Map::Reshaped,
        import::Map::Transposed if ours.len() < 2 => Map::Same,
        import::Map::Transposed => Map::Transposed,
        import::Map::Split { index, .. } => Map::Rows(part(index)),
        import::Map::Rows { from, count, .. } if ours.first() == Some(&count) => {
            Map::Rows(from..from + count)
        }
        import::Map::Rows { period, from, count } => Map::CyclicRows { period, part: from..from + count },
        import::Map::SplitTransposed { index, .. } if ours.len() < 2 => Map::Rows(part(index)),
        import::Map::SplitTransposed { index, .. } => Map::TransposedColumns(part(index)),
    }
}

fn shapes(model: &dyn Model) -> HashMap<&str, Vec<usize>> {
    let declared = model.parameters().all();
    declared.map(|one| (one.name.as_str(), one.shape.bound().to_vec())).collect()
}

fn shape_of<'a>(shapes: &'a HashMap<&str, Vec<usize>>, line: &import::Import) -> Result<&'a [usize]> {
    shapes.get(line.ours.as_str()).map(Vec::as_slice).ok_or_else(|| {
        Error::invalid(
            format!("the table of names has `{}`, which the model has not", line.ours),
            "mend the table of this family",
        )
    })
}
