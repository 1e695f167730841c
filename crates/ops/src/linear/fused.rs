//! What planning makes of a product and of what stands behind it, so that it is done while the sums are in a
//! cache: `y = activation(x · Wᵀ + bias) · derivative′(z) + residual`, where a gradient goes on through an
//! activation; and, for a norm that reads y, what it has to know of its rows. Each part may be absent, and
//! every combination means something. Nobody records it: [`crate::join`] puts it in the place of plain nodes,
//! with the same bits.

use super::{Linear, activation, check_f32, cpu, cuda, reference};
use crate::kernels::attached;
use crate::norm::gathering;
use crate::norm::statistics::statistics_pattern;
use crate::{
    Activation, CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NormKind, NotYet, QuantisedLinear,
    ReferenceCall, Request, check_float,
};
use regard_graph::*;
use std::sync::Arc;

/// A product with what was joined with it. Operands: those of the product, then z. Results: those of the
/// product, then the statistics [... parts 3] of the rows of y.
#[derive(Clone, Copy, Debug)]
pub struct FusedLinear {
    pub product: Product,
    /// The activation whose derivative at z [... N] multiplies the product before a residual is added.
    pub derivative: Option<Activation>,
    /// What the norm that reads y wants to know of its rows.
    pub statistics: Option<NormKind>,
}

/// The product itself, as it was recorded; with a residual, if that was joined.
#[derive(Clone, Copy, Debug)]
pub enum Product {
    Linear(Linear),
    Quantised(QuantisedLinear),
}

impl From<Linear> for FusedLinear {
    fn from(linear: Linear) -> Self {
        FusedLinear { product: Product::Linear(linear), derivative: None, statistics: None }
    }
}

impl From<QuantisedLinear> for FusedLinear {
    fn from(quantised: QuantisedLinear) -> Self {
        FusedLinear { product: Product::Quantised(quantised), derivative: None, statistics: None }
    }
}

impl FusedLinear {
    /// The settings of the product.
    pub fn linear(&self) -> &Linear {
        match &self.product {
            Product::Linear(linear) => linear,
            Product::Quantised(QuantisedLinear { linear, .. }) => linear,
        }
    }

    /// The same with other settings of the product.
    pub fn with(mut self, change: impl FnOnce(&mut Linear)) -> Self {
        match &mut self.product {
            Product::Linear(linear) => change(linear),
            Product::Quantised(QuantisedLinear { linear, .. }) => change(linear),
        }
        self
    }

    /// As a node has it: the plain op where nothing was joined with it that it cannot say itself.
    pub fn attached(self) -> (Arc<dyn Op>, Attachment) {
        match self {
            FusedLinear { product: Product::Linear(linear), derivative: None, statistics: None } => {
                attached(linear)
            }
            FusedLinear { product: Product::Quantised(quantised), derivative: None, statistics: None } => {
                attached(quantised)
            }
            fused => attached(fused),
        }
    }

    fn kernels(&self) -> &dyn Kernels {
        match &self.product {
            Product::Linear(linear) => linear,
            Product::Quantised(quantised) => quantised,
        }
    }

    /// The operand z.
    pub fn z_input(&self) -> Option<usize> {
        let Linear { bias, residual, .. } = *self.linear();
        self.derivative.map(|_| 2 + usize::from(bias) + usize::from(residual))
    }

    /// The result that holds the statistics of the rows of y.
    pub fn statistics_at(&self) -> Option<usize> {
        self.statistics.map(|_| 1 + usize::from(self.linear().z_at().is_some()))
    }

    /// Scratch for a y of which only the statistics are read.
    fn unread_y_bytes(&self, call: &Concrete<'_>) -> usize {
        let unread = self.statistics_at().is_some_and(|at| call.used[at]) && !call.used[0];
        if unread { call.outputs[0].count() * 4 } else { 0 }
    }

    /// The work of the derivative that multiplies the product.
    fn of_derivative(&self, call: &Concrete<'_>) -> Work {
        match (self.derivative, self.z_input()) {
            (Some(activation), Some(z)) => Work {
                flops: (call.outputs[0].count() * activation::backward_flops(activation)) as u64,
                read: (call.inputs[z].count() * call.input_dtypes[z].bytes()) as u64,
                ..Work::default()
            },
            _ => Work::default(),
        }
    }

    /// What the product alone is asked about.
    fn of_product<'a>(&self, call: &Concrete<'a>) -> Concrete<'a> {
        let inputs = call.inputs.len() - usize::from(self.derivative.is_some());
        let outputs = call.outputs.len() - usize::from(self.statistics.is_some());
        Concrete {
            inputs: &call.inputs[..inputs],
            outputs: &call.outputs[..outputs],
            input_dtypes: &call.input_dtypes[..inputs],
            output_dtypes: &call.output_dtypes[..outputs],
            integers: &call.integers[..inputs],
            used: &call.used[..outputs],
        }
    }
}

impl Op for FusedLinear {
    fn name(&self) -> &'static str {
        self.kernels().name()
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let mut attributes = self.kernels().attributes();
        attributes.extend(self.derivative.map(|activation| ("derivative", format!("{activation:?}"))));
        attributes.extend(self.statistics.map(|kind| ("statistics", format!("{kind:?}"))));
        attributes
    }

    fn operands(&self) -> Vec<&'static str> {
        let mut names = self.kernels().operands();
        names.extend(self.derivative.map(|_| "z"));
        names
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let of_product = inputs.len() - usize::from(self.derivative.is_some());
        let mut facts = self.kernels().infer(&inputs[..of_product])?;
        let mut letters = Letters::new(self.name());
        letters.bind("y", &facts[0].shape, "... N")?;
        if let Some(z) = self.z_input() {
            letters.bind("z", &inputs[z].shape, "... N")?;
            check_float(self.name(), "z", inputs[z].dtype)?;
        }
        if self.statistics.is_some() {
            check_f32(self.name(), "the result", self.linear().output)?;
            facts.push(Fact::f32(letters.shape(&statistics_pattern(self.name(), "N", &letters)?)));
        }
        Ok(facts)
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        PLANNED
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    /// The mathematics has the statistics in the norm that reads them, wherever they are gathered.
    fn cost(&self, call: &Concrete<'_>) -> Work {
        self.kernels().cost(&self.of_product(call)) + self.of_derivative(call)
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        let is_z = self.z_input() == Some(input);
        if self.statistics_at() == Some(output) {
            // All of the row of y, which reads all of the weight and of the bias.
            let is_row = is_z || input == 0 || self.linear().residual_input() == Some(input);
            let last = call.outputs[0].len() - 1;
            let row = (0..last).map(Along::Same).chain([Along::All]);
            return if is_row { Relation::Axes(row.collect()) } else { Relation::Everything };
        }
        match is_z {
            true if output == 0 => Relation::Same,
            true => Relation::Nothing,
            false => self.kernels().reach(&self.of_product(call), output, input),
        }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let last = call.outputs[0].len() - 1;
        if self.statistics_at() == Some(output) {
            // The rows of y, which are those of x, of z and of the residual.
            let rows = [Some(0), self.z_input(), self.linear().residual_input()].into_iter().flatten();
            return rows.fold(Layout::own(call, output), |layout, input| layout.leading(input, last));
        }
        let layout = self.kernels().axes(&self.of_product(call), output);
        self.z_input().into_iter().fold(layout, |layout, input| layout.leading(input, last + 1))
    }
}

/// A plan is not differentiated: the graph that was recorded is.
const PLANNED: Derivative =
    Derivative::Missing("it was joined for a plan; differentiate the graph that was recorded");

impl Kernels for FusedLinear {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        match self.product {
            Product::Linear(_) => reference::run(self, call),
            Product::Quantised(QuantisedLinear { rounding, .. }) => {
                crate::quantised_linear::reference::run(self, rounding, call);
            }
        }
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        let work = self.kernels().cpu_work(&self.of_product(call)) + self.of_derivative(call);
        match (self.statistics, self.statistics_at()) {
            (Some(kind), Some(at)) if call.used[at] => {
                work + gathering(kind, call.outputs[0].rows(), call.outputs[0].last_size())
            }
            _ => work,
        }
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        let call = self.of_product(request.call);
        let stored = &request.stored[..call.inputs.len()];
        let mut needs = self.kernels().needs(&Request { call: &call, stored, ..*request });
        needs.scratch += self.unread_y_bytes(request.call);
        needs
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        match self.product {
            Product::Linear(_) => cpu::run(self, call),
            Product::Quantised(QuantisedLinear { rounding, .. }) => cpu::run_quantised(self, rounding, call),
        }
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        match self.product {
            Product::Linear(_) => Ok(cuda::linear(self, call)),
            Product::Quantised(QuantisedLinear { rounding, .. }) => {
                crate::quantised_linear::cuda::list(self, rounding, call)
            }
        }
    }
}
