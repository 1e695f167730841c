//! The product with a weight of integers, for inference: `y = activation(x · Wᵀ + bias) + residual`, where W
//! is rounded as [`Rounding`] says. The operand is the f32 weight itself; its integers are a packed copy in
//! the store, remade whenever the weight changes.
//! * By outputs: W ≈ Q · s, each output with a scale s of its own, max|w| / 127 over its row of weights, and
//!   Q = W / s to the nearest integer, ties to even. x is not rounded, and sums are f32: the integers are
//!   exact in f32, so that the only loss is that of W.
//! * By blocks of 32 inputs: each block of an output has a scale of its own (and, of 4 bits, a least number),
//!   and so has each block of 32 numbers of a row of x, which is rounded to 8 bits, too. Integers are
//!   multiplied as such.

pub(crate) mod cuda;
pub(crate) mod reference;
mod weights;

pub use weights::{Weights, with_weights};

use crate::linear::cpu;
use crate::linear::fused::FusedLinear;
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Linear, LinearOptions, Needs, NotYet, Record, ReferenceCall,
    Request,
};
use regard_graph::*;

/// How the weights of a product become integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// 8 bits, a scale for each output.
    Outputs,
    /// 8 bits, a scale for each block of 32 inputs of an output: what GGUF calls Q8_0.
    Blocks8,
    /// 4 bits, a scale and a least number for each block of 32 inputs of an output: what GGUF calls Q4_1.
    Blocks4,
}

impl Rounding {
    /// Bytes of a weight of `n` outputs and `k` inputs.
    fn bytes(self, n: usize, k: usize) -> usize {
        let blocks = n * k.div_ceil(BLOCK);
        match self {
            Rounding::Outputs => n * k + 4 * n,
            Rounding::Blocks8 => blocks * (BLOCK + 2),
            Rounding::Blocks4 => blocks * (BLOCK / 2 + 4),
        }
    }

    /// In a few words.
    fn words(self) -> &'static str {
        match self {
            Rounding::Outputs => "int8, a scale for each output",
            Rounding::Blocks8 => "8 bits, a scale for each 32 inputs",
            Rounding::Blocks4 => "4 bits, a scale and a least number for each 32 inputs",
        }
    }

    /// What each sum, or each sum of a block, costs beside its products.
    fn flops(self, rows: usize, n: usize, k: usize) -> usize {
        match self {
            Rounding::Outputs => rows * n,
            Rounding::Blocks8 => 2 * rows * n * k.div_ceil(BLOCK),
            Rounding::Blocks4 => 3 * rows * n * k.div_ceil(BLOCK),
        }
    }
}

/// How many inputs share a scale.
pub(crate) const BLOCK: usize = 32;

/// The product with a weight as integers; its settings are those of [`Linear`], whose precision rounds
/// nothing here.
#[derive(Clone, Copy, Debug)]
pub struct QuantisedLinear {
    /// What it stands for.
    pub linear: Linear,
    /// How the weight is rounded.
    pub rounding: Rounding,
}

/// Records products with weights as integers.
pub trait QuantisedLinearOps {
    /// `activation(x · Wᵀ + bias) + residual`: x [... K], weight [N K], rounded to integers in this way →
    /// [... N].
    fn quantised_linear(
        &mut self,
        x: Var,
        weight: Var,
        rounding: Rounding,
        options: LinearOptions,
    ) -> Result<Var>;
}

impl QuantisedLinearOps for Graph {
    fn quantised_linear(
        &mut self,
        x: Var,
        weight: Var,
        rounding: Rounding,
        options: LinearOptions,
    ) -> Result<Var> {
        let (linear, inputs) = Linear::of(self, x, weight, options);
        self.apply_one(QuantisedLinear { linear, rounding }, &inputs)
    }
}

const NO_DERIVATIVE: Derivative = Derivative::Missing(
    "integers have no derivative: weights are rounded for inference; train with `linear`",
);

impl QuantisedLinear {
    /// The work of the product as it is with integers: they and the scales are read instead of the weight,
    /// and every sum is scaled. (Rounding x is not counted: a row is rounded once for all outputs.)
    fn quantised(&self, work: Work, call: &Concrete<'_>) -> Work {
        let (n, k) = self.linear.layout.sizes(call.inputs[1]);
        let rows = call.inputs[0].rows();
        let weight = call.inputs[1].count() * call.input_dtypes[1].bytes();
        Work {
            flops: work.flops + self.rounding.flops(rows, n, k) as u64,
            read: work.read - weight as u64 + self.rounding.bytes(n, k) as u64,
            ..work
        }
    }
}

impl Op for QuantisedLinear {
    fn name(&self) -> &'static str {
        "quantised_linear"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let mut all = self.linear.attributes();
        all.retain(|(name, _)| *name != "precision");
        all.push(("weights", self.rounding.words().into()));
        all
    }

    fn operands(&self) -> Vec<&'static str> {
        self.linear.operands()
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        self.linear.infer_as("quantised_linear", inputs)
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        NO_DERIVATIVE
    }

    fn gradient(&self, _g: &mut Graph, _tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Err(Error::invalid("quantised_linear", "integers have no derivative", "train with `linear`"))
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        self.quantised(self.linear.cost(call), call)
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        // A weight reaches its whole column through the scale, and a number of x its whole row, which is
        // where they reached before.
        self.linear.reach(call, output, input)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        self.linear.axes(call, output)
    }
}

impl Kernels for QuantisedLinear {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(&FusedLinear::from(*self), self.rounding, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.quantised(self.linear.cpu_work(call), call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        cpu::needs_quantised(self, request)
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        // That of `linear`, with another copy of the weight.
        cpu::run_quantised(&FusedLinear::from(*self), self.rounding, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        cuda::list(&FusedLinear::from(*self), self.rounding, call)
    }
}
