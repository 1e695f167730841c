//! The activations of a product in f64: they are functions of the `unary` op, or none.

use crate::Function;
use regard_device::Activation;

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
    // Where a function takes its slope from its value, as relu does, it is one whose value has the sign of z: z does as well.
    function(activation).map_or((dy, 0), |function| function.counted_backward(z, dy))
}

/// What the cost reader says of [`backward`].
pub fn backward_flops(activation: Activation) -> usize {
    function(activation).map_or(0, Function::backward_flops)
}
