//! Elementwise arithmetic in chunks; with broadcasting, one row of the result at a time.

use super::Arithmetic;
use crate::CpuCall;
use crate::broadcast::Walk;
use crate::call::CHUNK;
use regard_device::multiversion;

pub fn run(kind: Arithmetic, call: &CpuCall<'_>) {
    let (a, b, out) = (call.dims(0), call.dims(1), call.out_dims(0));
    if a == out && b == out {
        return call.chunks(out.count(), |part| {
            let range = part.items();
            let (mut x, mut y) = ([0.0; CHUNK], [0.0; CHUNK]);
            let (x, y) = (&mut x[..range.len()], &mut y[..range.len()]);
            part.load(0, range.clone(), x);
            part.load(1, range.clone(), y);
            combine(call.level, kind, x, y);
            part.store(0, range, x);
        });
    }
    if out.count() == 0 {
        return; // rows without columns have no coordinates
    }
    let (walk_a, walk_b, width) = (Walk::new(a, out), Walk::new(b, out), out.last_size());
    call.rows(out.rows(), width, |part, _| {
        let start = part.first() * width;
        let (at_a, at_b) = (walk_a.flat(start), walk_b.flat(start));
        let (mut x, mut y) = ([0.0; CHUNK], [0.0; CHUNK]);
        for from in (0..width).step_by(CHUNK) {
            let length = CHUNK.min(width - from);
            let (x, y) = (&mut x[..length], &mut y[..length]);
            walk_a.load(part, 0, at_a, from, x);
            walk_b.load(part, 1, at_b, from, y);
            combine(call.level, kind, x, y);
            part.store(0, start + from..start + from + length, x);
        }
    });
}

// Plain loops: the body of a `for_each` would be compiled without the level's instructions, unless inlined.
macro_rules! for_both {
    ($x:ident, $y:ident, $body:expr) => {
        for ($x, $y) in $x.iter_mut().zip($y) {
            $body
        }
    };
}

multiversion! {
    fn combine(kind: Arithmetic, x: &mut [f32], y: &[f32]) {
        match kind {
            Arithmetic::Add => for_both!(x, y, *x += y),
            Arithmetic::Subtract => for_both!(x, y, *x -= y),
            Arithmetic::Multiply => for_both!(x, y, *x *= y),
            Arithmetic::Divide => for_both!(x, y, *x /= y),
        }
    }
}
