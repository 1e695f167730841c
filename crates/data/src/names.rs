//! Foreign names: a table says which of our tensors comes from which of theirs, and how. Each model brings
//! its own table; here it is checked against a checkpoint, all at once, and only then carried out, so that a
//! model is never filled halfway, and a person reads every difference in one message.

use crate::checkpoint::{Checkpoint, Tensor};
use crate::error::shown;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

/// One line of the table: our tensor, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Our dotted name.
    pub ours: String,
    /// The shape that ours has.
    pub shape: Vec<usize>,
    /// The name in the foreign checkpoint. Several lines may name the same one: a fused or a tied tensor.
    pub theirs: String,
    /// How theirs becomes ours.
    pub map: Map,
}

/// How a foreign tensor becomes ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Map {
    /// Element for element.
    Same,
    /// Element for element under another shape: theirs may have extents of 1, or axes split or merged.
    Reshaped,
    /// Theirs is `[in, out]` where ours is `[out, in]`, as in the `Conv1D` of GPT-2.
    Transposed,
    /// These rows (along the first axis) of a fused tensor, such as `q k v` stacked in one.
    Rows(Range<usize>),
    /// These rows out of every `period`: projections that are stacked head by head, as in GPT-NeoX.
    CyclicRows {
        /// After how many rows it begins anew.
        period: usize,
        /// Which rows of each.
        part: Range<usize>,
    },
    /// These columns (along the second of two axes) of a fused tensor that is also transposed: `c_attn` of
    /// GPT-2.
    TransposedColumns(Range<usize>),
}

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many of our tensors were filled.
    pub tensors: usize,
    /// How many numbers they hold.
    pub numbers: u64,
    /// Tensors of the checkpoint that were left out, because the caller said so.
    pub ignored: Vec<String>,
}

/// Everything in which a table and a checkpoint disagree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// Our names that the table lists twice.
    pub twice: Vec<String>,
    /// `ours ← theirs` whose source is not in the checkpoint.
    pub missing: Vec<String>,
    /// `ours ← theirs` whose shapes do not fit, with both.
    pub misshapen: Vec<String>,
    /// `ours ← theirs` whose source holds whole numbers, which are no parameters by themselves.
    pub whole: Vec<String>,
    /// Tensors of the checkpoint, or parts of them, that no line of the table uses.
    pub surplus: Vec<String>,
}

impl Import {
    /// A line of the table.
    pub fn new(ours: impl Into<String>, shape: &[usize], theirs: impl Into<String>, map: Map) -> Import {
        Import { ours: ours.into(), shape: shape.to_vec(), theirs: theirs.into(), map }
    }

    /// A line whose tensor is taken as it is.
    pub fn same(ours: impl Into<String>, shape: &[usize], theirs: impl Into<String>) -> Import {
        Import::new(ours, shape, theirs, Map::Same)
    }

    /// The line as errors show it.
    fn shown(&self) -> String {
        format!("`{}` ← `{}`", shown(&self.ours), shown(&self.theirs))
    }
}

/// Compares the table with the checkpoint without reading a number. `ignored` are dotted names that may be
/// left over, in which `*` stands for one part: `h.*.attn.bias`.
pub fn check(imports: &[Import], checkpoint: &Checkpoint, ignored: &[&str]) -> Result<Report> {
    let mut problems = Problems::default();
    let mut report = Report::default();
    let mut ours = BTreeSet::new();
    let mut used: BTreeMap<&str, Used> = BTreeMap::new();
    for import in imports {
        if !ours.insert(import.ours.as_str()) {
            problems.twice.push(format!("`{}`", shown(&import.ours)));
        }
        let Some(tensor) = checkpoint.find(&import.theirs) else {
            problems.missing.push(import.shown());
            continue;
        };
        let used = used.entry(&import.theirs).or_default();
        used.parts.push(used_part(import, &tensor));
        if let Map::CyclicRows { period, .. } = import.map {
            used.period = Some(period);
        }
        used.by_columns |= matches!(import.map, Map::TransposedColumns(_) | Map::Transposed);
        if let Some(fault) = misfit(import, &tensor) {
            problems.misshapen.push(format!("{}: {fault}", import.shown()));
        }
        if !tensor.dtype.is_float() {
            problems.whole.push(format!("{}: theirs is {}", import.shown(), tensor.dtype));
        }
        report.tensors += 1;
        report.numbers += count(&import.shape).unwrap_or(0) as u64;
    }
    // A run's checkpoint names thousands of moments one by one: only patterns are tried in turn.
    let (patterns, names): (Vec<&str>, Vec<&str>) = ignored.iter().partition(|name| name.contains('*'));
    let names: BTreeSet<&str> = names.into_iter().collect();
    let is_ignored =
        |name: &str| names.contains(name) || patterns.iter().any(|pattern| matches(pattern, name));
    for tensor in checkpoint.tensors() {
        match used.get_mut(tensor.name) {
            None if is_ignored(tensor.name) => {
                report.ignored.push(tensor.name.to_owned());
            }
            None => problems.surplus.push(format!("`{}` {:?}", shown(tensor.name), tensor.shape)),
            Some(Used { parts, by_columns, period }) => {
                let extent = tensor.shape.get(usize::from(*by_columns)).copied().unwrap_or(0);
                let extent = period.map_or(extent, |period| period.min(extent));
                let gaps = gaps(parts, extent);
                problems.surplus.extend(
                    gaps.into_iter()
                        .map(|gap| format!("{gap:?} of `{}` {:?}", shown(tensor.name), tensor.shape)),
                );
            }
        }
    }
    if problems == Problems::default() { Ok(report) } else { Err(Error::Import(problems)) }
}

/// Checks the table, then hands each of our tensors, as f32 in our layout, to `take`, in the order of the
/// table. If anything is missing, left over or of the wrong shape, nothing is handed out at all.
pub fn apply(
    imports: &[Import],
    checkpoint: &Checkpoint,
    ignored: &[&str],
    mut take: impl FnMut(&Import, &[f32]) -> Result<(), Box<dyn std::error::Error + Send + Sync>>,
) -> Result<Report> {
    let report = check(imports, checkpoint, ignored)?;
    let mut ours = Vec::new();
    let mut whole = Vec::new();
    for import in imports {
        read(import, &checkpoint.get(&import.theirs)?, &mut whole, &mut ours)?;
        take(import, &ours).map_err(|source| Error::Refused { name: shown(&import.ours), source })?;
    }
    Ok(report)
}

/// One of our tensors, as f32 in our layout, if theirs fits.
pub fn one(import: &Import, tensor: &Tensor) -> Result<Vec<f32>> {
    if let Some(fault) = misfit(import, tensor) {
        let misshapen = vec![format!("{}: {fault}", import.shown())];
        return Err(Error::Import(Problems { misshapen, ..Problems::default() }));
    }
    let mut ours = Vec::new();
    read(import, tensor, &mut Vec::new(), &mut ours)?;
    Ok(ours)
}

/// Some of the numbers of our tensor, as f32; as many as `out` has room for. What is turned on the way is
/// read by whole rows of ours where the range is such, and as a whole otherwise.
pub fn part(import: &Import, tensor: &Tensor, range: Range<usize>, out: &mut [f32]) -> Result<()> {
    // Numbers come in blocks, most of them of one.
    let (numbers, width) = tensor.dtype.block();
    if let Some(bytes) = lies(import, tensor) {
        let blocks = range.start / numbers..range.end.div_ceil(numbers);
        let bytes = &bytes[blocks.start * width..blocks.end * width];
        if blocks.len() * numbers == out.len() {
            tensor.dtype.decode(bytes, out);
        } else {
            let mut whole = vec![0.0; blocks.len() * numbers];
            tensor.dtype.decode(bytes, &mut whole);
            out.copy_from_slice(&whole[range.start - blocks.start * numbers..][..range.len()]);
        }
        return Ok(());
    }
    let long = tensor.shape.first().copied().unwrap_or(0);
    let columns = tensor.shape.get(1).copied().unwrap_or(0);
    let turned = matches!(import.map, Map::Transposed | Map::TransposedColumns(_));
    let by_rows = turned && numbers == 1 && long > 0 && misfit(import, tensor).is_none();
    if !by_rows || !range.start.is_multiple_of(long) || !range.end.is_multiple_of(long) {
        out.copy_from_slice(&one(import, tensor)?[range]);
        return Ok(());
    }
    let first = used_part(import, tensor).start + range.start / long;
    let mut piece = vec![0.0; range.len() / long];
    for (i, row) in tensor.bytes.chunks_exact((columns * width).max(1)).enumerate() {
        tensor.dtype.decode(&row[first * width..(first + piece.len()) * width], &mut piece);
        piece.iter().enumerate().for_each(|(j, &x)| out[j * long + i] = x);
    }
    Ok(())
}

/// The bytes of theirs that are ours just as they lie: none where something is turned on the way, or does not
/// fit.
pub fn lies<'a>(import: &Import, tensor: &Tensor<'a>) -> Option<&'a [u8]> {
    if misfit(import, tensor).is_some() {
        return None;
    }
    match &import.map {
        Map::Same | Map::Reshaped => Some(tensor.bytes),
        Map::Rows(rows) => row_bytes(rows, tensor).map(|bytes| &tensor.bytes[bytes]),
        Map::Transposed | Map::TransposedColumns(_) | Map::CyclicRows { .. } => None,
    }
}

/// The bytes of some rows, which a tensor has; none where they begin or end inside of a block.
fn row_bytes(rows: &Range<usize>, tensor: &Tensor) -> Option<Range<usize>> {
    // Not the product of the other extents: where the first is 0, they can be anything.
    let row = tensor.len() / tensor.shape.first().copied().unwrap_or(1).max(1);
    Some(tensor.dtype.size(rows.start * row)?..tensor.dtype.size(rows.end * row)?)
}

/// Our tensor, from theirs, whose shapes were checked; `whole` is room for theirs.
fn read(import: &Import, tensor: &Tensor, whole: &mut Vec<f32>, ours: &mut Vec<f32>) -> Result<()> {
    let columns = tensor.shape.get(1).copied().unwrap_or(0);
    ours.clear();
    match &import.map {
        Map::Same | Map::Reshaped => {
            ours.resize(tensor.len(), 0.0);
            tensor.to_f32(ours)
        }
        Map::Rows(rows) => {
            let row = tensor.len() / tensor.shape.first().copied().unwrap_or(1).max(1);
            ours.resize(rows.len() * row, 0.0);
            // Without bytes of their own they would not have fitted.
            let bytes = row_bytes(rows, tensor).unwrap_or(0..0);
            tensor.dtype.decode(&tensor.bytes[bytes], ours);
            Ok(())
        }
        Map::CyclicRows { .. } if tensor.is_empty() => Ok(()),
        Map::CyclicRows { period, part } => {
            whole.clear();
            whole.resize(tensor.len(), 0.0);
            tensor.to_f32(whole)?;
            let row = tensor.len() / tensor.shape.first().copied().unwrap_or(1).max(1);
            for cycle in whole.chunks_exact(period * row) {
                ours.extend_from_slice(&cycle[part.start * row..part.end * row]);
            }
            Ok(())
        }
        Map::Transposed | Map::TransposedColumns(_) if tensor.is_empty() => Ok(()),
        Map::Transposed | Map::TransposedColumns(_) => {
            let wanted = used_part(import, tensor);
            whole.clear();
            whole.resize(tensor.len(), 0.0);
            tensor.to_f32(whole)?;
            for column in wanted {
                ours.extend(whole.chunks_exact(columns.max(1)).map(|row| row[column]));
            }
            Ok(())
        }
    }
}

/// Why a line does not fit its tensor, if it does not.
fn misfit(import: &Import, tensor: &Tensor) -> Option<String> {
    let (ours, theirs) = (import.shape.as_slice(), tensor.shape);
    let expected = match &import.map {
        Map::Same => theirs.to_vec(),
        Map::Reshaped if count(ours) == Some(tensor.len()) => return None,
        Map::Reshaped => {
            return Some(format!("ours is {ours:?}, theirs {theirs:?} holds another number of elements"));
        }
        Map::Transposed => match theirs {
            &[rows, columns] => vec![columns, rows],
            _ => return Some(format!("theirs is {theirs:?}; only a matrix can be transposed")),
        },
        Map::Rows(rows) => match theirs {
            [all, rest @ ..] if rows.start <= rows.end && rows.end <= *all => {
                if row_bytes(rows, tensor).is_none() {
                    return Some(format!(
                        "rows {rows:?} of theirs {theirs:?} begin or end inside of a block"
                    ));
                }
                [&[rows.len()], rest].concat()
            }
            _ => return Some(format!("theirs is {theirs:?}, which has no rows {rows:?}")),
        },
        Map::CyclicRows { period, part } => match theirs {
            [all, rest @ ..]
                if *period > 0 && all % period == 0 && part.start <= part.end && part.end <= *period =>
            {
                [&[all / period * part.len()], rest].concat()
            }
            _ => {
                return Some(format!(
                    "theirs is {theirs:?}, which has no rows {part:?} out of every {period}"
                ));
            }
        },
        Map::TransposedColumns(columns) => match theirs {
            &[rows, all] if columns.start <= columns.end && columns.end <= all => vec![columns.len(), rows],
            _ => return Some(format!("theirs is {theirs:?}, which is no matrix with columns {columns:?}")),
        },
    };
    (expected != ours).then(|| match import.map {
        Map::Same => format!("ours is {ours:?}, theirs {theirs:?}"),
        _ => format!("ours is {ours:?}, but {:?} of theirs {theirs:?} is {expected:?}", import.map),
    })
}

/// The part of the fused axis that a line uses.
fn used_part(import: &Import, tensor: &Tensor) -> Range<usize> {
    match &import.map {
        Map::Rows(range) | Map::TransposedColumns(range) => range.clone(),
        Map::CyclicRows { part, .. } => part.clone(),
        Map::Transposed => 0..tensor.shape.get(1).copied().unwrap_or(0),
        Map::Same | Map::Reshaped => 0..usize::MAX,
    }
}

/// What the lines of a table use of a tensor: which parts of its fused axis, which is that of its columns if
/// one of them takes columns.
#[derive(Default)]
struct Used {
    parts: Vec<Range<usize>>,
    by_columns: bool,
    /// After how many rows the parts begin anew.
    period: Option<usize>,
}

/// What of `0..extent` no part covers.
fn gaps(parts: &mut [Range<usize>], extent: usize) -> Vec<Range<usize>> {
    parts.sort_by_key(|part| part.start);
    let mut gaps = Vec::new();
    let mut end = 0;
    for part in parts {
        if part.start > end && end < extent {
            gaps.push(end..part.start.min(extent));
        }
        end = end.max(part.end);
    }
    if end < extent {
        gaps.push(end..extent);
    }
    gaps
}

fn count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent))
}

/// True if a dotted pattern, in which `*` is any one part, is this name.
fn matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.split('.'), name.split('.'));
    loop {
        match (pattern.next(), name.next()) {
            (None, None) => return true,
            (Some(p), Some(n)) if p == "*" || p == n => {}
            _ => return false,
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the checkpoint does not fit the model")?;
        let groups = [
            (&self.missing, "missing from the checkpoint", "is it another kind of model, or a part of one?"),
            (&self.misshapen, "of another shape", "compare the sizes in its config.json"),
            (
                &self.surplus,
                "in the checkpoint but not in the model",
                "use its own model, or pass over them: --ignore",
            ),
            (
                &self.whole,
                "of whole numbers, whose scale nobody says",
                "a quantised model? save it in f32, f16 or bf16 first",
            ),
            (&self.twice, "listed twice in the table of names", "mend the table"),
        ];
        for (names, what, advice) in groups {
            if !names.is_empty() {
                write!(f, "\n  {} {what} ({advice}):", names.len())?;
                names.iter().try_for_each(|name| write!(f, "\n    {name}"))?;
            }
        }
        Ok(())
    }
}
