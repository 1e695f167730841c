//! AdamW (Loshchilov and Hutter 2019), one step of one parameter, with PyTorch's formula exactly: the decay
//! is decoupled and scaled by the learning rate, ε is added to the root after the bias correction.

mod cpu;
mod cuda;
mod record;

pub use record::AdamWOps;
pub(crate) use record::moments;

use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request};
use regard_graph::*;

/// The settings of AdamW; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// How slowly the mean of gradients forgets.
    pub beta1: f64,
    /// How slowly the mean of squared gradients forgets.
    pub beta2: f64,
    /// Added to the root of the mean square.
    pub epsilon: f64,
    /// Decoupled weight decay: parameters shrink by lr · weight_decay at each step.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        AdamW { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01 }
    }
}

impl AdamW {
    fn check(&self) -> Result<()> {
        let below_one = |x: f64| (0.0..1.0).contains(&x);
        let not_negative = |x: f64| x >= 0.0 && x.is_finite();
        let wrong = [
            ("beta1", self.beta1, below_one(self.beta1), "from 0 to below 1"),
            ("beta2", self.beta2, below_one(self.beta2), "from 0 to below 1"),
            ("epsilon", self.epsilon, not_negative(self.epsilon), "not below 0"),
            ("weight_decay", self.weight_decay, not_negative(self.weight_decay), "not below 0"),
        ];
        match wrong.into_iter().find(|(_, _, right, _)| !right) {
            None => Ok(()),
            Some((name, value, _, range)) => {
                Err(Error::invalid("adamw", format!("{name} is {value}"), format!("give a number {range}")))
            }
        }
    }

    /// What is the same for all elements of a step, in f64.
    fn constants(&self, lr: f64, step: i32) -> Constants {
        let correction1 = 1.0 - self.beta1.powi(step);
        let correction2 = 1.0 - self.beta2.powi(step);
        Constants {
            keep: 1.0 - lr * self.weight_decay,
            rate: lr / correction1,
            root_correction: correction2.sqrt(),
        }
    }
}

/// The numbers of one step.
struct Constants {
    /// What the parameter is multiplied by: 1 − lr·weight_decay.
    keep: f64,
    /// lr / (1 − β₁ᵗ)
    rate: f64,
    /// √(1 − β₂ᵗ)
    root_correction: f64,
}

/// One step: `param′, m′, v′` from `param, gradient, m, v, lr, step` and perhaps a factor of the gradient.
#[derive(Clone, Copy, Debug)]
pub struct AdamWStep {
    /// The settings.
    pub settings: AdamW,
    /// Whether the gradient is multiplied by a last operand (f32, a single number), as clipping asks for.
    /// A factor that is not finite means no step: parameter and moments stay as they are.
    pub scaled: bool,
}

const OPERANDS: [&str; 7] = ["param", "gradient", "m", "v", "lr", "step", "scale"];

impl Op for AdamWStep {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let AdamW { beta1, beta2, epsilon, weight_decay } = self.settings;
        vec![
            ("beta1", beta1.to_string()),
            ("beta2", beta2.to_string()),
            ("epsilon", epsilon.to_string()),
            ("weight_decay", weight_decay.to_string()),
        ]
    }

    fn operands(&self) -> Vec<&'static str> {
        OPERANDS[..6 + usize::from(self.scaled)].to_vec()
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        self.settings.check()?;
        let mut letters = Letters::new("adamw");
        for (index, (operand, fact)) in OPERANDS.into_iter().zip(inputs).enumerate() {
            let (pattern, dtype) = match index {
                0..=3 => ("...", DType::F32),
                5 => ("", DType::I32),
                _ => ("", DType::F32),
            };
            if fact.dtype != dtype {
                return Err(Error::DType {
                    op: "adamw".into(),
                    operand: operand.into(),
                    got: fact.dtype.to_string(),
                    expected: dtype.to_string(),
                    advice: "parameters and their statistics are f32, the step number is i32".into(),
                });
            }
            letters.bind(operand, &fact.shape, pattern)?;
        }
        Ok(vec![inputs[0].clone(), inputs[2].clone(), inputs[3].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        [(0, 0), (1, 2), (2, 3)].map(|(output, input)| Alias::Update { output, input }).to_vec()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Missing("a step of an optimizer is not differentiated")
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let count = call.inputs[0].count() as u64;
        let flops = count * (8 + u64::from(self.scaled));
        Work { macs: 3 * count, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        match (output, OPERANDS[input]) {
            (_, "gradient") | (0, "param" | "m" | "v") | (1, "m") | (2, "v") => Relation::Same,
            (_, "scale") | (0, "lr" | "step") => Relation::Everything,
            _ => Relation::Nothing,
        }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

fn check_step(step: i64) -> std::result::Result<i32, Fault> {
    match i32::try_from(step) {
        Ok(step) if step >= 1 => Ok(step),
        _ => Err(wrong_step(step)),
    }
}

fn wrong_step(step: i64) -> Fault {
    Fault { op: "adamw", what: format!("step is {step}"), advice: "count steps from 1" }
}

impl Kernels for AdamWStep {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [param, gradient, m, v, lr, step] = std::array::from_fn(|i| call.inputs[i].data());
        if self.scaled && !call.inputs[6].data()[0].is_finite() {
            for (output, input) in [(0, 0), (1, 2), (2, 3)] {
                call.outputs[output].data_mut().copy_from_slice(call.inputs[input].data());
            }
            return Ok(());
        }
        let AdamW { beta1, beta2, epsilon, .. } = self.settings;
        let Constants { keep, rate, root_correction } =
            self.settings.constants(lr[0], check_step(step[0] as i64)?);
        for i in 0..param.len() {
            let mut g = gradient[i];
            if self.scaled {
                g *= call.inputs[6].data()[0];
                call.count_flops(1);
            }
            let m = m[i] + (1.0 - beta1) * (g - m[i]);
            let v = beta2 * v[i] + (1.0 - beta2) * (g * g);
            let root = v.sqrt() / root_correction + epsilon;
            call.outputs[0].data_mut()[i] = keep * param[i] - rate * (m / root);
            call.outputs[1].data_mut()[i] = m;
            call.outputs[2].data_mut()[i] = v;
            // m: subtract, mac. v: two products, mac. root: root, divide, add. param: product, divide, mac.
            call.count_flops(8);
            call.count_macs(3);
        }
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(self, call, check_step(call.i32(5)[0].into())?);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(self, call))
    }
}
