//! What one axis is, and what becomes of it: moved by slices and concatenations, joined where operands meet,
//! merged and cut by reshapes. An axis is a number with digits: `B·T` merged into one axis has two, examples
//! and positions.

use super::Label;
use std::fmt;

/// What an axis of a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis(Digits);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Digits {
    /// Outermost first; their sizes multiply to that of the axis.
    Known(Vec<Factor>),
    /// Nobody can say, for this reason.
    Unknown(String),
}

/// One digit of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Factor {
    size: usize,
    /// What it stands for; nothing if it is the axis's own.
    spans: Vec<Span>,
}

/// A stretch of a digit and what stands there: from `start` on, `count` coordinates stand for `first`, `first
/// + stride`, … of a label. Of a label that was cut, `within` says where the digit belongs: it tells apart
/// groups of `stride` within groups of `within`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    label: Label,
    start: usize,
    count: usize,
    first: usize,
    stride: usize,
    within: usize,
}

impl Span {
    fn end(&self) -> usize {
        self.start + self.count
    }

    /// Nothing was cut off or moved.
    fn is_whole(&self, size: usize) -> bool {
        (self.start, self.first, self.count) == (0, 0, size) && self.count * self.stride == self.within
    }

    /// Both say the same where they meet, or would if they met.
    fn agrees(&self, other: &Span) -> bool {
        let origin = |span: &Span| span.first as isize - (span.start * span.stride) as isize;
        (self.stride, self.within) == (other.stride, other.within) && origin(self) == origin(other)
    }
}

impl Axis {
    /// One of its own.
    pub(super) fn own(size: usize) -> Self {
        Axis::from(vec![Factor { size, spans: Vec::new() }])
    }

    /// All of a label, in place.
    pub(super) fn whole(label: Label, size: usize) -> Self {
        let span = Span { label, start: 0, count: size, first: 0, stride: 1, within: size };
        Axis::from(vec![Factor { size, spans: vec![span] }])
    }

    pub(super) fn lost(reason: impl Into<String>) -> Self {
        Axis(Digits::Unknown(reason.into()))
    }

    fn from(factors: Vec<Factor>) -> Self {
        Axis(Digits::Known(factors))
    }

    /// Why it cannot be told, if it cannot.
    pub fn reason(&self) -> Option<&str> {
        match &self.0 {
            Digits::Unknown(reason) => Some(reason),
            Digits::Known(_) => None,
        }
    }

    /// Nothing stands along it but its own coordinates.
    pub fn is_own(&self) -> bool {
        matches!(&self.0, Digits::Known(factors) if factors.iter().all(|factor| factor.spans.is_empty()))
    }

    /// What stands along it.
    pub fn labels(&self) -> impl Iterator<Item = &Label> {
        self.factors().iter().flat_map(|factor| factor.spans.iter().map(|span| &span.label))
    }

    /// Without a label: its coordinates are the axis's own again.
    pub(super) fn without(mut self, label: &Label) -> Axis {
        if let Digits::Known(factors) = &mut self.0 {
            factors.iter_mut().for_each(|factor| factor.spans.retain(|span| span.label != *label));
        }
        self
    }

    fn factors(&self) -> &[Factor] {
        match &self.0 {
            Digits::Known(factors) => factors,
            Digits::Unknown(_) => &[],
        }
    }

    /// The digits with a label, as (factor, within, stride), each factor once.
    pub(super) fn parts(&self, label: &Label) -> impl Iterator<Item = (usize, usize, usize)> {
        self.factors().iter().enumerate().filter_map(move |(at, factor)| {
            let span = factor.spans.iter().find(|span| span.label == *label)?;
            Some((at, span.within, span.stride))
        })
    }

    /// What a digit of the coordinate adds to that of a label; `None` if it stands for none of them.
    pub(super) fn part(&self, factor: usize, label: &Label, coordinate: usize) -> Option<usize> {
        let factors = self.factors();
        let inner: usize = factors[factor + 1..].iter().map(|factor| factor.size).product();
        let digit = coordinate / inner % factors[factor].size;
        let mut spans = factors[factor].spans.iter();
        let span = spans.find(|span| span.label == *label && (span.start..span.end()).contains(&digit))?;
        Some(span.first + (digit - span.start) * span.stride)
    }

    /// As part of an axis of another size, its coordinates moved; all of them, or only what comes to stand at
    /// one.
    pub(super) fn moved(&self, from: usize, shift: isize, to: usize, only: Option<usize>) -> Axis {
        let Digits::Known(factors) = &self.0 else { return self.clone() };
        if shift == 0 && from == to && only.is_none() {
            return self.clone();
        }
        if self.is_own() || from == 0 || to == 0 {
            return Axis::own(to);
        }
        let (outer, rest) = (&factors[0], &factors[1..]);
        let inner: usize = rest.iter().map(|factor| factor.size).product();
        // Of a product, whole groups can be taken out; anything else would not be a product.
        let groups = shift <= 0
            && shift.unsigned_abs() + to <= from
            && shift.unsigned_abs().is_multiple_of(inner)
            && to.is_multiple_of(inner)
            && only.is_none();
        if !rest.is_empty() && !groups {
            return Axis::lost(format!("a stretch of {to} does not fit the {self} of an axis of {from}"));
        }
        let (size, shift) = (to / inner, shift / inner as isize);
        let (least, most) = only.map_or((0, size as isize), |at| (at as isize, at as isize + 1));
        let clipped = outer.spans.iter().filter_map(|span| {
            let there = span.start as isize + shift;
            let (start, end) = (there.max(least), (there + span.count as isize).min(most));
            let cut = (start - there) as usize;
            (start < end).then(|| Span {
                start: start as usize,
                count: (end - start) as usize,
                first: span.first + cut * span.stride,
                ..span.clone()
            })
        });
        let outer = Factor { size, spans: clipped.collect() };
        Axis::from([outer].into_iter().chain(rest.iter().cloned()).collect())
    }

    /// Where operands meet: what is its own gives way to what has a label; two labels both stand.
    pub(super) fn joined(self, other: &Axis) -> Axis {
        if self == *other || other.is_own() || (other.reason().is_some() && !self.is_own()) {
            return self;
        }
        if self.is_own() || self.reason().is_some() {
            return other.clone();
        }
        let sizes = |axis: &Axis| axis.factors().iter().map(|factor| factor.size).collect::<Vec<_>>();
        if sizes(&self) != sizes(other) {
            return Axis::lost(format!("it is the {self} in one operand and the {other} in another"));
        }
        let pairs = self.factors().iter().zip(other.factors());
        let joined: Option<Vec<Factor>> = pairs.map(|(a, b)| join_factors(a, b)).collect();
        joined.map(Axis::from).unwrap_or_else(|| {
            Axis::lost(format!("it is the {self} in one operand and others of them ({other}) in another"))
        })
    }
}

/// `None` if they stand for different ones of the same label. What stands in place wins over what was moved
/// there: the stream itself over a shifted copy of it.
fn join_factors(a: &Factor, b: &Factor) -> Option<Factor> {
    let size = a.size;
    let mut spans = a.spans.clone();
    for span in &b.spans {
        let same = |other: &Span| other.label == span.label;
        if spans.iter().any(|other| same(other) && other.is_whole(size)) {
            continue;
        }
        if span.is_whole(size) {
            spans.retain(|other| !same(other));
        }
        let apart = |other: &Span| other.end() <= span.start || span.end() <= other.start;
        if spans.iter().any(|other| same(other) && !apart(other) && !other.agrees(span)) {
            return None;
        }
        spans.push(span.clone());
    }
    spans.sort_by(|a, b| (&a.label, a.start).cmp(&(&b.label, b.start)));
    // Neighbours that go on with one another are one.
    let mut merged: Vec<Span> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if last.label == span.label && span.start <= last.end() && last.agrees(&span) => {
                last.count = last.count.max(span.end() - last.start);
            }
            _ => merged.push(span),
        }
    }
    Some(Factor { size, spans: merged })
}

/// The same elements in the same order, under another shape.
pub(super) fn reshaped(axes: &[Axis], from: &[usize], to: &[usize]) -> Vec<Axis> {
    let same = |a: &[usize], b: &[usize]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let front = same(from, to);
    let reversed = |list: &[usize]| list[front..].iter().rev().copied().collect::<Vec<_>>();
    let back = same(&reversed(from), &reversed(to));
    let (middle, wanted) = (&axes[front..from.len() - back], &to[front..to.len() - back]);
    let changed = match middle.iter().find_map(Axis::reason) {
        Some(reason) => vec![Axis::lost(reason); wanted.len()],
        None => regrouped(middle, wanted).unwrap_or_else(|| {
            let names: Vec<String> = middle.iter().map(Axis::to_string).collect();
            let reason = format!("the axes {from:?} with {} do not come apart into {to:?}", names.join(", "));
            vec![Axis::lost(reason); wanted.len()]
        }),
    };
    axes[..front].iter().cloned().chain(changed).chain(axes[from.len() - back..].iter().cloned()).collect()
}

/// Deals the digits out again; `None` if one would have to be cut that cannot be.
fn regrouped(axes: &[Axis], wanted: &[usize]) -> Option<Vec<Axis>> {
    if axes.iter().all(Axis::is_own) || wanted.contains(&0) {
        return Some(wanted.iter().map(|&size| Axis::own(size)).collect());
    }
    let mut digits: Vec<Factor> =
        axes.iter().flat_map(Axis::factors).filter(|factor| factor.size != 1).cloned().collect();
    digits.reverse(); // a stack, outermost on top
    let mut found = Vec::new();
    for &size in wanted {
        let (mut taken, mut left) = (Vec::new(), size);
        while left > 1 {
            let factor = digits.pop()?;
            if left % factor.size == 0 {
                left /= factor.size;
                taken.push(factor);
            } else if factor.size % left == 0 {
                let (outer, inner) = cut(&factor, left)?;
                digits.push(inner);
                taken.push(outer);
                left = 1;
            } else {
                return None;
            }
        }
        found.push(if taken.is_empty() { Axis::own(size) } else { Axis::from(coalesced(taken)) });
    }
    digits.is_empty().then_some(found)
}

/// A digit as two, the outer one of this size. Only what stands in whole, or nothing at all, can be cut.
fn cut(factor: &Factor, outer: usize) -> Option<(Factor, Factor)> {
    let inner = factor.size / outer;
    let (mut outers, mut inners) = (Vec::new(), Vec::new());
    for span in &factor.spans {
        if !span.is_whole(factor.size) {
            return None;
        }
        outers.push(Span { count: outer, stride: span.stride * inner, ..span.clone() });
        inners.push(Span { count: inner, within: span.stride * inner, ..span.clone() });
    }
    Some((Factor { size: outer, spans: outers }, Factor { size: inner, spans: inners }))
}

/// Neighbouring digits that were cut from one are that one again, and so are digits of nobody.
fn coalesced(digits: Vec<Factor>) -> Vec<Factor> {
    let mut found: Vec<Factor> = Vec::new();
    for inner in digits {
        let whole = found.last().and_then(|outer| rejoined(outer, &inner));
        match (whole, found.last_mut()) {
            (Some(whole), Some(last)) => *last = whole,
            _ => found.push(inner),
        }
    }
    found
}

fn rejoined(outer: &Factor, inner: &Factor) -> Option<Factor> {
    if outer.spans.len() != inner.spans.len() {
        return None;
    }
    let size = outer.size * inner.size;
    let fits = |a: &Span, b: &Span| {
        a.label == b.label && a.stride == b.within && a.is_whole(outer.size) && b.is_whole(inner.size)
    };
    let pairs = outer.spans.iter().zip(&inner.spans);
    let spans: Option<Vec<Span>> = pairs
        .map(|(a, b)| {
            fits(a, b).then(|| Span { count: size, stride: b.stride, within: a.within, ..a.clone() })
        })
        .collect();
    Some(Factor { size, spans: spans? })
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.spans.is_empty() {
            return write!(f, "{} of its own", self.size);
        }
        for (at, span) in self.spans.iter().enumerate() {
            if at > 0 {
                f.write_str(" and ")?;
            }
            write!(f, "{}", span.label)?;
            if !span.is_whole(self.size) {
                write!(f, " {}..{} at {}", span.first, span.first + span.count * span.stride, span.start)?;
            } else if span.count != span.within {
                write!(f, " in steps of {}", span.stride)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Digits::Unknown(reason) => write!(f, "unknown: {reason}"),
            Digits::Known(factors) => {
                let names: Vec<String> = factors.iter().map(Factor::to_string).collect();
                f.write_str(&names.join(" × "))
            }
        }
    }
}
