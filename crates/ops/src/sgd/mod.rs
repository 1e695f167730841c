//! Stochastic gradient descent, one step of one parameter, with PyTorch's formula: weight decay joins the
//! gradient, momentum is a running sum without dampening, Nesterov's variant looks one step ahead.

mod cpu;
mod cuda;
mod record;

pub use record::SgdOps;

use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request};
use regard_graph::*;

/// The settings of SGD; by default plain descent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sgd {
    /// How much of the last direction is kept; 0 needs no state.
    pub momentum: f64,
    /// Nesterov's momentum.
    pub nesterov: bool,
    /// Added to the gradient, times the parameter.
    pub weight_decay: f64,
}

impl Sgd {
    fn check(&self) -> Result<()> {
        for (name, value) in [("momentum", self.momentum), ("weight_decay", self.weight_decay)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::invalid("sgd", format!("{name} is {value}"), "give a number not below 0"));
            }
        }
        if self.nesterov && self.momentum == 0.0 {
            return Err(Error::invalid("sgd", "nesterov is on and momentum is 0", "give it a momentum"));
        }
        Ok(())
    }

    fn has_momentum(&self) -> bool {
        self.momentum != 0.0
    }
}

/// One step: `param′` (and `momentum′`) from `param, gradient, (momentum), lr` and perhaps a factor.
#[derive(Clone, Copy, Debug)]
pub struct SgdStep {
    /// The settings.
    pub settings: Sgd,
    /// Whether the gradient is multiplied by a last operand (f32, a single number), as clipping asks for.
    /// A factor that is not finite means no step: parameter and momentum stay as they are.
    pub scaled: bool,
}

impl SgdStep {
    /// The place of the learning rate among the operands.
    fn lr(&self) -> usize {
        2 + usize::from(self.settings.has_momentum())
    }
}

impl Op for SgdStep {
    fn name(&self) -> &'static str {
        "sgd"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let Sgd { momentum, nesterov, weight_decay } = self.settings;
        vec![
            ("momentum", momentum.to_string()),
            ("nesterov", nesterov.to_string()),
            ("weight_decay", weight_decay.to_string()),
        ]
    }

    fn operands(&self) -> Vec<&'static str> {
        let mut operands = vec!["param", "gradient"];
        if self.settings.has_momentum() {
            operands.push("momentum");
        }
        operands.push("lr");
        if self.scaled {
            operands.push("scale");
        }
        operands
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        self.settings.check()?;
        let mut letters = Letters::new("sgd");
        for (index, (operand, fact)) in self.operands().into_iter().zip(inputs).enumerate() {
            if fact.dtype != DType::F32 {
                return Err(Error::DType {
                    op: "sgd".into(),
                    operand: operand.into(),
                    got: fact.dtype.to_string(),
                    expected: "f32".into(),
                    advice: "parameters and their statistics are f32".into(),
                });
            }
            letters.bind(operand, &fact.shape, if index < self.lr() { "..." } else { "" })?;
        }
        let count = if self.settings.has_momentum() { 2 } else { 1 };
        Ok(vec![inputs[0].clone(); count])
    }

    fn aliases(&self) -> Vec<Alias> {
        let mut aliases = vec![Alias::Update { output: 0, input: 0 }];
        if self.settings.has_momentum() {
            aliases.push(Alias::Update { output: 1, input: 2 });
        }
        aliases
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Missing("a step of an optimizer is not differentiated")
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let count = call.inputs[0].count() as u64;
        let Sgd { nesterov, .. } = self.settings;
        let macs = count * (2 + u64::from(self.settings.has_momentum()) + u64::from(nesterov));
        let flops = count * u64::from(self.scaled);
        Work { macs, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        match self.operands()[input] {
            "gradient" | "momentum" => Relation::Same,
            "param" if output == 1 && self.settings.weight_decay == 0.0 => Relation::Nothing,
            "param" => Relation::Same,
            "lr" if output == 1 => Relation::Nothing,
            _ => Relation::Everything,
        }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for SgdStep {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let Sgd { momentum, nesterov, weight_decay } = self.settings;
        let [param, gradient] = [call.inputs[0].data(), call.inputs[1].data()];
        let lr = call.inputs[self.lr()].data()[0];
        if self.scaled && !call.inputs[self.lr() + 1].data()[0].is_finite() {
            for alias in self.aliases() {
                let Alias::Update { output, input } = alias else { continue };
                call.outputs[output].data_mut().copy_from_slice(call.inputs[input].data());
            }
            return Ok(());
        }
        for i in 0..param.len() {
            let mut g = gradient[i];
            if self.scaled {
                g *= call.inputs[self.lr() + 1].data()[0];
                call.count_flops(1);
            }
            g += weight_decay * param[i];
            call.count_macs(1);
            if self.settings.has_momentum() {
                let kept = momentum * call.inputs[2].data()[i] + g;
                call.outputs[1].data_mut()[i] = kept;
                call.count_macs(1);
                if nesterov {
                    g += momentum * kept;
                    call.count_macs(1);
                } else {
                    g = kept;
                }
            }
            call.outputs[0].data_mut()[i] = param[i] - lr * g;
            call.count_macs(1);
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
        cpu::run(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(self, call))
    }
}
