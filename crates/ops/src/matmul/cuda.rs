//! Products of two values on a card: one product of the library, in a batch where there are several matrices.

use super::{Matmul, Sizes};
use crate::cuda::products::{compute, multiplied, number};
use crate::{CudaCall, CudaList};
use regard_device::cuda::{Layout, Product};

pub fn list(op: &Matmul, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let mut sizes = op.sizes(call.call.inputs[0], call.call.inputs[1]);
    if sizes.one_b && !op.transpose_a && !sizes.one_a {
        // All rows of a meet the same matrix: one product.
        sizes = Sizes { m: sizes.m * sizes.batch, batch: 1, ..sizes };
    }
    let Sizes { m, k, n, batch, one_a, one_b } = sizes;
    if !call.used(0) || m * n * batch == 0 {
        return list;
    }
    let [a, b] = [0, 1].map(|input| list.factor(call, input, op.precision));
    let result = number(op.output);
    let product = Product::new(m, n, k, multiplied(op.precision), result).by(compute(call, op.precision));
    let product = if op.transpose_a { product.transposed_a() } else { product };
    let product = if op.transpose_b { product.transposed_b() } else { product };
    let apart = |layout: Layout, numbers: usize| Layout { batch_stride: numbers, ..layout };
    let product = Product {
        batch,
        a: apart(product.a, if one_a { 0 } else { m * k }),
        b: apart(product.b, if one_b { 0 } else { k * n }),
        d: apart(product.d, m * n),
        ..product
    };
    list.multiply_to(call, product, op.scale, [a, b], (call.outputs[0], result));
    list
}
