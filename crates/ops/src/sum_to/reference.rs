//! The specification of sums and means over broadcast axes.

use super::SumTo;
use crate::ReferenceCall;
use crate::broadcast::Walk;

pub fn run(op: &SumTo, call: &mut ReferenceCall<'_>) {
    let x = call.inputs[0];
    let out = call.outputs[0].dims();
    let walk = Walk::new(out, x.dims());
    for (i, &term) in x.data().iter().enumerate() {
        call.outputs[0].data_mut()[walk.flat(i)] += term;
        call.count_flops(1);
    }
    if op.mean {
        let terms = SumTo::terms(&x.dims(), &out) as f64;
        call.outputs[0].data_mut().iter_mut().for_each(|sum| *sum /= terms);
        call.count_flops(out.count());
    }
}
