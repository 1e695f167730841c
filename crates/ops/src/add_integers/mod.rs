//! The sum of two integer values with broadcasting: positions plus offsets. A sum that i32 cannot hold is a
//! fault, never a wrapped number.

mod cpu;

use crate::broadcast::{Walk, broadcast_reach, broadcast_shape};
use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request};
use regard_graph::*;

/// `out = a + b`, broadcast, i32.
#[derive(Clone, Copy, Debug)]
pub struct AddIntegers;

/// Records sums of integers.
pub trait IntegerOps {
    /// a + b of two i32 values, broadcast.
    fn add_integers(&mut self, a: Var, b: Var) -> Result<Var>;
}

impl IntegerOps for Graph {
    fn add_integers(&mut self, a: Var, b: Var) -> Result<Var> {
        self.apply_one(AddIntegers, &[a, b])
    }
}

impl Op for AddIntegers {
    fn name(&self) -> &'static str {
        "add_integers"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["a", "b"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        for (operand, fact) in ["a", "b"].into_iter().zip(inputs) {
            if fact.dtype != DType::I32 {
                return Err(Error::DType {
                    op: "add_integers".into(),
                    operand: operand.into(),
                    got: fact.dtype.to_string(),
                    expected: "i32".into(),
                    advice: "use `add` for floats".into(),
                });
            }
        }
        let shape = broadcast_shape("add_integers", ["a", "b"], &inputs[0].shape, &inputs[1].shape)?;
        Ok(vec![Fact::new(shape, DType::I32)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Zero
    }

    fn gradient(&self, _g: &mut Graph, _tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None, None])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = call.outputs[0].count() as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        Relation::Axes(broadcast_reach(call.inputs[input], call.outputs[0]))
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

fn overflow(a: i32, b: i32) -> Fault {
    let what = format!("{a} + {b} does not fit into i32");
    Fault { op: "add_integers", what, advice: "use smaller numbers" }
}

/// The sum in CUDA C++. The signs of both numbers differ from that of a sum that wrapped around.
const SUM: &str = "((x0 ^ i32(u32(x0) + u32(x1))) & (x1 ^ i32(u32(x0) + u32(x1)))) < 0 \
    ? (fault_at(e.fault, e.stop, u32(x1), x0), 0) : i32(u32(x0) + u32(x1))";

impl Kernels for AddIntegers {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [a, b] = [call.inputs[0], call.inputs[1]];
        let out = call.outputs[0].dims();
        let (walk_a, walk_b) = (Walk::new(a.dims(), out), Walk::new(b.dims(), out));
        for i in 0..out.count() {
            let (x, y) = (a.data()[walk_a.flat(i)] as i32, b.data()[walk_b.flat(i)] as i32);
            let sum = x.checked_add(y).ok_or_else(|| overflow(x, y))?;
            call.outputs[0].data_mut()[i] = f64::from(sum);
            call.count_flops(1);
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
        cpu::run(call)
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        let mut list = call.map(SUM, &[]);
        // The word has room for both numbers, one of them as the place.
        list.on_fault(|b, a| overflow(a, b as i32));
        Ok(list)
    }
}
