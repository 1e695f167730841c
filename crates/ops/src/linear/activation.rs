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

/// The activation at z.
pub fn value(activation: Activation, z: f64) -> f64 {
    function(activation).map_or(z, |function| function.value(z))
}

/// Operations of [`value`].
pub fn value_flops(activation: Activation) -> usize {
    function(activation).map_or(0, Function::flops)
}

/// The gradient dz, from z and the gradient behind the activation.
pub fn backward(activation: Activation, z: f64, dy: f64) -> f64 {
    function(activation).map_or(dy, |function| {
        let saved = if function.from_result() { function.value(z) } else { z };
        function.backward(saved, dy)
    })
}

/// Operations of [`backward`].
pub fn backward_flops(activation: Activation) -> usize {
    function(activation).map_or(0, Function::backward_flops)
}
