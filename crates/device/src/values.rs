//! Numbers of one of the kinds that programs are fed with, in host memory.

/// The numbers of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Pixels, weights of examples.
    F32(Vec<f32>),
    /// Ids, positions, lengths, classes.
    I32(Vec<i32>),
    /// Masks.
    Bool(Vec<bool>),
}
