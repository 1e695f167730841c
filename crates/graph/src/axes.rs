//! The axes reader: which axis of a value holds the examples of the batch, which one the positions of a
//! stream, and which is its own (heads, features, latents). Inputs declare what their axes are; every op says
//! which axes of its operands an axis of a result continues; so two axes are the same because one became the
//! other, never because they are as long.
//!
//! Identity is not dependence: a norm over the batch feels every example, and its result still has a row for
//! each. That is why ops answer this beside `reach`, and why a leak can be pointed at: the result of the
//! guilty node still knows which position it stands for.

use crate::{Concrete, Var};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

mod axis;
mod reader;
#[cfg(test)]
mod tests;

pub use axis::Axis;
pub use reader::{axes, check_layouts};

/// What stands along an axis.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// The examples of the batch.
    Batch,
    /// The positions of the stream with this name.
    Positions(Arc<str>),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Batch => f.write_str("examples"),
            Label::Positions(stream) => write!(f, "positions of `{stream}`"),
        }
    }
}

/// What the axes of an input are; `None` for an axis of its own.
pub type Declared = (Var, Vec<Option<Label>>);

/// An axis of an operand that an axis of a result continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisOf {
    /// The operand.
    pub input: usize,
    /// Its axis.
    pub axis: usize,
    /// What is added to a coordinate there to find it in the result.
    pub shift: isize,
    /// Only this coordinate of the result continues it, the others do not.
    pub only: Option<usize>,
}

/// How the axes of a result continue those of the operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// For each axis of the result the axes that it continues; none for one of its own.
    Axes(Vec<Vec<AxisOf>>),
    /// The elements of this operand in the same order, under another shape.
    Flat(usize),
    /// It cannot be said, for this reason.
    Unknown(String),
}

impl Layout {
    /// All axes of the output are its own.
    pub fn own(call: &Concrete<'_>, output: usize) -> Self {
        Layout::Axes(vec![Vec::new(); call.outputs[output].len()])
    }

    /// Shapes are aligned at the last axis, as in broadcasting and in reductions; an axis of size 1 in one
    /// place only is repeated or reduced, and continues nothing.
    pub fn aligned(call: &Concrete<'_>, output: usize, inputs: impl IntoIterator<Item = usize>) -> Self {
        let mut layout = Layout::own(call, output);
        let out = call.outputs[output];
        for input in inputs {
            let own = call.inputs[input];
            for back in 1..=own.len().min(out.len()) {
                if own[own.len() - back] == out[out.len() - back] {
                    layout = layout.with(out.len() - back, input, own.len() - back);
                }
            }
        }
        layout
    }

    /// As [`Layout::aligned`], with every operand: what elementwise ops and norms say.
    pub fn elementwise(call: &Concrete<'_>, output: usize) -> Self {
        Layout::aligned(call, output, 0..call.inputs.len())
    }

    /// The axes of the only operand, one of them moved: slices and what undoes them.
    pub fn moved(call: &Concrete<'_>, output: usize, axis: usize, shift: isize) -> Self {
        let axes = 0..call.inputs[0].len();
        axes.fold(Layout::own(call, output), |layout, at| {
            layout.shifted(at, 0, at, if at == axis { shift } else { 0 })
        })
    }

    /// One more axis that this axis continues.
    pub fn with(self, axis: usize, input: usize, of: usize) -> Self {
        self.shifted(axis, input, of, 0)
    }

    /// One more axis that this axis continues, with its coordinates moved.
    pub fn shifted(self, axis: usize, input: usize, of: usize, shift: isize) -> Self {
        self.continuing(axis, AxisOf { input, axis: of, shift, only: None })
    }

    /// The coordinates of this axis are those of the operand's that are listed, in the order of the list.
    pub fn picked(self, axis: usize, input: usize, of: usize, list: &[usize]) -> Self {
        let one = |(at, &from): (usize, &usize)| {
            let shift = at as isize - from as isize;
            AxisOf { input, axis: of, shift, only: Some(at) }
        };
        list.iter().enumerate().map(one).fold(self, |layout, of| layout.continuing(axis, of))
    }

    fn continuing(mut self, axis: usize, of: AxisOf) -> Self {
        if let Layout::Axes(axes) = &mut self {
            axes[axis].push(of);
        }
        self
    }

    /// The first `count` axes continue the first ones of the operand.
    pub fn leading(mut self, input: usize, count: usize) -> Self {
        for axis in 0..count {
            self = self.with(axis, input, axis);
        }
        self
    }
}

/// Whether the cells of a value stand for examples, or for positions of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Each for one of them, or for several, but for such as stand beside them, like a class token: by one
    /// axis, or by several that together tell all of them apart.
    Along,
    /// For none of them: its axes are others.
    Unrelated,
    /// It cannot be told, for this reason.
    Lost(String),
}

/// What the axes of every value of a graph are.
#[derive(Clone, Debug)]
pub struct Axes {
    /// How many examples or positions there are.
    extents: BTreeMap<Label, usize>,
    /// For each value its axes.
    values: Vec<Vec<Axis>>,
}

impl Axes {
    /// The axes of a value, outermost first.
    pub fn of(&self, var: Var) -> &[Axis] {
        &self.values[var.index()]
    }

    /// Whether the cells of a value stand for these.
    pub fn standing(&self, var: Var, label: &Label) -> Standing {
        if self.levels(var, label).is_some() {
            return Standing::Along;
        }
        let unknown = self.of(var).iter().enumerate().find_map(|(axis, own)| Some((axis, own.reason()?)));
        if let Some((axis, reason)) = unknown {
            return Standing::Lost(format!("axis {axis}: {reason}"));
        }
        match self.of(var).iter().any(|axis| axis.labels().any(|own| own == label)) {
            true => Standing::Lost(format!("its axes hold only parts of the {label}")),
            false => Standing::Unrelated,
        }
    }

    /// Whether the last axis of a value holds more than features: examples or positions, alone or merged with
    /// others.
    pub fn last_is_labelled(&self, var: Var) -> bool {
        self.of(var).last().is_some_and(|axis| axis.labels().next().is_some())
    }

    /// Which examples or positions the cell at these coordinates stands for: none if it stands beside them (a
    /// class token), two for a pair (a score of a query and a key). Coordinates of unlabelled last axes may
    /// be left out.
    pub fn standing_for(&self, var: Var, label: &Label, at: &[usize]) -> Vec<usize> {
        let Some(levels) = self.levels(var, label) else { return Vec::new() };
        let mut found = vec![0];
        for level in levels {
            let mut next = Vec::new();
            for (axis, factor) in level {
                let Some(part) = self.of(var)[axis].part(factor, label, at[axis]) else { continue };
                next.extend(found.iter().map(|before| before + part));
            }
            found = next;
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The digits that make up a label in a value, the most significant level first: for each level the axes
    /// and factors that hold it. `None` if some of the digits are missing, or if several levels are there
    /// more than once, so that nobody can say which belong together.
    fn levels(&self, var: Var, label: &Label) -> Option<Vec<Vec<(usize, usize)>>> {
        let extent = *self.extents.get(label)?;
        if extent == 1 {
            return Some(Vec::new()); // an axis of one needs no digit
        }
        let parts = || {
            let axes = self.of(var).iter().enumerate();
            axes.flat_map(|(axis, own)| {
                own.parts(label).map(move |(factor, within, stride)| (axis, factor, within, stride))
            })
        };
        let (mut within, mut levels) = (extent, Vec::new());
        while within > 1 {
            let stride = parts().find(|part| part.2 == within)?.3;
            let level: Vec<(usize, usize)> = parts()
                .filter(|part| (part.2, part.3) == (within, stride))
                .map(|part| (part.0, part.1))
                .collect();
            levels.push(level);
            within = stride;
        }
        let doubled = levels.iter().filter(|level| level.len() > 1).count();
        (doubled < 2).then_some(levels)
    }
}
