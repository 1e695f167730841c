//! Shapes in the alphabet: recorded shapes with open letters ([`Shape`]), the actual ones of a replay
//! ([`Dims`]), and the matcher that checks operands against patterns such as `B T H D` ([`Letters`]).

use crate::{Dim, Error, Result, Sizes};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// The most axes that a value may have.
pub const MAX_RANK: usize = 6;

/// The recorded shape of a value, outermost axis first; values are dense and row-major.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shape(Vec<Dim>);

/// Writes a [`Shape`]: `shape![b, 128, heads, width]` with numbers, letters and sizes mixed.
#[macro_export]
macro_rules! shape {
    ($($dim:expr),* $(,)?) => { $crate::Shape::new(vec![$($crate::Dim::from($dim)),*]) };
}

impl Shape {
    /// A shape from the sizes of its axes.
    pub fn new(dims: Vec<Dim>) -> Self {
        Shape(dims)
    }

    /// The shape of a single number.
    pub fn scalar() -> Self {
        Shape(Vec::new())
    }

    /// How many elements there are.
    pub fn count(&self) -> Dim {
        self.0.iter().fold(Dim::from(1), |product, dim| product.times(dim))
    }

    /// The actual shape for the sizes of a replay.
    pub fn at(&self, sizes: &Sizes) -> Result<Dims> {
        let mut dims = Dims { rank: self.0.len(), size: [1; MAX_RANK] };
        for (size, dim) in dims.size.iter_mut().zip(&self.0) {
            *size = dim.at(sizes)?;
        }
        Ok(dims)
    }

    /// The largest actual shape.
    pub fn bound(&self) -> Dims {
        let mut dims = Dims { rank: self.0.len(), size: [1; MAX_RANK] };
        for (size, dim) in dims.size.iter_mut().zip(&self.0) {
            *size = dim.bound();
        }
        dims
    }

    /// True when no letter is open.
    pub fn is_fixed(&self) -> bool {
        self.0.iter().all(|dim| dim.fixed().is_some())
    }
}

impl Deref for Shape {
    type Target = [Dim];
    fn deref(&self) -> &[Dim] {
        &self.0
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Shape(dims.into_iter().map(Dim::from).collect())
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Shape(dims.iter().map(|&d| Dim::from(d)).collect())
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.0.iter().map(Dim::to_string).collect();
        write!(f, "[{}]", dims.join(" "))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The actual shape of a value in one replay. Copied around freely; never allocates.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dims {
    rank: usize,
    size: [usize; MAX_RANK],
}

impl Dims {
    /// From the sizes of the axes; `None` if there are more than [`MAX_RANK`].
    pub fn new(dims: &[usize]) -> Option<Self> {
        let mut size = [1; MAX_RANK];
        size.get_mut(..dims.len())?.copy_from_slice(dims);
        Some(Dims { rank: dims.len(), size })
    }

    /// How many elements there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.iter().fold(1, |product, &size| product.saturating_mul(size))
    }

    /// The last axis, 1 for a single number.
    pub fn last_size(&self) -> usize {
        self.last().copied().unwrap_or(1)
    }

    /// How many rows there are: the product of all axes but the last.
    pub fn rows(&self) -> usize {
        self.split_last().map_or(1, |(_, rest)| rest.iter().fold(1, |rows, &size| rows.saturating_mul(size)))
    }

    /// The distance in elements between neighbours along each axis.
    pub fn strides(&self) -> [usize; MAX_RANK] {
        let mut strides = [1usize; MAX_RANK];
        for axis in (0..self.rank.saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1].saturating_mul(self.size[axis + 1]);
        }
        strides
    }

    /// The coordinates of the element at a flat index.
    pub fn coordinates(&self, mut flat: usize) -> [usize; MAX_RANK] {
        let mut at = [0; MAX_RANK];
        for axis in (0..self.rank).rev() {
            at[axis] = flat % self.size[axis];
            flat /= self.size[axis];
        }
        at
    }
}

impl Deref for Dims {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.size[..self.rank]
    }
}

impl DerefMut for Dims {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.size[..self.rank]
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.iter().map(usize::to_string).collect();
        write!(f, "[{}]", dims.join(" "))
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Checks operands against patterns of letters, and remembers what each letter stands for.
///
/// A pattern lists the axes: a letter takes the size it meets first and must meet it again everywhere else,
/// a number must be met exactly, and `...` in front stands for any leading axes (the same in every operand).
pub struct Letters {
    op: String,
    known: Vec<(String, Dim, String)>,
    leading: Option<(Vec<Dim>, String)>,
}

impl Letters {
    /// A fresh alphabet for one op.
    pub fn new(op: &str) -> Self {
        Letters { op: op.into(), known: Vec::new(), leading: None }
    }

    /// Checks one operand. The error speaks the same letters and says where each known one came from.
    pub fn bind(&mut self, operand: &str, shape: &Shape, pattern: &str) -> Result<()> {
        let mut names: Vec<&str> = pattern.split_whitespace().collect();
        let open_front = names.first() == Some(&"...");
        if open_front {
            names.remove(0);
        }
        let front = shape.len().checked_sub(names.len());
        let (Some(front), true) = (front, open_front || front == Some(0)) else {
            return Err(self.mismatch(operand, shape, pattern));
        };
        let (lead, tail) = shape.split_at(front);
        if open_front && self.leading.as_ref().is_some_and(|(known, _)| known != lead) {
            return Err(self.mismatch(operand, shape, pattern));
        }
        let mut fresh: Vec<(String, Dim, String)> = Vec::new();
        for (name, dim) in names.iter().zip(tail) {
            let wanted = name.parse::<usize>().ok().map(Dim::from).or_else(|| {
                let all = self.known.iter().chain(&fresh);
                all.into_iter().find(|(known, ..)| known == name).map(|(_, dim, _)| dim.clone())
            });
            match wanted {
                Some(wanted) if wanted != *dim => return Err(self.mismatch(operand, shape, pattern)),
                Some(_) => {}
                None => fresh.push((name.to_string(), dim.clone(), operand.into())),
            }
        }
        self.known.append(&mut fresh);
        if open_front && self.leading.is_none() {
            self.leading = Some((lead.to_vec(), operand.into()));
        }
        Ok(())
    }

    /// What a letter stands for: a size for every letter of the patterns bound so far.
    pub fn get(&self, letter: &str) -> Option<&Dim> {
        self.known.iter().find(|(name, ..)| name == letter).map(|(_, dim, _)| dim)
    }

    /// The shape that a pattern describes, once all its letters are known; unknown letters count as 1.
    pub fn shape(&self, pattern: &str) -> Shape {
        let mut dims = Vec::new();
        for name in pattern.split_whitespace() {
            if name == "..." {
                dims.extend(self.leading.iter().flat_map(|(lead, _)| lead.clone()));
            } else if let Ok(number) = name.parse::<usize>() {
                dims.push(Dim::from(number));
            } else {
                dims.push(self.get(name).cloned().unwrap_or_else(|| Dim::from(1)));
            }
        }
        Shape(dims)
    }

    fn mismatch(&self, operand: &str, shape: &Shape, pattern: &str) -> Error {
        let mut expected = Vec::new();
        let mut sources: Vec<(String, Vec<String>)> = Vec::new();
        for name in pattern.split_whitespace() {
            if name == "..." {
                match &self.leading {
                    Some((lead, from)) => {
                        expected.extend(lead.iter().map(Dim::to_string));
                        sources.push((from.clone(), vec!["...".into()]));
                    }
                    None => expected.push("...".into()),
                }
                continue;
            }
            match self.known.iter().find(|(known, ..)| known == name) {
                Some((_, dim, from)) => {
                    // An open letter often stands for itself: `B`, not `B=B`.
                    let dim = dim.to_string();
                    expected.push(if dim == name { dim } else { format!("{name}={dim}") });
                    match sources.iter_mut().find(|(source, _)| source == from) {
                        Some((_, letters)) => letters.push(name.into()),
                        None => sources.push((from.clone(), vec![name.into()])),
                    }
                }
                None => expected.push(name.into()),
            }
        }
        let mut origin = String::new();
        for (from, mut letters) in sources {
            letters.dedup();
            let verb = if letters.len() == 1 { "comes" } else { "come" };
            origin.push_str(&format!("; {} {verb} from {from}", letters.join(", ")));
        }
        Error::Shape {
            op: self.op.clone(),
            operand: operand.into(),
            got: shape.to_string(),
            expected: format!("[{}]", expected.join(" ")),
            origin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Letter;

    #[test]
    fn a_mismatch_speaks_letters() {
        let mut letters = Letters::new("attention");
        letters.bind("query", &shape![2, 128, 8, 32], "B T H D").unwrap();
        let error = letters.bind("key", &shape![2, 128, 8, 64], "B S G D").unwrap_err();
        assert_eq!(
            error.to_string(),
            "attention: key is [2 128 8 64], expected [B=2 S G D=32]; B, D come from query"
        );
        assert_eq!(letters.shape("B H 1 S"), shape![2, 8, 1, 1], "a failed bind leaves no letters behind");
        letters.bind("key", &shape![2, 128, 8, 32], "B S G D").unwrap();
        assert_eq!(letters.shape("B S"), shape![2, 128]);
    }

    #[test]
    fn leading_axes_and_open_letters() {
        let b = Letter::new('B', 4);
        let mut letters = Letters::new("linear");
        letters.bind("input", &shape![b, 7, 5], "... K").unwrap();
        assert_eq!(letters.shape("... N K").to_string(), "[B 7 1 5]");
        let error = letters.bind("weight", &shape![3, 6], "K N").unwrap_err();
        assert_eq!(error.to_string(), "linear: weight is [3 6], expected [K=5 N]; K comes from input");
        let error = letters.bind("residual", &shape![b, 8, 6], "... N").unwrap_err();
        assert_eq!(error.to_string(), "linear: residual is [B 8 6], expected [B 7 N]; ... comes from input");
        let error = letters.bind("bias", &shape![], "N").unwrap_err();
        assert_eq!(error.to_string(), "linear: bias is [], expected [N]");
    }

    #[test]
    fn dims_index_row_major() {
        let dims = Dims::new(&[2, 3, 4]).unwrap();
        assert_eq!(dims.strides()[..3], [12, 4, 1]);
        assert_eq!(dims.coordinates(17)[..3], [1, 1, 1]);
        assert_eq!((dims.rows(), dims.last_size(), dims.count()), (6, 4, 24));
        assert_eq!(Dims::new(&[1; 7]), None);
    }

    #[test]
    fn actual_shapes_need_every_size() {
        let t = Letter::new('T', 4);
        let known = Sizes::none().with(t, 3).unwrap();
        assert_eq!(shape![t, 2].at(&known).unwrap().to_string(), "[3 2]");
        let missing = "size: the letter T is open and has no size yet; feed an input whose shape has T";
        assert_eq!(shape![2, t].at(&Sizes::none()).unwrap_err().to_string(), missing);
        assert_eq!(Sizes::none().of(t).unwrap_err().to_string(), missing);
    }
}
