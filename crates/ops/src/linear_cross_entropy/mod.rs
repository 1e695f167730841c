//! The output projection and the cross-entropy in one: `loss = scale · Σ cross_entropy(x · Wᵀ + bias,
//! targets)` over rows of x [... C], with W [V C]. The logits [... V] are never stored as a whole: some rows
//! at a time are projected, turned into losses and, when the loss is differentiated, into the gradients of x,
//! W and the bias, all in one pass. Rows whose target is the ignore index cost nothing.

mod cpu;
mod cpu_softmax;
mod cpu_work;
mod cuda;
mod reference;

use crate::cross_entropy::targets::{check_options, check_target_dtype, live_rows, only_live};
use crate::cross_entropy::{gradient_flops, loss_flops};
use crate::linear::check_f32;
use crate::{
    BinaryOps, CpuCall, CrossEntropyOptions, CudaCall, CudaList, Fault, Fill, Kernels, Needs, NotYet, Record,
    ReferenceCall, Request, SumToOps, check_float,
};
use regard_graph::*;

/// Inputs: x, weight, perhaps a bias, targets, scale. Outputs: the loss; the rows' losses, unscaled; the
/// gradients of the loss with respect to x, weight and bias, computed only if somebody reads them.
#[derive(Clone, Copy, Debug)]
pub struct LinearCrossEntropy {
    /// Whether there is a bias `[V]`, the operand after the weight.
    pub bias: bool,
    /// The target of rows that do not count.
    pub ignore_index: i32,
    /// How much of the target is spread over all classes, 0 to below 1.
    pub label_smoothing: f32,
    /// Whether the operands of the products are rounded to bf16; sums are f32 either way.
    pub precision: Precision,
}

/// What [`LinearCrossEntropyOps::linear_cross_entropy`] returns.
#[derive(Clone, Copy, Debug)]
pub struct TokenLoss {
    /// scale · Σ row losses, one f32 number: what is differentiated.
    pub loss: Var,
    /// The loss of each row [...], unscaled, 0 where the target is ignored: to look at, not to differentiate.
    pub row_losses: Var,
}

/// Records the output projection and cross-entropy in one.
pub trait LinearCrossEntropyOps {
    /// `scale · Σ cross_entropy(x · Wᵀ + bias, targets)`: x [... C], weight [V C], bias `[V]`, targets [...]
    /// i32, scale a single f32 number that is fed, such as one over the number of targets in the whole step.
    fn linear_cross_entropy(
        &mut self,
        x: Var,
        weight: Var,
        bias: Option<Var>,
        targets: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<TokenLoss>;
}

impl LinearCrossEntropyOps for Graph {
    fn linear_cross_entropy(
        &mut self,
        x: Var,
        weight: Var,
        bias: Option<Var>,
        targets: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<TokenLoss> {
        let CrossEntropyOptions { ignore_index, label_smoothing } = options;
        let precision = self.precision();
        let op = LinearCrossEntropy { bias: bias.is_some(), ignore_index, label_smoothing, precision };
        let inputs: Vec<Var> =
            [Some(x), Some(weight), bias, Some(targets), Some(scale)].into_iter().flatten().collect();
        let outputs = self.apply(op, &inputs)?;
        Ok(TokenLoss { loss: outputs[0], row_losses: outputs[1] })
    }
}

impl LinearCrossEntropy {
    fn targets_input(&self) -> usize {
        2 + usize::from(self.bias)
    }

    fn scale_input(&self) -> usize {
        self.targets_input() + 1
    }
}

impl Op for LinearCrossEntropy {
    fn name(&self) -> &'static str {
        "linear_cross_entropy"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![
            ("ignore_index", self.ignore_index.to_string()),
            ("label_smoothing", self.label_smoothing.to_string()),
            ("precision", format!("{:?}", self.precision)),
        ]
    }

    fn operands(&self) -> Vec<&'static str> {
        let mut names = vec!["x", "weight"];
        names.extend(self.bias.then_some("bias"));
        names.extend(["targets", "scale"]);
        names
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let (targets, scale) = (self.targets_input(), self.scale_input());
        check_float(self.name(), "x", inputs[0].dtype)?;
        check_f32(self.name(), "weight", inputs[1].dtype)?;
        check_target_dtype(self.name(), inputs[targets].dtype)?;
        check_f32(self.name(), "scale", inputs[scale].dtype)?;
        check_options(self.name(), self.label_smoothing)?;
        let mut letters = Letters::new(self.name());
        letters.bind("x", &inputs[0].shape, "... C")?;
        letters.bind("weight", &inputs[1].shape, "V C")?;
        if self.bias {
            letters.bind("bias", &inputs[2].shape, "V")?;
            check_f32(self.name(), "bias", inputs[2].dtype)?;
        }
        letters.bind("targets", &inputs[targets].shape, "...")?;
        letters.bind("scale", &inputs[scale].shape, "")?;
        let mut facts = vec![Fact::f32(Shape::scalar()), Fact::f32(&inputs[targets].shape)];
        facts.extend(inputs[..targets].iter().cloned());
        Ok(facts)
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, input: usize) -> Derivative {
        match input {
            _ if input == self.targets_input() => Derivative::Zero,
            _ if input == self.scale_input() => Derivative::Missing("the scale is fed, not trained"),
            _ => Derivative::Exists,
        }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        if tape.grads[1..].iter().any(Option::is_some) {
            return Err(Error::invalid(
                "linear_cross_entropy",
                "a gradient arrives at the row losses or at the gradients, not at the loss alone",
                "use linear and cross_entropy to differentiate each row's loss",
            ));
        }
        let mut grads = vec![None; tape.inputs.len()];
        let Some(dloss) = tape.grads[0] else { return Ok(grads) };
        for (input, grad) in grads.iter_mut().enumerate().take(self.targets_input()) {
            if tape.wanted[input] {
                // The pass that made the loss also made its gradient; the rest of the chain is one factor.
                let unit = tape.outputs[2 + input];
                *grad = Some(if is_one(g, dloss) {
                    unit
                } else {
                    let product = g.mul(unit, dloss)?;
                    g.sum_to(product, unit)?
                });
            }
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let targets = self.targets_input();
        let live = live_rows(call, targets, self.ignore_index);
        let (v, c) = (call.inputs[1][0], call.inputs[1][1]);
        let gradients = (2..call.outputs.len()).any(|output| call.used[output]);
        let (dx, dw) = (usize::from(call.used[2]), usize::from(call.used[3]));
        let dbias = usize::from(self.bias && call.used[4]);
        let smoothing = self.label_smoothing;
        let mut row = usize::from(self.bias) * v + loss_flops(v, smoothing) + 1;
        if gradients {
            row += gradient_flops(v, smoothing) + dbias * v;
        }
        Work {
            macs: (live * v * c * (1 + dx + dw)) as u64,
            flops: (live * row + 1) as u64,
            read: call.bytes_in(),
            written: call.bytes_out(),
        }
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        let targets = self.targets_input();
        let rows = call.inputs[targets];
        let live = live_rows(call, targets, self.ignore_index);
        let by_row = output == 1 || output == 2;
        let trained = input < targets;
        match output {
            // The rows' losses are not scaled.
            1 if input == self.scale_input() => return Relation::Nothing,
            _ if live == 0 && trained => return Relation::Nothing,
            _ if !by_row => return all_live(call, self, input),
            _ => {}
        }
        // A row's loss and its gradient come from that row of x, its target, and all of the weight and bias.
        if input == 0 {
            let axes = (0..rows.len()).map(Along::Same).chain([Along::All]).collect();
            return only_live(call, targets, self.ignore_index, axes, 0);
        }
        if input == targets {
            return Relation::Axes((0..rows.len()).map(Along::Same).collect());
        }
        let axes = vec![Along::All; call.inputs[input].len()];
        // Of an ignored row, nothing matters: a list for the whole last axis where there is one.
        only_live_of(call, self, input, axes)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let (targets, rows) = (self.targets_input(), call.inputs[self.targets_input()].len());
        let layout = Layout::own(call, output);
        match output {
            0 => layout,
            1 => layout.leading(0, rows).leading(targets, rows),
            2 => layout.leading(0, rows + 1).leading(targets, rows),
            _ => layout.leading(output - 2, call.outputs[output].len()),
        }
    }
}

/// What a sum over rows depends on: everything, but no row whose target is ignored.
fn all_live(call: &Concrete<'_>, op: &LinearCrossEntropy, input: usize) -> Relation {
    let (rows, targets) = (call.inputs[op.targets_input()], call.integers[op.targets_input()]);
    let (Some(targets), 0) = (targets, input) else { return Relation::Everything };
    let alive = |axis: usize, at: usize| {
        let ignored = op.ignore_index as i64;
        targets.iter().enumerate().any(|(row, &id)| id != ignored && rows.coordinates(row)[axis] == at)
    };
    let leading = (0..rows.len()).map(|axis| Along::Listed {
        axes: Vec::new(),
        lists: vec![(0..rows[axis]).filter(|&at| alive(axis, at)).collect()],
    });
    Relation::Axes(leading.chain([Along::All]).collect())
}

/// As [`only_live`], for an operand without the rows' axes.
fn only_live_of(
    call: &Concrete<'_>,
    op: &LinearCrossEntropy,
    input: usize,
    mut axes: Vec<Along>,
) -> Relation {
    let (at, size) = (op.targets_input(), call.inputs[input].last_size());
    let (Some(targets), Some(last)) = (call.integers[at], axes.last_mut()) else {
        return Relation::Axes(axes);
    };
    let ignored = op.ignore_index as i64;
    if targets.contains(&ignored) && targets.len().saturating_mul(size) <= 1 << 20 {
        let list = |id: &i64| if *id == ignored { Vec::new() } else { (0..size).collect() };
        let lists = targets.iter().map(list).collect();
        *last = Along::Listed { axes: (0..call.inputs[at].len()).collect(), lists };
    }
    Relation::Axes(axes)
}

/// True for the 1 with which differentiation begins.
fn is_one(g: &Graph, var: Var) -> bool {
    let Origin::Node { node, .. } = g.value(var).origin else { return false };
    g.nodes()[node].op_as::<Fill>().is_some_and(|fill| fill.value == 1.0)
}

impl Kernels for LinearCrossEntropy {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(self, call)
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        cpu_work::work(self, call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        let rows = request.call.inputs[self.targets_input()].count();
        let weight = request.call.inputs[1];
        cpu::needs(self, rows, weight[0], weight[1])
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(self, call)
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(self, call))
    }
}
