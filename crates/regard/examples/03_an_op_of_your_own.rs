//! An op of your own, in your own crate: softplus, `y = ln(1 + eˣ)`. A struct with two traits is all: what
//! the readers ask (`Op`) and how it is computed (`Kernels`). Then every reader works on it, and one call
//! checks them all.
//!
//!     cargo run --release -p regard --example 03_an_op_of_your_own

#![forbid(unsafe_code)]

use regard::check::Case;
use regard::device::{math, multiversion};
use regard::graph::*;
use regard::ops::{
    CHUNK, CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request,
};
use regard::prelude::*;

#[derive(Debug)]
struct Softplus;

impl Op for Softplus {
    fn name(&self) -> &'static str {
        "softplus"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }

    fn infer(&self, inputs: &[Fact]) -> regard::graph::Result<Vec<Fact>> {
        regard::ops::check_float("softplus", "x", inputs[0].dtype)?;
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }] // the kernel loads a chunk before it stores it
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> regard::graph::Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        let slope = g.sigmoid(tape.inputs[0])?; // y = ln(1 + eˣ), so dx = dy · σ(x)
        Ok(vec![Some(g.mul(dy, slope)?)])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = 3 * call.outputs[0].count() as u64; // exponential, sum, logarithm
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for Softplus {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0];
        for (y, &x) in call.outputs[0].data_mut().iter_mut().zip(x.data()) {
            *y = x.max(0.0) + (-x.abs()).exp().ln_1p();
        }
        call.count_flops(3 * x.data().len());
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        // All threads, a chunk at a time; nobody but this closure may store to the part that it is handed.
        call.chunks(call.out_dims(0).count(), |part| {
            let mut x = [0.0; CHUNK];
            let x = &mut x[..part.len()];
            part.load(0, part.items(), x);
            softplus(call.level, x);
            part.store(0, part.items(), x);
        });
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        // Elementwise on a card: one expression of the operand, f32 whatever it is in memory.
        Ok(call.map("fmaxf(x0, 0.0f) + log1pf(expf(-fabsf(x0)))", &[]))
    }
}

multiversion! {
    fn softplus(x: &mut [f32]) {
        // ln(1 + eˣ) = max(x, 0) + ln(1 + e^−|x|): the exponential never overflows.
        x.iter_mut().for_each(|x| *x = x.max(0.0) + math::log(1.0 + math::exp(-x.abs())));
    }
}

fn main() -> regard::Result<()> {
    let y = regard::eval(|g| {
        let x = g.given(&[5], &[-100.0, -1.0, 0.0, 1.0, 100.0])?;
        g.apply_one(Softplus, &[x])
    })?;
    println!("softplus: {:.4?}", y.data());

    // Gradient against central differences, CPU against the f64 reference at every SIMD level, cost against
    // what the reference counted, reach against what really changes.
    Case::new(|g| {
        let x = g.input_with_gradient("x", [3, 7])?;
        Ok(vec![g.apply_one(Softplus, &[x])?])
    })
    .all(5e-7)?;
    println!("all readers of the new op agree");
    Ok(())
}
