//! The specification of elementwise arithmetic.

use super::Arithmetic;
use crate::ReferenceCall;
use crate::broadcast::Walk;

pub fn run(kind: Arithmetic, call: &mut ReferenceCall<'_>) {
    let [a, b] = [call.inputs[0], call.inputs[1]];
    let out = call.outputs[0].dims();
    let (walk_a, walk_b) = (Walk::new(a.dims(), out), Walk::new(b.dims(), out));
    for i in 0..out.count() {
        let (x, y) = (a.data()[walk_a.flat(i)], b.data()[walk_b.flat(i)]);
        call.outputs[0].data_mut()[i] = match kind {
            Arithmetic::Add => x + y,
            Arithmetic::Subtract => x - y,
            Arithmetic::Multiply => x * y,
            Arithmetic::Divide => x / y,
        };
        call.count_flops(1);
    }
}
