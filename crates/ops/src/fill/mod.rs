//! A value of one repeated number: zeros, ones. Where differentiation begins and where it finds nothing.

use crate::call::CHUNK;
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_graph::*;

/// `out = value` everywhere.
#[derive(Clone, Debug)]
pub struct Fill {
    /// Shape and dtype of the result.
    pub fact: Fact,
    /// The number.
    pub value: f32,
}

/// Records constant values of open shapes.
pub trait FillOps {
    /// One number repeated in a float shape.
    fn fill(&mut self, dtype: DType, shape: impl Into<Shape>, value: f32) -> Result<Var>;
}

impl FillOps for Graph {
    fn fill(&mut self, dtype: DType, shape: impl Into<Shape>, value: f32) -> Result<Var> {
        self.apply_one(Fill { fact: Fact::new(shape, dtype), value }, &[])
    }
}

impl Op for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("value", self.value.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn infer(&self, _inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("fill", "result", self.fact.dtype)?;
        Ok(vec![self.fact.clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Zero
    }

    fn gradient(&self, _g: &mut Graph, _tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(Vec::new())
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        Work { written: call.bytes_out(), ..Work::default() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Nothing
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::own(call, output)
    }
}

impl Kernels for Fill {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        call.outputs[0].data_mut().fill(self.value as f64);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let row = [self.value; CHUNK];
        call.chunks(call.out_dims(0).count(), |part| part.store(0, part.items(), &row[..part.len()]));
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.map("s.v[0]", &[self.value]))
    }
}
