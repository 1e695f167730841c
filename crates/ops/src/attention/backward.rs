//! The backward of attention: dq, dk, dv, dβ and the gradient of the bias, each only if somebody reads it.
//! The weights are made again from the log-sum-exp, so that nothing of size T·S is ever kept.

use super::form::{BiasForm, Extra, Form};
use super::{cost, cpu_backward, cpu_work, layout, reference_backward};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, FillOps, Kernels, Needs, NotYet, Record, ReferenceCall, Request,
};
use regard_graph::*;

/// query, key, value, lse, dy, then y (or, for the hard kinds, choice), dlse if there is one, and the
/// optional operands of the forward → dq, dk, dv, dscale if β is a parameter, dbias if there is a bias.
#[derive(Clone, Debug)]
pub struct Backward {
    pub(crate) form: Form,
    /// Whether a gradient arrived at the log-sum-exp.
    pub(crate) dlse: bool,
}

impl Backward {
    /// Where the optional operands of the forward begin.
    pub(crate) fn base(&self) -> usize {
        6 + usize::from(self.dlse)
    }

    pub(crate) fn scale_output(&self) -> Option<usize> {
        self.form.has(Extra::Scale).then_some(3)
    }

    pub(crate) fn bias_output(&self) -> Option<usize> {
        (self.form.bias != BiasForm::None).then(|| 3 + usize::from(self.form.has(Extra::Scale)))
    }
}

/// Records the gradient of an attention.
pub(super) fn record(form: &Form, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
    let mut grads = vec![None; tape.inputs.len()];
    let dlse = tape.grads[1];
    let dy = match (tape.grads[0], dlse) {
        (Some(dy), _) => dy,
        (None, None) => return Ok(grads),
        (None, Some(_)) => {
            let fact = g.fact(tape.outputs[0]).clone();
            g.fill(fact.dtype, fact.shape, 0.0)?
        }
    };
    let saved = tape.outputs[if form.kind.is_hard() { 2 } else { 0 }];
    let mut inputs = tape.inputs[..3].to_vec();
    inputs.extend([tape.outputs[1], dy, saved]);
    inputs.extend(dlse);
    inputs.extend(&tape.inputs[3..]);
    let op = Backward { form: form.clone(), dlse: dlse.is_some() };
    let (scale, bias) = (op.scale_output(), op.bias_output());
    let found = g.apply(op, &inputs)?;
    for input in 0..3 {
        grads[input] = Some(found[input]);
    }
    for (extra, output) in [(Extra::Scale, scale), (Extra::Bias, bias)] {
        if let (Some(input), Some(output)) = (form.place(3, extra), output) {
            grads[input] = Some(found[output]);
        }
    }
    Ok(grads)
}

impl Op for Backward {
    fn name(&self) -> &'static str {
        "attention_backward"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        self.form.attributes()
    }

    fn operands(&self) -> Vec<&'static str> {
        let saved = if self.form.kind.is_hard() { "choice" } else { "y" };
        let mut names = vec!["query", "key", "value", "lse", "dy", saved];
        names.extend(self.dlse.then_some("dlse"));
        names.extend(self.form.extras().map(|extra| self.form.name_of(extra)));
        names
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = self.form.infer(self.name(), inputs, true, self.base())?;
        letters.bind("lse", &inputs[3].shape, "B T H")?;
        letters.bind("dy", &inputs[4].shape, "B T H E")?;
        letters.bind(
            self.operands()[5],
            &inputs[5].shape,
            if self.form.kind.is_hard() { "B T H" } else { "B T H E" },
        )?;
        if self.dlse {
            letters.bind("dlse", &inputs[6].shape, "B T H")?;
        }
        let mut facts = inputs[..3].to_vec();
        for extra in [Extra::Scale, Extra::Bias] {
            facts.extend(self.form.place(self.base(), extra).map(|input| inputs[input].clone()));
        }
        Ok(facts)
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Missing("the backward of attention has no derivative of its own")
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        cost::backward(self, call)
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        // Examples do not meet, unless keys are picked from other rows or a table sums over all.
        let (batch, rank) = (call.inputs[0][0], call.inputs[input].len());
        let own = !self.form.has(Extra::KeyRow) && output < 3 && input < self.base();
        if own && call.inputs[input][0] == batch {
            let mut axes = vec![Along::All; rank];
            axes[0] = Along::Same(0);
            return Relation::Axes(axes);
        }
        Relation::Everything
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        layout::backward(&self.form, self.base(), call, output)
    }
}

impl Kernels for Backward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference_backward::run(self, call)
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        cpu_work::backward(self, call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        cpu_backward::needs(self, request)
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu_backward::run(self, call)
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(self.cuda_list(call))
    }
}
