//! Clipping by the global norm: the 2-norm over any number of gradients, and the factor that brings it down
//! to a bound, `min(1, most / (norm + 1e-6))` as in PyTorch. The gradients stay as they are; the optimizer
//! takes the factor. Gradients are data here: nothing flows back through the norm.

mod cpu;
mod cuda;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// The norm of all gradients, and the factor that clips it.
#[derive(Clone, Copy, Debug)]
pub struct ClipNorm {
    /// The largest norm that is left alone; infinity only measures.
    pub most: f64,
    /// How many gradients there are.
    pub gradients: usize,
}

/// Keeps the factor finite when the norm is 0.
const EPSILON: f64 = 1e-6;

/// Records clipping.
pub trait ClipNormOps {
    /// The global norm of gradients and the factor to clip them by, both single f32 numbers. The factor is
    /// not a number where the norm is not finite: the optimizers then leave everything as it was.
    fn clip_norm(&mut self, gradients: &[Var], most: f64) -> Result<(Var, Var)>;
}

impl ClipNormOps for Graph {
    fn clip_norm(&mut self, gradients: &[Var], most: f64) -> Result<(Var, Var)> {
        let both = self.apply(ClipNorm { most, gradients: gradients.len() }, gradients)?;
        Ok((both[0], both[1]))
    }
}

impl ClipNorm {
    /// The factor for a norm. A norm that is not finite gives a factor that is not a number, which optimizers
    /// take as "no step": an infinite gradient times the 0 that the formula gives would be no number in every
    /// parameter.
    fn factor(&self, norm: f64) -> f64 {
        if !norm.is_finite() {
            return f64::NAN;
        }
        let factor = self.most / (norm + EPSILON);
        if factor > 1.0 { 1.0 } else { factor }
    }
}

impl Op for ClipNorm {
    fn name(&self) -> &'static str {
        "clip_norm"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("most", self.most.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["gradient"; self.gradients]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        if inputs.is_empty() {
            return Err(Error::invalid("clip_norm", "there are no gradients", "give at least one"));
        }
        if self.most.is_nan() || self.most <= 0.0 {
            return Err(Error::invalid(
                "clip_norm",
                format!("the largest norm is {}", self.most),
                "give a number above 0, or infinity to measure only",
            ));
        }
        for (index, fact) in inputs.iter().enumerate() {
            check_float("clip_norm", &format!("gradient {index}"), fact.dtype)?;
        }
        Ok(vec![Fact::f32(Shape::scalar()), Fact::f32(Shape::scalar())])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Zero
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let macs = call.inputs.iter().map(|dims| dims.count() as u64).sum();
        Work { macs, flops: 4, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Everything
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::own(call, output)
    }
}

impl Kernels for ClipNorm {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let mut squares = 0.0;
        for gradient in call.inputs {
            squares += gradient.data().iter().map(|x| x * x).sum::<f64>();
            call.macs += gradient.data().len() as u64;
        }
        let norm = squares.sqrt();
        call.outputs[0].data_mut()[0] = norm;
        call.outputs[1].data_mut()[0] = self.factor(norm);
        call.count_flops(4); // root, add, divide, compare
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        // One f64 for each block, and one to spare for alignment.
        let blocks: usize = request.call.inputs.iter().map(|dims| dims.count().div_ceil(cpu::BLOCK)).sum();
        Needs { scratch: 8 * (blocks + 1), ..Needs::default() }
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let norm = cpu::norm(call);
        call.blocks(1, 1, |part, _| {
            for (output, number) in [(0, norm), (1, self.factor(norm))] {
                if call.wants(output) {
                    part.store(output, 0..1, &[number as f32]);
                }
            }
        });
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(self, call))
    }
}
