//! The older form of `torch.save`: five pickles one after another (a mark, a version, what the machine was
//! like, the tensors, the keys of the storages) and behind them the storages in the order of their keys, each
//! with its number of elements in front.

use super::machine::{Program, Value, run};
use super::tensors::Storages;
use super::{AGAIN, broken};
use crate::error::shown;
use crate::{Error, Result};
use std::collections::HashMap;
use std::path::Path;

const MARK: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
const VERSION: i64 = 1001;

/// The pickle of such a file, and where its storages lie.
pub(super) fn load<'a>(path: &Path, file: &'a [u8]) -> Result<(Program<'a>, Storages)> {
    let mark = run(path, file, 0)?;
    if !matches!(&mark.result, Some(Value::Long(range)) if file[range.clone()] == MARK) {
        let what = "is a pickle, but none of `torch.save`";
        return Err(Error::file(path, what, "name the file that holds the weights"));
    }
    let version = run(path, file, mark.end)?;
    if version.result != Some(Value::Int(VERSION)) {
        return Err(broken(path, "is of another version of `torch.save` than 1001"));
    }
    let machine = run(path, file, version.end)?;
    check_order(path, &machine)?;
    let program = run(path, file, machine.end)?;
    let keys = run(path, file, program.end)?;
    let Some(Value::List(list)) = keys.result else {
        return Err(broken(path, "does not say in which order its storages stand"));
    };
    let mut sizes: HashMap<&[u8], (usize, usize)> = HashMap::new();
    for claim in &program.storages {
        sizes.insert(&file[claim.key.clone()], (claim.kind.block().1, claim.elements));
    }
    let mut storages = Storages::new();
    let mut at = keys.end;
    for key in &keys.lists[list] {
        let Value::Text(key) = key else { return Err(broken(path, "has a storage whose key is no text")) };
        let key = &file[key.clone()];
        let name = String::from_utf8_lossy(key).into_owned();
        let Some(&(width, claimed)) = sizes.get(key) else {
            return Err(broken(path, format!("has a storage `{}` that no tensor uses", shown(&name))));
        };
        let lost = || {
            let what = format!("ends inside of the storage `{}`", shown(&name));
            Error::file(path, what, format!("it is cut short: {AGAIN}"))
        };
        let (count, _) = file[at..].split_first_chunk::<8>().ok_or_else(lost)?;
        let count = usize::try_from(i64::from_le_bytes(*count)).map_err(|_| lost())?;
        if count != claimed {
            let what =
                format!("the storage `{}` has {count} elements, its tensors say {claimed}", shown(&name));
            return Err(broken(path, what));
        }
        let end = count.checked_mul(width).and_then(|bytes| (at + 8).checked_add(bytes));
        let end = end.filter(|&end| end <= file.len()).ok_or_else(lost)?;
        storages.insert(name, at + 8..end);
        at = end;
    }
    match file.len() - at {
        0 => Ok((program, storages)),
        more => Err(Error::file(path, format!("has {more} bytes after its last storage"), AGAIN)),
    }
}

/// Refuses the numbers of a machine with its bytes in the other order.
fn check_order(path: &Path, machine: &Program) -> Result<()> {
    let Some(Value::Dict(dict)) = machine.result else {
        return Err(broken(path, "does not say what machine it is from"));
    };
    let order = machine.pairs(dict).find(|(key, _)| machine.text(key) == Some("little_endian"));
    match order {
        Some((_, Value::Bool(false))) => {
            let what = "was written by a machine with its bytes in the other order";
            Err(Error::file(path, what, "save it again on one whose numbers are little-endian"))
        }
        _ => Ok(()),
    }
}
