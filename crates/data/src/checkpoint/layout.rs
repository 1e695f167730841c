//! One file to be: which tensor goes where, and the bytes of the header, the same as the reference
//! implementation writes (widest dtype first, then by name; JSON without spaces; padded to eight bytes), and
//! how elements become bytes, a piece at a time.

use super::digest::Digests;
use super::{DType, Data, Digest, Save, header};
use crate::error::shown;
use crate::{Error, Result};
use half::{bf16, f16};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};

/// Elements that are converted at a time.
const PIECE: usize = 16 * 1024;

/// A checked list of tensors and the header that announces them.
pub(super) struct Layout<'a> {
    tensors: Vec<(&'a Save<'a>, DType)>,
    header: Vec<u8>,
    /// Where in the header the checksum is to be written, once it is known.
    checksum_at: Option<usize>,
    /// Bytes of the whole file.
    pub size: u64,
}

/// The dtype under which a tensor is stored, and its bytes.
pub(super) fn stored(tensor: &Save, wanted: Option<DType>) -> Result<(DType, u64)> {
    let own = tensor.data.dtype();
    // Blocks are GGUF's alone: elsewhere they are the numbers that they stand for.
    let plain = if own.is_quantised() { DType::F32 } else { own };
    let dtype = wanted.filter(|_| own.is_float()).unwrap_or(plain);
    let elements = tensor.shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent as u64));
    let given = tensor.data.bytes() as u64;
    let fits =
        elements.and_then(|n| own.size(usize::try_from(n).ok()?)).is_some_and(|bytes| bytes as u64 == given);
    if !fits {
        let what = format!(
            "tensor `{}` {:?} is given {given} bytes of {own}, which is not what that shape holds",
            shown(tensor.name),
            tensor.shape
        );
        return Err(Error::invalid(what, "give shape and data of the same tensor"));
    }
    // No product of the narrower counts can overflow once the data exist, except to a wider dtype.
    let bytes = elements.and_then(|n| n.checked_mul(dtype.block().1 as u64)).unwrap_or(u64::MAX);
    Ok((dtype, bytes))
}

impl<'a> Layout<'a> {
    /// Plans a file of these tensors.
    pub fn new(
        tensors: impl Iterator<Item = &'a Save<'a>>,
        dtype: Option<DType>,
        metadata: &BTreeMap<String, String>,
        checksum: bool,
    ) -> Result<Layout<'a>> {
        let mut order = Vec::new();
        for tensor in tensors {
            let (dtype, bytes) = stored(tensor, dtype)?;
            order.push((tensor, dtype, bytes));
        }
        order.sort_by(|(a, x, _), (b, y, _)| y.cmp(x).then_with(|| a.name.cmp(b.name)));

        let mut described = metadata.clone();
        described.insert("format".into(), "pt".into());
        let unknown = Digest([0; 32]).to_string();
        if checksum {
            described.insert(Digest::KEY.into(), unknown.clone());
        }
        let mut json = String::from("{");
        json_entry(&mut json, "__metadata__", &described)?;
        let mut offset = 0u64;
        for (tensor, dtype, bytes) in &order {
            let end = offset.saturating_add(*bytes);
            json.push(',');
            let place = Placed { dtype: dtype.name(), shape: tensor.shape, data_offsets: (offset, end) };
            json_entry(&mut json, tensor.name, &place)?;
            offset = end;
        }
        json.push('}');
        // Inside of a string a quote is escaped, so that this can be found nowhere but in its place.
        let key = format!("\"{}\":\"{unknown}", Digest::KEY);
        let checksum_at =
            checksum.then(|| json.find(&key)).flatten().map(|at| 8 + at + key.len() - unknown.len());
        while json.len() % 8 != 0 {
            json.push(' ');
        }
        let length = json.len() as u64;
        if length > header::MAX_HEADER {
            let what = format!(
                "{} tensors need a header of {length} bytes, over the limit of the format",
                order.len()
            );
            return Err(Error::invalid(what, "save fewer tensors or several files"));
        }
        let mut header = length.to_le_bytes().to_vec();
        header.extend(json.into_bytes());
        let size = offset.saturating_add(header.len() as u64);
        let tensors = order.into_iter().map(|(tensor, dtype, _)| (tensor, dtype)).collect();
        Ok(Layout { tensors, header, checksum_at, size })
    }

    /// Writes the file, and returns the digests of what it wrote.
    pub fn write(&self, to: &mut (impl Write + Seek)) -> Result<Digests, WriteError> {
        let mut digests = Digests::default();
        to.write_all(&self.header)?;
        let mut piece = Vec::with_capacity(PIECE * 8);
        for &(tensor, dtype) in &self.tensors {
            let mut content = Sha256::new();
            let count = tensor.data.len();
            for begin in (0..count).step_by(PIECE) {
                piece.clear();
                encode(tensor, dtype, begin..count.min(begin + PIECE), &mut piece)?;
                content.update(&piece);
                to.write_all(&piece)?;
            }
            digests.add(tensor.name, dtype, tensor.shape, content);
        }
        if let Some(at) = self.checksum_at {
            to.seek(SeekFrom::Start(at as u64))?;
            to.write_all(digests.finish().to_string().as_bytes())?;
        }
        to.flush()?;
        Ok(digests)
    }
}

/// What ends a writing: the disk, or a number that the dtype cannot hold.
pub(super) enum WriteError {
    Io(io::Error),
    Value(Error),
}

impl From<io::Error> for WriteError {
    fn from(e: io::Error) -> Self {
        WriteError::Io(e)
    }
}

#[derive(Serialize)]
struct Placed<'a> {
    dtype: &'a str,
    shape: &'a [usize],
    data_offsets: (u64, u64),
}

fn json_entry(json: &mut String, name: &str, value: &impl Serialize) -> Result<()> {
    let text = |e: serde_json::Error| {
        Error::invalid(format!("a header cannot be written: {e}"), "rename the tensor")
    };
    json.push_str(&serde_json::to_string(name).map_err(text)?);
    json.push(':');
    json.push_str(&serde_json::to_string(value).map_err(text)?);
    Ok(())
}

/// Appends some elements of a tensor as little-endian bytes of `dtype`.
fn encode(
    tensor: &Save,
    dtype: DType,
    range: std::ops::Range<usize>,
    out: &mut Vec<u8>,
) -> Result<(), WriteError> {
    let own = tensor.data.dtype();
    if dtype == own {
        match &tensor.data {
            Data::F32(data) => out.extend(data[range].iter().flat_map(|x| x.to_le_bytes())),
            Data::BF16(data) => out.extend(data[range].iter().flat_map(|x| x.to_le_bytes())),
            Data::I32(data) => out.extend(data[range].iter().flat_map(|x| x.to_le_bytes())),
            Data::Bytes(_, data) => out.extend(&data[bytes_of(own, range)]),
        }
        return Ok(());
    }
    let mut wide = vec![0f32; range.len()];
    match &tensor.data {
        Data::F32(data) => wide.copy_from_slice(&data[range]),
        Data::BF16(data) => wide.iter_mut().zip(&data[range]).for_each(|(to, from)| *to = from.to_f32()),
        Data::I32(data) => wide.iter_mut().zip(&data[range]).for_each(|(to, from)| *to = *from as f32),
        Data::Bytes(_, data) => {
            let bytes = &data[bytes_of(own, range)];
            own.decode(bytes, &mut wide);
            if own == DType::F64 {
                let exact = bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b));
                if let Some(x) =
                    exact.zip(&wide).find_map(|(x, y)| (x.is_finite() && !y.is_finite()).then_some(x))
                {
                    return Err(unfit(tensor, x, dtype));
                }
            }
        }
    }
    for x in wide {
        let fits = match dtype {
            DType::F16 => {
                let y = f16::from_f32(x);
                out.extend(y.to_le_bytes());
                y.is_finite()
            }
            DType::BF16 => {
                let y = bf16::from_f32(x);
                out.extend(y.to_le_bytes());
                y.is_finite()
            }
            _ => {
                out.extend(x.to_le_bytes());
                true
            }
        };
        // An infinity that was there is kept; one that the conversion would make is a ruined weight.
        if !fits && x.is_finite() {
            return Err(unfit(tensor, f64::from(x), dtype));
        }
    }
    Ok(())
}

/// Where elements lie; pieces are whole blocks, but for the last.
fn bytes_of(dtype: DType, range: std::ops::Range<usize>) -> std::ops::Range<usize> {
    let (elements, bytes) = dtype.block();
    range.start / elements * bytes..range.end.div_ceil(elements) * bytes
}

fn unfit(tensor: &Save, x: f64, dtype: DType) -> WriteError {
    let what = format!("tensor `{}` holds {x:e}, which does not fit in {dtype}", shown(tensor.name));
    WriteError::Value(Error::invalid(what, "save in a wider dtype, or as it is"))
}
