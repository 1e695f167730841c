//! The specification of the product of two values.

use super::{Matmul, Sizes};
use crate::ReferenceCall;

pub fn run(op: &Matmul, call: &mut ReferenceCall<'_>) {
    let (a, b) = (call.operand(0, op.precision), call.operand(1, op.precision));
    let Sizes { m, k, n, batch, one_a, one_b } = op.sizes(a.dims(), b.dims());
    for matrix in 0..batch {
        let a = &a.data()[if one_a { 0 } else { matrix * m * k }..];
        let b = &b.data()[if one_b { 0 } else { matrix * k * n }..];
        for i in 0..m {
            for j in 0..n {
                let mut sum = 0.0;
                for l in 0..k {
                    let x = if op.transpose_a { a[l * m + i] } else { a[i * k + l] };
                    let y = if op.transpose_b { b[j * k + l] } else { b[l * n + j] };
                    sum += x * y;
                    call.count_macs(1);
                }
                if op.scale != 1.0 {
                    sum *= op.scale as f64;
                    call.count_flops(1);
                }
                call.outputs[0].data_mut()[(matrix * m + i) * n + j] = sum;
            }
        }
    }
}
