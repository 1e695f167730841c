//! Writes GGUF files: settings, then the places of all tensors, then the tensors, each aligned. Numbers are
//! quantised one tensor at a time on their way to the disk, and the file is there whole or not at all.

use super::quantise::encode;
use super::{MAGIC, TYPES, Value};
use crate::checkpoint::DType;
use crate::error::shown;
use crate::whole::{self, Access};
use crate::{Error, Result};
use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A tensor to be written.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    /// Its name in the file.
    pub name: String,
    /// The extents, outermost first.
    pub shape: Vec<usize>,
    /// In what it is kept: `F32`, `F16`, `BF16`, `Q8_0`, `Q4_0`, `Q4K` or `Q6K`.
    pub dtype: DType,
    /// Its numbers.
    pub numbers: Cow<'a, [f32]>,
}

const ALIGNMENT: usize = 32;

/// The types that are written.
pub const WRITTEN: [DType; 7] =
    [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4K, DType::Q6K];

/// Writes a file of version 3; gives its size.
pub fn save(path: &Path, settings: &[(String, Value)], tensors: &[Tensor], access: Access) -> Result<u64> {
    let mut head = Vec::from(*MAGIC);
    head.extend(3u32.to_le_bytes());
    head.extend((tensors.len() as u64).to_le_bytes());
    head.extend((settings.len() as u64).to_le_bytes());
    for (key, value) in settings {
        put_text(&mut head, key);
        put_value(&mut head, value);
    }
    let mut offset = 0usize;
    for tensor in tensors {
        let bytes = checked(tensor)?;
        put_text(&mut head, &tensor.name);
        head.extend((tensor.shape.len() as u32).to_le_bytes());
        tensor.shape.iter().rev().for_each(|&extent| head.extend((extent as u64).to_le_bytes()));
        let number = TYPES.iter().find(|(_, dtype)| *dtype == tensor.dtype).map_or(0, |(number, _)| *number);
        head.extend(number.to_le_bytes());
        head.extend((offset as u64).to_le_bytes());
        offset += bytes.next_multiple_of(ALIGNMENT);
    }
    head.resize(head.len().next_multiple_of(ALIGNMENT), 0);
    let size = (head.len() + offset) as u64;
    whole::write_for(path, access, |file| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        file.write_all(&head)?;
        tensors.iter().try_for_each(|tensor| put_tensor(&mut file, tensor))?;
        file.flush()
    })?;
    Ok(size)
}

/// Bytes of a tensor, if it can be written so.
fn checked(tensor: &Tensor) -> Result<usize> {
    let wrong = |what: &str, advice: &str| {
        let Tensor { name, shape, dtype, .. } = tensor;
        Err(Error::invalid(format!("tensor `{}` {shape:?} {what} {dtype}", shown(name)), advice))
    };
    if !WRITTEN.contains(&tensor.dtype) {
        return wrong("cannot be written as", "choose F32, F16, BF16, Q8_0, Q4_0, Q4_K or Q6_K");
    }
    let row = tensor.shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(tensor.dtype.block().0) {
        return wrong("has rows that are no whole blocks of", "keep it in another type");
    }
    if tensor.shape.len() > 4 || tensor.shape.iter().product::<usize>() != tensor.numbers.len() {
        return wrong(
            "has more than four axes, or other numbers than its shape, for",
            "give shape and numbers of one",
        );
    }
    let fits = |x: &f32| match tensor.dtype {
        DType::F32 | DType::BF16 => true,
        // The scale of a block is a half as well.
        _ => !x.is_finite() || x.abs() <= 65504.0,
    };
    if tensor.dtype.is_quantised() && !tensor.numbers.iter().all(|x| x.is_finite()) {
        return wrong("holds what is no number and cannot be", "train it again, or keep it in F32");
    }
    if !tensor.numbers.iter().all(fits) {
        return wrong("holds numbers that are too large for", "keep it in F32 or BF16");
    }
    Ok(tensor.dtype.size(tensor.numbers.len()).unwrap_or(0))
}

/// Numbers that are quantised at a time: whole blocks of every type.
const PIECE: usize = 1 << 16;

fn put_tensor(file: &mut impl Write, tensor: &Tensor) -> io::Result<()> {
    let (mut written, mut bytes) = (0, Vec::new());
    for piece in tensor.numbers.chunks(PIECE) {
        bytes.clear();
        encode(tensor.dtype, piece, &mut bytes);
        file.write_all(&bytes)?;
        written += bytes.len();
    }
    file.write_all(&vec![0; written.next_multiple_of(ALIGNMENT) - written])
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Readers expect sizes and ids as unsigned numbers of 32 bits, lists as signed ones, floats of 32 bits.
fn put_value(out: &mut Vec<u8>, value: &Value) {
    let kind = |out: &mut Vec<u8>, kind: u32| out.extend(kind.to_le_bytes());
    let list = |out: &mut Vec<u8>, of: u32, count: usize| {
        [9, of].iter().for_each(|number: &u32| out.extend(number.to_le_bytes()));
        out.extend((count as u64).to_le_bytes());
    };
    match value {
        Value::Int(n) => match u32::try_from(*n) {
            Ok(n) => {
                kind(out, 4);
                out.extend(n.to_le_bytes());
            }
            Err(_) => {
                kind(out, 11);
                out.extend(n.to_le_bytes());
            }
        },
        Value::Float(x) => {
            kind(out, 6);
            out.extend((*x as f32).to_le_bytes());
        }
        Value::Bool(truth) => {
            kind(out, 7);
            out.push(u8::from(*truth));
        }
        Value::Text(text) => {
            kind(out, 8);
            put_text(out, text);
        }
        Value::Ints(all) => match all.iter().map(|&n| i32::try_from(n)).collect::<Result<Vec<i32>, _>>() {
            Ok(short) => {
                list(out, 5, short.len());
                short.iter().for_each(|n| out.extend(n.to_le_bytes()));
            }
            Err(_) => {
                list(out, 11, all.len());
                all.iter().for_each(|n| out.extend(n.to_le_bytes()));
            }
        },
        Value::Floats(all) => {
            list(out, 6, all.len());
            all.iter().for_each(|x| out.extend(x.to_le_bytes()));
        }
        Value::Bools(all) => {
            list(out, 7, all.len());
            out.extend(all.iter().map(|&truth| u8::from(truth)));
        }
        Value::Texts(all) => {
            list(out, 8, all.len());
            all.iter().for_each(|text| put_text(out, text));
        }
    }
}
