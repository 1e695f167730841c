//! The activations of a product, and what they are in f64: functions of the `unary` op, or none.

use crate::Function;

/// What may follow a product, element by element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The identity.
    #[default]
    None,
    /// max(x, 0).
    Relu,
    /// x Φ(x).
    Gelu,
    /// GELU in its tanh form.
    GeluTanh,
    /// x sigmoid(x).
    Silu,
}

fn function(activation: Activation) -> Option<Function> {
    match activation {
        Activation::None => None,
        Activation::Relu => Some(Function::Relu),
        Activation::Gelu => Some(Function::Gelu),
        Activation::GeluTanh => Some(Function::GeluTanh),
        Activation::Silu => Some(Function::Silu),
    }
}

/// The activation at z, and how many operations it took.
pub fn value(activation: Activation, z: f64) -> (f64, usize) {
    function(activation).map_or((z, 0), |function| function.counted_value(z))
}

/// What the cost reader says of [`value`].
pub fn value_flops(activation: Activation) -> usize {
    function(activation).map_or(0, Function::flops)
}

/// The gradient dz, from z and the gradient behind the activation, and how many operations it took.
pub fn backward(activation: Activation, z: f64, dy: f64) -> (f64, usize) {
    // Where a function takes its slope from its value, as relu does, it is one whose value has the sign of z:
    // z does as well.
    function(activation).map_or((dy, 0), |function| function.counted_backward(z, dy))
}

/// What the cost reader says of [`backward`].
pub fn backward_flops(activation: Activation) -> usize {
    function(activation).map_or(0, Function::backward_flops)
}
