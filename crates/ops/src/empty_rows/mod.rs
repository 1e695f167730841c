//! How many rows of an attention had no key at all: those whose log-sum-exp is −∞. Their output is 0, which
//! is right but seldom meant, so that it is worth counting.

mod cpu;
mod cuda;

use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request};
use regard_graph::*;

/// `out = |{i : lse[i] = −∞}|`.
#[derive(Clone, Copy, Debug)]
pub struct EmptyRows;

/// Records the count of rows without keys.
pub trait EmptyRowsOps {
    /// The number of rows of an attention that had no allowed key, i32, from its log-sum-exp.
    fn empty_rows(&mut self, lse: Var) -> Result<Var>;
}

impl EmptyRowsOps for Graph {
    fn empty_rows(&mut self, lse: Var) -> Result<Var> {
        self.apply_one(EmptyRows, &[lse])
    }
}

impl Op for EmptyRows {
    fn name(&self) -> &'static str {
        "empty_rows"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["lse"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        if inputs[0].dtype != DType::F32 {
            return Err(Error::DType {
                op: "empty_rows".into(),
                operand: "lse".into(),
                got: inputs[0].dtype.to_string(),
                expected: "f32".into(),
                advice: "give the log-sum-exp of an attention".into(),
            });
        }
        Ok(vec![Fact::new(Shape::scalar(), DType::I32)])
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
        let flops = call.inputs[0].count() as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Everything
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::own(call, output)
    }
}

impl Kernels for EmptyRows {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let lse = call.inputs[0].data();
        let count = lse.iter().filter(|&&x| x == f64::NEG_INFINITY).count();
        call.outputs[0].data_mut()[0] = count as f64;
        call.count_flops(lse.len());
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(call))
    }
}
