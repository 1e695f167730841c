//! `y = scale · x + shift` with constants.

use crate::call::CHUNK;
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_float,
};
use regard_device::multiversion;
use regard_graph::*;

/// `out = scale · x + shift`.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// What x is multiplied by.
    pub scale: f32,
    /// What is added afterwards.
    pub shift: f32,
}

/// Records scaling by constants.
pub trait ScaleOps {
    /// scale · x
    fn scale(&mut self, x: Var, scale: f32) -> Result<Var>;
    /// x + shift
    fn shift(&mut self, x: Var, shift: f32) -> Result<Var>;
}

impl ScaleOps for Graph {
    fn scale(&mut self, x: Var, scale: f32) -> Result<Var> {
        self.apply_one(Scale { scale, shift: 0.0 }, &[x])
    }

    fn shift(&mut self, x: Var, shift: f32) -> Result<Var> {
        self.apply_one(Scale { scale: 1.0, shift }, &[x])
    }
}

impl Op for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("scale", self.scale.to_string()), ("shift", self.shift.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("scale", "x", inputs[0].dtype)?;
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        Ok(vec![Some(g.scale(dy, self.scale)?)]) // y = s·x + c, so dx = s·dy
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let macs = call.outputs[0].count() as u64;
        Work { macs, flops: 0, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        if self.scale == 0.0 { Relation::Nothing } else { Relation::Same }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for Scale {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0];
        for (y, x) in call.outputs[0].data_mut().iter_mut().zip(x.data()) {
            *y = self.scale as f64 * x + self.shift as f64;
        }
        call.count_macs(x.data().len());
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        call.chunks(call.out_dims(0).count(), |part| {
            let range = part.items();
            let mut x = [0.0; CHUNK];
            let x = &mut x[..range.len()];
            part.load(0, range.clone(), x);
            scale(call.level, x, self.scale, self.shift);
            part.store(0, range, x);
        });
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.map("fmaf(x0, s.v[0], s.v[1])", &[self.scale, self.shift]))
    }
}

multiversion! {
    fn scale(x: &mut [f32], scale: f32, shift: f32) {
        for x in x {
            *x = x.mul_add(scale, shift);
        }
    }
}
