//! What the elements of a stored tensor can be, and their way to and from f32.

use super::blocks;
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
    /// Blocks of 32 in 4 bits, each with a scale: GGUF's.
    Q4_0,
    /// Blocks of 32 in 4 bits, each with a scale and an offset.
    Q4_1,
    /// Blocks of 32 in 5 bits, each with a scale.
    Q5_0,
    /// Blocks of 32 in 5 bits, each with a scale and an offset.
    Q5_1,
    /// Blocks of 32 in 8 bits, each with a scale.
    Q8_0,
    /// Blocks of 256 in 4 bits; eight parts, each with a scale and an offset of 6 bits.
    Q4K,
    /// Blocks of 256 in 5 bits; eight parts, each with a scale and an offset of 6 bits.
    Q5K,
    /// Blocks of 256 in 6 bits; sixteen parts, each with a scale of 8 bits.
    Q6K,
}

impl DType {
    /// Every dtype of a safetensors file that is read.
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

    /// Every dtype that only GGUF has: rows of them are whole blocks of several elements.
    pub const BLOCKS: [DType; 8] =
        [DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0, DType::Q4K, DType::Q5K, DType::Q6K];

    /// Elements and bytes of what can be read by itself: one element, or one block.
    pub fn block(self) -> (usize, usize) {
        match self {
            DType::Bool | DType::U8 | DType::I8 => (1, 1),
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => (1, 2),
            DType::I32 | DType::U32 | DType::F32 => (1, 4),
            DType::F64 | DType::I64 | DType::U64 => (1, 8),
            DType::Q4_0 => (32, 18),
            DType::Q4_1 => (32, 20),
            DType::Q5_0 => (32, 22),
            DType::Q5_1 => (32, 24),
            DType::Q8_0 => (32, 34),
            DType::Q4K => (256, 144),
            DType::Q5K => (256, 176),
            DType::Q6K => (256, 210),
        }
    }

    /// Bytes of so many elements; none if they are no whole blocks, or more than can be counted.
    pub fn size(self, elements: usize) -> Option<usize> {
        let (block, bytes) = self.block();
        if !elements.is_multiple_of(block) {
            return None;
        }
        (elements / block).checked_mul(bytes)
    }

    /// True for elements that share a scale with their block.
    pub fn is_quantised(self) -> bool {
        self.block().0 > 1
    }

    /// True for floats: what [`SaveOptions::dtype`](super::SaveOptions::dtype) converts.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64) || self.is_quantised()
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
            DType::Q4_0 => "Q4_0",
            DType::Q4_1 => "Q4_1",
            DType::Q5_0 => "Q5_0",
            DType::Q5_1 => "Q5_1",
            DType::Q8_0 => "Q8_0",
            DType::Q4K => "Q4_K",
            DType::Q5K => "Q5_K",
            DType::Q6K => "Q6_K",
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
            _ => blocks::decode(self, bytes, out),
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
