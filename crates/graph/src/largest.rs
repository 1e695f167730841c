//! The largest size that readers and engines count with. What ops compute from sizes (work, scratch, tasks)
//! is a product of a few of them: under this bound it fits its type, above it no machine has the memory
//! anyway.

use crate::{Error, Graph, Result, Sizes, Var};

/// A value has fewer elements than this.
pub const MOST_ELEMENTS: usize = 1 << 40;

/// Checks that a value is not larger than anything can be: at these sizes, or at its bounds.
pub fn check_size(g: &Graph, reader: &str, var: Var, sizes: Option<&Sizes>) -> Result<()> {
    let shape = g.shape(var);
    let dims = sizes.map_or_else(|| Ok(shape.bound()), |sizes| shape.at(sizes))?;
    // An axis of nothing makes no other axis smaller: kernels still count its rows.
    let count = dims.iter().fold(1usize, |count, &size| count.saturating_mul(size.max(1)));
    if count < MOST_ELEMENTS {
        return Ok(());
    }
    Err(Error::invalid(
        reader,
        format!("{}, {}, is {dims} large, more than any machine holds", g.title(var), g.fact(var)),
        "lower the bounds of the open letters, or the fixed sizes",
    ))
}
