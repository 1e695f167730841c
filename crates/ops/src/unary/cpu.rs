//! Functions of one number in chunks: load, apply, store.

use super::Function;
use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::{math, multiversion};

pub fn forward(function: Function, call: &CpuCall<'_>) {
    call.chunks(call.out_dims(0).count(), |part| {
        let range = part.items();
        let mut x = [0.0; CHUNK];
        let x = &mut x[..range.len()];
        part.load(0, range.clone(), x);
        apply(call.level, function, x);
        part.store(0, range, x);
    });
}

pub fn backward(function: Function, call: &CpuCall<'_>) {
    call.chunks(call.out_dims(0).count(), |part| {
        let range = part.items();
        let (mut saved, mut dy) = ([0.0; CHUNK], [0.0; CHUNK]);
        let (saved, dy) = (&mut saved[..range.len()], &mut dy[..range.len()]);
        part.load(0, range.clone(), saved);
        part.load(1, range.clone(), dy);
        undo(call.level, function, saved, dy);
        part.store(0, range, dy);
    });
}

// Plain loops: the body of a `for_each` would be compiled without the level's instructions, unless inlined.
macro_rules! map {
    ($x:ident, $value:expr) => {
        for slot in $x.iter_mut() {
            let $x = *slot;
            *slot = $value;
        }
    };
}

macro_rules! map_both {
    ($d:ident, $saved:ident, $value:expr) => {
        for (slot, saved) in $d.iter_mut().zip($saved) {
            let ($d, $saved) = (*slot, *saved);
            *slot = $value;
        }
    };
}

multiversion! {
    /// x ← f(x)
    pub(crate) fn apply(function: Function, x: &mut [f32]) {
        match function {
            Function::Relu => map!(x, math::relu(x)),
            Function::Gelu => map!(x, math::gelu(x)),
            Function::GeluTanh => map!(x, math::gelu_tanh(x)),
            Function::Silu => map!(x, math::silu(x)),
            Function::Tanh => map!(x, math::tanh(x)),
            Function::Sigmoid => map!(x, math::sigmoid(x)),
            Function::Exp => map!(x, math::exp(x)),
            Function::Log => map!(x, math::log(x)),
            Function::Sqrt => map!(x, x.sqrt()),
            Function::Square => map!(x, x * x),
            Function::Abs => map!(x, x.abs()),
            Function::Recip => map!(x, 1.0 / x),
        }
    }

    /// d ← d · f′, from y or x as `Function::from_result` says.
    pub(crate) fn undo(function: Function, s: &[f32], d: &mut [f32]) {
        match function {
            Function::Relu => map_both!(d, s, if s > 0.0 { d } else { 0.0 }),
            Function::Gelu => map_both!(d, s, d * math::gelu_derivative(s)),
            Function::GeluTanh => map_both!(d, s, d * math::gelu_tanh_derivative(s)),
            Function::Silu => map_both!(d, s, d * math::silu_derivative(s)),
            Function::Tanh => map_both!(d, s, d * (-s).mul_add(s, 1.0)),
            Function::Sigmoid => map_both!(d, s, d * (-s).mul_add(s, s)),
            Function::Exp => map_both!(d, s, d * s),
            Function::Log => map_both!(d, s, d / s),
            Function::Sqrt => map_both!(d, s, d * (0.5 / s)),
            Function::Square => map_both!(d, s, d * (2.0 * s)),
            Function::Abs => map_both!(d, s, {
                let signed = if s > 0.0 { d } else { -d };
                if s == 0.0 || s.is_nan() { 0.0 } else { signed }
            }),
            Function::Recip => map_both!(d, s, -(d * s) * s),
        }
    }
}
