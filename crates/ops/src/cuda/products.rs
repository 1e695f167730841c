//! Products of matrices on a card: operands as the numbers that are multiplied, and sums over nothing, which
//! the library is not asked for.

use super::{CudaCall, CudaList, CudaProduct};
use regard_device::cuda::kernels::map::{Input, Map};
use regard_device::cuda::{Address, Compute, Epilogue, Number, Operands, Product};
use regard_graph::{DType, Precision};

/// What a value of a float dtype is made of.
pub(crate) fn number(dtype: DType) -> Number {
    if dtype == DType::BF16 { Number::Bf16 } else { Number::F32 }
}

/// What the operands of products of a precision are made of.
pub(crate) fn multiplied(precision: Precision) -> Number {
    if precision == Precision::Bf16 { Number::Bf16 } else { Number::F32 }
}

/// How the operands of products of a precision are multiplied: true f32, unless tf32 was asked for.
pub(crate) fn compute(call: &CudaCall<'_>, precision: Precision) -> Compute {
    if precision == Precision::F32 && call.tf32 { Compute::Tf32 } else { Compute::Exact }
}

/// Whether the library writes a result of these numbers from operands of those.
pub(crate) fn writes(operands: Number, result: Number) -> bool {
    operands == Number::Bf16 || result == Number::F32
}

impl CudaList {
    /// An operand of a bf16 product: as it is where it is bf16, else the copy that the engine keeps of it,
    /// else one that is made for this call.
    pub fn bf16(&mut self, call: &CudaCall<'_>, input: usize) -> Address {
        if call.call.input_dtypes[input] == DType::BF16 {
            return call.inputs[input];
        }
        if !self.wanted.contains(&input) {
            self.wanted.push(input);
        }
        let kept = call.copies.get(input).copied().flatten();
        kept.unwrap_or_else(|| self.converted(call, input, Number::Bf16))
    }

    /// An operand of an f32 product: as it is where it is f32, else a copy that is made for this call.
    pub fn f32(&mut self, call: &CudaCall<'_>, input: usize) -> Address {
        match call.call.input_dtypes[input] {
            DType::F32 => call.inputs[input],
            _ => self.converted(call, input, Number::F32),
        }
    }

    /// An operand of a product of this precision.
    pub(crate) fn factor(&mut self, call: &CudaCall<'_>, input: usize, precision: Precision) -> Address {
        match precision {
            Precision::Bf16 => self.bf16(call, input),
            Precision::F32 => self.f32(call, input),
        }
    }

    fn converted(&mut self, call: &CudaCall<'_>, input: usize, to: Number) -> Address {
        let (from, count) = (number(call.call.input_dtypes[input]), call.count(input));
        let at = self.room(call, count * to.bytes());
        self.convert((at, to), (call.inputs[input], from), count);
        at
    }

    /// Writes so many numbers as numbers of another kind.
    pub(crate) fn convert(&mut self, to: (Address, Number), from: (Address, Number), count: usize) {
        if count > 0 {
            let map = Map::new("x0", &[from.1.name()], to.1.name());
            let input = Input { at: from.0, strides: vec![1] };
            self.launch(map.launch(&[count], &[input], [0.0; 4], to.0));
        }
    }

    /// One product. Over nothing it is 0, and what is added to it stays.
    pub(crate) fn multiply(&mut self, work: CudaProduct) {
        let Product { m, n, k, batch, d, epilogue, .. } = work.product;
        if m * n * batch == 0 {
            return;
        }
        if k > 0 {
            return self.product(work);
        }
        assert!(epilogue == Epilogue::None && d.stride == n, "{epilogue:?} of a sum over nothing");
        let bytes = batch * m * n * d.number.bytes();
        if work.beta == 0.0 {
            self.clear(work.operands.d, bytes);
        } else {
            self.copy(work.operands.d, work.operands.c, bytes);
        }
    }

    /// One product to a dense result of these numbers, by way of f32 where the library writes no others.
    pub(crate) fn multiply_to(
        &mut self,
        call: &CudaCall<'_>,
        product: Product,
        alpha: f32,
        [a, b]: [Address; 2],
        (to, result): (Address, Number),
    ) {
        let direct = writes(product.a.number, result);
        let count = product.batch * product.m * product.n;
        let d = if direct { to } else { self.room(call, count * 4) };
        let mut product = product;
        product.d.number = if direct { result } else { Number::F32 };
        let operands = Operands { a, b, d, ..Operands::default() };
        self.multiply(CudaProduct { product, alpha, beta: 0.0, operands });
        if !direct {
            self.convert((to, result), (d, Number::F32), count);
        }
    }
}
