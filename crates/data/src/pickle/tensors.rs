//! From what a pickle says of its tensors to places in the file. A tensor is a view of a storage: an offset
//! and strides, in elements. Dense ones are ranges of the file; others are copied, element by element, and
//! what all copies take is bounded by the file, for a view with a stride of 0 can claim anything.

use super::broken;
use super::machine::{Program, TensorClaim};
use super::state::Found;
use crate::checkpoint::Entry;
use crate::error::shown;
use crate::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

/// Where each storage lies in the file, by its key.
pub(super) type Storages = HashMap<String, Range<usize>>;

/// The tensors of a file.
pub(super) struct Placed {
    pub dense: Vec<(String, Entry)>,
    pub copied: Vec<(String, Entry)>,
    pub copies: Vec<u8>,
}

/// Checks every tensor against its storage, and finds or makes its bytes.
pub(super) fn place(
    path: &Path,
    file: &[u8],
    program: &Program,
    storages: &Storages,
    found: &Found,
) -> Result<Placed> {
    let mut placed = Placed { dense: Vec::new(), copied: Vec::new(), copies: Vec::new() };
    for (&name, &tensor) in found {
        let claim = &program.tensors[tensor];
        let storage = &program.storages[claim.storage];
        let dtype = storage.kind;
        let key = String::from_utf8_lossy(&program.bytes[storage.key.clone()]);
        let Some(range) = storages.get(key.as_ref()) else {
            return Err(broken(
                path,
                format!("the storage `{}` of `{}` is not there", shown(&key), shown(name)),
            ));
        };
        let needed = storage.elements.checked_mul(dtype.block().1);
        if needed.is_none_or(|needed| needed > range.len()) {
            let what = format!(
                "lies in the storage `{}`, which should hold {} elements of {dtype} and has {} bytes",
                shown(&key),
                storage.elements,
                range.len()
            );
            return Err(Error::tensor(path, name, what, super::AGAIN));
        }
        let Some(elements) = fits(claim, storage.elements) else {
            let what = format!(
                "of the shape {:?} with the strides {:?} from element {} on does not fit in its storage of {} elements",
                claim.shape, claim.strides, claim.offset, storage.elements
            );
            return Err(Error::tensor(path, name, what, super::AGAIN));
        };
        let width = dtype.block().1;
        let entry = |range| Entry { source: 0, dtype, shape: claim.shape.clone(), range };
        if is_dense(claim) {
            // An empty one may stand anywhere; it has no bytes.
            let start = range.start + if elements == 0 { 0 } else { claim.offset * width };
            placed.dense.push((name.to_owned(), entry(start..start + elements * width)));
            continue;
        }
        let begin = placed.copies.len();
        let room = elements.checked_mul(width).and_then(|bytes| begin.checked_add(bytes));
        if room.is_none_or(|room| room > 4 * file.len()) {
            let what =
                format!("of the shape {:?} repeats its numbers beyond four times the file", claim.shape);
            return Err(Error::tensor(path, name, what, "save it with `.contiguous()`"));
        }
        gather(&file[range.clone()], claim, width, &mut placed.copies);
        placed.copied.push((name.to_owned(), entry(begin..placed.copies.len())));
    }
    Ok(placed)
}

/// How many elements a tensor has, if all of them lie in its storage.
fn fits(claim: &TensorClaim, elements: usize) -> Option<usize> {
    let count = claim.shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent))?;
    if count == 0 {
        return Some(0);
    }
    let mut last = claim.offset;
    for (&extent, &stride) in claim.shape.iter().zip(&claim.strides) {
        last = last.checked_add((extent - 1).checked_mul(stride)?)?;
    }
    (last < elements).then_some(count)
}

/// Whether elements lie one after another, outermost first. The stride of an extent of 1 means nothing.
fn is_dense(claim: &TensorClaim) -> bool {
    let mut expected = 1;
    if claim.shape.contains(&0) {
        return true;
    }
    claim.shape.iter().zip(&claim.strides).rev().all(|(&extent, &stride)| {
        let fits = extent == 1 || stride == expected;
        expected *= extent;
        fits
    })
}

/// Appends the elements of a tensor in their order; that all lie in the storage was checked.
fn gather(storage: &[u8], claim: &TensorClaim, width: usize, out: &mut Vec<u8>) {
    let mut index = vec![0usize; claim.shape.len()];
    let mut at = claim.offset;
    loop {
        out.extend_from_slice(&storage[at * width..(at + 1) * width]);
        let mut axis = claim.shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            at += claim.strides[axis];
            if index[axis] < claim.shape[axis] {
                break;
            }
            at -= index[axis] * claim.strides[axis];
            index[axis] = 0;
        }
    }
}
