//! Numbers that were read from a program or a store: lent where they lie in host memory, copied where they
//! had to be brought there. Whoever reads them sees a slice either way.

use std::borrow::Cow;
use std::ops::{Deref, Range};

/// Numbers of a value, as a slice. On the CPU reading costs nothing: they are lent. A device that keeps
/// values elsewhere waits for the run that makes them and hands out a copy.
///
/// ```
/// # use regard_engine::Store;
/// # use regard_graph::Init;
/// let mut store = Store::new(0);
/// store.declare("scale", [2], Init::Ones)?;
/// let scale = store.f32("scale")?;
/// assert_eq!(scale.iter().sum::<f32>(), 2.0);
/// assert_eq!(scale, [1.0, 1.0]);
/// # Ok::<(), regard_engine::Error>(())
/// ```
#[derive(Clone)]
pub struct Numbers<'a, T: Clone>(Cow<'a, [T]>);

impl<'a, T: Clone> Numbers<'a, T> {
    /// Numbers that lie in host memory.
    pub(crate) fn lent(numbers: &'a [T]) -> Self {
        Numbers(Cow::Borrowed(numbers))
    }

    /// Numbers that were brought from elsewhere.
    pub(crate) fn copied(numbers: Vec<T>) -> Self {
        Numbers(Cow::Owned(numbers))
    }

    /// Some of them, from one index to before another.
    pub fn part(self, range: Range<usize>) -> Self {
        Numbers(match self.0 {
            Cow::Borrowed(numbers) => Cow::Borrowed(&numbers[range]),
            Cow::Owned(numbers) => Cow::Owned(numbers[range].to_vec()),
        })
    }

    /// As a vector of one's own; copies unless they were copied already.
    pub fn into_vec(self) -> Vec<T> {
        self.0.into_owned()
    }
}

impl<'a, T: Clone> From<Numbers<'a, T>> for Cow<'a, [T]> {
    fn from(numbers: Numbers<'a, T>) -> Self {
        numbers.0
    }
}

impl<T: Clone> Deref for Numbers<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Clone> AsRef<[T]> for Numbers<'_, T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<'n, T: Clone> IntoIterator for &'n Numbers<'_, T> {
    type Item = &'n T;
    type IntoIter = std::slice::Iter<'n, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Clone + std::fmt::Debug> std::fmt::Debug for Numbers<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// Equal to whatever is a slice of equal numbers: another reading, a vector, an array.
impl<T: Clone + PartialEq, S: AsRef<[T]> + ?Sized> PartialEq<S> for Numbers<'_, T> {
    fn eq(&self, other: &S) -> bool {
        **self == *other.as_ref()
    }
}

impl<T: Clone + PartialEq> PartialEq<Numbers<'_, T>> for [T] {
    fn eq(&self, other: &Numbers<'_, T>) -> bool {
        *self == **other
    }
}

impl<T: Clone + PartialEq> PartialEq<Numbers<'_, T>> for &[T] {
    fn eq(&self, other: &Numbers<'_, T>) -> bool {
        **self == **other
    }
}

impl<T: Clone + PartialEq, const N: usize> PartialEq<Numbers<'_, T>> for [T; N] {
    fn eq(&self, other: &Numbers<'_, T>) -> bool {
        self[..] == **other
    }
}

impl<T: Clone + PartialEq> PartialEq<Numbers<'_, T>> for Vec<T> {
    fn eq(&self, other: &Numbers<'_, T>) -> bool {
        self[..] == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_or_copied_they_read_the_same() {
        let own = [1, 2, 3, 4];
        let (lent, copied) = (Numbers::lent(&own), Numbers::copied(own.to_vec()));
        assert_eq!(lent, copied);
        assert!(own == lent && own.to_vec() == copied && own[..] == lent);
        assert_eq!((&lent).into_iter().sum::<i32>(), copied.iter().sum::<i32>());
        assert_eq!(format!("{lent:?}"), format!("{copied:?}"));
        assert_eq!(lent.clone().part(1..3), copied.clone().part(1..3).into_vec());
        assert!(
            matches!(Cow::from(lent.part(1..3)), Cow::Borrowed([2, 3])),
            "what is lent stays where it is"
        );
    }
}
