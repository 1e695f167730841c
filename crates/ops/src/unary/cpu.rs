//! Functions of one number in chunks: load, apply, store.

use super::Function;
use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::{math, multiversion};

pub fn forward(function: Function, call: &CpuCall<'_>) {
    call.chunks(call.out_dims(0).count(), |range| {
        let mut x = [0.0; CHUNK];
        let x = &mut x[..range.len()];
        call.load(0, range.clone(), x);
        apply(call.level, function, x);
        call.store(0, range, x);
    });
}

pub fn backward(function: Function, call: &CpuCall<'_>) {
    call.chunks(call.out_dims(0).count(), |range| {
        let (mut saved, mut dy) = ([0.0; CHUNK], [0.0; CHUNK]);
        let (saved, dy) = (&mut saved[..range.len()], &mut dy[..range.len()]);
        call.load(0, range.clone(), saved);
        call.load(1, range.clone(), dy);
        undo(call.level, function, saved, dy);
        call.store(0, range, dy);
    });
}

multiversion! {
    /// x ← f(x)
    pub(crate) fn apply(function: Function, x: &mut [f32]) {
        match function {
            Function::Relu => x.iter_mut().for_each(|x| *x = math::relu(*x)),
            Function::Gelu => x.iter_mut().for_each(|x| *x = math::gelu(*x)),
            Function::GeluTanh => x.iter_mut().for_each(|x| *x = math::gelu_tanh(*x)),
            Function::Silu => x.iter_mut().for_each(|x| *x = math::silu(*x)),
            Function::Tanh => x.iter_mut().for_each(|x| *x = math::tanh(*x)),
            Function::Sigmoid => x.iter_mut().for_each(|x| *x = math::sigmoid(*x)),
            Function::Exp => x.iter_mut().for_each(|x| *x = math::exp(*x)),
            Function::Log => x.iter_mut().for_each(|x| *x = math::log(*x)),
            Function::Sqrt => x.iter_mut().for_each(|x| *x = x.sqrt()),
            Function::Square => x.iter_mut().for_each(|x| *x *= *x),
            Function::Abs => x.iter_mut().for_each(|x| *x = x.abs()),
            Function::Recip => x.iter_mut().for_each(|x| *x = 1.0 / *x),
        }
    }

    /// dy ← dy · f′, from y or x as `Function::from_result` says.
    pub(crate) fn undo(function: Function, saved: &[f32], dy: &mut [f32]) {
        let both = dy.iter_mut().zip(saved);
        match function {
            Function::Relu => both.for_each(|(d, y)| *d = if *y > 0.0 { *d } else { 0.0 }),
            Function::Gelu => both.for_each(|(d, x)| *d *= math::gelu_derivative(*x)),
            Function::GeluTanh => both.for_each(|(d, x)| *d *= math::gelu_tanh_derivative(*x)),
            Function::Silu => both.for_each(|(d, x)| *d *= math::silu_derivative(*x)),
            Function::Tanh => both.for_each(|(d, y)| *d *= (-y).mul_add(*y, 1.0)),
            Function::Sigmoid => both.for_each(|(d, y)| *d *= (-y).mul_add(*y, *y)),
            Function::Exp => both.for_each(|(d, y)| *d *= y),
            Function::Log => both.for_each(|(d, x)| *d /= x),
            Function::Sqrt => both.for_each(|(d, y)| *d *= 0.5 / y),
            Function::Square => both.for_each(|(d, x)| *d *= 2.0 * x),
            Function::Abs => both.for_each(|(d, x)| {
                let signed = if *x > 0.0 { *d } else { -*d };
                *d = if *x == 0.0 || x.is_nan() { 0.0 } else { signed };
            }),
            Function::Recip => both.for_each(|(d, y)| *d = -(*d * y) * y),
        }
    }
}
