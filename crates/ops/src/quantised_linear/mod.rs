//! The product with a weight of 8-bit integers, for inference: `y = activation((x · Qᵀ) · s + bias) +
//! residual`, where W ≈ Q · s. Each output has a scale s of its own, max|w| / 127 over its row of weights,
//! and Q = W / s to the nearest integer, ties to even. x is not rounded, and sums are f32: the integers are
//! exact in f32, so that the only loss is that of W. The operand is the f32 weight itself; its integers are a
//! packed copy in the store, a quarter of the bytes, remade whenever the weight changes.

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

/// The product with a weight as integers; its settings are those of [`Linear`], whose precision rounds
/// nothing here.
#[derive(Clone, Copy, Debug)]
pub struct QuantisedLinear {
    /// What it stands for.
    pub linear: Linear,
}

/// Records products with weights as integers.
pub trait QuantisedLinearOps {
    /// `activation((x · Qᵀ) · s + bias) + residual`: x [... K], weight [N K], rounded to 8-bit integers times
    /// a scale for each output → [... N].
    fn quantised_linear(&mut self, x: Var, weight: Var, options: LinearOptions) -> Result<Var>;
}

impl QuantisedLinearOps for Graph {
    fn quantised_linear(&mut self, x: Var, weight: Var, options: LinearOptions) -> Result<Var> {
        let (linear, inputs) = Linear::of(self, x, weight, options);
        self.apply_one(QuantisedLinear { linear }, &inputs)
    }
}

const NO_DERIVATIVE: Derivative = Derivative::Missing(
    "integers have no derivative: weights are rounded for inference; train with `linear`",
);

impl QuantisedLinear {
    /// The work of the product as it is with integers: they and the scales are read instead of the weight,
    /// and every sum is scaled.
    fn quantised(&self, work: Work, call: &Concrete<'_>) -> Work {
        let (n, k) = self.linear.layout.sizes(call.inputs[1]);
        let rows = call.inputs[0].rows();
        let weight = call.inputs[1].count() * call.input_dtypes[1].bytes();
        Work {
            flops: work.flops + (rows * n) as u64,
            read: work.read - weight as u64 + (n * k + 4 * n) as u64,
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
        all.push(("weights", "int8, a scale for each output".into()));
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
        // A weight reaches its whole column through the scale, which is where it reached before.
        self.linear.reach(call, output, input)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        self.linear.axes(call, output)
    }
}

impl Kernels for QuantisedLinear {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(&FusedLinear::from(*self), call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.quantised(self.linear.cpu_work(call), call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        cpu::needs_quantised(&self.linear, request)
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        // That of `linear`, with another copy of the weight.
        cpu::run_quantised(&FusedLinear::from(*self), call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(crate::linear::cuda::linear(&FusedLinear::from(*self), call))
    }
}
