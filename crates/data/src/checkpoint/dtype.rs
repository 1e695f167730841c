//! What the elements of a stored tensor can be, and their way to and from f32.

use half::{bf16, f16};
use std::fmt;

/// The type of a stored tensor's elements. The order is that of the reference implementation, which sorts the
/// tensors of a file by it, widest first, so that each is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// One byte; anything but 0 is true.
    Bool,
    /// Unsigned 8 bits.
    U8,
    /// Signed 8 bits.
    I8,
    /// Signed 16 bits.
    I16,
    /// Unsigned 16 bits.
    U16,
    /// IEEE half precision.
    F16,
    /// Brain float: the upper half of an f32.
    BF16,
    /// Signed 32 bits.
    I32,
    /// Unsigned 32 bits.
    U32,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Signed 64 bits.
    I64,
    /// Unsigned 64 bits.
    U64,
}

impl DType {
    /// Every dtype that is read.
    pub const ALL: [DType; 13] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::U16,
        DType::F16,
        DType::BF16,
        DType::I32,
        DType::U32,
        DType::F32,
        DType::F64,
        DType::I64,
        DType::U64,
    ];

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
        }
    }

    /// True for floats: what [`SaveOptions::dtype`](super::SaveOptions::dtype) converts.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// The name in a file's header.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "BOOL",
            DType::U8 => "U8",
            DType::I8 => "I8",
            DType::I16 => "I16",
            DType::U16 => "U16",
            DType::F16 => "F16",
            DType::BF16 => "BF16",
            DType::I32 => "I32",
            DType::U32 => "U32",
            DType::F32 => "F32",
            DType::F64 => "F64",
            DType::I64 => "I64",
            DType::U64 => "U64",
        }
    }

    /// The dtype of this name.
    pub fn named(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Little-endian elements as the nearest f32; stops at the end of the shorter side.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            DType::Bool => each(bytes, out, |[b]: [u8; 1]| f32::from(b != 0)),
            DType::U8 => each(bytes, out, |[b]: [u8; 1]| f32::from(b)),
            DType::I8 => each(bytes, out, |b| f32::from(i8::from_le_bytes(b))),
            DType::I16 => each(bytes, out, |b| f32::from(i16::from_le_bytes(b))),
            DType::U16 => each(bytes, out, |b| f32::from(u16::from_le_bytes(b))),
            DType::F16 => each(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
            DType::BF16 => each(bytes, out, |b| bf16::from_le_bytes(b).to_f32()),
            DType::I32 => each(bytes, out, |b| i32::from_le_bytes(b) as f32),
            DType::U32 => each(bytes, out, |b| u32::from_le_bytes(b) as f32),
            DType::F32 => each(bytes, out, f32::from_le_bytes),
            DType::F64 => each(bytes, out, |b| f64::from_le_bytes(b) as f32),
            DType::I64 => each(bytes, out, |b| i64::from_le_bytes(b) as f32),
            DType::U64 => each(bytes, out, |b| u64::from_le_bytes(b) as f32),
        }
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], convert: impl Fn([u8; N]) -> f32) {
    let (elements, _) = bytes.as_chunks::<N>();
    for (to, from) in out.iter_mut().zip(elements) {
        *to = convert(*from);
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
