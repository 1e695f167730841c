//! The arguments of a launch: numbers and addresses at the places where the kernel reads them. They can be
//! made and compared without a card, and a launch compares their layout with the one that the compiler gave
//! the kernel.

use super::Address;

mod sealed {
    pub trait Sealed {}
}

/// A value that a kernel may take: it stands in memory as the CUDA type of the same size and alignment does.
pub trait Argument: sealed::Sealed + Copy {
    /// Appends its bytes in the order of the card, which is little-endian.
    fn append(self, bytes: &mut Vec<u8>);
    /// Its alignment.
    const ALIGNMENT: usize;
}

macro_rules! arguments {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}
        impl Argument for $type {
            const ALIGNMENT: usize = size_of::<$type>();
            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        }
    )*};
}
arguments!(u32, i32, f32, u64, i64, f64);

impl sealed::Sealed for Address {}
impl Argument for Address {
    const ALIGNMENT: usize = 8;
    fn append(self, bytes: &mut Vec<u8>) {
        self.0.append(bytes);
    }
}

impl<T: Argument, const N: usize> sealed::Sealed for [T; N] {}
/// An array is a struct that holds one: CUDA passes no bare arrays by value.
impl<T: Argument, const N: usize> Argument for [T; N] {
    const ALIGNMENT: usize = T::ALIGNMENT;
    fn append(self, bytes: &mut Vec<u8>) {
        self.into_iter().for_each(|value| value.append(bytes));
    }
}

/// The arguments of one launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    bytes: Vec<u8>,
    /// Offset and length of each.
    layout: Vec<(usize, usize)>,
}

impl Arguments {
    /// No arguments.
    pub fn new() -> Arguments {
        Arguments::default()
    }

    /// One more.
    pub fn with<T: Argument>(mut self, value: T) -> Arguments {
        self.bytes.resize(self.bytes.len().next_multiple_of(T::ALIGNMENT), 0);
        let offset = self.bytes.len();
        value.append(&mut self.bytes);
        self.layout.push((offset, self.bytes.len() - offset));
        self
    }

    /// Several more.
    pub fn with_each<T: Argument>(self, values: impl IntoIterator<Item = T>) -> Arguments {
        values.into_iter().fold(self, Arguments::with)
    }

    /// The first ones alone.
    pub fn first(&self, count: usize) -> Arguments {
        let layout = self.layout[..count].to_vec();
        let end = layout.last().map_or(0, |(offset, length)| offset + length);
        Arguments { bytes: self.bytes[..end].to_vec(), layout }
    }

    /// Offset and length of each argument.
    pub fn layout(&self) -> &[(usize, usize)] {
        &self.layout
    }

    /// All of them, with the gaps between them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_at_its_alignment() {
        let all =
            Arguments::new().with(7u32).with(Address(0x1122)).with(1.0f32).with([1u32, 2, 3]).with(-1i64);
        assert_eq!(all.layout(), [(0, 4), (8, 8), (16, 4), (20, 12), (32, 8)]);
        assert_eq!(all.bytes()[..10], [7, 0, 0, 0, 0, 0, 0, 0, 0x22, 0x11]);
        assert_eq!(all.bytes()[16..20], 1f32.to_le_bytes());
        assert_eq!(all.bytes()[32..], [255; 8]);
        assert_eq!(all.first(2), Arguments::new().with(7u32).with(Address(0x1122)));
        assert_eq!(Arguments::new().with_each([1u32, 2]).layout(), [(0, 4), (4, 4)]);
        assert_eq!(Arguments::new().with(1u32).with(1.0f64).layout(), [(0, 4), (8, 8)]);
    }
}
