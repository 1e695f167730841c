//! The product with a weight, and what usually follows it: `y = activation(x · Wᵀ + bias) + residual`. x is
//! [... K], y is [... N], the weight [N K] as PyTorch keeps it (a tied embedding [V C] fits as it is), or [K
//! N]. With the layout turned round, the same op is its own gradient with respect to x. What planning joins
//! with it beyond that is in `fused`.

pub(crate) mod activation;
mod activation_backward;
pub(crate) mod cpu;
mod cpu_weight_gradient;
pub(crate) mod cuda;
pub(crate) mod fused;
pub(crate) mod reference;
mod weight_gradient;

pub use activation::Activation;
pub use activation_backward::LinearActivationBackward;
pub use weight_gradient::WeightGradient;

use crate::{
    BinaryOps, Cast, CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall,
    Request, SumToOps, check_float,
};
use fused::FusedLinear;
use regard_graph::*;
use std::any::Any;

/// How a weight lies in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WeightLayout {
    /// [N K], one row for each output: y = x · Wᵀ. PyTorch's `Linear`, and tied embeddings.
    #[default]
    OutIn,
    /// [K N], one row for each input: y = x · W. The `Conv1D` of GPT-2's checkpoints.
    InOut,
}

impl WeightLayout {
    fn flipped(self) -> Self {
        match self {
            WeightLayout::OutIn => WeightLayout::InOut,
            WeightLayout::InOut => WeightLayout::OutIn,
        }
    }

    /// (N, K) of a weight.
    pub(crate) fn sizes(self, weight: Dims) -> (usize, usize) {
        match self {
            WeightLayout::OutIn => (weight[0], weight[1]),
            WeightLayout::InOut => (weight[1], weight[0]),
        }
    }
}

/// `y = activation(x · Wᵀ + bias) + residual`; where there is an activation, a second output is the value
/// before it, in the precision's own dtype, which only the gradient reads.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    /// Whether there is a bias `[N]`, the operand after the weight.
    pub bias: bool,
    /// Applied after the bias.
    pub activation: Activation,
    /// Whether there is a residual [... N], the last operand.
    pub residual: bool,
    /// How the weight lies in memory.
    pub layout: WeightLayout,
    /// The dtype of y.
    pub output: DType,
    /// Whether the operands of the product are rounded to bf16; sums are f32 either way.
    pub precision: Precision,
}

/// What may accompany a product with a weight; the default is the product alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinearOptions {
    /// One f32 number for each output, added to the product.
    pub bias: Option<Var>,
    /// Applied after the bias.
    pub activation: Activation,
    /// [... N], f32 or bf16, added at the end.
    pub residual: Option<Var>,
    /// How the weight lies in memory: [N K] unless told otherwise.
    pub layout: WeightLayout,
    /// The dtype of the result. By default f32 with a residual, because the residual stream is f32, and
    /// otherwise that of the graph's precision: bf16 activations in bf16 programs.
    pub output: Option<DType>,
}

/// Records products with weights.
pub trait LinearOps {
    /// `activation(x · Wᵀ + bias) + residual` in the precision of the graph: x [... K], weight [N K] → [...
    /// N].
    ///
    /// ```
    /// # use regard_ops::prelude::*;
    /// # use regard_ops::{Activation, LinearOptions};
    /// # fn main() -> regard_graph::Result<()> {
    /// let mut g = Graph::new();
    /// let x = g.input("x", DType::F32, [2, 5, 8])?;
    /// let weight = g.parameter("up.weight", [32, 8], Init::Normal(0.02))?;
    /// let bias = g.parameter("up.bias", [32], Init::Zeros)?;
    /// let options = LinearOptions { bias: Some(bias), activation: Activation::Gelu, ..Default::default() };
    /// let hidden = g.linear(x, weight, options)?;
    /// assert_eq!(g.shape(hidden).to_string(), "[2 5 32]");
    /// # Ok(()) }
    /// ```
    fn linear(&mut self, x: Var, weight: Var, options: LinearOptions) -> Result<Var>;
}

impl LinearOps for Graph {
    fn linear(&mut self, x: Var, weight: Var, options: LinearOptions) -> Result<Var> {
        let (op, inputs) = Linear::of(self, x, weight, options);
        self.apply_one(op, &inputs)
    }
}

impl Linear {
    /// A product alone, with this weight layout.
    pub fn plain(layout: WeightLayout, output: DType, precision: Precision) -> Self {
        Linear { bias: false, activation: Activation::None, residual: false, layout, output, precision }
    }

    /// The op and its operands in a graph of some precision.
    pub(crate) fn of(g: &Graph, x: Var, weight: Var, options: LinearOptions) -> (Self, Vec<Var>) {
        let LinearOptions { bias, activation, residual, layout, output } = options;
        let precision = g.precision();
        let usual = if residual.is_some() { DType::F32 } else { precision.activation() };
        let op = Linear {
            bias: bias.is_some(),
            activation,
            residual: residual.is_some(),
            layout,
            output: output.unwrap_or(usual),
            precision,
        };
        (op, [Some(x), Some(weight), bias, residual].into_iter().flatten().collect())
    }

    pub(crate) fn bias_input(&self) -> Option<usize> {
        self.bias.then_some(2)
    }

    pub(crate) fn residual_input(&self) -> Option<usize> {
        self.residual.then_some(2 + usize::from(self.bias))
    }

    /// The result that holds what came before the activation.
    pub(crate) fn z_at(&self) -> Option<usize> {
        (self.activation != Activation::None).then_some(1)
    }

    /// The shape reader, for the op of this name.
    pub(crate) fn infer_as(&self, op: &str, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float(op, "x", inputs[0].dtype)?;
        check_float(op, "weight", inputs[1].dtype)?;
        check_float(op, "the result", self.output)?;
        let mut letters = Letters::new(op);
        letters.bind("x", &inputs[0].shape, "... K")?;
        let pattern = if self.layout == WeightLayout::OutIn { "N K" } else { "K N" };
        letters.bind("weight", &inputs[1].shape, pattern)?;
        if let Some(bias) = self.bias_input() {
            letters.bind("bias", &inputs[bias].shape, "N")?;
            check_f32(op, "bias", inputs[bias].dtype)?;
        }
        if let Some(residual) = self.residual_input() {
            letters.bind("residual", &inputs[residual].shape, "... N")?;
            check_float(op, "residual", inputs[residual].dtype)?;
        }
        let shape = letters.shape("... N");
        let mut facts = vec![Fact::new(shape.clone(), self.output)];
        facts.extend(self.z_at().map(|_| Fact::new(shape, self.precision.activation())));
        Ok(facts)
    }
}

/// A gradient as the product that made it has it, where differentiation rounded it afterwards: whoever goes
/// on with it in f32 need not lose those digits.
fn unrounded(g: &Graph, gradient: Var) -> Var {
    let made_by = |var: Var| match g.value(var).origin {
        Origin::Node { node, .. } => Some(&g.nodes()[node]),
        _ => None,
    };
    let is = |node: &Node, of: fn(&dyn Any) -> bool| node.pass == Pass::Backward && of(&*node.op);
    made_by(gradient)
        .filter(|node| is(node, |op| op.is::<Cast>()))
        .map(|cast| cast.inputs[0])
        .filter(|&wide| made_by(wide).is_some_and(|node| is(node, |op| op.is::<Linear>())))
        .unwrap_or(gradient)
}

/// Checks that an operand that every sum is added to is f32.
pub(crate) fn check_f32(op: &str, operand: &str, dtype: DType) -> Result<()> {
    if dtype == DType::F32 {
        return Ok(());
    }
    Err(Error::DType {
        op: op.into(),
        operand: operand.into(),
        got: dtype.to_string(),
        expected: "f32".into(),
        advice: "cast it to f32 first".into(),
    })
}

impl Op for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![
            ("activation", format!("{:?}", self.activation)),
            ("layout", format!("{:?}", self.layout)),
            ("precision", format!("{:?}", self.precision)),
        ]
    }

    fn operands(&self) -> Vec<&'static str> {
        let mut names = vec!["x", "weight"];
        names.extend(self.bias.then_some("bias"));
        names.extend(self.residual.then_some("residual"));
        names
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        self.infer_as("linear", inputs)
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let [x, weight] = [tape.inputs[0], tape.inputs[1]];
        let mut grads = vec![None; tape.inputs.len()];
        // y = activation(z) + residual, so dz = dy · activation′(z) and the residual gets dy.
        let mut dz = match (tape.grads[0], self.activation) {
            (Some(dy), Activation::None) => Some(dy),
            (Some(dy), activation) => {
                let operands = [tape.outputs[1], unrounded(g, dy)];
                Some(g.apply_one(LinearActivationBackward { activation }, &operands)?)
            }
            (None, _) => None,
        };
        if let Some(more) = self.z_at().and_then(|z| tape.grads[z]) {
            dz = Some(dz.map_or(Ok(more), |dz| g.add(dz, more))?);
        }
        if let (Some(dy), Some(residual)) = (tape.grads[0], self.residual_input())
            && tape.wanted[residual]
        {
            grads[residual] = Some(g.sum_to(dy, tape.inputs[residual])?);
        }
        let Some(dz) = dz else { return Ok(grads) };
        if tape.wanted[0] {
            // z = x · Wᵀ, so dx = dz · W: the same product with the weight read the other way. Not rounded
            // yet: what it meets is added first.
            let turned = Linear::plain(self.layout.flipped(), DType::F32, self.precision);
            grads[0] = Some(g.apply_one(turned, &[dz, weight])?);
        }
        if tape.wanted[1] {
            // z[r n] = Σₖ x[r k] W[n k], so dW[n k] = Σᵣ dz[r n] x[r k].
            let bias = self.bias_input().filter(|&bias| tape.wanted[bias]);
            let sums = bias.is_some() && self.layout == WeightLayout::OutIn;
            let op = WeightGradient { output: g.dtype(weight), precision: self.precision, sums };
            let factors = if self.layout == WeightLayout::OutIn { [dz, x] } else { [x, dz] };
            let found = g.apply(op, &factors)?;
            grads[1] = Some(found[0]);
            if let Some(bias) = bias.filter(|_| sums) {
                grads[bias] = Some(found[1]);
            }
        }
        if let Some(bias) = self.bias_input()
            && tape.wanted[bias]
            && grads[bias].is_none()
        {
            grads[bias] = Some(g.sum_to(dz, tape.inputs[bias])?);
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let (n, k) = self.layout.sizes(call.inputs[1]);
        let rows = call.inputs[0].rows();
        let each =
            usize::from(self.bias) + activation::value_flops(self.activation) + usize::from(self.residual);
        Work {
            macs: (rows * n * k) as u64,
            flops: (rows * n * each) as u64,
            read: call.bytes_in(),
            written: call.bytes_out(),
        }
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        let last = call.outputs[0].len() - 1;
        if self.residual_input() == Some(input) {
            return if output == 0 { Relation::Same } else { Relation::Nothing };
        }
        Relation::Axes(match input {
            0 => (0..last).map(Along::Same).chain([Along::All]).collect(),
            1 if self.layout == WeightLayout::OutIn => vec![Along::Same(last), Along::All],
            1 => vec![Along::All, Along::Same(last)],
            _ => vec![Along::Same(last)],
        })
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let last = call.outputs[0].len() - 1;
        let columns = if self.layout == WeightLayout::OutIn { 0 } else { 1 };
        let layout = Layout::own(call, output).leading(0, last).with(last, 1, columns);
        let layout = if self.bias { layout.with(last, 2, 0) } else { layout };
        self.residual_input().into_iter().fold(layout, |layout, input| layout.leading(input, last + 1))
    }
}

impl Kernels for Linear {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(&FusedLinear::from(*self), call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        cpu::work(self, call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        cpu::needs(self, request)
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(&FusedLinear::from(*self), call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::linear(&FusedLinear::from(*self), call))
    }
}
