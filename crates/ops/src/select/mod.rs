//! Choice by a mask, with broadcasting: a where the mask is true, b elsewhere. What is not chosen gets no
//! gradient, whatever it is: a NaN that was not chosen stays out of both passes.

mod cpu;

use crate::broadcast::{Walk, broadcast_reach, broadcast_shape};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, FillOps, Kernels, Needs, NotYet, Record, ReferenceCall, Request,
    SumToOps,
};
use regard_graph::*;

/// `out = mask ? a : b`, broadcast.
#[derive(Clone, Copy, Debug)]
pub struct Select;

/// Records choices.
pub trait SelectOps {
    /// a where the mask (bool) is true, b elsewhere, broadcast. Two floats, or two i32 values.
    fn select(&mut self, mask: Var, a: Var, b: Var) -> Result<Var>;
}

impl SelectOps for Graph {
    fn select(&mut self, mask: Var, a: Var, b: Var) -> Result<Var> {
        self.apply_one(Select, &[mask, a, b])
    }
}

impl Op for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["mask", "a", "b"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let [mask, a, b] = [&inputs[0], &inputs[1], &inputs[2]];
        let wrong = |operand: &str, got: DType, expected: &str, advice: &str| {
            let (op, operand, got) = ("select".into(), operand.into(), got.to_string());
            Err(Error::DType { op, operand, got, expected: expected.into(), advice: advice.into() })
        };
        if mask.dtype != DType::Bool {
            return wrong("mask", mask.dtype, "bool", "make it with `less`, `less_equal` or `equal`");
        }
        let dtype = match (a.dtype, b.dtype) {
            (DType::I32, DType::I32) => DType::I32,
            (DType::BF16, DType::BF16) => DType::BF16,
            (a, b) if a.is_float() && b.is_float() => DType::F32,
            (DType::Bool, _) => return wrong("a", a.dtype, "i32, f32 or bf16", "cast it to f32 first"),
            (a, other) => {
                let expected = if a.is_float() { "f32 or bf16 as a" } else { "i32 as a" };
                return wrong("b", other, expected, "cast one of them");
            }
        };
        let both = broadcast_shape("select", ["a", "b"], &a.shape, &b.shape)?;
        let shape = broadcast_shape("select", ["a with b", "mask"], &both, &mask.shape)?;
        Ok(vec![Fact::new(shape, dtype)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, input: usize) -> Derivative {
        if input == 0 { Derivative::Zero } else { Derivative::Exists }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let mut grads = vec![None; 3];
        let Some(dy) = tape.grads[0] else { return Ok(grads) };
        let mask = tape.inputs[0];
        let zero = g.fill(g.dtype(dy), Shape::scalar(), 0.0)?;
        for (input, sides) in [(1, [dy, zero]), (2, [zero, dy])] {
            if tape.wanted[input] {
                // y is the operand where it was chosen, so its gradient is dy there and 0 elsewhere.
                let chosen = g.select(mask, sides[0], sides[1])?;
                grads[input] = Some(g.sum_to(chosen, tape.inputs[input])?);
            }
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        Work { read: call.bytes_in(), written: call.bytes_out(), ..Work::default() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let (operand, out) = (call.inputs[input], call.outputs[0]);
        let mut along = broadcast_reach(operand, out);
        // With a mask that is known, an operand matters only where it is chosen: the list along its last axis
        // is empty elsewhere.
        if let (Some(mask), 1.., Some(last)) = (call.integers[0], input, operand.len().checked_sub(1))
            && out.count() <= LISTED
        {
            let (of_mask, of_operand) = (Walk::new(call.inputs[0], out), Walk::new(operand, out));
            let list = |i: usize| match (mask[of_mask.flat(i)] != 0) == (input == 1) {
                true => vec![operand.coordinates(of_operand.flat(i))[last]],
                false => Vec::new(),
            };
            let lists = (0..out.count()).map(list).collect();
            along[last] = Along::Listed { axes: (0..out.len()).collect(), lists };
        }
        Relation::Axes(along)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

/// Up to this many elements the choice is listed; beyond, every element of either operand is said to matter.
const LISTED: usize = 1 << 16;

impl Kernels for Select {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [mask, a, b] = [call.inputs[0], call.inputs[1], call.inputs[2]];
        let out = &mut call.outputs[0];
        let walks = [mask, a, b].map(|operand| Walk::new(operand.dims(), out.dims()));
        for (i, y) in out.data_mut().iter_mut().enumerate() {
            let chosen = mask.data()[walks[0].flat(i)] != 0.0;
            *y = if chosen { a.data()[walks[1].flat(i)] } else { b.data()[walks[2].flat(i)] };
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
        cpu::run(call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.map("x0 ? x1 : x2", &[]))
    }
}
