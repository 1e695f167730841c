//! The soft cap of scores on the CPU: β·q·k becomes cap · tanh(β·q·k / cap), number by number, before
//! anything is added. It is a pass of its own over a tile of dots; attention without a cap does not meet it.

use regard_device::{math, multiversion};

multiversion! {
    /// Dots to capped scores; `inner` is β over the cap.
    pub fn cap_scores(dots: &mut [f32], inner: f32, cap: f32) {
        for x in dots {
            *x = cap * math::tanh(*x * inner);
        }
    }

    /// The same, and how fast each still grows with its dot times β: 1 − tanh².
    pub fn cap_with_slopes(dots: &mut [f32], slopes: &mut [f32], inner: f32, cap: f32) {
        for (x, slope) in dots.iter_mut().zip(slopes) {
            let within = math::tanh(*x * inner);
            *x = cap * within;
            *slope = (1.0 - within) * (1.0 + within);
        }
    }

    /// The gradients of capped scores to those of scores.
    pub fn through_cap(gradients: &mut [f32], slopes: &[f32]) {
        for (gradient, slope) in gradients.iter_mut().zip(slopes) {
            *gradient *= slope;
        }
    }
}
