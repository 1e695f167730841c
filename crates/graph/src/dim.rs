//! Sizes of axes: numbers, open letters under a bound, and sums and products of those (`B·T`, `P+T`).
//! A program is planned at the bounds; the actual sizes arrive at replay as [`Sizes`], without allocation.

use crate::{Error, Result};
use std::fmt;

/// An open size: a letter of the alphabet with the largest value that it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Letter {
    name: char,
    bound: usize,
}

impl Letter {
    /// A letter that may take any size from 0 to `bound`.
    pub fn new(name: char, bound: usize) -> Self {
        Letter { name, bound }
    }

    /// The letter itself.
    pub fn name(self) -> char {
        self.name
    }

    /// The largest size it may take.
    pub fn bound(self) -> usize {
        self.bound
    }
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Term {
    letters: Vec<Letter>,
    factor: usize,
}

/// The size of one axis: a sum of terms `factor · letter · letter …`, kept in one canonical order so that
/// equal sizes compare equal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Dim {
    terms: Vec<Term>,
}

impl Dim {
    /// The number, if no letter is open in it.
    pub fn fixed(&self) -> Option<usize> {
        match self.terms.as_slice() {
            [] => Some(0),
            [term] if term.letters.is_empty() => Some(term.factor),
            _ => None,
        }
    }

    /// The largest value that it can take.
    pub fn bound(&self) -> usize {
        self.evaluate(|letter| Ok(letter.bound)).unwrap_or(usize::MAX)
    }

    /// Its value for the sizes of a replay.
    pub fn at(&self, sizes: &Sizes) -> Result<usize> {
        self.evaluate(|letter| sizes.of(letter))
    }

    /// The product of two sizes.
    pub fn times(&self, other: &Dim) -> Dim {
        let mut terms = Vec::new();
        for a in &self.terms {
            for b in &other.terms {
                let mut letters = [a.letters.as_slice(), b.letters.as_slice()].concat();
                letters.sort();
                terms.push(Term { letters, factor: a.factor.saturating_mul(b.factor) });
            }
        }
        Dim::canonical(terms)
    }

    /// The sum of two sizes.
    pub fn plus(&self, other: &Dim) -> Dim {
        Dim::canonical([self.terms.as_slice(), other.terms.as_slice()].concat())
    }

    /// The exact quotient, where one exists: `B·T·6 / T·2 = B·3`.
    pub fn divided_by(&self, divisor: &Dim) -> Option<Dim> {
        let [by] = divisor.terms.as_slice() else { return None };
        let mut terms = Vec::new();
        for term in &self.terms {
            if term.factor % by.factor != 0 {
                return None;
            }
            let mut letters = term.letters.clone();
            for letter in &by.letters {
                letters.remove(letters.iter().position(|l| l == letter)?);
            }
            terms.push(Term { letters, factor: term.factor / by.factor });
        }
        Some(Dim::canonical(terms))
    }

    /// The letters that are open in it.
    pub fn letters(&self) -> impl Iterator<Item = Letter> + '_ {
        self.terms.iter().flat_map(|term| term.letters.iter().copied())
    }

    /// The letter, if the size is exactly one open letter.
    pub fn as_letter(&self) -> Option<Letter> {
        match self.terms.as_slice() {
            [Term { letters, factor: 1 }] if letters.len() == 1 => Some(letters[0]),
            _ => None,
        }
    }

    fn canonical(mut terms: Vec<Term>) -> Dim {
        terms.sort_by(|a, b| a.letters.cmp(&b.letters));
        let mut merged: Vec<Term> = Vec::new();
        for term in terms {
            match merged.last_mut() {
                Some(last) if last.letters == term.letters => {
                    last.factor = last.factor.saturating_add(term.factor);
                }
                _ => merged.push(term),
            }
        }
        merged.retain(|term| term.factor != 0);
        Dim { terms: merged }
    }

    fn evaluate(&self, mut of: impl FnMut(Letter) -> Result<usize>) -> Result<usize> {
        let mut sum = 0usize;
        for term in &self.terms {
            let mut product = term.factor;
            for &letter in &term.letters {
                product = product.saturating_mul(of(letter)?);
            }
            sum = sum.saturating_add(product);
        }
        Ok(sum)
    }
}

impl From<usize> for Dim {
    fn from(size: usize) -> Self {
        Dim::canonical(vec![Term { letters: Vec::new(), factor: size }])
    }
}

impl From<Letter> for Dim {
    fn from(letter: Letter) -> Self {
        Dim { terms: vec![Term { letters: vec![letter], factor: 1 }] }
    }
}

impl From<&Dim> for Dim {
    fn from(dim: &Dim) -> Self {
        dim.clone()
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // Letters before the plain number: `T+1`, as one would write it.
        let (open, plain): (Vec<_>, Vec<_>) = self.terms.iter().partition(|t| !t.letters.is_empty());
        for (i, term) in open.into_iter().chain(plain).enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            let mut parts: Vec<String> = term.letters.iter().map(|l| l.name.to_string()).collect();
            if term.factor != 1 || parts.is_empty() {
                parts.insert(0, term.factor.to_string());
            }
            f.write_str(&parts.join("·"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How many letters one program may leave open.
pub const MAX_LETTERS: usize = 8;

/// The actual sizes of the open letters in one replay. Copied around freely; never allocates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    known: [Option<(char, usize)>; MAX_LETTERS],
}

impl Sizes {
    /// No letter known yet: enough for programs without open letters.
    pub fn none() -> Self {
        Sizes::default()
    }

    /// With one more letter known.
    pub fn with(mut self, letter: Letter, size: usize) -> Result<Self> {
        self.set(letter, size)?;
        Ok(self)
    }

    /// Makes one more letter known; a second, different size for the same letter is an error.
    pub fn set(&mut self, letter: Letter, size: usize) -> Result<()> {
        if size > letter.bound {
            return Err(Error::OverBound { letter: letter.name, bound: letter.bound, got: size });
        }
        for slot in &mut self.known {
            match slot {
                Some((name, known)) if *name == letter.name => {
                    return if *known == size {
                        Ok(())
                    } else {
                        Err(Error::SizeConflict { letter: letter.name, known: *known, got: size })
                    };
                }
                Some(_) => {}
                None => {
                    *slot = Some((letter.name, size));
                    return Ok(());
                }
            }
        }
        Err(Error::TooManyLetters { letter: letter.name, most: MAX_LETTERS })
    }

    /// The size of a letter.
    pub fn of(&self, letter: Letter) -> Result<usize> {
        self.get(letter.name).ok_or(Error::SizeMissing { letter: letter.name })
    }

    /// The size of a letter, by its name.
    pub fn get(&self, name: char) -> Option<usize> {
        self.known.iter().flatten().find(|(known, _)| *known == name).map(|(_, size)| *size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_canonical() {
        let (b, t) = (Dim::from(Letter::new('B', 8)), Dim::from(Letter::new('T', 16)));
        assert_eq!(b.times(&t), t.times(&b));
        assert_eq!(b.times(&t).times(&6.into()).divided_by(&t.times(&2.into())), Some(b.times(&3.into())));
        assert_eq!(b.divided_by(&t), None);
        assert_eq!(t.plus(&1.into()).to_string(), "T+1");
        assert_eq!(b.times(&t).times(&2.into()).to_string(), "2·B·T");
        assert_eq!(b.times(&t).bound(), 128);
        assert_eq!(Dim::from(0), Dim::from(0).times(&t));
    }

    #[test]
    fn sizes_say_what_is_wrong() {
        let t = Letter::new('T', 16);
        let dim = Dim::from(t).plus(&1.into());
        assert_eq!(dim.at(&Sizes::none().with(t, 4).unwrap()).unwrap(), 5);
        let text = |e: Error| e.to_string();
        assert_eq!(
            text(dim.at(&Sizes::none()).unwrap_err()),
            "size: the letter T is open and has no size yet; feed an input whose shape has T"
        );
        assert_eq!(
            text(Sizes::none().with(t, 17).unwrap_err()),
            "size: T = 17 is over the bound 16 that the program was planned for; record it with a larger bound"
        );
        assert_eq!(
            text(Sizes::none().with(t, 3).unwrap().with(t, 4).unwrap_err()),
            "size: T is 3 in one input and 4 in another; inputs of one run must agree"
        );
        let mut sizes = Sizes::none();
        for name in "ABCDEFGH".chars() {
            sizes.set(Letter::new(name, 1), 1).unwrap();
        }
        assert_eq!(
            text(sizes.set(t, 1).unwrap_err()),
            "size: no room for the open letter T: a program has at most 8; fix the size of one"
        );
    }
}
